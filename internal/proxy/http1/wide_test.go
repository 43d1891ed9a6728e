package http1

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// secured is a connection with TLS, and its other end, with a Direct below both.
func secured(t *testing.T) (near, far *tls.Conn) {
	t.Helper()
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	cfg := cert.TLS.Clone()
	cert.Close()
	cfg.DynamicRecordSizingDisabled = true
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer func() { must(t, ln.Close()) }()
	a, err := net.Dial("tcp", ln.Addr().String())
	must(t, err)
	b, err := ln.Accept()
	must(t, err)
	near = tls.Client(NewDirect(a.(*net.TCPConn)), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // a test
	far = tls.Server(NewDirect(b.(*net.TCPConn)), cfg)
	var shaking sync.WaitGroup
	shaking.Go(func() {
		if err := far.Handshake(); err != nil {
			t.Error(err)
		}
	})
	must(t, near.Handshake())
	shaking.Wait()
	t.Cleanup(func() {
		_ = near.Close()
		_ = far.Close()
	})
	return near, far
}

// overTLS is a Backend that asks an upstream over one connection.
type overTLS struct {
	relayed
	up *Conn
}

func (b *overTLS) Serve(_ context.Context, x *Exchange) bool {
	if err := x.Ask(b.up, &b.marks); err != nil {
		x.Refuse(http.StatusBadGateway, "", nil, []byte(err.Error()))
		return true
	}
	_, _ = x.Answer(b.up, nil) // the client says what it has got
	return true
}

// Large bodies go over TLS both ways as they are, whatever the pieces are in which they come.
func TestLargeBodiesOverTLS(t *testing.T) {
	t.Parallel()
	upstream := startHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		w.Header().Set("Content-Length", r.Header.Get("Content-Length"))
		_, _ = w.Write(b) // the client says what it has got
	})
	near, far := secured(t)
	var served sync.WaitGroup
	served.Go(func() { // the router that has the instance
		Serve(t.Context(), NewConn(far, nil), testLimits, &relayed{addr: upstream, pool: Pool{Max: 1, Idle: time.Minute}},
			func(net.Conn) { t.Error("handed over") }, nil)
	})
	// The router that is asked.
	b := &overTLS{up: NewConn(near, nil)}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c, r := dial(t, ln.Addr().String())
	taken, err := ln.Accept()
	must(t, err)
	must(t, ln.Close())
	served.Go(func() {
		Serve(t.Context(), NewConn(taken, nil), testLimits, b, func(net.Conn) { t.Error("handed over") }, nil)
	})
	for _, size := range []int{40 << 10, 1 << 20, 5_000_000, 33_000} {
		body := strings.Repeat("0123456789abcde\n", size/16+1)[:size]
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: "+strconv.Itoa(size)+"\r\n\r\n")
		var sending sync.WaitGroup
		sending.Go(func() {
			for rest := body; len(rest) > 0; {
				n := min(len(rest), 70_001)
				send(t, c, rest[:n])
				rest = rest[n:]
			}
		})
		res, got := answer(t, r, http.MethodPost)
		sending.Wait()
		if res.StatusCode != http.StatusOK || sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(body)) {
			t.Fatalf("%d bytes: %s, %d bytes came back", size, res.Status, len(got))
		}
	}
	_ = c.Close()
	_ = near.Close()
	served.Wait()
}
