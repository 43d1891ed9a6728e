package e2e

import (
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// longLine is an address at which each direction of a connection to another one
// takes so long.
func longLine(t *testing.T, to string, each time.Duration) string {
	var as atomic.Int64
	as.Store(int64(each))
	return elasticLine(t, to, &as)
}

// elasticLine is a longLine whose length, in nanoseconds, may change.
func elasticLine(t *testing.T, to string, each *atomic.Int64) string {
	t.Helper()
	ln := must[net.Listener](t)(net.Listen("tcp", freeAddr(t)))
	var all sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range conns {
			_ = c.Close()
		}
		mu.Unlock()
		all.Wait()
	})
	type piece struct {
		data []byte
		due  time.Time
	}
	pass := func(dst, src net.Conn) {
		line := make(chan piece, 1024)
		all.Go(func() {
			for p := range line {
				<-time.After(time.Until(p.due)) // that is how long the line is
				_, _ = dst.Write(p.data)        // the reader sees the end
			}
			_ = dst.Close()
		})
		defer close(line)
		for buf := make([]byte, 32<<10); ; {
			n, err := src.Read(buf)
			if n > 0 {
				line <- piece{slices.Clone(buf[:n]), time.Now().Add(time.Duration(each.Load()))}
			}
			if err != nil {
				return
			}
		}
	}
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			d, err := net.Dial("tcp", to)
			if err != nil {
				_ = c.Close()
				continue
			}
			mu.Lock()
			conns = append(conns, c, d)
			mu.Unlock()
			all.Go(func() { pass(d, c) })
			all.Go(func() { pass(c, d) })
		}
	})
	return ln.Addr().String()
}

// Requests at a worker without an instance go to the nearer of two others, as soon
// as it has measured them, and what it says about that is true.
func TestClosestIsMeasured(t *testing.T) {
	w := newWorld(t, 1, "edge")
	gateway := w.worker["edge-1"].gateway
	for name, each := range map[string]time.Duration{"near": 5 * time.Millisecond, "far": 60 * time.Millisecond} {
		data := freeAddr(t)
		w.addWorker("edge", name, "--data", data, "--advertise", longLine(t, data, each), "--label", "holds=it")
	}
	w.allReady()
	const host = "closest.test"
	w.root.apply(`application: closest
services:
  front:
    command: [testprogram]
    replicas: 2
    anti_affinity: {service: [front]}
    affinity: {labels: {holds: it}}
    policy: closest
    ports: [{name: http, ingress: {host: ` + host + `}}]
    readiness: {http: {path: /healthz}}
`)
	near := ""
	for id, i := range w.root.instances("closest") {
		if i.Worker == "near" {
			near = id
		}
	}
	w.endpointsAt("edge-1", "closest.front", -1)
	eventually(t, 10*time.Second, "requests go to the nearer one", func() error {
		v, err := whoami(gateway, host, "/whoami")
		if err != nil {
			return err
		}
		return differs("instance", v.Instance, near)
	})
	for range 20 {
		wantEqual(t, "instance", must[who](t)(whoami(gateway, host, "/whoami")).Instance, near)
	}
	r := decode[rpc.RouteReport](t, w.root.ok("route", "show", "closest.front", "--from", "edge/edge-1", "-o", "json"))
	for _, e := range r.Endpoints {
		least := map[string]time.Duration{"near": 10 * time.Millisecond, "far": 120 * time.Millisecond}[e.Worker]
		if rtt := time.Duration(e.RTT); e.Source != "measured" || rtt < least || rtt > least+slack*100*time.Millisecond {
			t.Errorf("%s is %v away (%s), it was made %v", e.Worker, rtt, e.Source, least)
		}
		if want := map[string]float64{"near": 1, "far": 0}[e.Worker]; e.Share != want || e.Worker == "near" && e.Recent < 20 {
			t.Errorf("%+v", e)
		}
	}
	w.usesAlone(host)
	for what, out := range map[string]string{
		"near":             w.root.ok("explain", "route", "closest.front", "--from", "edge/edge-1"),
		"edge/far":         w.root.ok("netcheck", "--from", "edge/edge-1"),
		"proximity (alpha": w.root.ok("route", "plan", "closest.front", "--alpha", "0.5"),
	} {
		if !strings.Contains(out, what) {
			t.Errorf("%q is not in:\n%s", what, out)
		}
	}
}
