package rehearsal_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// rehearse rehearses what is given now, measuring for so long. It says what becomes of each
// instance, by id, and what the plan does not know. The model stays as it is.
func rehearse(e *clustertest.Network, t *testing.T, span time.Duration) (map[wire.InstanceID]rpc.InstancePlan,
	[]string) {
	t.Helper()
	var mu sync.Mutex
	meter := &rehearsal.Meter{Cluster: e.Sim.Model.Name, Span: span,
		One: func(ctx context.Context, q proximity.Question) (rpc.Measured, error) {
			if e.Silent[q.Worker] {
				<-ctx.Done()
			}
			mu.Lock()
			defer mu.Unlock()
			return e.Answer(q)
		}}
	m, before, had := e.Sim.Model.Clone(), maps.Clone(e.Sim.Model.Insts), len(proximity.Memory(e.Sim.Model).Near.Pairs)
	by := &rehearsal.Asker{Meter: meter}
	whys, whole := rehearsal.Rehearse(t.Context(), m, by, e.Sim.Now)
	if !whole {
		t.Fatal("it was cut off")
	}
	if len(proximity.Memory(e.Sim.Model).Near.Pairs) != had || !maps.Equal(before, e.Sim.Model.Insts) {
		t.Fatal("the plan has changed something")
	}
	out := map[wire.InstanceID]rpc.InstancePlan{}
	for _, p := range rehearsal.Becomes(m, "app", before, whys, true, e.Sim.Now) {
		out[p.ID] = p
	}
	return out, by.Said()
}

// A plan of something that must be near says where it comes to be, though nobody has
// measured before, and an apply does the same.
func TestAPlanMeasuresWhatIsNear(t *testing.T) {
	for _, running := range []bool{true, false} {
		s, e := clustertest.NewSimWithNetwork(t, "w0", "w5", "w20", "w25", "w60")
		e.Run(1, time.Second) // all are heard
		s.Share("web", 1, clustertest.OnWorker("w20"))
		if running {
			e.Run(3, time.Second)
		}
		e.Users["192.0.2.7"] = "w1"
		s.Share("api", 2, clustertest.NearTo("web", 6*time.Millisecond))
		s.Share("edge", 1, clustertest.NearTo("192.0.2.7", 3*time.Millisecond))
		s.Share("far", 1, func(a *api.Service) {
			clustertest.NearTo("web", 6*time.Millisecond)(a)
			clustertest.OnWorker("w60")(a)
		})
		plan, notes := rehearse(e, t, time.Second)
		if e.Asked == 0 || len(notes) != 0 {
			t.Errorf("%d questions: %q", e.Asked, notes)
		}
		to := fmt.Sprint(plan["app.api.0"].To, " ", plan["app.api.1"].To, " ", plan["app.edge.0"].To)
		if to != "edge/w20 edge/w25 edge/w0" && to != "edge/w25 edge/w20 edge/w0" {
			t.Errorf("running %t: %s\n%+v", running, to, plan)
		}
		if p := plan["app.far.0"]; p.Action != rpc.PlanWait ||
			!strings.Contains(p.Why, "1 is not within 6ms of web: 40.0ms away") &&
				!strings.Contains(p.Why, "not within 6ms of web") {
			t.Errorf("far: %+v", p)
		}
		e.Run(12, time.Second)
		for _, id := range []string{"app.api.0", "app.api.1", "app.edge.0"} {
			if on := s.Instance(id).Worker; plan[id].To != s.Model.Name+"/"+on {
				t.Errorf("%s is on %s, planned was %s", id, on, plan[id].To)
			}
		}
	}
}

// What must be near something that has no place is planned as it is decided when its time
// is over, and a note says so.
func TestAPlanNearAServiceThatIsNowhere(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	e.Run(1, time.Second) // all are heard
	s.Share("web", 1, clustertest.OnWorker("nobody"))
	s.Share("api", 1, clustertest.NearTo("web", time.Millisecond))
	plan, notes := rehearse(e, t, time.Second)
	if p := plan["app.api.0"]; p.Action != rpc.PlanStart || len(notes) != 1 ||
		notes[0] != "app.api waits for web to be placed, which it must be near; an apply decides after 10s by what is known then" {
		t.Errorf("%+v, %q", p, notes)
	}
}

// Where measuring takes longer than a plan may, or the root has no time for it, instances
// wait in it, and a note says why.
func TestAPlanThatHasNoTimeToMeasure(t *testing.T) {
	for name, span := range map[string]time.Duration{"no time": 0, "too little": 20 * time.Millisecond} {
		s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
		e.Run(1, time.Second) // all are heard
		e.Silent["w5"] = true
		s.Share("web", 1, clustertest.OnWorker("w0"))
		s.Share("api", 1, clustertest.NearTo("web", 6*time.Millisecond))
		plan, notes := rehearse(e, t, span)
		if p := plan["app.api.0"]; p.Action != rpc.PlanWait ||
			!strings.Contains(p.Why, "waits until it is known what is near") ||
			len(notes) != 1 || !strings.Contains(notes[0], "could not measure in the time of a plan") {
			t.Errorf("%s: %+v, %q", name, p, notes)
		}
		if span == 0 && e.Asked != 0 {
			t.Errorf("%d questions", e.Asked)
		}
	}
}

// Of a large cluster some workers are asked.
func TestAPlanAsksSomeOfMany(t *testing.T) {
	var names []string
	for n := range 2*rehearsal.PlanMeasures + 1 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := clustertest.NewSimWithNetwork(t, names...)
	e.Run(1, time.Second) // all are heard
	s.Share("web", 1, clustertest.OnWorker("w0"))
	s.Share("api", 1, clustertest.NearTo("web", 10*time.Millisecond))
	planned, notes := rehearse(e, t, time.Minute)
	if e.Asked != rehearsal.PlanMeasures || len(notes) != 1 ||
		!strings.Contains(notes[0], "200 of 401 workers measured for the plan") {
		t.Errorf("%d questions: %q", e.Asked, notes)
	}
	if p := planned["app.api.0"]; p.Action != rpc.PlanStart {
		t.Errorf("%+v", p)
	}
}
