package autoscale_test

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/metrics"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/wire"
)

// crowd is who asks for app.f at the workers of a sim, in epochs of virtual time.
type crowd struct {
	*clustertest.Sim
	c *core.Core
	// rate in requests per second; rps is what a replica can do, slow the one of those
	// that can do less.
	rate, rps float64
	slow      map[wire.InstanceID]float64
}

func newCrowd(t *testing.T, spec api.Replicas, workers ...string) *crowd {
	s := clustertest.NewSim(t, workers...)
	cr := &crowd{Sim: s, rps: 50, slow: map[wire.InstanceID]float64{}}
	cr.c = &core.Core{ClusterName: "edge", M: s.Model,
		EventRing: obs.NewEvents(s.Now, 0, "cluster/edge"), Logger: slog.New(slog.DiscardHandler)}
	demand.Memory(cr.c.M).Demand = map[string]*autoscale.Demand{}
	cr.c.Wake = make(chan struct{}, 1)
	cr.elastic(spec, spec.Min, spec.Max, 0)
	return cr
}

// elastic delegates a share of a service that scales.
func (cr *crowd) elastic(spec api.Replicas, least, most, extra int) {
	slo, idle := api.Duration(500*time.Millisecond), api.Duration(time.Minute)
	cr.Share("f", most, func(s *api.Service) { s.Replicas, s.SLO, s.Idle = spec, &slo, &idle })
	sh := *cr.Model.FromRoot["app.f"]
	sh.Min, sh.Extra, sh.Revision = least, extra, 1
	cr.Model.FromRoot["app.f"] = &sh
	cr.Store(state.KeyShare+"app.f", &sh)
	reconcile.Effect(cr.Model)
}

// epochs lets n of them pass.
func (cr *crowd) epochs(n int) {
	cr.T.Helper()
	for range n {
		cr.Now = cr.Now.Add(autoscale.Epoch)
		if cr.rate > 0 {
			d := wire.Demand{V: wire.Version, Span: api.Duration(autoscale.Epoch),
				Services: []wire.ServiceDemand{{App: "app", Service: "f",
					Requests: uint64(cr.rate * autoscale.Epoch.Seconds())}}}
			for _, id := range cr.awake() {
				rps := cr.rps
				if r, ok := cr.slow[id]; ok {
					rps = r
				}
				d.Services[0].Replicas = append(d.Services[0].Replicas,
					wire.ReplicaDemand{Instance: id, RPS: rps, Exec: api.Duration(20 * time.Millisecond)})
			}
			cr.wake()
			demand.OnDemand(cr.c, "w1", &d, cr.Now)
		}
		demand.Decide(cr.c, cr.Now)
		cr.Tick(0)
		cr.Tick(0)
	}
}

// wake is a request to each that sleeps.
func (cr *crowd) wake() {
	for _, f := range cr.Workers {
		for id, st := range f.Statuses {
			if st.Asleep {
				st.Asleep, st.Phase, st.Ready = false, wire.PhaseRunning, true
				f.Statuses[id] = st
			}
		}
	}
}

// awake are the instances that answer.
func (cr *crowd) awake() (ids []wire.InstanceID) {
	for id, i := range cr.Model.Insts {
		if i.State == wire.Running && i.Ready && !i.Draining {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

func (cr *crowd) must(n int) {
	cr.T.Helper()
	if got := cr.awake(); len(got) != n {
		cr.T.Fatalf("%d run, want %d: %v; wants %+v", len(got), n, got, autoscale.Memory(cr.Model).Wants["app.f"])
	}
}

func (cr *crowd) mustSleep() {
	cr.T.Helper()
	i := cr.Model.Insts["app.f.0"]
	if len(cr.Model.Insts) != 1 || i == nil || !state.Asleep(i) {
		cr.T.Fatalf("not one that sleeps: %d, %+v", len(cr.Model.Insts), i)
	}
	if e := cr.Model.Routes["app.f"].Endpoints; len(e) != 1 || !e[0].Asleep {
		cr.T.Errorf("its route: %+v", e)
	}
	if !controller.Calm(cr.c) {
		cr.T.Error("something is waited for")
	}
	if used := fleet.Reserved(cr.Model.Begin())["w1"].Used; used != (api.Resources{}) {
		cr.T.Errorf("what sleeps reserves %+v", used)
	}
}

func TestDemandDecidesHowManyRun(t *testing.T) {
	cr := newCrowd(t, api.Replicas{Min: 0, Max: 12}, "w1", "w2")
	cr.Tick(time.Second)
	cr.Tick(time.Second)
	cr.mustSleep()
	if _, ok := demand.UntilEpoch(cr.c, cr.Now); ok {
		t.Error("there are epochs while nobody asks")
	}

	// What a worker says is known before the epoch ends that decides about it.
	demand.OnDemand(cr.c, "w1", &wire.Demand{Services: []wire.ServiceDemand{{App: "app", Service: "f"}}}, cr.Now)
	if r, err := demand.ScaleReport(cr.c, "app.f"); err != nil || r.Now != nil || !r.Asked {
		t.Errorf("before anything is decided: %+v, %v", r, err)
	}
	cr.rate = 30
	cr.epochs(3)
	cr.must(1)
	cr.rate = 180 // more than three can do
	cr.epochs(6)
	cr.must(4)
	r, err := demand.ScaleReport(cr.c, "app.f")
	if err != nil || r.Now == nil || r.Asked || r.Last == nil || r.Awake != 4 || r.Now.Want != 4 ||
		r.Now.Rate != 180 || r.Now.RPS != 50 || r.Last.Why == "" || r.Min != 0 || r.Max != 12 {
		t.Errorf("%+v %+v, %v", r, r.Now, err)
	}
	// Nothing but decisions is stored: a process that begins now has as many.
	cr.Restart()
	cr.c.M, demand.Memory(cr.c.M).Demand, demand.Memory(cr.c.M).EpochAt = cr.Model, map[string]*autoscale.Demand{},
		time.Time{}
	demand.Revive(cr.c)
	cr.Tick(0)
	cr.epochs(1)
	cr.must(4)

	cr.rate = 650 // no more than may be
	cr.epochs(6)
	cr.must(12)

	// Fewer after a while, and the slow ones go first.
	cr.slow["app.f.0"], cr.slow["app.f.5"] = 10, 5
	cr.rate = 400
	cr.epochs(60)
	got := cr.awake()
	if len(got) > 10 || slices.Contains(got, "app.f.0") || slices.Contains(got, "app.f.5") {
		t.Errorf("at 400 requests a second: %v; %+v", got, autoscale.Memory(cr.Model).Wants["app.f"])
	}

	// None when nobody asks any more, and nothing is looked at then.
	cr.rate = 0
	cr.epochs(150)
	for _, f := range cr.Workers {
		for id, st := range f.Statuses { // what its worker does
			st.Asleep, st.Phase, st.Ready = true, wire.PhasePending, false
			f.Statuses[id] = st
		}
	}
	cr.Tick(time.Second)
	cr.Tick(time.Second)
	n := 0
	for _, i := range cr.Model.Insts {
		if !state.Asleep(i) {
			t.Errorf("%+v", i)
		}
		n++
	}
	if _, ok := demand.UntilEpoch(cr.c, cr.Now); ok || n != 1 || len(autoscale.Memory(cr.Model).Wants) != 0 {
		t.Errorf("%d are left, epochs %v, wants %v", n, ok, autoscale.Memory(cr.Model).Wants)
	}
}

func TestMinStays(t *testing.T) {
	cr := newCrowd(t, api.Replicas{Min: 2, Max: 5}, "w1")
	cr.Ticks(3, time.Second)
	cr.must(2)
	cr.rate = 140
	cr.epochs(5)
	cr.must(3)
	cr.rate = 0
	cr.epochs(80)
	cr.must(2)
	for _, o := range cr.Model.Orders {
		if o.Sleep != nil {
			t.Errorf("%s may sleep", o.ID)
		}
	}
	if _, ok := demand.UntilEpoch(cr.c, cr.Now); ok {
		t.Error("there are epochs while nobody asks")
	}
}

func TestAsManyAsThereIsRoomFor(t *testing.T) {
	cr := newCrowd(t, api.Replicas{Min: 0, Max: 30}, "w1") // room for ten
	cr.Tick(time.Second)
	cr.rate = 1000
	cr.epochs(8)
	cr.must(10)
	for _, i := range cr.Model.Insts {
		if i.State == wire.Requested {
			t.Errorf("%s was given back", i.ID)
		}
	}
	r, _ := demand.ScaleReport(cr.c, "app.f")
	if r.Short == 0 {
		t.Errorf("nobody is told that there is no room: %+v", r)
	}
	if s := autoscale.Shortages(cr.Model); len(s) != 1 || s[0].Short != 10 || s[0].Max != 30 ||
		!strings.Contains(s[0].Full, "1 worker") {
		t.Errorf("the root is told %+v", s)
	}
	if agg := report.Aggregate(cr.Model, wire.Rev{}, nil); len(agg.Short) != 1 {
		t.Errorf("the aggregate says %+v", agg.Short)
	}
	figures := map[string]float64{}
	for _, x := range metrics.ScaleSamples(cr.c) {
		figures[x.Name] = x.Value
		if !slices.Equal(x.Labels, [][2]string{{"application", "app"}, {"service", "f"}}) {
			t.Errorf("%s is of %v", x.Name, x.Labels)
		}
	}
	for name, want := range map[string]float64{
		"instances_wanted": 20, "instances_max": 30, "instances_placed": 10, "instances_awake": 10,
		"instances_short":     10,
		"requests_per_second": 1000, "instance_capacity_per_second": 50, "objective_seconds": 0.5,
		"instance_exec_seconds": 0.02,
	} {
		if got, ok := figures["verge_scale_"+name]; !ok || got != want {
			t.Errorf("%s: %g, want %g", name, got, want)
		}
	}
	cr.AddWorker("w2")
	cr.epochs(15)
	if n := len(cr.awake()); n <= 10 {
		t.Errorf("%d with another worker", n)
	}
}

// What the root asks for on behalf of others runs beside what the own requests ask
// for, which come first, and what has no room is told.
func TestExtraRunsForOthers(t *testing.T) {
	spec := api.Replicas{Min: 0, Max: 30}
	cr := newCrowd(t, spec, "w1") // room for ten
	cr.elastic(spec, 0, 8, 3)
	cr.Tick(time.Second)
	cr.Tick(time.Second)
	cr.wake()
	cr.Tick(time.Second)
	cr.must(3) // the one that is there in any case is one of them
	cr.rate = 190
	cr.epochs(6)
	cr.must(7)
	if s := autoscale.Shortages(cr.Model); len(s) != 1 || s[0].Short+s[0].Unmet != 0 || s[0].Extra != 3 {
		t.Errorf("nothing is lacking, and the root is told %+v", s)
	}
	// Its own come first, and the share allows no more than eight.
	cr.rate = 340
	cr.epochs(6)
	cr.must(8)
	if s := autoscale.Shortages(cr.Model); len(s) != 1 || s[0].Short != 0 || s[0].Unmet != 2 || s[0].Full != "" {
		t.Errorf("rights are lacking, and the root is told %+v", s)
	}
	// There is room for ten.
	cr.rate = 0
	cr.elastic(spec, 0, 30, 14)
	cr.epochs(40)
	cr.must(10)
	if s := autoscale.Shortages(cr.Model); len(s) != 1 || s[0].Unmet != 4 || s[0].Full == "" {
		t.Errorf("room is lacking, and the root is told %+v", s)
	}
	for _, i := range cr.Model.Insts {
		if i.State == wire.Requested {
			t.Errorf("%s was given back", i.ID)
		}
	}
	cr.elastic(spec, 0, 30, 2)
	cr.epochs(2)
	cr.must(2)
	if s := autoscale.Shortages(cr.Model); len(s) != 1 || s[0].Unmet != 0 {
		t.Errorf("nothing is lacking, and the root is told %+v", s)
	}
}

// A cluster that may run few, or none, tells the root what its requests ask for.
func TestDemandWithoutRights(t *testing.T) {
	spec := api.Replicas{Min: 2, Max: 30}
	cr := newCrowd(t, spec, "w1")
	cr.elastic(spec, 2, 2, 0)
	cr.Tick(time.Second)
	cr.rate = 390
	cr.epochs(6)
	cr.must(2)
	if s := autoscale.Shortages(cr.Model); len(s) != 1 || s[0].Short != 6 || s[0].Full != "" {
		t.Errorf("the root is told %+v", s)
	}
	// What is not here does not count as being here: the number stays.
	cr.epochs(40)
	if s := autoscale.Shortages(cr.Model); len(s) != 1 || s[0].Short != 6 {
		t.Errorf("later the root is told %+v", s)
	}
	cr.rate = 0
	cr.epochs(40)
	if s := autoscale.Shortages(cr.Model); len(s) != 0 {
		t.Errorf("nobody asks, and the root is told %+v", s)
	}
}

func TestAWorkerIsLostWithOneThatSleeps(t *testing.T) {
	cr := newCrowd(t, api.Replicas{Min: 0, Max: 3}, "w1", "w2")
	cr.Tick(time.Second)
	cr.Tick(time.Second)
	cr.mustSleep()
	was := cr.Model.Insts["app.f.0"].Worker
	cr.Workers[was].Alive = false
	cr.Ticks(30, time.Second)
	i := cr.Model.Insts["app.f.0"]
	if i.Worker == was || !state.Asleep(i) {
		t.Fatalf("%+v", i)
	}
	cr.Workers[was].Alive = true
	cr.Ticks(5, time.Second)
	if i := cr.Model.Insts["app.f.0"]; i.Worker == was || !state.Asleep(i) || len(cr.Model.Orders) != 1 {
		t.Fatalf("after the return: %+v, %d orders", i, len(cr.Model.Orders))
	}
}

func TestWhatWakesWithoutRoomGoesElsewhere(t *testing.T) {
	cr := newCrowd(t, api.Replicas{Min: 0, Max: 3}, "w1", "w2")
	cr.Tick(time.Second)
	cr.Tick(time.Second)
	was := cr.Model.Insts["app.f.0"].Worker
	st := cr.Workers[was].Statuses["app.f.0"]
	st.Phase, st.Asleep, st.Why = wire.PhaseRefused, false, "needs 100m cpu, 0 free"
	cr.Workers[was].Statuses["app.f.0"] = st
	cr.Tick(time.Second)
	cr.Tick(time.Second)
	if i := cr.Model.Insts["app.f.0"]; i.Worker == was || i.Worker == "" || !state.Asleep(i) {
		t.Fatalf("%+v", i)
	}
}

func TestOnlyTheDescriptorGivesAnElasticNumber(t *testing.T) {
	cr := newCrowd(t, api.Replicas{Min: 0, Max: 3}, "w1")
	p := wire.ScalesItself("app", "f", cr.Model.FromRoot["app.f"].Spec.Replicas)
	if p.Status != 409 || !strings.Contains(p.Remedy, "verge explain scale app.f") {
		t.Errorf("%+v", p)
	}
}

func TestDemandOfAStranger(t *testing.T) {
	cr := newCrowd(t, api.Replicas{Min: 0, Max: 3}, "w1")
	d := wire.Demand{V: wire.Version, Services: []wire.ServiceDemand{{App: "app", Service: "nobody", Requests: 1},
		{App: "app", Service: "f", Requests: 1 << 63, Waiting: -5,
			Replicas: []wire.ReplicaDemand{{Instance: "app.f.0", RPS: -1, Exec: -1}}}}}
	demand.OnDemand(cr.c, "nobody", &d, cr.Now)
	if len(demand.Memory(cr.c.M).Demand) != 0 {
		t.Error("a worker that is not here was heard")
	}
	demand.OnDemand(cr.c, "w1", &d, cr.Now)
	if len(demand.Memory(cr.c.M).Demand) != 1 {
		t.Errorf("demand for %d services", len(demand.Memory(cr.c.M).Demand))
	}
	cr.Tick(time.Second)
	cr.epochs(3) // of nonsense comes nothing worse than as many as may be
	if n := len(cr.Model.Insts); n > 3 {
		t.Errorf("%d instances", n)
	}
}
