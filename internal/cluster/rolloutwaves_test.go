// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// asks is what hooks are to be asked about a service now, nil for nothing.
func (s *sim) asks(svc string) *waveAsk {
	s.m.gates = map[string]string{"": wire.HookClosed}
	return s.m.step(s.now).waves["app."+svc]
}

// word is an answer to it.
func (s *sim) word(svc string, w waveWord) {
	s.t.Helper()
	a := s.asks(svc)
	if a == nil {
		phase, why := s.phase(svc)
		s.t.Fatalf("nobody is asked; it is %s: %s\n%s", phase, why, s.dump())
	}
	w.program, w.tried, w.wave, w.at = a.word.program, a.word.tried, a.word.wave, s.now
	s.m.waveWords["app."+svc] = &w
}

// Each step of a canary and each group of instances waits for the word of a hook, and is told
// what was measured; what did not have to be answered is remembered.
func TestWavesWaitForTheWordOfHooks(t *testing.T) {
	s := newSim(t, "w1", "w2", "w3")
	s.m.gates = map[string]string{"": wire.HookClosed}
	s.share("web", 4, nil)
	s.ticks(4, time.Second)
	two := api.Amount(2)
	s.share("web", 4, program("y", func(v *api.Service) {
		v.Rollout.MaxSurge = &two
		v.Rollout.Canary = []api.CanaryStep{step(2500, 10*time.Second)}
	}))
	for wave := 1; ; wave++ {
		s.ticks(20, time.Second)
		if phase, _ := s.phase("web"); phase == wire.RolloutDone {
			if wave != 4 {
				t.Errorf("it was over after %d waves", wave-1)
			}
			break
		}
		a := s.asks("web")
		if a == nil || a.data.Wave.Number != wave || a.data.Wave.Of != 3 || a.data.Wave.Steps != 1 || a.data.Wave.From != 1 || a.data.Revision != 2 || a.data.Wave.Promised != 4 || a.data.Operation != wire.GateWave {
			t.Fatalf("before wave %d hooks are asked %+v\n%s", wave, a, s.dump())
		}
		if got := s.programs("web"); got["x"]+got["y"] < 4 || got["y"] != []int{0, 1, 4}[wave-1] || a.data.Wave.Updated != []int{0, 0, 2}[wave-1] {
			t.Fatalf("before wave %d: %v run, %d are updated", wave, got, a.data.Wave.Updated)
		}
		if wave == 2 && (a.data.Wave.New == nil || a.data.Wave.New.Requests == 0 || a.data.Wave.Old.Requests == 0) {
			t.Errorf("what was measured is not said: %+v", a.data.Wave)
		}
		if phase, why := s.phase("web"); phase != wire.RolloutRolling || !strings.Contains(why, "waits for the word of a hook") {
			t.Errorf("it is %s: %s", phase, why)
		}
		w := waveWord{agreed: true}
		if wave == 2 {
			w.warnings = []string{"hook check was asked and did not answer"}
		}
		s.word("web", w)
		for range 5 {
			s.tick(time.Second)
			s.answer("web", 50, nil)
		}
	}
	if r := s.m.upRolls["app.web"]; len(r.Said) != 1 || !strings.HasPrefix(r.Said[0], "wave 2: hook check") {
		t.Errorf("it says %q", r.Said)
	}
}

// A refusal stops it as any failure does; what is brought back is not asked about, and what
// is resumed is asked about again. Silence holds it up to its deadline.
func TestARefusedWaveStopsTheRollout(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.m.gates = map[string]string{"": wire.HookClosed}
	s.share("web", 3, nil)
	s.ticks(4, time.Second)
	minute := api.Duration(time.Minute)
	next := program("y", func(v *api.Service) { v.Rollout.ProgressDeadline = &minute })
	s.share("web", 3, next)
	s.tick(time.Second)
	s.word("web", waveWord{agreed: true})
	s.ticks(15, time.Second)
	s.word("web", waveWord{refused: "hook check refuses it: too many errors"})
	s.ticks(2, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutFailed || why != "hook check refuses it: too many errors" || s.asks("web") != nil {
		t.Fatalf("it is %s: %s", phase, why)
	}
	if r := s.m.upRolls["app.web"]; r.Ended.IsZero() || r.Updated != 1 {
		t.Errorf("%+v", r)
	}
	s.resume()
	s.tick(time.Second)
	s.word("web", waveWord{silent: "hook check: no answer in 5s"})
	s.tick(time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutRolling || !strings.HasSuffix(why, "hook check: no answer in 5s") || s.asks("web") == nil {
		t.Fatalf("it is %s: %s", phase, why)
	}
	s.restart() // the word is lost, and asked for again
	s.m.gates = map[string]string{"": wire.HookClosed}
	s.ticks(3, time.Second)
	if s.asks("web").word.wave != 2 {
		t.Errorf("asked about %+v", s.asks("web"))
	}
	s.ticks(70, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutFailed || !strings.HasPrefix(why, "nothing got any further for 1m0s: wave 2 of 3 waits") {
		t.Fatalf("it is %s: %s", phase, why)
	}
	s.share("web", 3, nil) // undo: most are of that revision still
	for range 40 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("web"); ready < 3 || s.asks("web") != nil {
			t.Fatalf("%d answer, and hooks are asked %+v", ready, s.asks("web"))
		}
	}
	if phase, why := s.phase("web"); phase != wire.RolloutDone || s.programs("web")["x"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.dump())
	}
	// What nobody wants to be asked about any more goes on.
	s.share("web", 3, next)
	s.ticks(3, time.Second)
	s.m.gates = nil
	s.ticks(40, time.Second)
	if phase, why := s.phase("web"); phase != wire.RolloutDone || s.programs("web")["y"] != 3 {
		t.Fatalf("it is %s: %s\n%s", phase, why, s.dump())
	}
}
