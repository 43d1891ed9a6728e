package rollouts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/wire"
)

// asks is what hooks are to be asked about a service now, nil for nothing.
func asks(s *clustertest.Sim, svc string) *rollouts.WaveAsk {
	rollouts.Memory(s.Model).Gates = map[string]string{"": wire.HookClosed}
	return rollouts.Pass(reconcile.Step(s.Model, s.Now)).Waves["app."+svc]
}

// word is an answer to it.
func word(s *clustertest.Sim, svc string, w rollouts.WaveWord) {
	s.T.Helper()
	a := asks(s, svc)
	if a == nil {
		phase, why := rolloutPhase(s, svc)
		s.T.Fatalf("nobody is asked; it is %s: %s\n%s", phase, why, s.Dump())
	}
	w.Program, w.Tried, w.Wave, w.At = a.Word.Program, a.Word.Tried, a.Word.Wave, s.Now
	rollouts.Memory(s.Model).WaveWords["app."+svc] = &w
}

// Each step of a canary and each group of instances waits for the word of a hook, and is told
// what was measured; what did not have to be answered is remembered.
func TestWavesWaitForTheWordOfHooks(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	rollouts.Memory(s.Model).Gates = map[string]string{"": wire.HookClosed}
	s.Share("web", 4, nil)
	s.Ticks(4, time.Second)
	two := api.Amount(2)
	s.Share("web", 4, clustertest.Program("y", func(v *api.Service) {
		v.Rollout.MaxSurge = &two
		v.Rollout.Canary = []api.CanaryStep{step(2500, 10*time.Second)}
	}))
	for wave := 1; ; wave++ {
		s.Ticks(20, time.Second)
		if phase, _ := rolloutPhase(s, "web"); phase == wire.RolloutDone {
			if wave != 4 {
				t.Errorf("it was over after %d waves", wave-1)
			}
			break
		}
		a := asks(s, "web")
		if a == nil || a.Data.Wave.Number != wave || a.Data.Wave.Of != 3 || a.Data.Wave.Steps != 1 ||
			a.Data.Wave.From != 1 || a.Data.Revision != 2 || a.Data.Wave.Promised != 4 ||
			a.Data.Operation != wire.GateWave {
			t.Fatalf("before wave %d hooks are asked %+v\n%s", wave, a, s.Dump())
		}
		if got := s.Programs("web"); got["x"]+got["y"] < 4 || got["y"] != []int{0, 1, 4}[wave-1] ||
			a.Data.Wave.Updated != []int{0, 0, 2}[wave-1] {
			t.Fatalf("before wave %d: %v run, %d are updated", wave, got, a.Data.Wave.Updated)
		}
		if wave == 2 && (a.Data.Wave.New == nil || a.Data.Wave.New.Requests == 0 || a.Data.Wave.Old.Requests == 0) {
			t.Errorf("what was measured is not said: %+v", a.Data.Wave)
		}
		if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutRolling ||
			!strings.Contains(why, "waits for the word of a hook") {
			t.Errorf("it is %s: %s", phase, why)
		}
		w := rollouts.WaveWord{Agreed: true}
		if wave == 2 {
			w.Warnings = []string{"hook check was asked and did not answer"}
		}
		word(s, "web", w)
		for range 5 {
			s.Tick(time.Second)
			answer(s, "web", 50, nil)
		}
	}
	if r := rollouts.UpTable.Rows(s.Model.DB)["app.web"]; len(r.Said) != 1 ||
		!strings.HasPrefix(r.Said[0], "wave 2: hook check") {
		t.Errorf("it says %q", r.Said)
	}
}

// A refusal stops it as any failure does; what is brought back is not asked about, and what
// is resumed is asked about again. Silence holds it up to its deadline.
func TestARefusedWaveStopsTheRollout(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	rollouts.Memory(s.Model).Gates = map[string]string{"": wire.HookClosed}
	s.Share("web", 3, nil)
	s.Ticks(4, time.Second)
	minute := api.Duration(time.Minute)
	next := clustertest.Program("y", func(v *api.Service) { v.Rollout.ProgressDeadline = &minute })
	s.Share("web", 3, next)
	s.Tick(time.Second)
	word(s, "web", rollouts.WaveWord{Agreed: true})
	s.Ticks(15, time.Second)
	word(s, "web", rollouts.WaveWord{Refused: "hook check refuses it: too many errors"})
	s.Ticks(2, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutFailed ||
		why != "hook check refuses it: too many errors" ||
		asks(s, "web") != nil {
		t.Fatalf("it is %s: %s", phase, why)
	}
	if r := rollouts.UpTable.Rows(s.Model.DB)["app.web"]; r.Ended.IsZero() || r.Updated != 1 {
		t.Errorf("%+v", r)
	}
	s.Resume()
	s.Tick(time.Second)
	word(s, "web", rollouts.WaveWord{Silent: "hook check: no answer in 5s"})
	s.Tick(time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutRolling ||
		!strings.HasSuffix(why, "hook check: no answer in 5s") || asks(s, "web") == nil {
		t.Fatalf("it is %s: %s", phase, why)
	}
	s.Restart() // the word is lost, and asked for again
	rollouts.Memory(s.Model).Gates = map[string]string{"": wire.HookClosed}
	s.Ticks(3, time.Second)
	if asks(s, "web").Word.Wave != 2 {
		t.Errorf("asked about %+v", asks(s, "web"))
	}
	s.Ticks(70, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutFailed ||
		!strings.HasPrefix(why, "nothing got any further for 1m0s: wave 2 of 3 waits") {
		t.Fatalf("it is %s: %s", phase, why)
	}
	s.Share("web", 3, nil) // undo: most are of that revision still
	for range 40 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("web"); ready < 3 || asks(s, "web") != nil {
			t.Fatalf("%d answer, and hooks are asked %+v", ready, asks(s, "web"))
		}
	}
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutDone || s.Programs("web")["x"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.Dump())
	}
	// What nobody wants to be asked about any more goes on.
	s.Share("web", 3, next)
	s.Ticks(3, time.Second)
	rollouts.Memory(s.Model).Gates = nil
	s.Ticks(40, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutDone || s.Programs("web")["y"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.Dump())
	}
}
