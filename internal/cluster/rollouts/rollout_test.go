package rollouts_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/backend"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

// extra is the name of the first instance that stands in for others.
func extra(s *clustertest.Sim, svc string) string {
	return fmt.Sprintf("%s.%d", svc, rollouts.SurgeBase(s.Model))
}

func rolloutPhase(s *clustertest.Sim, svc string) (phase, why string) {
	if v := rollouts.UpTable.Rows(s.Model.DB)["app."+svc]; v != nil {
		return v.Phase, v.Why
	}
	return "", ""
}

// endTrouble lets all workers run well for a while, and says what is wrong then; "" if
// exactly n instances of web answer, with program cmd.
func endTrouble(s *clustertest.Sim, d time.Duration, n int, cmd string) string {
	for _, f := range s.Workers {
		f.Alive, f.Linked, f.Slow, f.Broken = true, true, 1, map[string]string{}
	}
	s.Resume()
	s.Ticks(int(d/time.Second), time.Second)
	if got := s.Programs("web"); got[cmd] != n || len(got) != 1 || s.Running("web") != n {
		phase, why := rolloutPhase(s, "web")
		return fmt.Sprintf("%v answer, want %d of %s; it is %s: %s\n%s", got, n, cmd, phase, why, s.Dump())
	}
	return ""
}

// pause stops or lets go on what the root has a word in.
func pause(s *clustertest.Sim, svc string, paused bool) {
	next := *s.Model.FromRoot["app."+svc]
	next.Hold = &wire.Hold{Paused: paused, By: "ann", Resumed: 1}
	s.Model.FromRoot["app."+svc] = &next
	reconcile.Effect(s.Model)
	s.Store(state.KeyShare+"app."+svc, &next)
}

// The promised number answers at every moment, and no more than the surge runs beyond it:
// on one worker as on several, however long a start takes, also where the cluster's
// process is another one in the middle.
func TestARolloutKeepsWhatIsPromised(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 8))
		names := []string{"w1", "w2", "w3"}[:1+rng.IntN(3)]
		s := clustertest.NewSim(t, names...)
		n := 1 + rng.IntN(5)
		s.Share("web", n, nil)
		s.Ticks(4, time.Second)
		for _, f := range s.Workers {
			f.Slow = rng.IntN(4)
		}
		surge := 1 + rng.IntN(3)
		s.Share("web", n, clustertest.Program("y", func(v *api.Service) {
			a := api.Amount(surge)
			v.Rollout.MaxSurge = &a
		}))
		for tick := 0; ; tick++ {
			if s.Tick(time.Second); rng.IntN(6) == 0 {
				s.Restart()
				s.Tick(0) // its workers say what they have
			}
			if ready, _ := s.Endpoints("web"); ready < n || ready > n+surge {
				t.Fatalf("seed %d: %d answer, %d are promised, and %d more may be\n%s", seed, ready, n, surge, s.Dump())
			}
			if phase, why := rolloutPhase(s, "web"); phase == wire.RolloutDone {
				break
			} else if tick > 200 {
				t.Fatalf("seed %d: it is %s: %s\n%s", seed, phase, why, s.Dump())
			}
		}
		s.Ticks(3, time.Second)
		if got := s.Programs("web"); got["y"] != n || len(got) != 1 || s.Running("web") != n {
			t.Fatalf("seed %d: %v run\n%s", seed, got, s.Dump())
		}
		for o := range n {
			if i := s.Instance(fmt.Sprintf("app.web.%d", o)); i.Incarnation != 2 {
				t.Errorf("seed %d: %s is incarnation %d", seed, i.ID, i.Incarnation)
			}
		}
	}
}

// A version that ends stops the rollout with words, before anything of the old one was
// touched; the earlier one takes back what there is of it.
func TestARolloutThatFailsStops(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 3, nil)
	s.Ticks(4, time.Second)
	for _, f := range s.Workers {
		f.Broken["web"] = "exit"
	}
	s.Share("web", 3, clustertest.Program("y", nil))
	for range 90 {
		s.Tick(time.Second)
		if got := s.Programs("web"); got["x"] != 3 {
			t.Fatalf("%v answer\n%s", got, s.Dump())
		}
	}
	phase, why := rolloutPhase(s, "web")
	if phase != wire.RolloutFailed || !strings.Contains(why,
		extra(s, "web")+" (beyond those promised): exited with 7, 5 restarts in a row") {
		t.Fatalf("it is %s: %s", phase, why)
	}
	if n := s.Starts(); n > 5 {
		t.Errorf("%d starts: what has failed is tried for ever", n)
	}
	// Nothing goes on by itself when it would do.
	for _, f := range s.Workers {
		f.Broken = map[string]string{}
	}
	s.Ticks(30, time.Second)
	if phase, _ := rolloutPhase(s, "web"); phase != wire.RolloutFailed {
		t.Errorf("it is %s", phase)
	}
	// A worker that dies meanwhile has its instances replaced by what they were.
	s.Workers["w1"].Alive = false
	s.Ticks(40, time.Second)
	if got := s.Programs("web"); got["x"] != 3 {
		t.Fatalf("%v answer after a worker died\n%s", got, s.Dump())
	}
	s.Workers["w1"].Alive = true
	s.Ticks(5, time.Second)
	s.Share("web", 3, nil) // undo
	s.Ticks(20, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutDone || s.Running("web") != 3 ||
		s.Programs("web")["x"] != 3 {
		t.Fatalf("after an undo it is %s: %s\n%s", phase, why, s.Dump())
	}
}

// One that does not become ready fails at its deadline, and goes on when it is resumed.
func TestARolloutThatHangsFailsAtItsDeadline(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 2, nil)
	s.Ticks(4, time.Second)
	for _, f := range s.Workers {
		f.Slow = 1 << 30
	}
	s.Share("web", 2, clustertest.Program("y", func(v *api.Service) {
		d := api.Duration(20 * time.Second)
		v.Rollout.ProgressDeadline = &d
	}))
	s.Ticks(15, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutRolling ||
		!strings.Contains(why, extra(s, "web")+" (beyond those promised) is not ready") {
		t.Fatalf("it is %s: %s", phase, why)
	}
	s.Ticks(10, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutFailed ||
		!strings.HasPrefix(why, "nothing got any further for 20s: "+extra(s, "web")) {
		t.Fatalf("it is %s: %s", phase, why)
	}
	if got := s.Programs("web"); got["x"] != 2 {
		t.Fatalf("%v answer", got)
	}
	for _, f := range s.Workers {
		f.Slow = 2
	}
	s.Resume()
	s.Ticks(40, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutDone {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.Dump())
	}
}

// While it is paused nothing changes, and time does not count.
func TestAPausedRolloutWaits(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 3, nil)
	s.Ticks(4, time.Second)
	s.Share("web", 3, clustertest.Program("y", nil))
	s.Ticks(5, time.Second)
	pause(s, "web", true)
	s.Ticks(8, time.Second)
	was, starts := s.Programs("web"), s.Starts()
	for range 70 {
		s.Tick(10 * time.Second) // longer than its deadline
	}
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutPaused || why != "paused by ann" ||
		s.Starts() != starts ||
		was["y"] == 0 || was["x"] == 0 {
		t.Fatalf("it is %s: %s; %v, %d starts before, %d after\n%s", phase, why, was, starts, s.Starts(), s.Dump())
	}
	s.Restart()
	s.Ticks(2, time.Second)
	pause(s, "web", false)
	s.Ticks(30, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutDone || s.Programs("web")["y"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.Dump())
	}
}

// Where there is no room for one more, it says so, ends nothing, and does it with one
// less where that is allowed.
func TestARolloutWithoutRoom(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(300)
	s.Share("web", 3, nil)
	s.Ticks(4, time.Second)
	s.Share("web", 3, clustertest.Program("y", nil))
	s.Ticks(20, time.Second)
	_, why := rolloutPhase(s, "web")
	if got := s.Programs("web"); got["x"] != 3 ||
		!strings.Contains(why, "needs 100m cpu, 0 free; make room, or let one be missing: rollout: {max_unavailable: 1}") {
		t.Fatalf("%v answer: %s", got, why)
	}
	one := api.Amount(1)
	s.Share("web", 3, clustertest.Program("y", func(v *api.Service) { v.Rollout.MaxUnavailable = &one }))
	for range 30 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("web"); ready < 2 {
			t.Fatalf("%d answer\n%s", ready, s.Dump())
		}
	}
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutDone || s.Programs("web")["y"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.Dump())
	}
}

// Named volumes are with the instance that has them: they are updated in place.
func TestVolumesAreUpdatedInPlace(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	volume := func(v *api.Service) { v.Volumes = []api.Volume{{Path: "d", Name: "d"}} }
	s.Share("db", 2, volume)
	s.Ticks(4, time.Second)
	s.Share("db", 2, clustertest.Program("y", volume))
	for range 20 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("db"); ready < 1 || s.Running("db") > 2 {
			t.Fatalf("%d answer\n%s", ready, s.Dump())
		}
	}
	if got := s.Programs("db"); got["y"] != 2 {
		t.Errorf("%v answer\n%s", got, s.Dump())
	}
}

// Another version, and another number, and workers that come and go in the middle of it:
// it ends with what was asked for last, and nothing is left over.
func TestARolloutInAnyTrouble(t *testing.T) {
	for seed := range uint64(25) {
		rng := rand.New(rand.NewPCG(seed, 9))
		names := []string{"w1", "w2", "w3"}
		s := clustertest.NewSim(t, names...)
		after := api.Duration(4 * time.Second)
		n, cmd := 3, "x"
		for range 60 {
			f := s.Workers[names[rng.IntN(3)]]
			switch rng.IntN(10) {
			case 0, 1, 2:
				n, cmd = 1+rng.IntN(5), string(rune('a'+rng.IntN(3)))
				s.Share("web", n, clustertest.Program(cmd, func(v *api.Service) { v.ReplaceAfter = &after }))
			case 3:
				f.Alive = !f.Alive
			case 4:
				f.Linked = !f.Linked
			case 5:
				f.Slow = rng.IntN(5)
			case 6:
				f.Broken["web"] = []string{"", "exit", "refuse"}[rng.IntN(3)]
			case 7:
				s.Restart()
			case 8:
				if s.Model.FromRoot["app.web"] != nil {
					pause(s, "web", rng.IntN(2) == 0)
				}
			}
			s.Tick(time.Duration(rng.IntN(4000)) * time.Millisecond)
		}
		if s.Model.FromRoot["app.web"] == nil {
			continue
		}
		if wrong := endTrouble(s, 120*time.Second, n, cmd); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// What is slower than the objective stops the rollout, and is undone by nobody but people;
// what was as slow before is not the new version's doing.
func TestARolloutThatIsTooSlowStops(t *testing.T) {
	for _, before := range []time.Duration{20 * time.Millisecond, 900 * time.Millisecond} {
		s := clustertest.NewSim(t, "w1", "w2")
		objective := func(v *api.Service) {
			slo := api.Duration(200 * time.Millisecond)
			v.SLO = &slo
		}
		s.Share("web", 3, objective)
		s.Ticks(4, time.Second)
		s.Share("web", 3, clustertest.Program("y", objective))
		for range 90 {
			var list []wire.ReplicaDemand
			for id, i := range s.Model.Insts {
				d := wire.ReplicaDemand{Instance: id, Exec: api.Duration(before)}
				if o := s.Model.Orders[i.Worker+"."+id]; o != nil && o.Spec.Command[0] == "y" {
					d.Exec = api.Duration(800 * time.Millisecond)
				}
				list = append(list, d)
			}
			rollouts.Clocked(s.Model, "app.web", list, s.Now)
			s.Tick(time.Second)
			if ready, _ := s.Endpoints("web"); ready < 3 {
				t.Fatalf("%d answer\n%s", ready, s.Dump())
			}
			if before < 200*time.Millisecond && s.Programs("web")["x"] != 3 {
				t.Fatalf("%v answer\n%s", s.Programs("web"), s.Dump())
			}
		}
		phase, why := rolloutPhase(s, "web")
		if before < 200*time.Millisecond {
			if phase != wire.RolloutFailed ||
				why != extra(s, "web")+" (beyond those promised): a request takes 800ms, the objective (slo) is 200ms" {
				t.Errorf("it is %s: %s", phase, why)
			}
			if r := s.Model.Routes["app.web"]; !r.Requests.Counted {
				t.Error("routers are not asked how fast it is")
			}
		} else if s.Programs("web")["y"] == 0 {
			t.Errorf("it is %s: %s\n%s", phase, why, s.Dump())
		}
	}
}

// While the instances of a new revision begin, those before them count as what they are:
// ready, and not as applied.
func TestARolloutSaysWhoIsReady(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 3, nil)
	s.Ticks(4, time.Second)
	for _, f := range s.Workers {
		f.Slow = 20
	}
	s.Share("web", 3, clustertest.Program("y", nil))
	s.Ticks(3, time.Second)
	if v := views.ServiceView(s.Model, s.Model.Shares["app.web"]); v.Ready != 3 ||
		!strings.HasPrefix(v.Message, "3 of 3 ready, 0 of them as applied; ") {
		t.Errorf("%+v", v)
	}
	r := &backend.Backend{Core: &core.Core{M: s.Model}}
	if v, err := r.Rollout(t.Context(), "app"); err != nil || v.Services[0].Ready != 3 ||
		v.Services[0].Updated != 0 || v.Services[0].Clusters[0].Ready != 3 {
		t.Errorf("%+v, %v", v, err)
	}
	if r := rollouts.UpTable.Rows(s.Model.DB)["app.web"]; r == nil || r.Ready != 0 {
		t.Errorf("reported: %+v", r)
	}
}
