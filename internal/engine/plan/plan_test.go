package plan

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/engine/enginetest"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	stop := func(o wire.Order) wire.Order { o.Stop = true; return o }
	odd := enginetest.Order(0, 1, 100)
	odd.Spec = &api.Service{Runtime: "vm", Command: []string{"x"}}
	empty := enginetest.Order(0, 1, 100)
	empty.Spec = nil

	for name, c := range map[string]struct {
		orders  []wire.Order
		unknown bool
		halting bool
		present []Present
		want    string // kind of ordinal 0, 1, …; "-" is no goal
	}{
		"new ones by id until it is full": {orders: []wire.Order{enginetest.Order(2, 1, 400),
			enginetest.Order(1, 1, 400), enginetest.Order(0, 1, 400)}, want: "run run refuse"},
		"a smaller one still fits": {orders: []wire.Order{enginetest.Order(0, 1, 800),
			enginetest.Order(1, 1, 400), enginetest.Order(2, 1, 200)}, want: "run refuse run"},
		"who is here keeps its place": {orders: []wire.Order{enginetest.Order(0, 1, 700),
			enginetest.Order(1, 1, 700)}, present: []Present{{Order: enginetest.Order(1, 1, 700), Holds: true}},
			want: "refuse run"},
		"a replacement keeps its place": {orders: []wire.Order{enginetest.Order(0, 1, 500),
			enginetest.Order(1, 2, 700)}, present: []Present{{Order: enginetest.Order(1, 1, 700), Holds: true}},
			want: "refuse run"},
		"a replacement that grew too much": {orders: []wire.Order{enginetest.Order(0, 1, 500),
			enginetest.Order(1, 2, 600)},
			present: []Present{{Order: enginetest.Order(0, 1, 500), Holds: true},
				{Order: enginetest.Order(1, 1, 400), Holds: true}}, want: "run refuse"},
		"no order, no instance": {present: []Present{{Order: enginetest.Order(0, 1, 100), Holds: true},
			{Order: enginetest.Order(1, 1, 100), ended: true}}, want: "forget forget"},
		"what is being stopped holds": {orders: []wire.Order{stop(enginetest.Order(0, 1, 700)),
			enginetest.Order(1, 1, 700)}, present: []Present{{Order: enginetest.Order(0, 1, 700), Holds: true}},
			want: "stop refuse"},
		"what was stopped does not": {orders: []wire.Order{stop(enginetest.Order(0, 1, 700)),
			enginetest.Order(1, 1, 700)}, present: []Present{{Order: enginetest.Order(0, 1, 700)}}, want: "stop run"},
		"what is being forgotten holds": {orders: []wire.Order{enginetest.Order(1, 1, 700)},
			present: []Present{{Order: enginetest.Order(0, 1, 700), Holds: true}}, want: "forget refuse"},
		"given up: no room, stays": {orders: []wire.Order{enginetest.Order(0, 1, 1000),
			enginetest.Order(1, 1, 1000)}, present: []Present{{Order: enginetest.Order(0, 1, 1000), ended: true}},
			want: "run run"},
		"given up, then placed again": {orders: []wire.Order{enginetest.Order(0, 2, 600),
			enginetest.Order(1, 1, 600)},
			present: []Present{{Order: enginetest.Order(0, 1, 600), ended: true},
				{Order: enginetest.Order(1, 1, 600), Holds: true}}, want: "refuse run"},
		"over capacity, but here": {orders: []wire.Order{enginetest.Order(0, 1, 900),
			enginetest.Order(1, 1, 900)},
			present: []Present{{Order: enginetest.Order(0, 1, 900), Holds: true},
				{Order: enginetest.Order(1, 1, 900), Holds: true}}, want: "run run"},
		"an older incarnation replaces": {orders: []wire.Order{enginetest.Order(0, 1, 100)},
			present: []Present{{Order: enginetest.Order(0, 5, 100), Holds: true}}, want: "run"},
		"unknown orders stop nothing": {unknown: true,
			present: []Present{{Order: enginetest.Order(0, 1, 100), Holds: true},
				{Order: stop(enginetest.Order(1, 1, 100)), Holds: true}}, want: "run stop"},
		"shutdown": {orders: []wire.Order{enginetest.Order(0, 1, 100),
			enginetest.Order(1, 1, 100)}, halting: true,
			present: []Present{{Order: enginetest.Order(0, 1, 100), Holds: true}}, want: "halt -"},
		"a runtime that is not here": {orders: []wire.Order{odd}, want: "refuse"},
		"no service in the order":    {orders: []wire.Order{empty}, want: "refuse"},
		"stop needs no service":      {orders: []wire.Order{stop(empty)}, want: "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := World{
				Orders: c.orders, Known: !c.unknown, Halting: c.halting, Present: make(map[string]Present),
				Capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30}, Runtimes: []string{"process"},
			}
			for _, p := range c.present {
				w.Present[p.Order.ID] = p
			}
			goals := Goals(w)
			var got []string
			for i := range strings.Fields(c.want) {
				g, ok := goals[enginetest.Order(i, 1, 0).ID]
				if !ok {
					g.Kind = "-"
				}
				got = append(got, string(g.Kind))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
			for id, g := range goals {
				if g.Order.ID != id {
					t.Errorf("the goal of %s has the order of %q", id, g.Order.ID)
				}
			}
		})
	}
}

func TestRefusalSaysWhatIsNeededAndFree(t *testing.T) {
	t.Parallel()
	o := enginetest.Order(1, 1, 700)
	o.Spec.Resources.Memory = 1 << 30
	goals := Goals(World{
		Orders: []wire.Order{enginetest.Order(0, 1, 400), o}, Known: true,
		Capacity: api.Resources{CPU: 1000, Memory: 512 << 20}, Runtimes: []string{"process"},
	})
	const want = "needs 700m cpu, 600m of 1 free; needs 1Gi memory, 512Mi of 512Mi free"
	if got := goals[o.ID].Why; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// A plan that is made again, with nothing changed but that its goals were given,
// must come to the same goals.
func TestPlanIsStable(t *testing.T) {
	t.Parallel()
	w := World{Known: true, Capacity: api.Resources{CPU: 1000}, Runtimes: []string{"process"},
		Present: make(map[string]Present)}
	for i := range 8 {
		w.Orders = append(w.Orders, enginetest.Order(i, 1+i%2, api.CPU(150+50*i)))
	}
	for i := range 3 {
		o := enginetest.Order(i, 1, 300)
		w.Present[o.ID] = Present{Order: o, Holds: true}
	}
	first := Goals(w)
	for id, g := range first {
		// The supervisors of 0–2 still have their tasks; the others do not.
		if _, old := w.Present[id]; !old {
			w.Present[id] = g.Presence(false, "", &wire.Order{})
		}
	}
	for id, g := range Goals(w) {
		if g.Kind != first[id].Kind {
			t.Errorf("%s: first %s, then %s", id, first[id].Kind, g.Kind)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	one, two := enginetest.Order(0, 1, 0), enginetest.Order(0, 2, 0)
	run := Goal{Kind: Run, Order: one}
	for name, c := range map[string]struct {
		f    Facts
		g    Goal
		want Step
	}{
		"new":                        {Facts{}, run, StepStart},
		"running as ordered":         {Facts{Task: true, Run: one, Phase: wire.PhaseRunning}, run, StepWatch},
		"running as another":         {Facts{Task: true, Run: two, Phase: wire.PhaseRunning}, run, StepStop},
		"to be stopped":              {Facts{Task: true, Run: one}, Goal{Kind: Stop, Order: one}, StepStop},
		"to be forgotten":            {Facts{Task: true, Run: one}, Goal{Kind: Forget, Order: one}, StepStop},
		"refused while it runs":      {Facts{Task: true, Run: one}, Goal{Kind: Refuse, Order: two}, StepStop},
		"on disk, to be forgotten":   {Facts{Handle: true, Run: one}, Goal{Kind: Forget, Order: one}, StepAdopt},
		"on disk, no plan yet":       {Facts{Handle: true, Run: one}, Goal{}, StepRest},
		"running, no plan yet":       {Facts{Task: true, Run: one, Phase: wire.PhaseRunning}, Goal{}, StepRest},
		"perhaps, no plan yet":       {Facts{Unsure: true, Run: one}, Goal{}, StepRest},
		"perhaps started":            {Facts{Unsure: true, Run: one}, run, StepSweep},
		"perhaps started, forgotten": {Facts{Unsure: true, Run: one}, Goal{Kind: Forget}, StepSweep},
		"waiting":                    {Facts{Waiting: true, Run: one, Phase: wire.PhasePending}, run, StepWait},
		"waited":                     {Facts{Run: one, Phase: wire.PhasePending}, run, StepStart},
		"replaced while waiting": {Facts{Waiting: true, Run: one, Phase: wire.PhasePending},
			Goal{Kind: Run, Order: two}, StepStart},
		"ended for good": {Facts{Run: one, Phase: wire.PhaseExited}, run, StepRest},
		"ended for good, then anew": {Facts{Run: one, Phase: wire.PhaseExited}, Goal{Kind: Run, Order: two},
			StepStart},
		"stopped, then wanted again": {Facts{Run: one, Phase: wire.PhaseStopped}, run, StepStart},
		"stopped": {Facts{Run: one, Phase: wire.PhaseStopped}, Goal{Kind: Stop, Order: one},
			StepRest},
		"gone":        {Facts{Run: one, Phase: wire.PhaseStopped}, Goal{Kind: Forget}, StepForget},
		"shutdown":    {Facts{Run: one, Phase: wire.PhasePending}, Goal{Kind: Halt}, StepLeave},
		"no plan yet": {Facts{Run: one, Phase: wire.PhasePending}, Goal{}, StepRest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := Next(c.f, c.g); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// What only the service network has is refused where there is none.
func TestPlanNeedsTheNetwork(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*api.Service){
		"bandwidth": func(s *api.Service) { s.Bandwidth.Out = 1_000_000 },
		"udp":       func(s *api.Service) { s.Ports = []api.Port{{Name: "dns", Protocol: api.UDP}} },
	} {
		o := enginetest.Order(0, 1, 100)
		spec := *o.Spec
		change(&spec)
		o.Spec = &spec
		w := World{Orders: []wire.Order{o}, Known: true, Capacity: api.Resources{CPU: 1000},
			Runtimes: []string{"process"}}
		if g := Goals(w)[o.ID]; g.Kind != Refuse || !strings.Contains(g.Why, "needs the service network") {
			t.Errorf("%s: %s %q", name, g.Kind, g.Why)
		}
		w.Refuses = func(*api.Service) string { return "its volumes are refused" }
		w.Overlay = true
		if g := Goals(w)[o.ID]; g.Kind != Refuse || g.Why != "its volumes are refused" {
			t.Errorf("%s, with what the worker refuses: %s %q", name, g.Kind, g.Why)
		}
		w.Refuses = nil
		if g := Goals(w)[o.ID]; g.Kind != Run {
			t.Errorf("%s, in it: %s %q", name, g.Kind, g.Why)
		}
	}
}
