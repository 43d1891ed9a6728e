package rollout

import (
	"fmt"
	"math"
	"time"
)

// A trial comes before a rollout touches anything that was promised: instances of the new
// revision stand beside the others, as many as its share of those promised, and get that
// share of the requests. So each of them gets no more than one of those promised does, and
// when it fails all of these are still there to take everything back.

// needs is how many instances of the new revision a step needs of n promised.
func (r Rules) needs(step, n int) int {
	if step >= len(r.Steps) {
		return r.Surge
	}
	// A share that is a whole number of instances is not to become one more by rounding.
	k := int(math.Ceil(r.Steps[step].Share*float64(n) - 1e-9))
	return min(max(k, 1), max(r.Surge, 1))
}

// lasts is how long a step lasts at least.
func (r Rules) lasts(step int) time.Duration {
	if step >= len(r.Steps) {
		return 0
	}
	return r.Steps[step].For
}

// try takes a trial as far as it may go now, and says whether it goes on. After it, where
// the rollout has failed, the new revision keeps what the others cannot take: one instance
// is given no more than one of those promised would be.
func (a *Action) try(r Rules, s *State, now time.Time) (on bool) {
	if len(r.Steps) == 0 {
		return false
	}
	up, ready, old, extra := 0, 0, 0, 0
	for i := range s.Units {
		u := &s.Units[i]
		switch {
		case u.Updated && u.Up:
			up++
			if u.Extra {
				extra++
			}
			if r.counts(u, now) {
				ready++
			}
		case !u.Updated && u.Up:
			old++
		}
	}
	if extra+old == 0 {
		return false // none of the others answers: nothing to compare with, and nothing to lose
	}
	n := float64(s.Promised)
	stopped := a.Failed != "" || s.Held != ""
	for !stopped && a.Step < len(r.Steps) {
		if r.Asked && s.Agreed <= a.Step {
			a.Ask = a.Step + 1
			break
		}
		if a.Stepped.IsZero() && ready > 0 && ready >= min(r.needs(a.Step, s.Promised), max(old, 1)) {
			a.Stepped, a.Moved = now, now
		}
		st := r.Steps[a.Step]
		if a.Stepped.IsZero() || age(now, a.Stepped) < st.For || s.Asked < st.Requests {
			break
		}
		if r.Asked && s.Agreed <= a.Step+1 {
			a.Ask = a.Step + 2 // until then requests are shared as in this step
			break
		}
		a.Step, a.Stepped, a.Moved, s.Asked = a.Step+1, time.Time{}, now, 0
	}
	if up == 0 && a.Failed == "" {
		a.Stepped = time.Time{} // nothing of it is left: the step begins again
	}
	switch {
	case a.Failed != "":
		a.Trial, a.Share = true, min(1, max(0, 1-float64(old)/n))
	case a.Step < len(r.Steps):
		a.Trial, a.Share = true, min(r.Steps[a.Step].Share, float64(up)/n, 1)
	}
	if a.Step < len(r.Steps) && !a.Stepped.IsZero() {
		a.look(r.Steps[a.Step].For - age(now, a.Stepped))
	}
	return a.Step < len(r.Steps)
}

// waits says what a step of the trial waits for, "" where instances are what it lacks.
func (a *Action) waits(r Rules, s *State, now time.Time) string {
	if a.Step >= len(r.Steps) || a.Stepped.IsZero() {
		return ""
	}
	st := r.Steps[a.Step]
	why := fmt.Sprintf("step %d of %d: %s of the requests go to the new revision", a.Step+1, len(r.Steps),
		percent(a.Share))
	if a.Share < st.Share-1e-9 {
		why += fmt.Sprintf(", not %s: as many as its instances can take", percent(st.Share))
	}
	if left := st.For - age(now, a.Stepped); left > 0 {
		return why + fmt.Sprintf(" until %s", a.Stepped.Add(st.For).UTC().Format("15:04:05 MST"))
	}
	return why + fmt.Sprintf("; it has answered %d of the %d requests that the step asks for", s.Asked, st.Requests)
}
