package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime/debug"
	"runtime/pprof"
	"time"

	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// Roles that this program runs itself in.
const (
	asUpstream = "as-upstream"
	asGRPC     = "as-grpc-upstream"
	asRelay    = "as-relay"
	asReverse  = "as-reverseproxy"
	asRouter   = "as-router"
)

// task is what a role is told.
type task struct {
	Upstream string      // where the instance is
	Profile  string      // a file to write a profile to
	Router   *routerTask // for routers
	Cert     string      // a file with a certificate and its key, for TLS; "" none
	GRPC     bool        // the instance speaks HTTP/2
}

// started is what a role says of itself.
type started struct {
	Addr             string // for clients
	Data             string // for other routers
	Gateway, Secured string // for clients of the gateway, without and with TLS
}

// runRole does what a role is told to until its standard input ends.
func runRole(role string, in io.Reader) error {
	dec := json.NewDecoder(in)
	var t task
	if err := dec.Decode(&t); err != nil {
		return fmt.Errorf("read the task: %w", err)
	}
	if t.Profile != "" {
		f, err := os.Create(t.Profile)
		if err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer func() { _ = f.Close() }()
		if err := pprof.StartCPUProfile(f); err != nil {
			return fmt.Errorf("profile: %w", err)
		}
		defer pprof.StopCPUProfile()
	}
	if role == asRouter {
		return runRouter(t, dec)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	defer func() { _ = ln.Close() }()
	switch role {
	case asUpstream:
		go serveUpstream(ln)
	case asGRPC:
		go serveGRPC(ln)
	case asRelay:
		go serveRelay(ln, t.Upstream)
	case asReverse:
		debug.SetGCPercent(400)
		go serveReverse(ln, t)
	default:
		return fmt.Errorf("no such role: %s", role)
	}
	if err := json.NewEncoder(os.Stdout).Encode(started{Addr: ln.Addr().String()}); err != nil {
		return fmt.Errorf("say where: %w", err)
	}
	_, err = io.Copy(io.Discard, bufio.NewReader(in))
	return err
}

// bare is the relay of the fast path with nothing around it.
type bare struct {
	upstream string
	pool     *http1.Pool
	marks    message.Marks
}

func (b *bare) Waits(http1.Instant) error { return nil }

func (b *bare) Serve(_ context.Context, x *http1.Exchange) bool {
	up := b.pool.Get(x.Began, x.Request.Idempotent() && x.Request.Length == 0)
	if up == nil {
		c, err := net.Dial("tcp", b.upstream)
		if err != nil {
			x.Refuse(http.StatusBadGateway, "", nil, nil)
			return true
		}
		up = http1.NewConn(c, nil)
	}
	if err := x.Ask(up, &b.marks); err != nil {
		up.Cut()
		x.Refuse(http.StatusBadGateway, "", nil, nil)
		return true
	}
	if again, _ := x.Answer(up, nil); again {
		b.pool.Put(up, http1.Now())
	}
	return true
}

func serveRelay(ln net.Listener, upstream string) {
	b := &bare{upstream: upstream, pool: &http1.Pool{Max: 64, Idle: time.Minute}}
	b.marks = message.Marks{Client: []byte("127.0.0.1"), Proto: "http", Strangers: true}
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		go http1.Serve(context.Background(), http1.NewConn(c, nil),
			http1.Limits{Header: 10 * time.Second, Idle: 2 * time.Minute}, b,
			func(c net.Conn) { _ = c.Close() }, nil)
	}
}

// serveReverse is what the standard library has.
func serveReverse(ln net.Listener, t task) {
	to := &url.URL{Scheme: "http", Host: t.Upstream}
	tr := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!t.GRPC)
	tr.Protocols.SetUnencryptedHTTP2(t.GRPC)
	p := &httputil.ReverseProxy{Transport: tr, Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(to)
		r.SetXForwarded()
	}, FlushInterval: -1}
	s := &http.Server{Handler: p, ReadHeaderTimeout: time.Minute, Protocols: new(http.Protocols)}
	s.Protocols.SetHTTP1(true)
	s.Protocols.SetUnencryptedHTTP2(true)
	if t.Cert != "" {
		s.Protocols.SetHTTP2(true)
		_ = s.ServeTLS(ln, t.Cert, t.Cert)
		return
	}
	_ = s.Serve(ln)
}
