// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// drain takes everything off a worker.
func (s *sim) drain(name string) { s.cordon(name, &wire.Cordon{At: s.now, Drain: true}) }

// moveStart ticks until something moves, and returns it.
func (s *sim) moveStart() *wire.Instance {
	s.t.Helper()
	for range 5 {
		for _, i := range s.m.begin().Instances() {
			if underWay(i) {
				return i
			}
		}
		s.tick(100 * time.Millisecond)
	}
	s.t.Fatalf("nothing moves\n%s", s.dump())
	return nil
}

// clean fails if anything of a move is left.
func (s *sim) clean() {
	s.t.Helper()
	orders := 0
	for _, i := range s.m.Insts {
		if i.Moving != nil || i.Leaving != nil {
			s.t.Errorf("something is left of a move: %+v", i)
		}
		if i.State == wire.Running {
			orders++
		}
	}
	has := 0
	for _, f := range s.fakes {
		has += len(f.has)
	}
	if len(s.m.Orders) != orders || has != orders || len(s.m.Leaving) != 0 {
		s.t.Errorf("%d run, by %d orders, and workers have %d\n%s", orders, len(s.m.Orders), has, s.dump())
	}
}

// whole ticks n times, and fails if fewer than want instances of web answer.
func (s *sim) whole(n, want int) {
	s.t.Helper()
	for range n {
		s.tick(500 * time.Millisecond)
		if got := s.answering("web"); got < want {
			s.t.Fatalf("only %d of %d answer\n%s", got, want, s.dump())
		}
		// One that routers are sent to must answer at that moment.
		for _, e := range s.m.Routes["app.web"].Endpoints {
			if st := s.fakes[e.Worker].has[e.Instance]; st.Phase != wire.PhaseRunning || !st.Ready {
				s.t.Fatalf("routes to %s on %s, which is %s\n%s", e.Instance, e.Worker, st.Phase, s.dump())
			}
		}
	}
}

func TestADrainMovesMakeBeforeBreak(t *testing.T) {
	for _, slow := range []int{0, 5} {
		s := newSim(t, "w1", "w2", "w3")
		for _, f := range s.fakes {
			f.slow = slow
		}
		s.share("web", 6, nil)
		s.ticks(10, time.Second)
		first := map[string]string{}
		for id, i := range s.m.Insts {
			first[id] = i.Worker
		}
		s.drain("w1")
		for n := range 120 {
			s.whole(1, 6)
			if n == 20 {
				s.restart() // by another process
			}
		}
		if n := len(s.fakes["w1"].has); n != 0 {
			t.Fatalf("%d are left\n%s", n, s.dump())
		}
		for id, i := range s.m.Insts {
			want := 1
			if first[id] == "w1" {
				want = 2
			}
			if i.Incarnation != want || i.State != wire.Running || !i.Ready || i.Worker == "w1" {
				t.Errorf("%s: incarnation %d on %s", id, i.Incarnation, i.Worker)
			}
			if h := i.History[max(0, len(i.History)-2)]; want == 2 && (h.To != wire.WorkerScheduled || !strings.Contains(h.Why, "drained")) {
				t.Errorf("%s: history %+v", id, i.History)
			}
		}
		if got := s.starts(); got != 8 {
			t.Errorf("%d starts, want 6 and one for each of two that moved", got)
		}
		s.clean()
		if !s.m.Workers["w1"].Draining() {
			t.Error("the drain was forgotten")
		}
	}
}

// One of a kind has no sibling that could answer meanwhile.
func TestADrainOfASingleInstanceLosesNothing(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.fakes["w2"].slow = 4
	s.cordon("w2", &wire.Cordon{At: s.now})
	s.share("web", 1, nil)
	s.ticks(4, time.Second)
	s.cordon("w2", nil)
	s.drain("w1")
	s.whole(30, 1)
	if i := s.inst("app.web.0"); i.Worker != "w2" {
		t.Errorf("on %s\n%s", i.Worker, s.dump())
	}
	s.clean()
}

// The one that ends is told so only when the workers route to the other.
func TestTheOldOneWaitsForTheRoutes(t *testing.T) {
	s := newSim(t, "w1", "w2", "w3")
	s.cordon("w2", &wire.Cordon{})
	s.cordon("w3", &wire.Cordon{})
	s.share("web", 1, nil)
	s.ticks(4, time.Second)
	s.cordon("w2", nil)
	s.drain("w1")
	for s.inst("app.web.0").Leaving == nil {
		s.tick(200 * time.Millisecond)
	}
	stops := func() bool { o := s.m.Orders["w1.app.web.0"]; return o == nil || o.Stop }
	for range 20 {
		for name, w := range s.m.Workers {
			w.Current = name != "w3" // which does not fetch
		}
		s.now = s.now.Add(200 * time.Millisecond)
		tx := s.m.step(s.now)
		if o := tx.Orders["w1.app.web.0"]; o != nil && o.Stop {
			t.Fatal("ended before w3 knew")
		}
	}
	s.m.Workers["w3"].Current = true
	if tx := s.m.step(s.now); tx.Orders["w1.app.web.0"] == nil || !tx.Orders["w1.app.web.0"].Stop {
		t.Error("not ended though all know")
	}
	s.m.Workers["w3"].Current = false
	if tx := s.m.step(s.now.Add(leaveBy)); !tx.Orders["w1.app.web.0"].Stop {
		t.Error("waits for ever")
	}
	if stops() {
		t.Error("a step that was not committed changed the model")
	}
	s.ticks(5, time.Second)
	s.clean()
}

func TestADrainGoesAroundWhatFails(t *testing.T) {
	for _, how := range []string{"exit", "refuse", "away"} {
		t.Run(how, func(t *testing.T) {
			s := newSim(t, "w1", "w2", "w3")
			s.share("web", 3, func(v *api.Service) { v.Spread = "none" })
			s.ticks(3, time.Second)
			s.share("web", 1, func(v *api.Service) { v.Spread = "none" })
			s.ticks(5, time.Second)
			home := s.inst("app.web.0").Worker
			for name, f := range s.fakes {
				f.slow = 3
				if how != "away" && name != home {
					f.broken["web"] = how
				}
			}
			s.drain(home)
			target := s.moveStart().Moving.Worker
			if how == "away" {
				s.tick(100 * time.Millisecond)
				s.fakes[target].linked = false
				s.whole(60, 1)
				if i := s.inst("app.web.0"); i.Worker == home || i.Worker == target || i.State != wire.Running {
					t.Fatalf("it did not go around what is away\n%s", s.dump())
				}
				s.fakes[target].linked = true
				s.whole(10, 1)
				s.clean()
				return
			}
			s.whole(20, 1)
			i := s.inst("app.web.0")
			if i.Worker != home || i.Incarnation != 1 || i.Moving == nil || i.Moving.Failed == "" || len(i.Avoid) != 2 {
				t.Fatalf("it should stay, and say why\n%s", s.dump())
			}
			if why := s.m.step(s.now).stays["app.web.0"]; !strings.Contains(why, "its replacement failed: ") {
				t.Errorf("says %q", why)
			}
			// They are sound again, and are tried again after a while.
			for _, f := range s.fakes {
				delete(f.broken, "web")
			}
			s.whole(20, 1)
			if s.inst("app.web.0").Worker != home {
				t.Fatal("tried again in a hurry")
			}
			s.whole(150, 1)
			if s.inst("app.web.0").Worker == home {
				t.Errorf("never tried again\n%s", s.dump())
			}
			s.clean()
		})
	}
}

// What becomes of a move when its original is lost, fails, is deleted, or is not
// to be moved any more.
func TestAMoveThatIsOvertaken(t *testing.T) {
	type world struct {
		*sim
		home, target string
	}
	short := api.Duration(3 * time.Second)
	for name, tc := range map[string]struct {
		slow  int
		event func(world)
		check func(world, *wire.Instance)
	}{
		"the original is lost": {8,
			func(w world) { w.fakes[w.home].alive = false },
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 2 || w.fakes[w.target].starts != 1 {
					t.Errorf("lost: %s", w.dump())
				}
			}},
		"the original is cut off and comes back": {8,
			func(w world) {
				w.fakes[w.home].linked = false
				w.ticks(20, 500*time.Millisecond)
				w.fakes[w.home].linked = true
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || w.running("web") != 1 || w.fakes[w.home].starts != 1 {
					t.Errorf("back: %s", w.dump())
				}
			}},
		"the original fails for good": {8,
			func(w world) {
				f := w.fakes[w.home]
				st := f.has["app.web.0"]
				st.Phase, st.Ready, st.LastExit, st.Why = wire.PhaseExited, false, &wire.Exit{Code: 7}, "exited with 7"
				f.has["app.web.0"] = st
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 2 || w.fakes[w.target].starts != 1 {
					t.Errorf("failed: %s", w.dump())
				}
			}},
		"uncordoned": {8,
			func(w world) { w.cordon(w.home, nil) },
			func(w world, i *wire.Instance) {
				if i.Worker != w.home || i.Incarnation != 1 || i.Given != 2 || w.fakes[w.home].starts != 1 {
					t.Errorf("uncordoned: %s", w.dump())
				}
			}},
		"uncordoned, and drained again": {8,
			func(w world) {
				w.cordon(w.home, nil)
				w.tick(100 * time.Millisecond)
				w.drain(w.home)
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 3 {
					t.Errorf("drained again: %s", w.dump())
				}
			}},
		"another program": {8,
			func(w world) {
				w.share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.Env = &short, map[string]string{"A": "2"} })
			},
			func(w world, i *wire.Instance) {
				// Make before break, and the old program is not started once more.
				if i.Worker != w.target || i.Revision != 2 || w.fakes[w.home].starts != 1 || w.m.Orders[w.target+".app.web.0"].Spec.Env["A"] != "2" {
					t.Errorf("another program: %s", w.dump())
				}
			}},
		"other terms": {8,
			func(w world) {
				w.share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.OnReturn = &short, "newest" })
			},
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Revision != 2 || i.Incarnation != 2 || w.m.Orders[w.target+".app.web.0"].Revision != 2 || w.starts() != 2 {
					t.Errorf("other terms: %s", w.dump())
				}
			}},
		"restarted": {8,
			func(w world) { w.again("web", -1) },
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Restarted != 1 || w.fakes[w.home].starts != 1 {
					t.Errorf("restarted: %s", w.dump())
				}
			}},
		"its target is drained too": {8,
			func(w world) { w.drain(w.target) },
			func(w world, i *wire.Instance) {
				if i.Worker == w.target || i.Worker == w.home {
					t.Errorf("target drained: %s", w.dump())
				}
			}},
		"deleted": {8,
			func(w world) { w.unshare("web") },
			func(w world, i *wire.Instance) {
				if i != nil || len(w.m.Ups) != 0 {
					t.Errorf("deleted: %s", w.dump())
				}
			}},
		"deleted while the old one ends": {0,
			func(w world) {
				for w.inst("app.web.0").Leaving == nil {
					w.tick(100 * time.Millisecond)
				}
				w.unshare("web")
			},
			func(w world, i *wire.Instance) {
				if i != nil || len(w.m.Ups) != 0 {
					t.Errorf("deleted: %s", w.dump())
				}
			}},
		"deleted and wanted again": {0,
			func(w world) {
				for w.inst("app.web.0").Leaving == nil {
					w.tick(100 * time.Millisecond)
				}
				w.unshare("web")
				w.tick(100 * time.Millisecond)
				w.share("web", 1, nil)
			},
			func(w world, i *wire.Instance) {
				if i.Worker == w.home || i.State != wire.Running {
					t.Errorf("wanted again: %s", w.dump())
				}
			}},
		"another process": {8,
			func(w world) { w.restart() },
			func(w world, i *wire.Instance) {
				if i.Worker != w.target || i.Incarnation != 2 || w.starts() != 2 {
					t.Errorf("another process: %s", w.dump())
				}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "w1", "w2", "w3")
			s.share("web", 1, func(v *api.Service) { v.ReplaceAfter = &short })
			s.ticks(3, time.Second)
			w := world{s, s.inst("app.web.0").Worker, ""}
			for _, f := range s.fakes {
				f.slow = tc.slow
			}
			s.drain(w.home)
			w.target = s.moveStart().Moving.Worker
			s.tick(100 * time.Millisecond)
			tc.event(w)
			for range 60 {
				s.tick(500 * time.Millisecond)
			}
			tc.check(w, s.m.Insts["app.web.0"])
			for _, f := range s.fakes {
				f.alive, f.linked = true, true
			}
			s.ticks(10, time.Second)
			s.clean()
		})
	}
}

func TestWhatCannotBeMovedStaysAndSaysWhy(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 4, nil)
	s.share("db", 1, func(v *api.Service) { v.Volumes = []api.Volume{{Name: "data", Path: "data"}} })
	s.share("big", 1, func(v *api.Service) { v.Resources.Memory = 500 << 20 })
	s.share("alone", 2, func(v *api.Service) { v.AntiAffinity.Service = []string{"alone"} })
	s.ticks(5, time.Second)
	for _, name := range []string{"w1", "w2"} {
		s.drain(name)
		s.cordon(map[string]string{"w1": "w2", "w2": "w1"}[name], nil)
		s.ticks(40, time.Second)
		left := map[string]string{}
		for id := range s.fakes[name].has {
			left[id[:strings.LastIndexByte(id, '.')]] = s.m.step(s.now).stays[id]
		}
		want := map[string]string{"app.alone": "alone"}
		for svc, words := range map[string]string{"db": "its volume data is on that worker"} {
			if s.inst("app."+svc+".0").Worker == name {
				want["app."+svc] = words
			}
		}
		for svc, words := range want {
			if !strings.Contains(left[svc], words) {
				t.Errorf("%s on %s: %q, want %q\n%s", svc, name, left[svc], words, s.dump())
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
		s := newSim(t, "w1", "w2", "w3", "w4")
		names := []string{"w1", "w2", "w3", "w4"}
		after := api.Duration(4 * time.Second)
		services := map[string]int{"a": 3, "b": 1}
		for svc, n := range services {
			s.share(svc, n, func(v *api.Service) { v.ReplaceAfter = &after })
		}
		for range 150 {
			name := names[rng.IntN(4)]
			w := s.fakes[name]
			svc := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(14) {
			case 0, 1, 2:
				s.drain(name)
			case 3, 4:
				s.cordon(name, nil)
			case 5:
				w.alive = false
			case 6:
				w.linked = false
			case 7, 8:
				w.alive, w.linked = true, true
			case 9:
				w.slow = rng.IntN(4)
			case 10:
				w.broken[svc] = []string{"", "", "exit", "refuse"}[rng.IntN(4)]
			case 11:
				keep := []string{"original", "replacement", "newest"}[rng.IntN(3)]
				rev := fmt.Sprint(rng.IntN(3))
				services[svc] = rng.IntN(4)
				need := []api.CPU{100, 100, 250}[rng.IntN(3)]
				s.share(svc, services[svc], func(v *api.Service) {
					v.Resources.CPU = need
					v.ReplaceAfter, v.OnReturn, v.Env = &after, keep, map[string]string{"R": rev}
				})
			case 12:
				s.again(svc, rng.IntN(4)-1)
			case 13:
				s.restart()
			}
			s.tick(time.Duration(rng.IntN(3000)) * time.Millisecond)
		}
		for _, f := range s.fakes {
			f.alive, f.linked, f.slow, f.broken = true, true, 2, map[string]string{}
		}
		s.resume()
		for _, name := range names {
			s.cordon(name, nil)
		}
		s.drain("w3")
		s.ticks(250, time.Second)
		for svc, n := range services {
			if got := s.running(svc); got != n {
				t.Fatalf("seed %d: %d of service %s run, want %d\n%s", seed, got, svc, n, s.dump())
			}
			if ready, suspect := s.endpoints(svc); ready != n || suspect != 0 {
				t.Fatalf("seed %d: %s has %d ready and %d suspect endpoints, want %d\n%s", seed, svc, ready, suspect, n, s.dump())
			}
		}
		if n := len(s.fakes["w3"].has); n != 0 {
			t.Fatalf("seed %d: %d are left on the drained worker\n%s", seed, n, s.dump())
		}
		s.clean()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}

// Without other trouble no number of drains ever costs an instance.
func TestDrainsAloneCostNothing(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 8))
		s := newSim(t, "w1", "w2", "w3")
		names := []string{"w1", "w2", "w3"}
		s.share("web", 4, nil)
		s.ticks(4, time.Second)
		for range 100 {
			name := names[rng.IntN(3)]
			switch rng.IntN(5) {
			case 0:
				s.drain(name)
			case 1, 2:
				s.cordon(name, nil)
			case 3:
				s.fakes[name].slow = rng.IntN(4)
			case 4:
				s.restart()
				s.ticks(1, 0)
			}
			s.whole(1, 4)
		}
		for _, name := range names {
			s.cordon(name, nil)
		}
		s.whole(60, 4)
		s.clean()
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
