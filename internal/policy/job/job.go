package job

import (
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Phase of an index.
type Phase int

// The phases of an index.
const (
	Waits     Phase = iota // it is to run, now or later
	Runs                   // it runs, or is about to on a worker
	Completed              // it ended well
	Failed                 // it is not run again
)

// Index is one index of a job as its cluster sees it.
type Index struct {
	// Ordinal of its instance.
	Ordinal int
	Phase   Phase
	// Next is when it may start if it waits; zero: at once.
	Next time.Time
}

// Parallel is how many of a share may run at a time.
func Parallel(s *wire.Share) int {
	switch {
	case s.Spec.Job.Suspend && s.Spec.Cron == nil: // else it is its schedule that is suspended
		return 0
	case s.Parallel != nil:
		return max(0, *s.Parallel)
	}
	return s.Spec.Job.Parallelism
}

// Divide shares out how many may run at a time among clusters by the weights of what they
// have to do: those with none get none, and all others one at least, as far as that goes.
func Divide(parallel int, weights []int) []int {
	out, total, left := make([]int, len(weights)), 0, parallel
	for k, w := range weights {
		if total += max(0, w); w > 0 && left > 0 {
			out[k]++
			left--
		}
	}
	for left > 0 && total > 0 {
		// To whom the next one is due most: who would have the fewest for his weight.
		best := -1
		for k, w := range weights {
			if w > 0 && (best < 0 || (out[k]+1)*weights[best] < (out[best]+1)*w) {
				best = k
			}
		}
		out[best]++
		left--
	}
	return out
}

// Admit says which of the indexes that wait may start, lowest ordinals first, where
// parallel may run at a time; all are in the order of their ordinals. longest is the
// longest delay between two runs: a start that is due later than that after now was
// decided before the clock was set back, and is due. wake is when the next one of those
// is due for which there is a place; zero: none.
func Admit(parallel int, all []Index, longest time.Duration, now time.Time) (start []int, wake time.Time) {
	free := parallel
	for _, x := range all {
		if x.Phase == Runs {
			free--
		}
	}
	for _, x := range all {
		if x.Phase != Waits || free <= 0 {
			continue
		}
		if wait := x.Next.Sub(now); !x.Next.IsZero() && wait > 0 && wait <= longest {
			if wake.IsZero() || x.Next.Before(wake) {
				wake = x.Next
			}
			continue
		}
		start = append(start, x.Ordinal)
		free--
	}
	return start, wake
}

// Again decides about an index that has failed once more, as said in words: when it is
// run again, or that it is over. try is what was known of it, of which a changed copy is
// returned, with what is to be said. after is the delay before it is run again.
func Again(rules *api.Job, try wire.JobTry, said string, after time.Duration, now time.Time) (wire.JobTry, string) {
	most := api.DefaultRetries
	if rules.Retries != nil {
		most = max(0, *rules.Retries)
	}
	try.Failed++
	if try.Failed > most {
		try.Next = time.Time{}
		try.Over = fmt.Sprintf("%s; it has failed %s, and may be retried %s", said, times(try.Failed), times(most))
		return try, try.Over
	}
	try.Next = now.Add(after).Round(0)
	return try, fmt.Sprintf("%s, retry %d of %d in %s", said, try.Failed, most, after.Round(time.Millisecond))
}

func times(n int) string {
	switch n {
	case 0:
		return "not at all"
	case 1:
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

// Judge says how a run stands now: it returns the run, with its outcome once it is over,
// and when to look again because of its deadline; zero: no need. What is over stays as it
// is. total are the indexes that there are to be.
func Judge(rules *api.Job, run wire.JobRun, all []Index, total int, now time.Time) (_ wire.JobRun, wake time.Time) {
	if run.Outcome != "" {
		return run, wake
	}
	completed, failed := 0, 0
	for _, x := range all {
		switch x.Phase {
		case Completed:
			completed++
		case Failed:
			failed++
		}
	}
	run.Completed, run.Failed = completed, failed
	deadline := run.Began.Add(rules.Deadline.Std())
	over := func(outcome, why string) (wire.JobRun, time.Time) {
		run.Outcome, run.Why, run.Ended = outcome, why, now.Round(0)
		return run, time.Time{}
	}
	switch {
	case completed >= total:
		return over(wire.JobComplete, fmt.Sprintf("%d of %d completed", completed, total))
	case completed+failed >= total:
		return over(wire.JobFailed, fmt.Sprintf("%d of %d completed, %d failed", completed, total, failed))
	case rules.Deadline > 0 && !now.Before(deadline):
		return over(wire.JobFailed, fmt.Sprintf("its deadline of %s has passed with %d of %d completed", rules.Deadline,
			completed, total))
	case rules.Deadline > 0:
		wake = deadline
	}
	run.Completed, run.Failed = 0, 0 // are said when it is over
	return run, wake
}
