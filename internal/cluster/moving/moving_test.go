package moving_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/moving"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// drain takes everything off a worker.
func drain(s *clustertest.Sim, name string) { s.Cordon(name, &wire.Cordon{At: s.Now, Drain: true}) }

// moveStart ticks until something moves, and returns it.
func moveStart(s *clustertest.Sim) *wire.Instance {
	s.T.Helper()
	for range 5 {
		for _, i := range s.Model.Begin().Instances() {
			if state.UnderWay(i) {
				return i
			}
		}
		s.Tick(100 * time.Millisecond)
	}
	s.T.Fatalf("nothing moves\n%s", s.Dump())
	return nil
}

// clean fails if anything of a move is left.
func clean(s *clustertest.Sim) {
	s.T.Helper()
	orders := 0
	for _, i := range s.Model.Insts {
		if i.Moving != nil || i.Leaving != nil {
			s.T.Errorf("something is left of a move: %+v", i)
		}
		if i.State == wire.Running {
			orders++
		}
	}
	has := 0
	for _, f := range s.Workers {
		has += len(f.Statuses)
	}
	if len(s.Model.Orders) != orders || has != orders || len(s.Model.Leaving) != 0 {
		s.T.Errorf("%d run, by %d orders, and workers have %d\n%s", orders, len(s.Model.Orders), has, s.Dump())
	}
}

// whole ticks n times, and fails if fewer than want instances of web answer.
func whole(s *clustertest.Sim, n, want int) {
	s.T.Helper()
	for range n {
		s.Tick(500 * time.Millisecond)
		if got := s.Answering("web"); got < want {
			s.T.Fatalf("only %d of %d answer\n%s", got, want, s.Dump())
		}
		// One that routers are sent to must answer at that moment.
		for _, e := range s.Model.Routes["app.web"].Endpoints {
			if st := s.Workers[e.Worker].Statuses[e.Instance]; st.Phase != wire.PhaseRunning || !st.Ready {
				s.T.Fatalf("routes to %s on %s, which is %s\n%s", e.Instance, e.Worker, st.Phase, s.Dump())
			}
		}
	}
}

func TestADrainMovesMakeBeforeBreak(t *testing.T) {
	for _, slow := range []int{0, 5} {
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		for _, f := range s.Workers {
			f.Slow = slow
		}
		s.Share("web", 6, nil)
		s.Ticks(10, time.Second)
		first := map[string]string{}
		for id, i := range s.Model.Insts {
			first[id] = i.Worker
		}
		drain(s, "w1")
		for n := range 120 {
			whole(s, 1, 6)
			if n == 20 {
				s.Restart() // by another process
			}
		}
		if n := len(s.Workers["w1"].Statuses); n != 0 {
			t.Fatalf("%d are left\n%s", n, s.Dump())
		}
		for id, i := range s.Model.Insts {
			want := 1
			if first[id] == "w1" {
				want = 2
			}
			if i.Incarnation != want || i.State != wire.Running || !i.Ready || i.Worker == "w1" {
				t.Errorf("%s: incarnation %d on %s", id, i.Incarnation, i.Worker)
			}
			if h := i.History[max(0, len(i.History)-2)]; want == 2 &&
				(h.To != wire.WorkerScheduled || !strings.Contains(h.Why, "drained")) {
				t.Errorf("%s: history %+v", id, i.History)
			}
		}
		if got := s.Starts(); got != 8 {
			t.Errorf("%d starts, want 6 and one for each of two that moved", got)
		}
		clean(s)
		if !s.Model.Workers["w1"].Draining() {
			t.Error("the drain was forgotten")
		}
	}
}

// One of a kind has no sibling that could answer meanwhile.
func TestADrainOfASingleInstanceLosesNothing(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Workers["w2"].Slow = 4
	s.Cordon("w2", &wire.Cordon{At: s.Now})
	s.Share("web", 1, nil)
	s.Ticks(4, time.Second)
	s.Cordon("w2", nil)
	drain(s, "w1")
	whole(s, 30, 1)
	if i := s.Instance("app.web.0"); i.Worker != "w2" {
		t.Errorf("on %s\n%s", i.Worker, s.Dump())
	}
	clean(s)
}

// The one that ends is told so only when the workers route to the other.
func TestTheOldOneWaitsForTheRoutes(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	s.Cordon("w2", &wire.Cordon{})
	s.Cordon("w3", &wire.Cordon{})
	s.Share("web", 1, nil)
	s.Ticks(4, time.Second)
	s.Cordon("w2", nil)
	drain(s, "w1")
	for s.Instance("app.web.0").Leaving == nil {
		s.Tick(200 * time.Millisecond)
	}
	stops := func() bool { o := s.Model.Orders["w1.app.web.0"]; return o == nil || o.Stop }
	for range 20 {
		for name, w := range s.Model.Workers {
			w.Current = name != "w3" // which does not fetch
		}
		s.Now = s.Now.Add(200 * time.Millisecond)
		tx := reconcile.Step(s.Model, s.Now)
		if o := tx.Orders["w1.app.web.0"]; o != nil && o.Stop {
			t.Fatal("ended before w3 knew")
		}
	}
	s.Model.Workers["w3"].Current = true
	if tx := reconcile.Step(s.Model, s.Now); tx.Orders["w1.app.web.0"] == nil || !tx.Orders["w1.app.web.0"].Stop {
		t.Error("not ended though all know")
	}
	s.Model.Workers["w3"].Current = false
	if tx := reconcile.Step(s.Model, s.Now.Add(moving.LeaveBy)); !tx.Orders["w1.app.web.0"].Stop {
		t.Error("waits for ever")
	}
	if stops() {
		t.Error("a step that was not committed changed the model")
	}
	s.Ticks(5, time.Second)
	clean(s)
}

func TestADrainGoesAroundWhatFails(t *testing.T) {
	for _, how := range []string{"exit", "refuse", "away"} {
		t.Run(how, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1", "w2", "w3")
			s.Share("web", 3, func(v *api.Service) { v.Spread = "none" })
			s.Ticks(3, time.Second)
			s.Share("web", 1, func(v *api.Service) { v.Spread = "none" })
			s.Ticks(5, time.Second)
			home := s.Instance("app.web.0").Worker
			for name, f := range s.Workers {
				f.Slow = 3
				if how != "away" && name != home {
					f.Broken["web"] = how
				}
			}
			drain(s, home)
			target := moveStart(s).Moving.Worker
			if how == "away" {
				s.Tick(100 * time.Millisecond)
				s.Workers[target].Linked = false
				whole(s, 60, 1)
				if i := s.Instance("app.web.0"); i.Worker == home || i.Worker == target || i.State != wire.Running {
					t.Fatalf("it did not go around what is away\n%s", s.Dump())
				}
				s.Workers[target].Linked = true
				whole(s, 10, 1)
				clean(s)
				return
			}
			whole(s, 20, 1)
			i := s.Instance("app.web.0")
			if i.Worker != home || i.Incarnation != 1 || i.Moving == nil || i.Moving.Failed == "" || len(i.Avoid) != 2 {
				t.Fatalf("it should stay, and say why\n%s", s.Dump())
			}
			if why := fleet.Pass(reconcile.Step(s.Model, s.Now)).Stays["app.web.0"]; !strings.Contains(why,
				"its replacement failed: ") {
				t.Errorf("says %q", why)
			}
			// They are sound again, and are tried again after a while.
			for _, f := range s.Workers {
				delete(f.Broken, "web")
			}
			whole(s, 20, 1)
			if s.Instance("app.web.0").Worker != home {
				t.Fatal("tried again in a hurry")
			}
			whole(s, 150, 1)
			if s.Instance("app.web.0").Worker == home {
				t.Errorf("never tried again\n%s", s.Dump())
			}
			clean(s)
		})
	}
}

// What becomes of a move when its original is lost, fails, is deleted, or is not
// to be moved any more.
func TestAMoveThatIsOvertaken(t *testing.T) {
	type world struct {
		*clustertest.Sim
		home, target string
	}
	short := api.Duration(3 * time.Second)
	for name, tc := range map[string]struct {
		slow  int
		event func(world)
		check func(world, *wire.Instance)
	}{
		"the original is lost": {8,
			func(w world) { w.Workers[w.home].Alive = false },
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 2 || w.Workers[w.target].Starts != 1 {
					t.Errorf("lost: %s", w.Dump())
				}
			}},
		"the original is cut off and comes back": {8,
			func(w world) {
				w.Workers[w.home].Linked = false
				w.Ticks(20, 500*time.Millisecond)
				w.Workers[w.home].Linked = true
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || w.Running("web") != 1 || w.Workers[w.home].Starts != 1 {
					t.Errorf("back: %s", w.Dump())
				}
			}},
		"the original fails for good": {8,
			func(w world) {
				f := w.Workers[w.home]
				st := f.Statuses["app.web.0"]
				st.Phase, st.Ready, st.LastExit, st.Why = wire.PhaseExited, false, &wire.Exit{Code: 7}, "exited with 7"
				f.Statuses["app.web.0"] = st
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 2 || w.Workers[w.target].Starts != 1 {
					t.Errorf("failed: %s", w.Dump())
				}
			}},
		"uncordoned": {8,
			func(w world) { w.Cordon(w.home, nil) },
			func(w world, i *wire.Instance) {
				if i.Worker != w.home || i.Incarnation != 1 || i.Given != 2 || w.Workers[w.home].Starts != 1 {
					t.Errorf("uncordoned: %s", w.Dump())
				}
			}},
		"uncordoned, and drained again": {8,
			func(w world) {
				w.Cordon(w.home, nil)
				w.Tick(100 * time.Millisecond)
				drain(w.Sim, w.home)
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 3 {
					t.Errorf("drained again: %s", w.Dump())
				}
			}},
		"another program": {8,
			func(w world) {
				w.Share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.Env = &short, map[string]string{"A": "2"} })
			},
			func(w world, i *wire.Instance) {
				// Make before break, and the old program is not started once more.
				if i.Worker != w.target || i.Revision != 2 || w.Workers[w.home].Starts != 1 ||
					w.Model.Orders[w.target+".app.web.0"].Spec.Env["A"] != "2" {
					t.Errorf("another program: %s", w.Dump())
				}
			}},
		"other terms": {8,
			func(w world) {
				w.Share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.OnReturn = &short, "newest" })
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Revision != 2 || i.Incarnation != 2 ||
					w.Model.Orders[w.target+".app.web.0"].Revision != 2 || w.Starts() != 2 {
					t.Errorf("other terms: %s", w.Dump())
				}
			}},
		"restarted": {8,
			func(w world) { w.MarkRestart("web", -1) },
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Restarted != 1 || w.Workers[w.home].Starts != 1 {
					t.Errorf("restarted: %s", w.Dump())
				}
			}},
		"its target is drained too": {8,
			func(w world) { drain(w.Sim, w.target) },
			func(w world, i *wire.Instance) {
				if i.Worker == w.target || i.Worker == w.home {
					t.Errorf("target drained: %s", w.Dump())
				}
			}},
		"deleted": {8,
			func(w world) { w.Unshare("web") },
			func(w world, i *wire.Instance) {
				if i != nil || len(w.Model.Ups) != 0 {
					t.Errorf("deleted: %s", w.Dump())
				}
			}},
		"deleted while the old one ends": {0,
			func(w world) {
				for w.Instance("app.web.0").Leaving == nil {
					w.Tick(100 * time.Millisecond)
				}
				w.Unshare("web")
			},
			func(w world, i *wire.Instance) {
				if i != nil || len(w.Model.Ups) != 0 {
					t.Errorf("deleted: %s", w.Dump())
				}
			}},
		"deleted and wanted again": {0,
			func(w world) {
				for w.Instance("app.web.0").Leaving == nil {
					w.Tick(100 * time.Millisecond)
				}
				w.Unshare("web")
				w.Tick(100 * time.Millisecond)
				w.Share("web", 1, nil)
			},
			func(w world, i *wire.Instance) {
				if i.Worker == w.home || i.State != wire.Running {
					t.Errorf("wanted again: %s", w.Dump())
				}
			}},
		"another process": {8,
			func(w world) { w.Restart() },
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 2 || w.Starts() != 2 {
					t.Errorf("another process: %s", w.Dump())
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1", "w2", "w3")
			s.Share("web", 1, func(v *api.Service) { v.ReplaceAfter = &short })
			s.Ticks(3, time.Second)
			w := world{s, s.Instance("app.web.0").Worker, ""}
			for _, f := range s.Workers {
				f.Slow = tc.slow
			}
			drain(s, w.home)
			w.target = moveStart(s).Moving.Worker
			s.Tick(100 * time.Millisecond)
			tc.event(w)
			for range 60 {
				s.Tick(500 * time.Millisecond)
			}
			tc.check(w, s.Model.Insts["app.web.0"])
			for _, f := range s.Workers {
				f.Alive, f.Linked = true, true
			}
			s.Ticks(10, time.Second)
			clean(s)
		})
	}
}

func TestWhatCannotBeMovedStaysAndSaysWhy(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 4, nil)
	s.Share("db", 1, func(v *api.Service) { v.Volumes = []api.Volume{{Name: "data", Path: "data"}} })
	s.Share("big", 1, func(v *api.Service) { v.Resources.Memory = 500 << 20 })
	s.Share("alone", 2, func(v *api.Service) { v.AntiAffinity.Service = []string{"alone"} })
	s.Ticks(5, time.Second)
	for _, name := range []string{"w1", "w2"} {
		drain(s, name)
		s.Cordon(map[string]string{"w1": "w2", "w2": "w1"}[name], nil)
		s.Ticks(40, time.Second)
		left := map[string]string{}
		for id := range s.Workers[name].Statuses {
			left[id[:strings.LastIndexByte(id, '.')]] = fleet.Pass(reconcile.Step(s.Model, s.Now)).Stays[id]
		}
		want := map[string]string{"app.alone": "alone"}
		for svc, words := range map[string]string{"db": "its volume data is on that worker"} {
			if s.Instance("app."+svc+".0").Worker == name {
				want["app."+svc] = words
			}
		}
		for svc, words := range want {
			if !strings.Contains(left[svc], words) {
				t.Errorf("%s on %s: %q, want %q\n%s", svc, name, left[svc], words, s.Dump())
			}
		}
		if len(left) != len(want) {
			t.Errorf("left on %s: %v, want %v", name, left, want)
		}
	}
}

// Whatever happens while workers are drained, nothing is lost that was there and
// that had room; and when all is well, what is drained is empty, everything runs
// once, and nothing is left over.
func TestDrainsInAnyTroubleEndWell(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 7))
		s := clustertest.NewSim(t, "w1", "w2", "w3", "w4")
		names := []string{"w1", "w2", "w3", "w4"}
		after := api.Duration(4 * time.Second)
		services := map[string]int{"a": 3, "b": 1}
		for svc, n := range services {
			s.Share(svc, n, func(v *api.Service) { v.ReplaceAfter = &after })
		}
		for range 150 {
			name := names[rng.IntN(4)]
			w := s.Workers[name]
			svc := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(14) {
			case 0, 1, 2:
				drain(s, name)
			case 3, 4:
				s.Cordon(name, nil)
			case 5:
				w.Alive = false
			case 6:
				w.Linked = false
			case 7, 8:
				w.Alive, w.Linked = true, true
			case 9:
				w.Slow = rng.IntN(4)
			case 10:
				w.Broken[svc] = []string{"", "", "exit", "refuse"}[rng.IntN(4)]
			case 11:
				keep := []string{"original", "replacement", "newest"}[rng.IntN(3)]
				rev := fmt.Sprint(rng.IntN(3))
				services[svc] = rng.IntN(4)
				need := []api.CPU{100, 100, 250}[rng.IntN(3)]
				s.Share(svc, services[svc], func(v *api.Service) {
					v.Resources.CPU = need
					v.ReplaceAfter, v.OnReturn, v.Env = &after, keep, map[string]string{"R": rev}
				})
			case 12:
				s.MarkRestart(svc, rng.IntN(4)-1)
			case 13:
				s.Restart()
			}
			s.Tick(time.Duration(rng.IntN(3000)) * time.Millisecond)
		}
		for _, f := range s.Workers {
			f.Alive, f.Linked, f.Slow, f.Broken = true, true, 2, map[string]string{}
		}
		s.Resume()
		for _, name := range names {
			s.Cordon(name, nil)
		}
		drain(s, "w3")
		s.Ticks(250, time.Second)
		for svc, n := range services {
			if got := s.Running(svc); got != n {
				t.Fatalf("seed %d: %d of service %s run, want %d\n%s", seed, got, svc, n, s.Dump())
			}
			if ready, suspect := s.Endpoints(svc); ready != n || suspect != 0 {
				t.Fatalf("seed %d: %s has %d ready and %d suspect endpoints, want %d\n%s", seed, svc, ready, suspect,
					n, s.Dump())
			}
		}
		if n := len(s.Workers["w3"].Statuses); n != 0 {
			t.Fatalf("seed %d: %d are left on the drained worker\n%s", seed, n, s.Dump())
		}
		clean(s)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Without other trouble no number of drains ever costs an instance.
func TestDrainsAloneCostNothing(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 8))
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		names := []string{"w1", "w2", "w3"}
		s.Share("web", 4, nil)
		s.Ticks(4, time.Second)
		for range 100 {
			name := names[rng.IntN(3)]
			switch rng.IntN(5) {
			case 0:
				drain(s, name)
			case 1, 2:
				s.Cordon(name, nil)
			case 3:
				s.Workers[name].Slow = rng.IntN(4)
			case 4:
				s.Restart()
				s.Ticks(1, 0)
			}
			whole(s, 1, 4)
		}
		for _, name := range names {
			s.Cordon(name, nil)
		}
		whole(s, 60, 4)
		clean(s)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
