package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// bench is one run.
type bench struct {
	ctx context.Context
	o   options
	dir string
	env []string
	all []*process

	upstream string
}

// figure is something to measure.
type figure struct {
	name    string
	measure func() ([]row, error)
}

// target is a proxy, or several in a row, and where clients find it.
type target struct {
	addr      string
	processes []*process
	clients   *clients
}

func newBench(ctx context.Context, o options) (*bench, error) {
	dir, err := os.MkdirTemp("", "proxybench-")
	if err != nil {
		return nil, fmt.Errorf("make a folder: %w", err)
	}
	b := &bench{ctx: ctx, o: o, dir: dir}
	var s started
	if _, err := b.start(asUpstream, task{}, &s); err != nil {
		b.close()
		return nil, err
	}
	b.upstream = s.Addr
	return b, nil
}

func (b *bench) close() {
	for _, p := range slices.Backward(b.all) {
		p.stop()
	}
	_ = os.RemoveAll(b.dir)
}

// role starts this program as a proxy in front of the upstream.
func (b *bench) role(role string) (*target, error) {
	var s started
	t := task{Upstream: b.upstream}
	if b.o.profile != "" {
		t.Profile = filepath.Join(b.o.profile, fmt.Sprintf("%s-%d.pprof", role, len(b.all)))
	}
	p, err := b.start(role, t, &s)
	if err != nil {
		return nil, err
	}
	return &target{addr: s.Addr, processes: []*process{p}}, nil
}

// haproxy starts HAProxy in front of the upstream.
func (b *bench) haproxy() (*target, error) {
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
  bind ` + addr + `
  server instance ` + b.upstream + `
`)
	if err != nil {
		return nil, err
	}
	return &target{addr: addr, processes: []*process{p}}, b.reachable(addr, p)
}

// reachable waits until something listens.
func (b *bench) reachable(addr string, p *process) error {
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
		pause(ctx, 20*time.Millisecond)
	}
}

func freeAddr() (string, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a port: %w", err)
	}
	defer ln.Close()
	return ln.Addr().String(), nil
}

func (b *bench) figures() []figure {
	getter, poster := workload{request: get("/"), conns: 32}, workload{request: post("/", 243<<10), conns: 32}
	return []figure{
		{"relay: 1 KB GET", func() ([]row, error) { return b.cpu("relay: 1 KB GET, 32 connections", asRelay, getter, 1.3) }},
		{"relay: 243 KB POST", func() ([]row, error) { return b.cpu("relay: 243 KB POST, 32 connections", asRelay, poster, 0.7) }},
	}
}

// cpu compares the processor time per request.
func (b *bench) cpu(what, role string, w workload, reach float64) ([]row, error) {
	theirs, err := b.haproxy()
	if err != nil {
		return nil, err
	}
	ours, err := b.role(role)
	if err != nil {
		return nil, err
	}
	return b.compare(what, theirs, ours, w, 1, reach)
}

// compare measures two proxies in turns. hops is how many routers ours passes for one
// of theirs.
func (b *bench) compare(what string, theirs, ours *target, w workload, hops, reach float64) (_ []row, err error) {
	for _, t := range []*target{theirs, ours} {
		if t.clients, err = connect(t.addr, w.conns); err != nil {
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
	m := median(ratios)
	return []row{{What: what + ", processor time", Unit: "µs", Theirs: median(a), Ours: median(c), Ratio: m, Reach: fmt.Sprintf("≤ %.2f ×", reach), OK: m <= reach}}, nil
}

// once is the processor time of a target per request in µs.
func (b *bench) once(t *target, w workload) (float64, error) {
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
