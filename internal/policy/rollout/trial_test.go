package rollout

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

// steps of a trial, of random shares and times.
func steps(rng *rand.Rand) (out []Step) {
	share := 0.0
	for range 1 + rng.IntN(3) {
		share += 0.02 + rng.Float64()*(0.95-share)/2
		out = append(out, Step{Share: share, For: time.Duration(1+rng.IntN(20)) * time.Second})
	}
	return out
}

// Whatever the numbers, and whatever dies meanwhile: while a revision is tried nothing that
// was promised is touched, none of its instances is given more than one of those promised,
// never more run than may, each step lasts its time, and it ends with all updated.
func TestATrialKeepsWhatIsPromised(t *testing.T) {
	for seed := range uint64(400) {
		rng := rand.New(rand.NewPCG(seed, 3))
		n := 1 + rng.IntN(12)
		r := rules(rng, n)
		r.Surge, r.Steps, r.MaxErrors = 1+rng.IntN(n), steps(rng), 0.01
		w := newWorld(n, r)
		w.slow = rng.IntN(4)
		w.to(1)
		var held [8]time.Duration
		for tick := 0; ; tick++ {
			step := w.state.Step
			a := w.tick()
			if rng.IntN(25) == 0 && w.state.Step < len(r.Steps) { // one of the new ones dies
				for _, u := range w.units {
					if u.extra && u.ready {
						u.ready, u.starts = false, 1+rng.IntN(5)
						break
					}
				}
			}
			w.check(t)
			if a.Done {
				break
			}
			if a.Failed != "" || tick > 600 {
				t.Fatalf("seed %d: tick %d: %+v\n%+v", seed, tick, a, w.view())
			}
			if w.state.Step < len(r.Steps) {
				up, touched := 0, 0
				for _, u := range w.view().Units {
					if u.Updated && u.Up {
						up++
					}
					if u.Updated && !u.Extra {
						touched++
					}
				}
				held[w.state.Step] += time.Second
				switch st := r.Steps[w.state.Step]; {
				case !a.Trial, touched > 0, len(a.Update) > 0:
					t.Fatalf("seed %d: %d promised are touched while it is tried: %+v", seed, touched, a)
				case a.Share > st.Share+1e-9, up == 0 && a.Share > 0 && !w.died(a):
					t.Fatalf("seed %d: a share of %v in a step of %v, %d are up", seed, a.Share, st.Share, up)
				case a.Share > float64(max(up, w.before))/float64(n)+1e-9:
					t.Fatalf("seed %d: %d instances get %v of the requests to %d", seed, up, a.Share, n)
				}
			} else if step == len(r.Steps) && a.Trial {
				t.Fatalf("seed %d: a share after the trial: %+v", seed, a)
			}
		}
		for k, st := range r.Steps {
			if held[k]+time.Second < st.For {
				t.Fatalf("seed %d: step %d lasted %s, not %s", seed, k, held[k], st.For)
			}
		}
		for _, u := range w.units {
			if u.program != 1 || !u.ready || u.extra {
				t.Fatalf("seed %d: it is done with %+v", seed, w.view())
			}
		}
	}
}

// died: what was up when it was decided may not be any more.
func (w *world) died(a Action) bool { return a.Share <= float64(w.before)/float64(w.promised)+1e-9 }

// What fails takes no request any more at once, and what was promised is there for all of
// them; after it was resumed the step begins again.
func TestATrialThatFailsGivesEverythingBack(t *testing.T) {
	r := Rules{Surge: 2, MinReady: time.Second, Deadline: time.Minute, MaxErrors: 0.01, Steps: []Step{{Share: 0.1, For: 30 * time.Second}, {Share: 0.5, For: 30 * time.Second}}}
	w := newWorld(4, r)
	w.to(1)
	for range 10 {
		w.tick()
	}
	if a := w.tick(); !a.Trial || a.Share != 0.1 || a.Surge != 1 || !strings.HasPrefix(a.Why, "step 1 of 2: 10% of the requests go to the new revision until ") {
		t.Fatalf("%+v", a)
	}
	w.state.Before, w.state.After = Count{1000, 1}, Count{50, 25}
	for range 80 {
		a := w.tick()
		if !a.Trial || a.Share != 0 || !strings.HasPrefix(a.Failed, "of the requests to the new revision 25 of 50 failed (50%)") || w.ready() < 4 || len(a.Update) > 0 {
			t.Fatalf("%+v", a)
		}
	}
	w.state.Failed, w.state.Moved, w.state.Stepped, w.state.Before, w.state.After = "", w.now, time.Time{}, Count{}, Count{}
	if a := w.tick(); a.Share != 0.1 || a.Step != 0 || !a.Stepped.Equal(w.now) {
		t.Fatalf("%+v", a)
	}
	// It fails when others have been updated already: as many requests as they can take go back.
	for w.state.Step < 2 {
		w.tick()
	}
	for old := 4; old > 2; {
		w.tick()
		old = 0
		for _, u := range w.units {
			if u.program == 0 {
				old++
			}
		}
	}
	w.state.Before, w.state.After = Count{1000, 1}, Count{50, 25}
	for range 3 {
		if a := w.tick(); !a.Trial || a.Share != 0.5 {
			t.Fatalf("two of four are as they were, and the others get %v: %+v", a.Share, a)
		}
	}
}

// A step that wants to see requests waits for them, and says so; for ever it does not.
func TestAStepWaitsForRequests(t *testing.T) {
	r := Rules{Surge: 1, Deadline: time.Minute, MaxErrors: 1, Steps: []Step{{Share: 0.1, For: 10 * time.Second, Requests: 100}}}
	for _, asked := range []uint64{40, 100} {
		w := newWorld(4, r)
		w.to(1)
		w.state.Asked = asked
		var a Action
		for range 30 {
			a = w.tick()
		}
		if asked == 100 && a.Trial || asked == 40 && !strings.Contains(a.Why, "it has answered 40 of the 100 requests that the step asks for") {
			t.Fatalf("after %d: %+v", asked, a)
		}
		for range 60 {
			a = w.tick()
		}
		if asked == 40 && !strings.HasPrefix(a.Failed, "nothing got any further for 1m0s: step 1 of 1") || asked == 100 && !a.Done {
			t.Fatalf("after %d: %+v", asked, a)
		}
	}
}

// Where nobody answers there is nothing to compare with: what is broken is mended at once.
func TestWhatIsBrokenIsNotTriedFirst(t *testing.T) {
	w := newWorld(3, Rules{Surge: 1, Deadline: time.Minute, Steps: []Step{{Share: 0.1, For: time.Hour}}})
	for _, u := range w.units {
		u.ready, u.starts = false, 1<<30
	}
	w.to(1)
	for range 20 {
		if w.tick().Done {
			return
		}
	}
	t.Fatalf("%+v", w.view())
}
