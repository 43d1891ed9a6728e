package http1

import (
	"context"
	"io"
	"net"
	"net/http"
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
