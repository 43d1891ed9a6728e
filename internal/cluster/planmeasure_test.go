// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// plan rehearses what is given now, measuring for so long. It says what becomes of each
// instance, by id, and what the plan does not know. The model stays as it is.
func (e *earth) plan(t *testing.T, span time.Duration) (map[wire.InstanceID]wire.InstancePlan, []string) {
	t.Helper()
	var mu sync.Mutex
	meter := &planMeter{cluster: e.s.m.Name, span: span, one: func(ctx context.Context, q question) (wire.Measured, error) {
		if e.silent[q.worker] {
			<-ctx.Done()
		}
		mu.Lock()
		defer mu.Unlock()
		return e.answer(q)
	}}
	m, before, had := e.s.m.clone(), maps.Clone(e.s.m.Insts), len(e.s.m.near.pairs)
	by := &consulting{meter: meter}
	whys, whole := m.rehearse(t.Context(), by, e.s.now)
	if !whole {
		t.Fatal("it was cut off")
	}
	if len(e.s.m.near.pairs) != had || !maps.Equal(before, e.s.m.Insts) {
		t.Fatal("the plan has changed something")
	}
	out := map[wire.InstanceID]wire.InstancePlan{}
	for _, p := range m.becomes("app", before, whys, true, e.s.now) {
		out[p.ID] = p
	}
	return out, by.said()
}

// A plan of something that must be near says where it comes to be, though nobody has
// measured before, and an apply does the same.
func TestAPlanMeasuresWhatIsNear(t *testing.T) {
	for _, running := range []bool{true, false} {
		s, e := newNearSim(t, "w0", "w5", "w20", "w25", "w60")
		e.live(1, time.Second) // all are heard
		s.share("web", 1, onWorker("w20"))
		if running {
			e.live(3, time.Second)
		}
		e.users["192.0.2.7"] = "w1"
		s.share("api", 2, nearTo("web", 6*time.Millisecond))
		s.share("edge", 1, nearTo("192.0.2.7", 3*time.Millisecond))
		s.share("far", 1, func(a *api.Service) {
			nearTo("web", 6*time.Millisecond)(a)
			onWorker("w60")(a)
		})
		plan, notes := e.plan(t, time.Second)
		if e.asked == 0 || len(notes) != 0 {
			t.Errorf("%d questions: %q", e.asked, notes)
		}
		to := fmt.Sprint(plan["app.api.0"].To, " ", plan["app.api.1"].To, " ", plan["app.edge.0"].To)
		if to != "edge/w20 edge/w25 edge/w0" && to != "edge/w25 edge/w20 edge/w0" {
			t.Errorf("running %t: %s\n%+v", running, to, plan)
		}
		if p := plan["app.far.0"]; p.Action != wire.PlanWait || !strings.Contains(p.Why, "1 is not within 6ms of web: 40.0ms away") && !strings.Contains(p.Why, "not within 6ms of web") {
			t.Errorf("far: %+v", p)
		}
		e.live(12, time.Second)
		for _, id := range []string{"app.api.0", "app.api.1", "app.edge.0"} {
			if on := s.inst(id).Worker; plan[id].To != s.m.Name+"/"+on {
				t.Errorf("%s is on %s, planned was %s", id, on, plan[id].To)
			}
		}
	}
}

// What must be near something that has no place is planned as it is decided when its time
// is over, and a note says so.
func TestAPlanNearAServiceThatIsNowhere(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5")
	e.live(1, time.Second) // all are heard
	s.share("web", 1, onWorker("nobody"))
	s.share("api", 1, nearTo("web", time.Millisecond))
	plan, notes := e.plan(t, time.Second)
	if p := plan["app.api.0"]; p.Action != wire.PlanStart || len(notes) != 1 || notes[0] != "app.api waits for web to be placed, which it must be near; an apply decides after 10s by what is known then" {
		t.Errorf("%+v, %q", p, notes)
	}
}

// Where measuring takes longer than a plan may, or the root has no time for it, instances
// wait in it, and a note says why.
func TestAPlanThatHasNoTimeToMeasure(t *testing.T) {
	for name, span := range map[string]time.Duration{"no time": 0, "too little": 20 * time.Millisecond} {
		s, e := newNearSim(t, "w0", "w5")
		e.live(1, time.Second) // all are heard
		e.silent["w5"] = true
		s.share("web", 1, onWorker("w0"))
		s.share("api", 1, nearTo("web", 6*time.Millisecond))
		plan, notes := e.plan(t, span)
		if p := plan["app.api.0"]; p.Action != wire.PlanWait || !strings.Contains(p.Why, "waits until it is known what is near") ||
			len(notes) != 1 || !strings.Contains(notes[0], "could not measure in the time of a plan") {
			t.Errorf("%s: %+v, %q", name, p, notes)
		}
		if span == 0 && e.asked != 0 {
			t.Errorf("%d questions", e.asked)
		}
	}
}

// Of a large cluster some workers are asked.
func TestAPlanAsksSomeOfMany(t *testing.T) {
	var names []string
	for n := range 2*planMeasures + 1 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := newNearSim(t, names...)
	e.live(1, time.Second) // all are heard
	s.share("web", 1, onWorker("w0"))
	s.share("api", 1, nearTo("web", 10*time.Millisecond))
	plan, notes := e.plan(t, time.Minute)
	if e.asked != planMeasures || len(notes) != 1 || !strings.Contains(notes[0], "200 of 401 workers measured for the plan") {
		t.Errorf("%d questions: %q", e.asked, notes)
	}
	if p := plan["app.api.0"]; p.Action != wire.PlanStart {
		t.Errorf("%+v", p)
	}
}
