package http1

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// A client that takes nothing of a large answer is given up after its time, whether the
// body is spliced or copied.
func TestPatience(t *testing.T) {
	t.Parallel()
	up, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sized" {
			w.Header().Set("Content-Length", "1000000000")
		}
		for range 1000 {
			if _, err := w.Write(make([]byte, 1_000_000)); err != nil {
				return
			}
		}
	})}
	go func() { _ = srv.Serve(up) }()
	t.Cleanup(func() { _ = srv.Close() })
	for _, path := range []string{"/sized", "/chunked"} {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		client, err := net.Dial("tcp", ln.Addr().String())
		must(t, err)
		_, err = io.WriteString(client, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		must(t, err)
		taken, err := ln.Accept()
		must(t, err)
		must(t, ln.Close())
		ended := make(chan struct{})
		conn := NewConn(taken, func() { close(ended) })
		conn.SetWriteTimeout(10 * time.Millisecond)
		Serve(context.Background(), conn, testLimits, &relayed{addr: up.Addr().String()}, func(net.Conn) { t.Error("handed over") }, nil)
		<-ended
		must(t, client.Close())
	}
}

// Load reports in trailers are dropped where they are not for the client, whatever is
// beside them and however they come.
func TestQuietTrailers(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"\r\n": "\r\n",
		"A: b\r\nEndpoint-Load-Metrics: TEXT cpu_utilization=1\r\nC: d\r\n\r\n":                    "A: b\r\nC: d\r\n\r\n",
		"endpoint-load-metrics-bin: x\r\n\r\n":                                                     "\r\n",
		"Endpoint-Load-Metrics : x\r\nEndpoint-Load-Metricss: y\r\nENDPOINT-LOAD-METRICS:\r\n\r\n": "Endpoint-Load-Metricss: y\r\n\r\n",
	} {
		for step := 1; step <= len(in); step++ {
			body, got := "3\r\nabc\r\n0\r\n"+in, ""
			c := chunks{quiet: true}
			var tail []byte
			for rest := body; rest != ""; {
				part := rest[:min(step, len(rest))]
				rest = rest[len(part):]
				n, err := c.next([]byte(part))
				must(t, err)
				got += part[:n]
				for _, b := range []byte(part[n:]) {
					if !c.fields || !c.step(b) {
						t.Fatalf("%q by %d: stopped in %d", in, step, c.state)
					}
					tail = append(tail, b)
				}
			}
			got += string(withoutReports(tail))
			if c.state != chunksDone || got != "3\r\nabc\r\n0\r\n"+want {
				t.Errorf("%q by %d: %q", in, step, got)
			}
			if strings.Contains(strings.ToLower(got), "endpoint-load-metrics:") {
				t.Errorf("%q is passed on", got)
			}
		}
	}
}
