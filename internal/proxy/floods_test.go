package proxy

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/h2guard"
	"github.com/verge-edge/verge/internal/wire"
)

// block is a header block with these fields.
func block(t testing.TB, fields ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	enc := hpack.NewEncoder(&b)
	for i := 0; i < len(fields); i += 2 {
		must(t, enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return b.Bytes()
}

// floods are frames that carry nothing, as a client may repeat them; they follow a request
// on stream 1 whose body has not ended.
var floods = map[string]func(fr *http2.Framer) error{
	"empty data": func(fr *http2.Framer) error { return fr.WriteData(1, false, nil) },
	"padding alone": func(fr *http2.Framer) error {
		return fr.WriteDataPadded(1, false, nil,
			make([]byte, 3))
	},
	"ping":               func(fr *http2.Framer) error { return fr.WritePing(false, [8]byte{}) },
	"answers to no ping": func(fr *http2.Framer) error { return fr.WritePing(true, [8]byte{}) },
	"settings":           func(fr *http2.Framer) error { return fr.WriteSettings() },
	"priority": func(fr *http2.Framer) error {
		return fr.WritePriority(1,
			http2.PriorityParam{Weight: 1})
	},
	"window of a stream":      func(fr *http2.Framer) error { return fr.WriteWindowUpdate(1, 1) },
	"window of a connection":  func(fr *http2.Framer) error { return fr.WriteWindowUpdate(0, 1) },
	"an unknown frame":        func(fr *http2.Framer) error { return fr.WriteRawFrame(0x77, 0, 1, nil) },
	"empty continuation":      func(fr *http2.Framer) error { return fr.WriteContinuation(3, false, nil) },
	"resets of ended streams": func(fr *http2.Framer) error { return fr.WriteRSTStream(1, http2.ErrCodeCancel) },
}

// TestHTTP2Floods: frames that carry nothing end their connection, at a gateway with TLS and
// without, and at the entry of a service.
func TestHTTP2Floods(t *testing.T) {
	a := gatewayWorker(t, func(o *Options) { o.SelfSigned = true })
	leave := make(chan struct{})
	defer close(leave)
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		select {
		case <-leave:
		case <-req.Context().Done():
		}
	}))
	keep := false
	rt := requestRoute("http", wire.RequestRules{Concurrency: -1}, a.endpoint("app.web.0"))
	rt.Ports = append(rt.Ports,
		api.Port{Name: "gate", Protocol: "http",
			Ingress: &api.Ingress{Host: host, Redirect: &keep, TLS: api.IngressTLS{Mode: api.TLSSelfSigned}}})
	a.SetRoutes([]wire.Route{rt})
	for way, dial := range map[string]func() (net.Conn, error){
		"entry":   func() (net.Conn, error) { return net.Dial("tcp", a.addr(t, "http")) },
		"gateway": func() (net.Conn, error) { return net.Dial("tcp", a.GatewayAddr()) },
		"TLS": func() (net.Conn, error) {
			return tls.Dial("tcp", a.GatewayTLSAddr(),
				&tls.Config{ServerName: host, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
		},
	} {
		for name, flood := range floods {
			t.Run(way+" "+name, func(t *testing.T) {
				before := a.Stats().Gateway.Flooded
				c, err := dial()
				must(t, err)
				defer func() { _ = c.Close() }()
				_, err = io.WriteString(c, http2.ClientPreface)
				must(t, err)
				fr := http2.NewFramer(c, nil)
				must(t, fr.WriteSettings())
				must(t, fr.WriteHeaders(http2.HeadersFrameParam{
					StreamID: 1, EndHeaders: true,
					BlockFragment: block(t, ":method", "POST", ":scheme", "http", ":authority", host, ":path", "/"),
				}))
				if name == "empty continuation" {
					must(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 3,
						BlockFragment: block(t, ":method", "GET")}))
				}
				ended := make(chan struct{})
				go func() { // what is answered must not keep the server from going on
					defer close(ended)
					_, _ = io.Copy(io.Discard, c) // it is cut off
				}()
				const most = 30 * h2guard.MaxIdleFrames
				n := 0
				for ; n < most && flood(fr) == nil; n++ {
				}
				if n == most {
					t.Fatalf("%d frames, and the connection goes on", n)
				}
				<-ended
				if a.Stats().Gateway.Flooded == before {
					t.Error("it was not counted")
				}
			})
		}
	}
}

// TestHTTP2FloodOfAnInstance: an instance costs its worker no more than a client may.
func TestHTTP2FloodOfAnInstance(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	const most = 30 * h2guard.MaxIdleFrames
	sent := make(chan int, 16) // more than there are tries
	i := startInstance(t, "app.web.0", "", func(c net.Conn) {
		go func() { _, _ = io.Copy(io.Discard, c) }() // ends with the connection
		fr := http2.NewFramer(c, nil)
		n := 0
		for err := fr.WriteSettings(); err == nil && n < most; n++ {
			err = fr.WritePing(true, [8]byte{})
		}
		sent <- n
	})
	a.engine.set(i.id, i.addr, nil)
	a.SetRoutes([]wire.Route{requestRoute("grpc", wire.RequestRules{}, a.endpoint(i.id))})
	res, _ := get(t, h2Client(t), a.entryURL(t, "grpc", "/"))
	if res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("it was answered with %s", res.Status)
	}
	if n := <-sent; n == most {
		t.Errorf("%d frames, and the connection went on", n)
	}
}
