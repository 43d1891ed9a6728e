package engine

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	stop := func(o wire.Order) wire.Order { o.Stop = true; return o }
	odd := order(0, 1, 100)
	odd.Spec = &api.Service{Runtime: "vm", Command: []string{"x"}}
	empty := order(0, 1, 100)
	empty.Spec = nil

	for name, c := range map[string]struct {
		orders  []wire.Order
		unknown bool
		halting bool
		present []present
		want    string // kind of ordinal 0, 1, …; "-" is no goal
	}{
		"new ones by id until it is full":  {orders: []wire.Order{order(2, 1, 400), order(1, 1, 400), order(0, 1, 400)}, want: "run run refuse"},
		"a smaller one still fits":         {orders: []wire.Order{order(0, 1, 800), order(1, 1, 400), order(2, 1, 200)}, want: "run refuse run"},
		"who is here keeps its place":      {orders: []wire.Order{order(0, 1, 700), order(1, 1, 700)}, present: []present{{order: order(1, 1, 700), holds: true}}, want: "refuse run"},
		"a replacement keeps its place":    {orders: []wire.Order{order(0, 1, 500), order(1, 2, 700)}, present: []present{{order: order(1, 1, 700), holds: true}}, want: "refuse run"},
		"a replacement that grew too much": {orders: []wire.Order{order(0, 1, 500), order(1, 2, 600)}, present: []present{{order: order(0, 1, 500), holds: true}, {order: order(1, 1, 400), holds: true}}, want: "run refuse"},
		"no order, no instance":            {present: []present{{order: order(0, 1, 100), holds: true}, {order: order(1, 1, 100), ended: true}}, want: "forget forget"},
		"what is being stopped holds":      {orders: []wire.Order{stop(order(0, 1, 700)), order(1, 1, 700)}, present: []present{{order: order(0, 1, 700), holds: true}}, want: "stop refuse"},
		"what was stopped does not":        {orders: []wire.Order{stop(order(0, 1, 700)), order(1, 1, 700)}, present: []present{{order: order(0, 1, 700)}}, want: "stop run"},
		"what is being forgotten holds":    {orders: []wire.Order{order(1, 1, 700)}, present: []present{{order: order(0, 1, 700), holds: true}}, want: "forget refuse"},
		"given up: no room, stays":         {orders: []wire.Order{order(0, 1, 1000), order(1, 1, 1000)}, present: []present{{order: order(0, 1, 1000), ended: true}}, want: "run run"},
		"given up, then placed again":      {orders: []wire.Order{order(0, 2, 600), order(1, 1, 600)}, present: []present{{order: order(0, 1, 600), ended: true}, {order: order(1, 1, 600), holds: true}}, want: "refuse run"},
		"over capacity, but here":          {orders: []wire.Order{order(0, 1, 900), order(1, 1, 900)}, present: []present{{order: order(0, 1, 900), holds: true}, {order: order(1, 1, 900), holds: true}}, want: "run run"},
		"an older incarnation replaces":    {orders: []wire.Order{order(0, 1, 100)}, present: []present{{order: order(0, 5, 100), holds: true}}, want: "run"},
		"unknown orders stop nothing":      {unknown: true, present: []present{{order: order(0, 1, 100), holds: true}, {order: stop(order(1, 1, 100)), holds: true}}, want: "run stop"},
		"shutdown":                         {orders: []wire.Order{order(0, 1, 100), order(1, 1, 100)}, halting: true, present: []present{{order: order(0, 1, 100), holds: true}}, want: "halt -"},
		"a runtime that is not here":       {orders: []wire.Order{odd}, want: "refuse"},
		"no service in the order":          {orders: []wire.Order{empty}, want: "refuse"},
		"stop needs no service":            {orders: []wire.Order{stop(empty)}, want: "stop"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := world{
				orders: c.orders, known: !c.unknown, halting: c.halting, present: make(map[string]present),
				capacity: api.Resources{CPU: 1000, Memory: 1 << 30, Disk: 1 << 30}, runtimes: []string{"process"},
			}
			for _, p := range c.present {
				w.present[p.order.ID] = p
			}
			goals := plan(w)
			var got []string
			for i := range strings.Fields(c.want) {
				g, ok := goals[order(i, 1, 0).ID]
				if !ok {
					g.kind = "-"
				}
				got = append(got, string(g.kind))
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("got %s, want %s", s, c.want)
			}
			for id, g := range goals {
				if g.order.ID != id {
					t.Errorf("the goal of %s has the order of %q", id, g.order.ID)
				}
			}
		})
	}
}

func TestRefusalSaysWhatIsNeededAndFree(t *testing.T) {
	t.Parallel()
	o := order(1, 1, 700)
	o.Spec.Resources.Memory = 1 << 30
	goals := plan(world{
		orders: []wire.Order{order(0, 1, 400), o}, known: true,
		capacity: api.Resources{CPU: 1000, Memory: 512 << 20}, runtimes: []string{"process"},
	})
	const want = "needs 700m cpu, 600m of 1 free; needs 1Gi memory, 512Mi of 512Mi free"
	if got := goals[o.ID].why; got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestVolumesThatCannotBeGiven(t *testing.T) {
	t.Parallel()
	const noRoot = "the worker does not run as root"
	for name, c := range map[string]struct {
		volume    api.Volume
		hostPaths []string
		noMount   string
		want      string // what the refusal says, "" is none
	}{
		"named":                    {volume: api.Volume{Path: "d", Name: "data"}, noMount: noRoot},
		"named, read-only":         {volume: api.Volume{Path: "d", Name: "data", ReadOnly: true}, noMount: noRoot, want: "volume d: read_only has to be mounted, which this worker may not: " + noRoot},
		"named, read-only, root":   {volume: api.Volume{Path: "d", Name: "data", ReadOnly: true}},
		"in memory":                {volume: api.Volume{Path: "d", Tmpfs: 1}, noMount: noRoot, want: "a directory in memory has to be mounted, which this worker may not: " + noRoot},
		"in memory, root":          {volume: api.Volume{Path: "d", Tmpfs: 1}},
		"host, none allowed":       {volume: api.Volume{Path: "d", Host: "/srv/x"}, want: "volume d: this worker gives no directory of its own to instances"},
		"host, allowed":            {volume: api.Volume{Path: "d", Host: "/srv/x"}, hostPaths: []string{"/opt", "/srv/"}},
		"host, itself":             {volume: api.Volume{Path: "d", Host: "/srv"}, hostPaths: []string{"/srv"}},
		"host, everything allowed": {volume: api.Volume{Path: "d", Host: "/srv/x"}, hostPaths: []string{"/"}},
		"host, beside it":          {volume: api.Volume{Path: "d", Host: "/srv2/x"}, hostPaths: []string{"/opt", "/srv"}, want: "/srv2/x is not below a directory that this worker gives to instances (--allow-host-path): /opt, /srv"},
	} {
		o := order(0, 1, 100)
		o.Spec.Volumes = []api.Volume{c.volume}
		w := world{orders: []wire.Order{o}, known: true, capacity: api.Resources{CPU: 1000}, runtimes: []string{"process"}, hostPaths: c.hostPaths, cannotMount: c.noMount}
		g := plan(w)[o.ID]
		if c.want == "" && g.kind != goalRun || c.want != "" && (g.kind != goalRefuse || !strings.Contains(g.why, c.want)) {
			t.Errorf("%s: %s %q, want %q", name, g.kind, g.why, c.want)
		}
	}
}

// A plan that is made again, with nothing changed but that its goals were given,
// must come to the same goals.
func TestPlanIsStable(t *testing.T) {
	t.Parallel()
	w := world{known: true, capacity: api.Resources{CPU: 1000}, runtimes: []string{"process"}, present: make(map[string]present)}
	for i := range 8 {
		w.orders = append(w.orders, order(i, 1+i%2, api.CPU(150+50*i)))
	}
	for i := range 3 {
		o := order(i, 1, 300)
		w.present[o.ID] = present{order: o, holds: true}
	}
	first := plan(w)
	for id, g := range first {
		// The supervisors of 0–2 still have their tasks; the others do not.
		if _, old := w.present[id]; !old {
			w.present[id] = presence(g, snapshot{})
		}
	}
	for id, g := range plan(w) {
		if g.kind != first[id].kind {
			t.Errorf("%s: first %s, then %s", id, first[id].kind, g.kind)
		}
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	one, two := order(0, 1, 0), order(0, 2, 0)
	run := goal{kind: goalRun, order: one}
	for name, c := range map[string]struct {
		f    facts
		g    goal
		want step
	}{
		"new":                        {facts{}, run, stepStart},
		"running as ordered":         {facts{task: true, run: one, phase: wire.PhaseRunning}, run, stepWatch},
		"running as another":         {facts{task: true, run: two, phase: wire.PhaseRunning}, run, stepStop},
		"to be stopped":              {facts{task: true, run: one}, goal{kind: goalStop, order: one}, stepStop},
		"to be forgotten":            {facts{task: true, run: one}, goal{kind: goalForget, order: one}, stepStop},
		"refused while it runs":      {facts{task: true, run: one}, goal{kind: goalRefuse, order: two}, stepStop},
		"on disk, to be forgotten":   {facts{handle: true, run: one}, goal{kind: goalForget, order: one}, stepAdopt},
		"on disk, no plan yet":       {facts{handle: true, run: one}, goal{}, stepRest},
		"running, no plan yet":       {facts{task: true, run: one, phase: wire.PhaseRunning}, goal{}, stepRest},
		"perhaps, no plan yet":       {facts{unsure: true, run: one}, goal{}, stepRest},
		"perhaps started":            {facts{unsure: true, run: one}, run, stepSweep},
		"perhaps started, forgotten": {facts{unsure: true, run: one}, goal{kind: goalForget}, stepSweep},
		"waiting":                    {facts{waiting: true, run: one, phase: wire.PhasePending}, run, stepWait},
		"waited":                     {facts{run: one, phase: wire.PhasePending}, run, stepStart},
		"replaced while waiting":     {facts{waiting: true, run: one, phase: wire.PhasePending}, goal{kind: goalRun, order: two}, stepStart},
		"ended for good":             {facts{run: one, phase: wire.PhaseExited}, run, stepRest},
		"ended for good, then anew":  {facts{run: one, phase: wire.PhaseExited}, goal{kind: goalRun, order: two}, stepStart},
		"stopped, then wanted again": {facts{run: one, phase: wire.PhaseStopped}, run, stepStart},
		"stopped":                    {facts{run: one, phase: wire.PhaseStopped}, goal{kind: goalStop, order: one}, stepRest},
		"gone":                       {facts{run: one, phase: wire.PhaseStopped}, goal{kind: goalForget}, stepForget},
		"shutdown":                   {facts{run: one, phase: wire.PhasePending}, goal{kind: goalHalt}, stepLeave},
		"no plan yet":                {facts{run: one, phase: wire.PhasePending}, goal{}, stepRest},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := next(c.f, c.g); got != c.want {
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
		o := order(0, 1, 100)
		spec := *o.Spec
		change(&spec)
		o.Spec = &spec
		w := world{orders: []wire.Order{o}, known: true, capacity: api.Resources{CPU: 1000}, runtimes: []string{"process"}}
		if g := plan(w)[o.ID]; g.kind != goalRefuse || !strings.Contains(g.why, "needs the service network") {
			t.Errorf("%s: %s %q", name, g.kind, g.why)
		}
		w.overlay = true
		if g := plan(w)[o.ID]; g.kind != goalRun {
			t.Errorf("%s, in it: %s %q", name, g.kind, g.why)
		}
	}
}
