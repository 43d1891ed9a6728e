package wave

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Phase of a worker in an upgrade.
type Phase string

// Phases in their order; the last three are final.
const (
	Waits   Phase = "waiting"   // for its turn
	Begun   Phase = "upgrading" // it was ordered to, and has not reported the outcome
	Soaks   Phase = "watched"   // it reports that it works
	Passed  Phase = "done"
	Skipped Phase = "skipped" // it cannot be upgraded, or its operator does not want it
	Failed  Phase = "failed"
)

// Rules of an upgrade.
type Rules struct {
	// Wave is how many workers are upgraded at a time, at least 1.
	Wave int
	// Soak is how long a worker is watched after it reports that it works.
	Soak time.Duration
	// Timeout bounds how long a worker may take, and how long it may be away meanwhile.
	Timeout time.Duration
	// Recover bounds how long after its Soak a worker may still lack instances that ran there.
	Recover time.Duration
}

// Worker as an upgrade sees it.
type Worker struct {
	Name  string
	Phase Phase
	// Since is when the phase began.
	Since time.Time
	// Away: it does not report.
	Away bool
	// Lacks says what does not yet run on a watched worker as it did before, "" if everything does.
	Lacks string
	// Worse says what has become worse on a watched worker since its upgrade, beyond doubt; "" for
	// nothing.
	Worse string
}

// Action is what to do now.
type Action struct {
	// Begin and Pass are the workers whose phase becomes Begun or Passed.
	Begin, Pass []string
	// Fail has the workers that have just failed, by name, with the reason.
	Fail map[string]string
	// Halt is why no further worker begins, "" if the upgrade goes on.
	Halt string
	// Done: every worker has reached a final phase.
	Done bool
	// Why says what the upgrade waits for, "" for nothing.
	Why string
}

// age is the time since an earlier reading of a clock that may have been set back.
func age(now, since time.Time) time.Duration { return max(now.Sub(since), since.Sub(now)) }

// Decide says what to do next. held is why no worker may begin now, "" if one may.
func Decide(r Rules, held string, workers []Worker, now time.Time) Action {
	a := Action{Fail: map[string]string{}}
	var waits []string
	away, underWay := 0, 0
	failed := ""
	sorted := slices.SortedFunc(slices.Values(workers), func(x, y Worker) int { return cmp.Compare(x.Name, y.Name) })
	for _, w := range sorted {
		phase := w.Phase
		if phase == Begun || phase == Soaks {
			if why := r.fails(&w, now); why != "" {
				a.Fail[w.Name], phase = why, Failed
			}
		}
		switch phase {
		case Waits:
			if w.Away {
				away++
			} else {
				waits = append(waits, w.Name)
			}
		case Begun:
			underWay++
			a.Why = cmp.Or(a.Why, "worker "+w.Name+" is being upgraded")
		case Soaks:
			if !w.Away && w.Lacks == "" && age(now, w.Since) >= r.Soak {
				a.Pass = append(a.Pass, w.Name)
				continue
			}
			underWay++
			a.Why = cmp.Or(a.Why, r.watches(&w, now))
		case Failed:
			failed = cmp.Or(failed, "worker "+w.Name+" has failed")
		}
	}
	a.Halt = failed
	switch {
	case failed != "" || underWay > 0:
	case held != "":
		a.Why = held
	case len(waits) > 0:
		a.Begin = waits[:min(len(waits), max(r.Wave, 1))]
	case away > 0:
		a.Why = fmt.Sprintf("%d of its workers are away: they are upgraded when they are back", away)
	default:
		a.Done = true
	}
	return a
}

// fails says why a worker that is being upgraded has failed, "" if it has not.
func (r Rules) fails(w *Worker, now time.Time) string {
	d := age(now, w.Since)
	switch {
	case d >= r.Timeout && w.Away:
		return fmt.Sprintf("it has not been heard for %s since it was told", r.Timeout)
	case d >= r.Timeout && w.Phase == Begun:
		return fmt.Sprintf("it does not say within %s that it works", r.Timeout)
	case w.Phase == Soaks && w.Worse != "":
		return "it works, and more requests fail: " + w.Worse
	case w.Phase == Soaks && !w.Away && w.Lacks != "" && d >= r.Soak+r.Recover:
		return "it works, and what ran there does not: " + w.Lacks
	}
	return ""
}

// watches says what a watched worker still has to show.
func (r Rules) watches(w *Worker, now time.Time) string {
	switch {
	case w.Away:
		return "worker " + w.Name + " is not heard"
	case w.Lacks != "":
		return "worker " + w.Name + ": " + w.Lacks
	}
	return fmt.Sprintf("worker %s is watched for another %s", w.Name, max(r.Soak-age(now, w.Since), 0).Round(time.Second))
}
