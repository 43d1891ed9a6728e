package rollout

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// Whatever the numbers: nothing of a wave begins before somebody has agreed to it, each is
// asked about once the one before is through, and it ends with all updated.
func TestEachWaveIsAskedAbout(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 9))
		n := 1 + rng.IntN(12)
		r := rules(rng, n)
		r.Asked, r.Deadline = true, 0
		if rng.IntN(2) == 0 {
			r.Surge, r.Steps, r.MaxErrors = 1+rng.IntN(n), steps(rng), 0.01
		}
		w := newWorld(n, r)
		w.slow = rng.IntN(4)
		w.to(1)
		asked, waits := 0, 0
		for tick := 0; ; tick++ {
			a := w.tick()
			w.check(t)
			if a.Done {
				break
			}
			if a.Failed != "" || tick > 2000 {
				t.Fatalf("seed %d: tick %d: %+v\n%+v", seed, tick, a, w.view())
			}
			touched, fresh := 0, 0
			for _, u := range w.units {
				if u.program == 1 {
					fresh++
					if !u.extra {
						touched++
					}
				}
			}
			if most := max(0, w.state.Agreed-len(r.Steps)) * r.wave(); touched > most || w.state.Agreed == 0 && fresh > 0 {
				t.Fatalf("seed %d: %d promised and %d in all are new, %d waves of %d were agreed to", seed, touched, fresh, w.state.Agreed, r.wave())
			}
			switch {
			case a.Ask == 0:
			case a.Ask != w.state.Agreed+1, a.Ask > a.Waves, !strings.Contains(a.Why, "waits for the word of a hook"):
				t.Fatalf("seed %d: asked about wave %d of %d after %d: %s", seed, a.Ask, a.Waves, w.state.Agreed, a.Why)
			case waits < 3: // whoever is asked takes a while
				waits++
			default:
				w.state.Agreed, waits = a.Ask, 0
				asked++
			}
		}
		if want := r.waves(n); asked != want {
			t.Fatalf("seed %d: asked %d times, there are %d waves of %d: %+v", seed, asked, want, n, r)
		}
	}
}

// A refusal is a failure, before the first wave and in the middle; a trial that waits for a
// word keeps its share; nobody's answer ends at the deadline, with the reason.
func TestAWaveIsRefusedOrNobodyAnswers(t *testing.T) {
	r := Rules{Surge: 1, Asked: true, Deadline: time.Minute, MaxErrors: 0.01}
	w := newWorld(3, r)
	w.to(1)
	w.state.Refused = "hook check: not today"
	if a := w.tick(); a.Failed != "hook check: not today" || a.Surge != 0 || a.Ask != 0 || len(a.Update) != 0 {
		t.Errorf("%+v", a)
	}
	r.Steps = []Step{{Share: 0.25, For: 5 * time.Second}, {Share: 0.5, For: 5 * time.Second}}
	w = newWorld(8, r)
	w.rules.Surge = 4
	w.to(1)
	w.state.Agreed = 1
	w.state.Unheard = "hook check: no answer in 5s"
	var a Action
	for range 30 {
		if a = w.tick(); a.Failed != "" {
			t.Fatalf("%+v", a)
		}
	}
	if a.Step != 0 || a.Ask != 2 || a.Share != 0.25 || a.Why != "wave 2 of 4 waits for the word of a hook: hook check: no answer in 5s" {
		t.Errorf("it goes on: %+v", a)
	}
	for range 60 {
		a = w.tick()
	}
	if a.Failed != "nothing got any further for 1m0s: wave 2 of 4 waits for the word of a hook: hook check: no answer in 5s" || a.Share != 0 {
		t.Errorf("%+v", a)
	}
	// One that was resumed asks again, and goes on.
	w.state.Failed, w.state.Moved, w.state.Stepped = "", w.now, time.Time{}
	for range 300 {
		if a = w.tick(); a.Ask > 0 {
			w.state.Agreed = a.Ask
		}
		if w.check(t); a.Done {
			return
		}
	}
	t.Errorf("it does not end: %+v", a)
}
