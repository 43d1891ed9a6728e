package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/verge-edge/verge/tools/bench"
)

// measurer is one run.
type measurer struct {
	ctx context.Context
	o   options
	dir string
	env []string
	all []*process

	ca       *authority
	upstream string
	grpc     string // an instance of gRPC, "" until one is needed
}

// figure is something to measure.
type figure struct {
	name    string
	measure func(name string) ([]row, error)
}

// target is a proxy, or several in a row, and where clients find it.
type target struct {
	addr      string
	processes []*process
	clients   *clients
}

func newMeasurer(ctx context.Context, o options) (*measurer, error) {
	dir, err := os.MkdirTemp("", "proxybench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	b := &measurer{ctx: ctx, o: o, dir: dir}
	if b.ca, err = newAuthority(); err != nil {
		b.close()
		return nil, err
	}
	var s started
	if _, err := b.start(asUpstream, task{}, &s); err != nil {
		b.close()
		return nil, err
	}
	b.upstream = s.Addr
	return b, nil
}

func (b *measurer) close() {
	for _, p := range slices.Backward(b.all) {
		p.stop()
	}
	_ = os.RemoveAll(b.dir)
}

// role starts this program as a proxy in front of the upstream.
func (b *measurer) role(role string) (*target, error) {
	var s started
	p, err := b.start(role, task{Upstream: b.upstream, Profile: b.profile(role)}, &s)
	if err != nil {
		return nil, err
	}
	return &target{addr: s.Addr, processes: []*process{p}}, nil
}

// profile is where a process writes its profile, "" nowhere.
func (b *measurer) profile(name string) string {
	if b.o.profile == "" {
		return ""
	}
	return filepath.Join(b.o.profile, fmt.Sprintf("%s-%d.pprof", name, len(b.all)))
}

// haproxy starts HAProxy in front of the upstream.
func (b *measurer) haproxy() (*target, error) { return b.haproxyAt("", b.upstream) }

// haproxyTLS is HAProxy with TLS towards clients.
func (b *measurer) haproxyTLS() (*target, error) {
	pem, err := b.pem()
	if err != nil {
		return nil, err
	}
	return b.haproxyAt(" ssl crt "+pem+" alpn http/1.1", b.upstream)
}

// haproxies are two in a row, with TLS and certificates of both between them.
func (b *measurer) haproxies() (*target, error) {
	pem, err := b.pem()
	if err != nil {
		return nil, err
	}
	far, err := b.haproxyAt(" ssl crt "+pem+" ca-file "+pem+" verify required", b.upstream)
	if err != nil {
		return nil, err
	}
	near, err := b.haproxyAt("", far.addr+" ssl crt "+pem+" ca-file "+pem+
		" verify required sni str(far.bench.test) verifyhost far.bench.test")
	if err != nil {
		return nil, err
	}
	near.processes = append(near.processes, far.processes...)
	return near, nil
}

// pem is a file with a certificate, its key, and the authority.
func (b *measurer) pem() (string, error) {
	cert, key, err := b.ca.issue(peerName("", "far"))
	if err != nil {
		return "", err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return "", fmt.Errorf("a key: %w", err)
	}
	var out []byte
	for _, block := range []pem.Block{{Type: "CERTIFICATE", Bytes: cert}, {Type: "EC PRIVATE KEY", Bytes: der},
		{Type: "CERTIFICATE", Bytes: b.ca.der}} {
		out = append(out, pem.EncodeToMemory(&block)...)
	}
	file := filepath.Join(b.dir, fmt.Sprintf("%d.pem", len(b.all)))
	if err := os.WriteFile(file, out, 0o600); err != nil {
		return "", fmt.Errorf("write a certificate: %w", err)
	}
	return file, nil
}

func (b *measurer) haproxyAt(bind, server string) (*target, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	p, err := b.startHAProxy(`
global
  maxconn 8000
defaults
  mode http
  option http-keep-alive
  option forwardfor
  http-reuse always
  timeout client 120s
  timeout server 120s
  timeout connect 5s
  timeout http-request 10s
  timeout http-keep-alive 120s
listen proxy
  bind ` + addr + bind + `
  server instance ` + server + `
`)
	if err != nil {
		return nil, err
	}
	return &target{addr: addr, processes: []*process{p}}, b.reachable(addr, p)
}

// reachable waits until something listens.
func (b *measurer) reachable(addr string, p *process) error {
	ctx, cancel := context.WithTimeout(b.ctx, 10*time.Second)
	defer cancel()
	for {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			return c.Close()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("%s does not listen: %s", p.cmd.Path, p.log.String())
		}
		_ = bench.Pause(ctx, 20*time.Millisecond)
	}
}

func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String(), nil
}

func (b *measurer) figures() []figure {
	getter, poster := workload{request: get("/"), conns: 32}, workload{request: post("/", 243<<10), conns: 32}
	here := func() (*target, error) { return b.here("http") }
	there := func() (*target, error) { return b.there("http") }
	relay := func() (*target, error) { return b.role(asRelay) }
	const with32 = ", 32 connections, processor time"
	const with4 = ", 4 connections with 8 requests at a time, beside ReverseProxy with GOGC=400"
	h2 := workload{protocol: h2Plain, conns: 4}
	h2TLS := workload{protocol: h2OverTLS, conns: 4}
	unary := workload{protocol: grpcUnary, conns: 4}
	gate := func() (*target, error) { return b.gateway(false) }
	gateTLS := func() (*target, error) { return b.gateway(true) }
	getterTLS := getter
	getterTLS.protocol = http1TLS
	return []figure{
		{"router: 1 KB GET" + with32,
			func(what string) ([]row, error) { return b.cpu(what, b.haproxy, here, getter, 1, 1.15) }},
		{"two routers: 1 KB GET" + with32 + " of each",
			func(what string) ([]row, error) { return b.cpu(what, b.haproxy, there, getter, 2, 1.3) }},
		{"two routers: 1 KB GET" + with32 + ", beside two of HAProxy with TLS",
			func(what string) ([]row, error) { return b.cpu(what, b.haproxies, there, getter, 1, 1.3) }},
		{"router: 243 KB POST" + with32,
			func(what string) ([]row, error) { return b.cpu(what, b.haproxy, here, poster, 1, 0.7) }},
		{"two routers: 243 KB POST" + with32 + " of each",
			func(what string) ([]row, error) { return b.cpu(what, b.haproxy, there, poster, 2, 0.7) }},
		{"two routers: 243 KB POST" + with32 + ", beside two of HAProxy with TLS",
			func(what string) ([]row, error) { return b.cpu(what, b.haproxies, there, poster, 1, 0.85) }},
		{"router: latency added at 2,000 requests/s",
			func(what string) ([]row, error) { return b.latency(what, here, 1.2) }},
		{"router: memory with 2,000 idle connections",
			func(what string) ([]row, error) { return b.memory(what, here) }},
		{"gateway: 1 KB GET" + with32,
			func(what string) ([]row, error) { return b.cpu(what, b.haproxy, gate, getter, 1, 1.3) }},
		{"gateway: 1 KB GET with TLS" + with32,
			func(what string) ([]row, error) { return b.cpu(what, b.haproxyTLS, gateTLS, getterTLS, 1, 1.3) }},
		{"router: HTTP/2 GET of 1 KB" + with4,
			func(what string) ([]row, error) { return b.cpu(what, b.reverse(""), here, h2, 1, 0.85) }},
		{"gateway: HTTP/2 GET of 1 KB with TLS" + with4,
			func(what string) ([]row, error) { return b.cpu(what, b.reverse("tls"), gateTLS, h2TLS, 1, 1) }},
		{"router: gRPC unary" + with4,
			func(what string) ([]row, error) { return b.cpu(what, b.reverse("grpc"), b.hereGRPC, unary, 1, 0.75) }},
		{"two routers: gRPC unary" + with4 + ", of each",
			func(what string) ([]row, error) { return b.cpu(what, b.reverse("grpc"), b.thereGRPC, unary, 2, 0.85) }},
		{"relay alone: 1 KB GET" + with32,
			func(what string) ([]row, error) { return b.cpu(what, b.haproxy, relay, getter, 1, 1.3) }},
		{"relay alone: 243 KB POST" + with32,
			func(what string) ([]row, error) { return b.cpu(what, b.haproxy, relay, poster, 1, 0.7) }},
	}
}

// cpu compares the processor time per request. Ours counts once for each of the hops
// that it passes.
func (b *measurer) cpu(what string, theirs, ours func() (*target, error), w workload, hops, reach float64) ([]row,
	error) {
	x, err := theirs()
	if err != nil {
		return nil, err
	}
	defer b.end(x)
	y, err := ours()
	if err != nil {
		return nil, err
	}
	defer b.end(y)
	return b.compare(what, x, y, w, hops, reach)
}

// end stops the processes of a target, so that they disturb nobody.
func (b *measurer) end(t *target) {
	for _, p := range t.processes {
		p.stop()
		b.all = slices.DeleteFunc(b.all, func(x *process) bool { return x == p })
	}
}

// compare measures two proxies in turns. hops is how many routers ours passes for one
// of theirs.
func (b *measurer) compare(what string, theirs, ours *target, w workload, hops, reach float64) (_ []row, err error) {
	for _, t := range []*target{theirs, ours} {
		if t.clients, err = connect(t.addr, w); err != nil {
			return nil, err
		}
		defer t.clients.close()
		if _, _, err := t.clients.run(b.ctx, w, b.o.span/4); err != nil {
			return nil, fmt.Errorf("warm up: %w", err)
		}
	}
	var ratios, a, c []float64
	for range b.o.rounds {
		x, err := b.once(theirs, w)
		if err != nil {
			return nil, err
		}
		y, err := b.once(ours, w)
		if err != nil {
			return nil, err
		}
		y /= hops
		a, c, ratios = append(a, x), append(c, y), append(ratios, y/x)
	}
	m := bench.Median(ratios)
	return []row{{What: what, Unit: "µs", Theirs: bench.Median(a), Ours: bench.Median(c), Ratio: m,
		Reach: fmt.Sprintf("≤ %.2f ×", reach), OK: m <= reach}}, nil
}

// once is the processor time of a target per request in µs.
func (b *measurer) once(t *target, w workload) (float64, error) {
	before, err := cpuOf(t.processes)
	if err != nil {
		return 0, err
	}
	n, _, err := t.clients.run(b.ctx, w, b.o.span)
	if err != nil {
		return 0, err
	}
	after, err := cpuOf(t.processes)
	if err != nil {
		return 0, err
	}
	if n == 0 {
		return 0, fmt.Errorf("no request was answered in %s", b.o.span)
	}
	return float64(after-before) / float64(time.Microsecond) / float64(n), nil
}
