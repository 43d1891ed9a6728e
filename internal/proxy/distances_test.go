package proxy

import (
	"crypto/tls"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/wire"
)

// fixedDistances are what a test says.
type fixedDistances struct {
	mu      sync.Mutex
	rtt     map[string]time.Duration
	version uint64
	wanted  []string
	workers int
}

func (d *fixedDistances) Want(service string, workers []data.Worker) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.wanted, d.workers = append(d.wanted, service), len(workers)
}

func (d *fixedDistances) Distance(_, worker string) (time.Duration, route.Source, time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rtt, ok := d.rtt[worker]; ok {
		return rtt, route.Measured, time.Now()
	}
	return 0, route.Unknown, time.Time{}
}

func (d *fixedDistances) Version() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version
}

// asked is for which services distances were wanted, and for how many workers last.
func (d *fixedDistances) asked() ([]string, int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.wanted), d.workers
}

func (d *fixedDistances) set(worker string, rtt time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rtt[worker] = rtt
	d.version++
}

// Connections go to the nearest, to another when the distances have changed, and
// those that are open stay where they are.
func TestClosestFollowsTheDistances(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	far := &fixedDistances{rtt: map[string]time.Duration{"b": 5 * time.Millisecond, "c": 9 * time.Millisecond},
		version: 1}
	here := newWorker(t, ca, "here", func(o *Options) { o.Distances = far })
	b, c := newWorker(t, ca, "b", nil), newWorker(t, ca, "c", nil)
	b.addGreeter(t, "app.web.0")
	c.addGreeter(t, "app.web.1")
	rt := webRoute(b.endpoint("app.web.0"), c.endpoint("app.web.1"))
	rt.SetPolicy(api.Policy{Name: api.PolicyClosest})
	here.SetRoutes([]wire.Route{rt})
	if wanted, _ := far.asked(); len(wanted) != 0 {
		t.Error("distances were wanted before the service was used")
	}
	addr := here.addr(t, "tcp")
	if got := visit(t, addr, 10); got["app.web.0"] != 10 {
		t.Fatalf("%v, want all at the nearest", got)
	}
	if wanted, workers := far.asked(); len(wanted) == 0 || workers != 2 {
		t.Errorf("wanted %v to %d workers", wanted, workers)
	}
	open, _, err := greetFrom(addr)
	must(t, err)
	defer func() { _ = open.Close() }()

	far.set("c", time.Millisecond)
	eventually(t, "new connections go to what is nearest now",
		func() bool { return visit(t, addr, 1)["app.web.1"] == 1 })
	must(t, echoes(open))

	got, ok := here.Route("app.web")
	if !ok || len(got.Endpoints) != 2 {
		t.Fatalf("%+v %v", got, ok)
	}
	near, other := got.Endpoints[1], got.Endpoints[0]
	if near.Share != 1 || near.Source != "measured" || time.Duration(near.RTT) != time.Millisecond || near.Recent == 0 {
		t.Errorf("the near one: %+v", near)
	}
	if other.Share != 0 || other.Recent < 10 || other.State != "ok" {
		t.Errorf("the other: %+v", other)
	}
	if _, ok := here.Route("app.other"); ok {
		t.Error("a service that is not routed has a route")
	}
}

// By the policy weighted a worker with more processors gets more, which its replicas
// share; what a worker has may change.
func TestWeightedGoesByProcessors(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	here := newWorker(t, ca, "here", nil)
	b, c := newWorker(t, ca, "b", nil), newWorker(t, ca, "c", nil)
	b.addGreeter(t, "app.web.0")
	c.addGreeter(t, "app.web.1")
	c.addGreeter(t, "app.web.2")
	shares := func(b0, c1, c2 api.CPU, want ...float64) {
		t.Helper()
		rt := webRoute(b.endpoint("app.web.0"), c.endpoint("app.web.1"), c.endpoint("app.web.2"))
		rt.SetPolicy(api.Policy{Name: api.PolicyWeighted})
		for i, cpu := range []api.CPU{b0, c1, c2} {
			rt.Endpoints[i].CPU = cpu
		}
		here.SetRoutes([]wire.Route{rt})
		got, _ := here.Route("app.web")
		for i, e := range got.Endpoints {
			if math.Abs(e.Share-want[i]) > 1e-9 || e.CPU != rt.Endpoints[i].CPU {
				t.Errorf("%+v, want %v", e, want[i])
			}
		}
	}
	shares(3000, 2000, 2000, 0.6, 0.2, 0.2)
	counts := visit(t, here.addr(t, "tcp"), 50)
	if n := counts["app.web.0"]; n < 29 || n > 31 {
		t.Errorf("%v, want 30 at b", counts)
	}
	shares(1000, 2000, 2000, 1./3, 1./3, 1./3)
	shares(0, 0, 0, 1./3, 1./3, 1./3)
}

// What needs no distances asks for none.
func TestRoundRobinWantsNoDistances(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	far := &fixedDistances{rtt: map[string]time.Duration{}}
	here := newWorker(t, ca, "here", func(o *Options) { o.Distances = far })
	b := newWorker(t, ca, "b", nil)
	here.addGreeter(t, "app.web.0")
	b.addGreeter(t, "app.web.1")
	for _, p := range []api.Policy{{}, {Name: api.PolicyRandom}, {Name: api.PolicyLocal, Fallback: api.PolicyClosest}} {
		rt := webRoute(here.endpoint("app.web.0"), b.endpoint("app.web.1"))
		rt.SetPolicy(p)
		here.SetRoutes([]wire.Route{rt})
		got := visit(t, here.addr(t, "tcp"), 8)
		if wanted, _ := far.asked(); len(wanted) != 0 {
			t.Errorf("%s wanted distances", p)
		}
		if p.Name == api.PolicyLocal && got["app.web.0"] != 8 {
			t.Errorf("%s: %v", p, got)
		}
	}
	rt := webRoute(here.endpoint("app.web.0"), b.endpoint("app.web.1"))
	rt.SetPolicy(api.Policy{Name: api.PolicyInstance, Ordinal: 1})
	here.SetRoutes([]wire.Route{rt})
	if got := visit(t, here.addr(t, "tcp"), 5); got["app.web.1"] != 5 {
		t.Errorf("instance 1: %v", got)
	}
}

func TestMeasureEchoesOverTheDataPath(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	here := newWorker(t, ca, "here", nil)
	b := newWorker(t, ca, "b", func(o *Options) {
		o.Echo = func(_ tls.ConnectionState, said []byte) []byte {
			return append([]byte("heard "), said...)
		}
	})
	w := data.Worker{Cluster: "edge", Name: "b", Address: b.DataAddr()}
	for range 3 {
		rtt, answer, err := here.Measure(t.Context(), w, []byte("hello"))
		if err != nil || rtt <= 0 || string(answer) != "heard hello" {
			t.Fatalf("%v %q %v", rtt, answer, err)
		}
	}
	if n := b.Stats().Data.Accepted; n != 1 {
		t.Errorf("%d connections for three measurements", n)
	}
	if _, _, err := here.Measure(t.Context(), w, make([]byte, data.MaxEcho+1)); err == nil {
		t.Error("too much was said")
	}
	// The other side is another one now: the kept connection is of no use.
	b.Close()
	if _, _, err := here.Measure(t.Context(), w, nil); err == nil {
		t.Error("a worker that is gone was measured")
	}
}
