package deschedule_test

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/cluster/deschedule"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// travellers ask for app.f at workers of an earth, which measures how far they are.
type travellers struct {
	*clustertest.Sim
	e *clustertest.Network
	c *core.Core
	t *testing.T
}

func newTravellers(t *testing.T, replicas int, workers ...string) *travellers {
	s, e := clustertest.NewSimWithNetwork(t, workers...)
	tr := &travellers{Sim: s, e: e, t: t}
	tr.c = &core.Core{ClusterName: "edge", M: s.Model,
		EventRing: obs.NewEvents(s.Now, 0, "cluster/edge"), Logger: slog.New(slog.DiscardHandler)}
	demand.Memory(tr.c.M).Demand = map[string]*autoscale.Demand{}
	tr.c.Wake = make(chan struct{}, 1)
	s.Share("f", replicas, func(a *api.Service) {
		a.Scheduler = api.NearestDemand
		a.Ports = []api.Port{{Name: "http", Protocol: "http"}}
	})
	return tr
}

// ask lets requests come for a time, so many a second by worker. Somebody answers all the
// while.
func (tr *travellers) ask(d time.Duration, rates map[string]int) {
	tr.t.Helper()
	for range int(d / autoscale.Epoch) {
		tr.e.Run(1, autoscale.Epoch)
		for name, rate := range rates {
			if rate > 0 {
				demand.OnDemand(tr.c, name, &wire.Demand{V: wire.Version, Span: api.Duration(autoscale.Epoch),
					Services: []wire.ServiceDemand{{App: "app", Service: "f",
						Requests: uint64(rate) * uint64(autoscale.Epoch/time.Second)}}}, tr.Now)
			}
		}
		deschedule.LookFlows(tr.Model, tr.Now)
		proximity.LookNear(tr.Model, tr.Now)
		tr.Tick(0)
		if ready, _ := tr.Sim.Endpoints("f"); ready == 0 && len(rates) > 0 {
			tr.t.Fatal("nobody answers")
		}
	}
}

func (tr *travellers) on() map[string]int {
	out := map[string]int{}
	for _, i := range tr.Model.Insts {
		out[i.Worker]++
	}
	return out
}

// Requests that come from elsewhere are followed, one replica at a time.
func TestDemandIsFollowed(t *testing.T) {
	tr := newTravellers(t, 1, "w0", "w1", "w40", "w41")
	tr.ask(20*time.Second, nil)
	tr.ask(2*time.Minute, map[string]int{"w41": 10})
	if on := tr.on(); on["w41"] != 1 {
		t.Fatalf("it is on %v", on)
	}
	begin := tr.Now
	for tr.on()["w0"] == 0 {
		if tr.ask(autoscale.Epoch, map[string]int{"w0": 10}); tr.Now.Sub(begin) > 10*time.Minute {
			t.Fatalf("not followed in ten minutes: %+v", proximity.Memory(tr.Model).Flows["app.f"])
		}
	}
	// It rests after it has been moved, and demand must have been elsewhere for a while.
	if took := tr.Now.Sub(begin); took < proximity.FollowFor ||
		took > sla.Rest+proximity.FollowFor+2*proximity.FollowEvery {
		t.Errorf("followed after %s", took)
	}
	n := 0
	for _, i := range tr.Model.Insts {
		n += tr.Moves(i.ID)
	}
	if n > 2 {
		t.Errorf("%d moves", n)
	}
}

// Requests come from two places: the replicas share them out, and stay.
func TestReplicasAreWhereDemandIs(t *testing.T) {
	tr := newTravellers(t, 2, "w0", "w1", "w40", "w41")
	tr.ask(15*time.Minute, map[string]int{"w1": 10, "w40": 8})
	if on := tr.on(); on["w1"] != 1 || on["w40"] != 1 {
		t.Fatalf("they are on %v", on)
	}
	for _, i := range tr.Model.Insts {
		if i.Incarnation > 3 {
			t.Errorf("%s moved %d times", i.ID, i.Incarnation)
		}
	}
}

// Demand that goes to and fro is not run after, and some requests are no demand.
func TestDemandToAndFro(t *testing.T) {
	tr := newTravellers(t, 1, "w0", "w40")
	tr.ask(20*time.Second, nil)
	for n := range 40 {
		at := map[string]int{"w0": 10}
		if n%2 == 0 {
			at = map[string]int{"w40": 10}
		}
		tr.ask(time.Minute, at)
	}
	if n := tr.Moves("app.f.0"); n > 8 {
		t.Errorf("%d moves in 40 minutes", n)
	}

	tr = newTravellers(t, 1, "w0", "w40")
	tr.ask(20*time.Second, nil)
	far := "w0"
	if tr.on()["w0"] > 0 {
		far = "w40"
	}
	tr.ask(autoscale.Epoch, map[string]int{far: 1})
	tr.ask(10*time.Minute, map[string]int{})
	if n := tr.Moves("app.f.0"); n != 0 {
		t.Errorf("moved for a single request")
	}
}

// What is near enough stays: in one room nothing is gained.
func TestDemandInOneRoom(t *testing.T) {
	tr := newTravellers(t, 1, "w0", "w1")
	for a := range tr.e.RTT {
		tr.e.RTT[a] = 300 * time.Microsecond
	}
	tr.ask(20*time.Second, nil)
	far := "w0"
	if tr.on()["w0"] > 0 {
		far = "w1"
	}
	tr.ask(10*time.Minute, map[string]int{far: 20})
	if n := tr.Moves("app.f.0"); n != 0 {
		t.Errorf("%d moves for a third of a millisecond", n)
	}
}

// A worker may name replicas as it likes: those of the service are kept, and no others.
func TestReplicasThatNobodyKnows(t *testing.T) {
	tr := newTravellers(t, 1, "w0", "w1")
	tr.ask(20*time.Second, nil)
	d := wire.ServiceDemand{App: "app", Service: "f", Requests: 10,
		Replicas: []wire.ReplicaDemand{{Instance: "app.f.0", RPS: 5}}}
	for n := range wire.MaxDemandReplicas - 1 {
		d.Replicas = append(d.Replicas, wire.ReplicaDemand{Instance: fmt.Sprintf("app.f.%d", n+1), RPS: 1e9})
	}
	demand.OnDemand(tr.c, "w0", &wire.Demand{V: wire.Version, Span: api.Duration(autoscale.Epoch),
		Services: []wire.ServiceDemand{d}}, tr.Now)
	if kept := proximity.Memory(tr.Model).Flows["app.f"].Replicas; len(kept) != 1 || kept["app.f.0"].RPS != 5 {
		t.Errorf("%d replicas are kept", len(kept))
	}
}
