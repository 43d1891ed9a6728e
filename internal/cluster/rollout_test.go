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
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// program is another one of a service, with what more is to be said.
func program(cmd string, more func(*api.Service)) func(*api.Service) {
	return func(v *api.Service) {
		v.Command = []string{cmd}
		if more != nil {
			more(v)
		}
	}
}

// programs are those that are to run and answer, by number.
func (s *sim) programs(svc string) map[string]int {
	out := map[string]int{}
	for id, i := range s.m.Insts {
		if i.Service == svc && i.State == wire.Running && i.Ready {
			out[s.m.Orders[i.Worker+"."+id].Spec.Command[0]]++
		}
	}
	return out
}

// extra is the name of the first instance that stands in for others.
func (s *sim) extra(svc string) string { return fmt.Sprintf("%s.%d", svc, s.m.surgeBase()) }

func (s *sim) phase(svc string) (phase, why string) {
	if v := s.m.upRolls["app."+svc]; v != nil {
		return v.Phase, v.Why
	}
	return "", ""
}

// pause stops or lets go on what the root has a word in.
func (s *sim) pause(svc string, paused bool) {
	next := *s.m.Given["app."+svc]
	next.Hold = &wire.Hold{Paused: paused, By: "ann", Resumed: 1}
	s.m.Given["app."+svc] = &next
	s.m.effect()
	s.store(state.KeyShare+"app."+svc, &next)
}

// While the instances of a new revision begin, those before them count as what they are:
// ready, and not as applied.
func TestARolloutSaysWhoIsReady(t *testing.T) {
	s := newSim(t, "w1")
	s.share("web", 3, nil)
	s.ticks(4, time.Second)
	for _, f := range s.fakes {
		f.slow = 20
	}
	s.share("web", 3, program("y", nil))
	s.ticks(3, time.Second)
	if v := s.m.serviceView(s.m.Shares["app.web"]); v.Ready != 3 || !strings.HasPrefix(v.Message, "3 of 3 ready, 0 of them as applied; ") {
		t.Errorf("%+v", v)
	}
	r := backend{&Cluster{core: &core{m: s.m}}}
	if v, err := r.Rollout(t.Context(), "app"); err != nil || v.Services[0].Ready != 3 || v.Services[0].Updated != 0 || v.Services[0].Clusters[0].Ready != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if r := s.m.upRolls["app.web"]; r == nil || r.Ready != 0 {
		t.Errorf("reported: %+v", r)
	}
}

// The promised number answers at every moment, and no more than the surge runs beyond it:
// on one worker as on several, however long a start takes, also where the cluster's
// process is another one in the middle.
func TestARolloutKeepsWhatIsPromised(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 8))
		names := []string{"w1", "w2", "w3"}[:1+rng.IntN(3)]
		s := newSim(t, names...)
		n := 1 + rng.IntN(5)
		s.share("web", n, nil)
		s.ticks(4, time.Second)
		for _, f := range s.fakes {
			f.slow = rng.IntN(4)
		}
		surge := 1 + rng.IntN(3)
		s.share("web", n, program("y", func(v *api.Service) {
			a := api.Amount(surge)
			v.Rollout.MaxSurge = &a
		}))
		for tick := 0; ; tick++ {
			if s.tick(time.Second); rng.IntN(6) == 0 {
				s.restart()
				s.tick(0) // its workers say what they have
			}
			if ready, _ := s.endpoints("web"); ready < n || ready > n+surge {
				t.Fatalf("seed %d: %d answer, %d are promised, and %d more may be\n%s", seed, ready, n, surge, s.dump())
			}
			if phase, why := s.phase("web"); phase == wire.RolloutDone {
				break
			} else if tick > 200 {
				t.Fatalf("seed %d: it is %s: %s\n%s", seed, phase, why, s.dump())
			}
		}
		s.ticks(3, time.Second)
		if got := s.programs("web"); got["y"] != n || len(got) != 1 || s.running("web") != n {
			t.Fatalf("seed %d: %v run\n%s", seed, got, s.dump())
		}
		for o := range n {
			if i := s.inst(fmt.Sprintf("app.web.%d", o)); i.Incarnation != 2 {
				t.Errorf("seed %d: %s is incarnation %d", seed, i.ID, i.Incarnation)
			}
		}
	}
}

// A version that ends stops the rollout with words, before anything of the old one was
// touched; the earlier one takes back what there is of it.
func TestARolloutThatFailsStops(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 3, nil)
	s.ticks(4, time.Second)
	for _, f := range s.fakes {
		f.broken["web"] = "exit"
	}
	s.share("web", 3, program("y", nil))
	for range 90 {
		s.tick(time.Second)
		if got := s.programs("web"); got["x"] != 3 {
			t.Fatalf("%v answer\n%s", got, s.dump())
		}
	}
	phase, why := s.phase("web")
	if phase != wire.RolloutFailed || !strings.Contains(why, s.extra("web")+" (beyond those promised): exited with 7, 5 restarts in a row") {
		t.Fatalf("it is %s: %s", phase, why)
	}
	if n := s.starts(); n > 5 {
		t.Errorf("%d starts: what has failed is tried for ever", n)
	}
	// Nothing goes on by itself when it would do.
	for _, f := range s.fakes {
		f.broken = map[string]string{}
	}
	s.ticks(30, time.Second)
	if phase, _ := s.phase("web"); phase != wire.RolloutFailed {
		t.Errorf("it is %s", phase)
	}
	// A worker that dies meanwhile has its instances replaced by what they were.
	s.fakes["w1"].alive = false
	s.ticks(40, time.Second)
	if got := s.programs("web"); got["x"] != 3 {
		t.Fatalf("%v answer after a worker died\n%s", got, s.dump())
	}
	s.fakes["w1"].alive = true
	s.ticks(5, time.Second)
	s.share("web", 3, nil) // undo
	s.ticks(20, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutDone || s.running("web") != 3 || s.programs("web")["x"] != 3 {
		t.Fatalf("after an undo it is %s: %s\n%s", phase, why, s.dump())
	}
}

// One that does not become ready fails at its deadline, and goes on when it is resumed.
func TestARolloutThatHangsFailsAtItsDeadline(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 2, nil)
	s.ticks(4, time.Second)
	for _, f := range s.fakes {
		f.slow = 1 << 30
	}
	s.share("web", 2, program("y", func(v *api.Service) {
		d := api.Duration(20 * time.Second)
		v.Rollout.ProgressDeadline = &d
	}))
	s.ticks(15, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutRolling || !strings.Contains(why, s.extra("web")+" (beyond those promised) is not ready") {
		t.Fatalf("it is %s: %s", phase, why)
	}
	s.ticks(10, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutFailed || !strings.HasPrefix(why, "nothing got any further for 20s: "+s.extra("web")) {
		t.Fatalf("it is %s: %s", phase, why)
	}
	if got := s.programs("web"); got["x"] != 2 {
		t.Fatalf("%v answer", got)
	}
	for _, f := range s.fakes {
		f.slow = 2
	}
	s.resume()
	s.ticks(40, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutDone {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.dump())
	}
}

// While it is paused nothing changes, and time does not count.
func TestAPausedRolloutWaits(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 3, nil)
	s.ticks(4, time.Second)
	s.share("web", 3, program("y", nil))
	s.ticks(5, time.Second)
	s.pause("web", true)
	s.ticks(8, time.Second)
	was, starts := s.programs("web"), s.starts()
	for range 70 {
		s.tick(10 * time.Second) // longer than its deadline
	}
	if phase, why := s.phase("web"); phase != wire.RolloutPaused || why != "paused by ann" || s.starts() != starts || was["y"] == 0 || was["x"] == 0 {
		t.Fatalf("it is %s: %s; %v, %d starts before, %d after\n%s", phase, why, was, starts, s.starts(), s.dump())
	}
	s.restart()
	s.ticks(2, time.Second)
	s.pause("web", false)
	s.ticks(30, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutDone || s.programs("web")["y"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.dump())
	}
}

// Where there is no room for one more, it says so, ends nothing, and does it with one
// less where that is allowed.
func TestARolloutWithoutRoom(t *testing.T) {
	s := newSim(t, "w1")
	s.full(300)
	s.share("web", 3, nil)
	s.ticks(4, time.Second)
	s.share("web", 3, program("y", nil))
	s.ticks(20, time.Second)
	_, why := s.phase("web")
	if got := s.programs("web"); got["x"] != 3 || !strings.Contains(why, "needs 100m cpu, 0 free; make room, or let one be missing: rollout: {max_unavailable: 1}") {
		t.Fatalf("%v answer: %s", got, why)
	}
	one := api.Amount(1)
	s.share("web", 3, program("y", func(v *api.Service) { v.Rollout.MaxUnavailable = &one }))
	for range 30 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("web"); ready < 2 {
			t.Fatalf("%d answer\n%s", ready, s.dump())
		}
	}
	if phase, why := s.phase("web"); phase != wire.RolloutDone || s.programs("web")["y"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.dump())
	}
}

// Named volumes are with the instance that has them: they are updated in place.
func TestVolumesAreUpdatedInPlace(t *testing.T) {
	s := newSim(t, "w1", "w2")
	volume := func(v *api.Service) { v.Volumes = []api.Volume{{Path: "d", Name: "d"}} }
	s.share("db", 2, volume)
	s.ticks(4, time.Second)
	s.share("db", 2, program("y", volume))
	for range 20 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("db"); ready < 1 || s.running("db") > 2 {
			t.Fatalf("%d answer\n%s", ready, s.dump())
		}
	}
	if got := s.programs("db"); got["y"] != 2 {
		t.Errorf("%v answer\n%s", got, s.dump())
	}
}

// Another version, and another number, and workers that come and go in the middle of it:
// it ends with what was asked for last, and nothing is left over.
func TestARolloutInAnyTrouble(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 9))
		names := []string{"w1", "w2", "w3"}
		s := newSim(t, names...)
		after := api.Duration(4 * time.Second)
		n, cmd := 3, "x"
		for range 60 {
			f := s.fakes[names[rng.IntN(3)]]
			switch rng.IntN(10) {
			case 0, 1, 2:
				n, cmd = 1+rng.IntN(5), string(rune('a'+rng.IntN(3)))
				s.share("web", n, program(cmd, func(v *api.Service) { v.ReplaceAfter = &after }))
			case 3:
				f.alive = !f.alive
			case 4:
				f.linked = !f.linked
			case 5:
				f.slow = rng.IntN(5)
			case 6:
				f.broken["web"] = []string{"", "exit", "refuse"}[rng.IntN(3)]
			case 7:
				s.restart()
			case 8:
				if s.m.Given["app.web"] != nil {
					s.pause("web", rng.IntN(2) == 0)
				}
			}
			s.tick(time.Duration(rng.IntN(4000)) * time.Millisecond)
		}
		if s.m.Given["app.web"] == nil {
			continue
		}
		for _, f := range s.fakes {
			f.alive, f.linked, f.slow, f.broken = true, true, 1, map[string]string{}
		}
		s.resume()
		s.ticks(120, time.Second)
		if got := s.programs("web"); got[cmd] != n || len(got) != 1 || s.running("web") != n {
			phase, why := s.phase("web")
			t.Fatalf("seed %d: %v answer, want %d of %s; it is %s: %s\n%s", seed, got, n, cmd, phase, why, s.dump())
		}
	}
}

// What is slower than the objective stops the rollout, and is undone by nobody but people;
// what was as slow before is not the new version's doing.
func TestARolloutThatIsTooSlowStops(t *testing.T) {
	for _, before := range []time.Duration{20 * time.Millisecond, 900 * time.Millisecond} {
		s := newSim(t, "w1", "w2")
		objective := func(v *api.Service) {
			slo := api.Duration(200 * time.Millisecond)
			v.SLO = &slo
		}
		s.share("web", 3, objective)
		s.ticks(4, time.Second)
		s.share("web", 3, program("y", objective))
		for range 90 {
			var list []wire.ReplicaDemand
			for id, i := range s.m.Insts {
				d := wire.ReplicaDemand{Instance: id, Exec: api.Duration(before)}
				if o := s.m.Orders[i.Worker+"."+id]; o != nil && o.Spec.Command[0] == "y" {
					d.Exec = api.Duration(800 * time.Millisecond)
				}
				list = append(list, d)
			}
			s.m.clocked("app.web", list, s.now)
			s.tick(time.Second)
			if ready, _ := s.endpoints("web"); ready < 3 {
				t.Fatalf("%d answer\n%s", ready, s.dump())
			}
			if before < 200*time.Millisecond && s.programs("web")["x"] != 3 {
				t.Fatalf("%v answer\n%s", s.programs("web"), s.dump())
			}
		}
		phase, why := s.phase("web")
		if before < 200*time.Millisecond {
			if phase != wire.RolloutFailed || why != s.extra("web")+" (beyond those promised): a request takes 800ms, the objective (slo) is 200ms" {
				t.Errorf("it is %s: %s", phase, why)
			}
			if r := s.m.Routes["app.web"]; !r.Requests.Counted {
				t.Error("routers are not asked how fast it is")
			}
		} else if s.programs("web")["y"] == 0 {
			t.Errorf("it is %s: %s\n%s", phase, why, s.dump())
		}
	}
}
