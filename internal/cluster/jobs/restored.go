package jobs

import (
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
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
func asksRoot(t *state.Tx, s *wire.Share, rec *Record, now time.Time) bool {
	start, mark := s.Cron, t.Model.Mark()
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
		t.Event(event.JobRestored, key, "restored from a backup: %s",
			TakeBack(rec, s.Spec.Cron.Rule(), start, s.Spec.Cron.Retained(), now))
	case left > 0 && left <= rootTells: // else the clock was set
		return true
	default:
		t.Event(event.JobRestored, key, "restored from a backup, and the root does not say what has begun since "+
			"that was made: times that have passed since count as missed (missed: %s)", s.Spec.Cron.Missed)
	}
	rec.Held = time.Time{}
	return false
}

// TakeBack brings the record of a job to what the root knows of it, where that is newer, and
// says in words what it is.
func TakeBack(rec *Record, rule string, start *wire.CronStart, most int, now time.Time) (what string) {
	rec.Epoch = start.Epoch
	what = "the root knows of no run that the backup does not"
	if run := start.Run; run != nil && (run.N > rec.Run.N || run.N == rec.Run.N && GoesOn(&rec.Run) && !GoesOn(run)) {
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
		if GoesOn(run) {
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

// Of a job without a schedule a cluster that was restored from a backup may have forgotten
// that it was there, or that indexes have completed; the root has stored that. So it asks the
// root, as of its schedules (TakeBack), and starts nothing of the job before.

// asksDone says whether nothing may become of a job yet, since the root is asked what of it
// has completed after the backup that this cluster was restored from.
func asksDone(t *state.Tx, s *wire.Share, rec *Record, now time.Time) bool {
	key, mark := s.App+"."+s.Service, t.Model.Mark()
	given := t.Model.FromRoot[key]
	if mark != nil && given != nil && !rec.Recovered.Equal(mark.At) {
		rec.Recovered, rec.Held = mark.At, now.Add(rootTells).Round(0)
	}
	if rec.Held.IsZero() {
		return false
	}
	left := rec.Held.Sub(now)
	switch {
	case given == nil: // the root knows nothing of it
	case given.Done != nil && given.Done.Restored.Equal(rec.Recovered):
		if Pass(t).doneBack == nil {
			Pass(t).doneBack = map[string]*wire.JobDone{}
		}
		Pass(t).doneBack[key] = given.Done
	case left > 0 && left <= rootTells: // else the clock was set
		return true
	default:
		t.Event(event.JobRestored, key, "restored from a backup, and the root does not say what of the job has "+
			"completed since that was made: what is not known to have is run")
	}
	rec.Held = time.Time{}
	return false
}

// takeDone notes that indexes have completed which the root knows of, unless the run is of
// another program, or was asked for later, at this site.
func takeDone(t *state.Tx, s *wire.Share, rec *Record, done *wire.JobDone, now time.Time) {
	key := s.App + "." + s.Service
	if rec.Run.Program != done.Program || rec.Run.Restarted > done.Restarted {
		return
	}
	n, given := 0, t.Model.FromRoot[key]
	for _, o := range state.Ordinals(s) {
		if !slices.ContainsFunc(done.Ordinals, func(sp wire.Span) bool { return o >= sp.From && o < sp.To }) {
			continue
		}
		id := state.InstanceID(s.App, s.Service, o)
		old := t.Inst(id)
		if old != nil && (old.Job != nil && old.Job.Run == rec.Run.N && old.Completed() || runsNow(t, old)) {
			continue
		}
		i := wire.Instance{
			V: wire.Version, ID: id, App: s.App, Service: s.Service, Ordinal: o, Revision: s.Revision,
			Cluster: t.Model.Name,
			Program: rec.Run.Program, Restarted: max(rec.Run.Restarted, state.RestartOf(given, o).N),
			State: wire.ClusterScheduled, Since: now.Round(0), Job: &wire.JobTry{Index: indexOf(s, o), Run: rec.Run.N},
			History: []wire.Transition{{To: wire.ClusterScheduled, At: now.Round(0), Tier: t.Model.Tier(),
				Why: "the root knows that it has completed, the backup does not"}},
		}
		if old != nil {
			i.Incarnation, i.Given, i.Starts, i.Ran = old.Incarnation, old.Given, old.Starts, old.Ran
		}
		t.Put(t.AdvanceFor(i, wire.Terminated, now, t.Model.Tier(), wire.CauseCompleted, "completed"))
		n++
	}
	t.Event(event.JobRestored, key, "restored from a backup: the root knows of %d indexes that have completed here since that was made", n)
}

// runsNow: its worker says that it runs.
func runsNow(t *state.Tx, i *wire.Instance) bool {
	w := t.Model.Workers[i.Worker]
	if w == nil || !w.EverHeard || !state.HasProcess(i) {
		return false
	}
	st, ok := w.Status[i.ID]
	return ok && st.Phase == wire.PhaseRunning && st.Incarnation == i.Incarnation
}
