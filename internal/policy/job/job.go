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
	Waits     Phase = iota // it will run, now or later
	Runs                   // it runs, or is about to on a worker
	Completed              // it ended well
	Failed                 // it does not run again
)

// Index is one index of a job as its cluster sees it.
type Index struct {
	// Ordinal of its instance.
	Ordinal int
	Phase   Phase
	// Next is when a waiting index may start; zero: at once.
	Next time.Time
}

// Parallel is how many indexes of a share may run at a time.
func Parallel(s *wire.Share) int {
	switch {
	case s.Spec.Job.Suspend && s.Spec.Cron == nil: // else its schedule is suspended
		return 0
	case s.Parallel != nil:
		return max(0, *s.Parallel)
	}
	return s.Spec.Job.Parallelism
}

// Divide divides how many may run at a time among clusters by the weight of their work: a cluster
// without work gets none, the others at least one each as far as that goes.
func Divide(parallel int, weights []int) []int {
	out, total, left := make([]int, len(weights)), 0, parallel
	for k, w := range weights {
		if total += max(0, w); w > 0 && left > 0 {
			out[k]++
			left--
		}
	}
	for left > 0 && total > 0 {
		// The next one goes to the cluster with the fewest for its weight.
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

// Admit says which waiting indexes may start, lowest ordinals first, if parallel may run at a time;
// all is sorted by ordinal. longest is the longest delay between two runs: a start that lies further
// ahead was set before the clock was set back, and is due. wake is when the next index with a place is
// due; zero: none.
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

// Again decides whether an index that has failed runs again. It returns the changed copy of try and a
// text for people. after is the delay before the next run.
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

// Judge returns a run with its counts, its outcome once it is over, and when its deadline requires
// another look; zero: never. A run that is over stays as it is. total is the number of indexes.
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
	run.Completed, run.Failed = 0, 0 // they are set when it is over
	return run, wake
}
