package rollout

import (
	"fmt"
	"math"
	"time"
)

// A trial precedes any change of promised instances: extra instances of the new revision, their
// share of the promised number, get that share of the requests. So none of them gets more than a
// promised instance, and if the trial fails all promised instances are there to take over.

// needs is how many instances of the new revision a step needs if n are promised.
func (r Rules) needs(step, n int) int {
	if step >= len(r.Steps) {
		return r.Surge
	}
	// Rounding must not add one to a share that is a whole number of instances.
	k := int(math.Ceil(r.Steps[step].Share*float64(n) - 1e-9))
	return min(max(k, 1), max(r.Surge, 1))
}

// lasts is the minimum duration of a step.
func (r Rules) lasts(step int) time.Duration {
	if step >= len(r.Steps) {
		return 0
	}
	return r.Steps[step].For
}

// try advances a trial as far as possible, and says whether it goes on. If the rollout has failed,
// the new revision keeps what the others cannot take: no instance gets more than a promised one
// would.
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
		return false // no old instance answers: there is nothing to compare with or to lose
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
			a.Ask = a.Step + 2 // until then this step's share applies
			break
		}
		a.Step, a.Stepped, a.Moved, s.Asked = a.Step+1, time.Time{}, now, 0
	}
	if up == 0 && a.Failed == "" {
		a.Stepped = time.Time{} // none of its instances is left: the step begins again
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

// waits says what a step of the trial waits for, "" if it lacks instances.
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
