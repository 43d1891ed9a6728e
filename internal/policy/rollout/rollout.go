package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Rules of a rollout.
type Rules struct {
	// Surge is how many instances may run beyond Promised, Unavailable how many of these may be
	// missing. One of the two is above 0.
	Surge, Unavailable int
	// MinReady is how long an instance must be ready before it counts, Deadline how long the
	// rollout may make no progress; 0: for ever.
	MinReady, Deadline time.Duration
	// MaxErrors is the share of requests to updated instances that may fail; 1 or more: errors are
	// ignored.
	MaxErrors float64
	// Steps of a trial, before any promised instance is touched; nil: none.
	Steps []Step
	// Asked: each wave needs approval before it begins.
	Asked bool
}

// Step of a trial: the new revision gets a share of the requests for a time.
type Step struct {
	// Share of the requests, above 0 and at most 1.
	Share float64
	// For is its minimum duration, once all instances that it needs are ready.
	For time.Duration
	// Requests is how many the new revision must answer in it.
	Requests uint64
}

// Unit is an instance as a rollout sees it.
type Unit struct {
	Name string
	// Ordinal of the instance. Extra: it is a surge instance.
	Ordinal int
	Extra   bool
	// Updated: it runs the new program, or will when it runs.
	Updated bool
	// Up: it answers requests, even if it is not Ready.
	Up bool
	// Placed: it has a worker, or has completed (then it is Ready too).
	Placed bool
	// Ready: its checks pass, since Since (zero: for long).
	Ready bool
	Since time.Time
	// Busy: another operation, such as a move, is in progress.
	Busy bool
	// Failed is why the new program has failed in it, "" if it has not. Why says what it waits for.
	Failed, Why string
}

// State of a rollout.
type State struct {
	// Promised is the number of instances without the surge.
	Promised int
	Units    []Unit
	// Failed is why the rollout has failed before, "" if it has not.
	Failed string
	// Held is why the rollout is paused, "" if it is not.
	Held string
	// Best is the most instances that were updated and ready at a time, Moved when that last rose,
	// or the rollout began or was resumed.
	Best  int
	Moved time.Time
	// Step is how many steps of the trial are over. Stepped is when the next one took effect; zero:
	// not all instances that it needs are ready yet. Asked is how many requests the new revision
	// has answered since.
	Step    int
	Stepped time.Time
	Asked   uint64
	// Agreed is how many waves were approved. Refused is why the next was refused, "" if it was
	// not; Unheard why there is no answer yet.
	Agreed           int
	Refused, Unheard string
	// Before and After count requests to instances of the old and the new revision since the
	// rollout began or was resumed.
	Before, After Count
}

// Action is what to do now.
type Action struct {
	// Surge is the wanted number of extra instances.
	Surge int
	// Update are the ordinals of the instances to update now.
	Update []int
	// Done: all instances are updated and ready.
	Done bool
	// Failed is why it has failed, "" if it has not.
	Failed string
	// Why says what the rollout waits for, "" for nothing.
	Why string
	// Best and Moved as in State.
	Best  int
	Moved time.Time
	// Updated counts promised instances that are updated and ready, Ready all that are ready.
	Updated, Ready int
	// Look is when time alone changes something; 0: never.
	Look time.Duration
	// Step and Stepped as in State. Trial: routers give the new revision Share of the requests (0
	// to 1); otherwise its share follows from its number of instances.
	Step    int
	Stepped time.Time
	Trial   bool
	Share   float64
	// Ask is the wave that needs approval now, 0 for none; Waves is the present number of waves.
	Ask, Waves int
}

// age is the time since an earlier reading of a clock that may have been set back.
func age(now, since time.Time) time.Duration { return max(now.Sub(since), since.Sub(now)) }

// counts says whether a unit has been ready for long enough.
func (r Rules) counts(u *Unit, now time.Time) bool {
	return u.Ready && (!u.Updated || u.Since.IsZero() || age(now, u.Since) >= r.MinReady)
}

// Decide returns the next action. The caller carries it out and calls again.
func Decide(r Rules, s State, now time.Time) Action {
	a := Action{Failed: s.Failed, Best: s.Best, Moved: s.Moved, Step: s.Step, Stepped: s.Stepped,
		Waves: r.waves(s.Promised)}
	var behind []*Unit
	extras, placed, done, missed, inFlight, good, waiting := 0, 0, 0, 0, 0, 0, 0
	for i := range s.Units {
		u := &s.Units[i]
		ready := r.counts(u, now)
		if u.Extra {
			extras++
		} else if u.Placed {
			placed++
		}
		if ready {
			a.Ready++
		}
		switch {
		case !u.Updated && !u.Placed:
			waiting++ // it starts with its old program once it has a place
		case !u.Updated:
			behind = append(behind, u)
			if !u.Extra && u.Ready {
				missed++
			}
		case ready:
			good++
			if !u.Extra {
				done++
			}
		case u.Placed:
			inFlight++
			if u.Ready {
				a.look(u.Since.Add(r.MinReady).Sub(now))
			}
		}
		if u.Updated && u.Failed != "" && a.Failed == "" {
			a.Failed = u.Name + ": " + u.Failed
		}
	}
	if s.Refused != "" && a.Failed == "" {
		a.Failed = s.Refused
	}
	worse := Worse(r.MaxErrors, s.Before, s.After)
	if worse != "" && a.Failed == "" {
		a.Failed = worse
	}
	a.Updated = done
	if good > a.Best {
		a.Best, a.Moved = good, now
	}
	base := slices.ContainsFunc(behind, func(u *Unit) bool { return !u.Extra })
	trial := base && s.Promised > 0 && a.try(r, &s, now)
	if trial {
		first := r
		first.Surge = r.needs(a.Step, s.Promised)
		a.Surge = s.surge(first, extras, missed, now)
	} else {
		a.Surge = s.surge(r, extras, missed, now)
	}
	all := done >= placed && len(s.Units)-extras >= s.Promised
	if !base && all && worse == "" &&
		(waiting == 0 || done > 0) { // what has no place is no reason to wait once it has been seen to run
		a.Done, a.Surge, a.Failed, a.Trial = true, 0, "", false
		return a
	}
	held := !trial && base && a.hold(r, &s, inFlight)
	if trial && s.Agreed <= a.Step && r.Asked || held && s.Agreed <= len(r.Steps) {
		a.Surge = min(a.Surge, extras) // nothing begins
	}
	if a.Failed != "" || s.Held != "" {
		a.Ask = 0
		a.Surge = min(a.Surge, extras)
		a.Why = cmp.Or(a.Failed, s.Held)
		return a
	}
	if r.Deadline > 0 {
		since := a.Moved
		if end := a.Stepped.Add(r.lasts(a.Step)); trial && !a.Stepped.IsZero() && end.After(since) {
			since = end // a step counts as progress
		}
		left := r.Deadline
		if now.After(since) || !trial {
			left -= age(now, since)
		}
		if left <= 0 {
			a.Failed = fmt.Sprintf("nothing got any further for %s: %s", r.Deadline,
				cmp.Or(a.asks(&s), a.waits(r, &s, now), s.waitsFor(r, now)))
			a.Share, a.Ask = 0, 0
			a.Surge, a.Why = min(a.Surge, extras), a.Failed
			return a
		}
		a.look(left)
	}
	if trial {
		// Only surge instances of an older revision.
		a.update(r, s, slices.DeleteFunc(behind, func(u *Unit) bool { return !u.Extra }), inFlight)
		a.Why = cmp.Or(a.asks(&s), a.waits(r, &s, now), s.waitsFor(r, now))
		return a
	}
	if !held {
		a.update(r, s, behind, inFlight)
	}
	a.Why = cmp.Or(a.asks(&s), s.waitsFor(r, now))
	return a
}

func (a *Action) look(d time.Duration) {
	if d > 0 && (a.Look == 0 || d < a.Look) {
		a.Look = d
	}
}

// surge is the wanted number of extra instances: one for each instance to be updated that would be
// missed. They stay until the end, unless there are too many and enough others.
func (s *State) surge(r Rules, extras, missed int, now time.Time) int {
	ready, seen, held := 0, 0, 0
	for i := range s.Units {
		u := &s.Units[i]
		if r.counts(u, now) {
			ready++
		}
		if u.Extra {
			if seen++; u.Placed {
				held = seen
			}
		}
	}
	want := max(held, min(max(extras, min(r.Surge, missed)), missed)) // nobody needs one more than are missed
	least := s.Promised - r.Unavailable
	for i := len(s.Units) - 1; i >= 0 && want > r.Surge; i-- {
		u := &s.Units[i]
		if !u.Extra {
			continue
		}
		if r.counts(u, now) {
			if ready <= least {
				break
			}
			ready--
		}
		want--
	}
	return want
}

// update chooses the instances to update now: first those that are not ready, then surge instances
// of an older revision, then the others by ordinal.
func (a *Action) update(r Rules, s State, behind []*Unit, inFlight int) {
	spare := a.Ready - (s.Promised - r.Unavailable)
	slots, left := r.wave()-inFlight, len(behind)
	if r.Asked && !a.Trial {
		left = r.left(&s)
	}
	rank := func(u *Unit) int {
		switch {
		case !u.Ready:
			return 0
		case u.Extra:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(behind, func(x, y *Unit) int {
		return cmp.Or(cmp.Compare(rank(x), rank(y)), cmp.Compare(x.Ordinal, y.Ordinal))
	})
	for _, u := range behind {
		if slots <= 0 {
			return
		}
		if u.Busy || u.Extra && u.Ordinal < 0 || !u.Extra && left <= 0 {
			continue
		}
		if u.Ready {
			if spare <= 0 {
				return
			}
			spare--
		}
		slots--
		if !u.Extra {
			left--
		}
		a.Update = append(a.Update, u.Ordinal)
	}
}

// waitsFor says what the rollout waits for, "" if that is not known.
func (s *State) waitsFor(r Rules, now time.Time) string {
	var words []string
	for i := range s.Units {
		u := &s.Units[i]
		switch {
		case u.Extra && !u.Placed && u.Why != "":
			return "there is no room for one more than promised (max_surge): " + u.Why +
				"; make room, or let one be missing: rollout: {max_unavailable: 1}"
		case u.Updated && u.Placed && !u.Ready:
			why := u.Name + " is not ready"
			if u.Why != "" {
				why += ": " + u.Why
			}
			words = append(words, why)
		case u.Updated && u.Placed && !r.counts(u, now):
			words = append(words, fmt.Sprintf("%s is to be ready for %s", u.Name, r.MinReady))
		}
	}
	if len(words) == 0 {
		for i := range s.Units {
			if u := &s.Units[i]; !u.Updated && u.Ready && u.Why != "" {
				words = append(words, u.Name+": "+u.Why)
			} else if !u.Updated && !u.Ready {
				why := u.Name + " is not ready, and must be before others are taken"
				if u.Why != "" {
					why += ": " + u.Why
				}
				words = append(words, why)
			}
		}
	}
	const most = 3
	if extra := len(words) - most; extra > 0 {
		words = append(words[:most], fmt.Sprintf("and %d more", extra))
	}
	return strings.Join(words, "; ")
}
