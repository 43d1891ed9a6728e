package cluster

import (
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/cron"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that was restored from a backup has old records of its schedules. What it began
// after the backup the root was told, in the reports of its jobs. So it asks the root, with a
// report that says so, and begins nothing of a schedule until the root has given it that
// again with what it knows, or has not done so for a while: it may be of a version before.

// rootTells is how long a root that was heard may take for that.
const rootTells = time.Minute

// asksRoot says whether nothing may become of a job with a schedule yet, since the root is
// asked what this cluster has begun after the backup that it was restored from.
func (t *tx) asksRoot(s *wire.Share, rec *jobRecord, now time.Time) bool {
	start, mark := s.Cron, t.m.Mark()
	mine := start != nil && !start.Elsewhere
	if mark != nil && mine && !rec.Recovered.Equal(mark.At) {
		rec.Recovered, rec.Held = mark.At, now.Add(rootTells).Round(0)
	}
	if rec.Held.IsZero() {
		return false
	}
	key, left := s.App+"."+s.Service, rec.Held.Sub(now)
	switch {
	case !mine:
	case start.Restored.Equal(rec.Recovered):
		t.Event("service/"+key, "restored from a backup: %s", takeBack(rec, s.Spec.Cron.Rule(), start, s.Spec.Cron.Retained(), now))
	case left > 0 && left <= rootTells: // else the clock was set
		return true
	default:
		t.Event("service/"+key, "restored from a backup, and the root does not say what has begun since that was made: times that have passed since count as missed (missed: %s)", s.Spec.Cron.Missed)
	}
	rec.Held = time.Time{}
	return false
}

// takeBack brings the record of a job to what the root knows of it, where that is newer, and
// says in words what it is.
func takeBack(rec *jobRecord, rule string, start *wire.CronStart, most int, now time.Time) (what string) {
	rec.Epoch = start.Epoch
	what = "the root knows of no run that the backup does not"
	if run := start.Run; run != nil && (run.N > rec.Run.N || run.N == rec.Run.N && goesOn(&rec.Run) && !goesOn(run)) {
		if was := rec.Run; was.N > 0 && was.N < run.N && !was.Began.IsZero() {
			if was.Outcome == "" {
				was.Outcome, was.Why = wire.JobReplaced, "the backup does not know how it ended"
			}
			rec.Past = append(slices.Clone(rec.Past), was)
			rec.Past = rec.Past[max(0, len(rec.Past)-most):]
		}
		rec.Run = *run
		what = fmt.Sprintf("the root knows of run %d", run.N)
		if !run.Scheduled.IsZero() {
			what += ", for " + run.Scheduled.Format(time.RFC3339)
		}
		if goesOn(run) {
			what += ", which goes on"
		}
	}
	if start.Rule == rule && !start.After.IsZero() && (rec.Cron == nil || start.After.After(rec.Cron.After)) {
		c := cron.TakenOver(rule, start.After, start.Pending, now)
		if rec.Cron != nil {
			c.Missed, c.Skipped = rec.Cron.Missed, rec.Cron.Skipped
		}
		rec.Cron = &c
		what += "; what was due until " + c.After.Format(time.RFC3339) + " is not begun again"
	}
	return what
}
