package engine

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// leadsTo is where the router leads requests for shop.web.
func (r *fakeRouter) leadsTo() (out []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rt := range r.routes {
		for _, e := range rt.Endpoints {
			at := e.Instance + "@" + e.Cluster + "/" + e.Worker
			if e.Spare {
				at += " spare"
			}
			out = append(out, at)
		}
	}
	return out
}

// TestReadyHereWithoutARoute: the last word of a cluster was that nobody answers, and it is
// gone when an instance gets ready here, also after a power cut.
func TestReadyHereWithoutARoute(t *testing.T) {
	inBubble(t, func(t *testing.T, r *rig) {
		rt := wire.Route{V: wire.Version, App: "shop", Service: "web",
			Ports: []api.Port{{Name: "http", Protocol: "http"}}, Lacks: "it starts"}
		apply := func(rt wire.Route, o wire.Order) {
			t.Helper()
			if err := r.e.Apply(context.Background(),
				engineapi.EngineOrders{V: wire.Version, Orders: []wire.Order{o},
					Routes: []wire.Route{rt}}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		leads := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			if got := r.router.leadsTo(); !slices.Equal(got, want) {
				t.Errorf("%s: requests go to %v, want %v", when, got, want)
			}
		}
		const here = web0 + "@edge/w1"
		o := order(0, 1, 100)
		o.Spec.Readiness = &api.Check{Interval: api.Duration(time.Second), Failures: 1}
		r.prober.set(errors.New("refused"))
		apply(rt, o)
		leads("before it is ready")
		r.prober.set(nil)
		after(2 * time.Second)
		leads("ready", here)
		r.prober.set(errors.New("refused"))
		after(3 * time.Second)
		leads("no longer ready")

		r.stop()
		r.prober.set(nil)
		r.start()
		after(2 * time.Second)
		leads("after a restart without a cluster", here)

		other := rt
		other.Endpoints = []wire.Endpoint{{Instance: "shop.web.1", Cluster: "edge", Worker: "w2",
			Address: "192.0.2.1:1"}}
		apply(other, o)
		leads("the cluster knows of another one", "shop.web.1@edge/w2", here+" spare")
		moved := rt
		moved.Endpoints = []wire.Endpoint{{Instance: web0, Cluster: "edge", Worker: "w2", Address: "192.0.2.1:1"}}
		apply(moved, o)
		leads("the cluster has moved it", web0+"@edge/w2")
		apply(other, o)
		r.prober.set(errors.New("refused"))
		after(3 * time.Second)
		leads("it is no longer ready", "shop.web.1@edge/w2")
		r.prober.set(nil)
		after(2 * time.Second)
		leads("it is ready again", "shop.web.1@edge/w2", here+" spare")
		named := other
		named.Endpoints = append(slices.Clip(other.Endpoints),
			wire.Endpoint{Instance: web0, Cluster: "edge", Worker: "w1", Address: "192.0.2.2:1"})
		apply(named, o)
		leads("the cluster names it", "shop.web.1@edge/w2", here)
		unasked := rt
		unasked.Unasked = true
		apply(unasked, o)
		leads("the cluster is asked first")
		apply(rt, o)
		leads("nobody answers", here)
		o.Stop = true
		apply(rt, o)
		leads("it is stopped")
	})
}
