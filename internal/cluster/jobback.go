package cluster

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Of a job without a schedule a cluster that was restored from a backup may have forgotten
// that it was there, or that indexes have completed; the root has stored that. So it asks the
// root, as of its schedules (cronback.go), and starts nothing of the job before.

// asksDone says whether nothing may become of a job yet, since the root is asked what of it
// has completed after the backup that this cluster was restored from.
func (t *tx) asksDone(s *wire.Share, rec *jobRecord, now time.Time) bool {
	key, mark := s.App+"."+s.Service, t.m.Mark()
	given := t.m.Given[key]
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
		if t.doneBack == nil {
			t.doneBack = map[string]*wire.JobDone{}
		}
		t.doneBack[key] = given.Done
	case left > 0 && left <= rootTells: // else the clock was set
		return true
	default:
		t.Event("service/"+key, "restored from a backup, and the root does not say what of the job has completed since that was made: what is not known to have is run")
	}
	rec.Held = time.Time{}
	return false
}

// takeDone notes that indexes have completed which the root knows of, unless the run is of
// another program, or was asked for later, at this site.
func (t *tx) takeDone(s *wire.Share, rec *jobRecord, done *wire.JobDone, now time.Time) {
	key := s.App + "." + s.Service
	if rec.Run.Program != done.Program || rec.Run.Restarted > done.Restarted {
		return
	}
	n, given := 0, t.m.Given[key]
	for _, o := range ordinals(s) {
		if !slices.ContainsFunc(done.Ordinals, func(sp wire.Span) bool { return o >= sp.From && o < sp.To }) {
			continue
		}
		id := instanceID(s.App, s.Service, o)
		old := t.Inst(id)
		if old != nil && (old.Job != nil && old.Job.Run == rec.Run.N && old.Completed() || t.runsNow(old)) {
			continue
		}
		i := wire.Instance{
			V: wire.Version, ID: id, App: s.App, Service: s.Service, Ordinal: o, Revision: s.Revision, Cluster: t.m.Name,
			Program: rec.Run.Program, Restarted: max(rec.Run.Restarted, restartOf(given, o).N),
			State: wire.ClusterScheduled, Since: now.Round(0), Job: &wire.JobTry{Index: indexOf(s, o), Run: rec.Run.N},
			History: []wire.Transition{{To: wire.ClusterScheduled, At: now.Round(0), Tier: t.m.Tier(), Why: "the root knows that it has completed, the backup does not"}},
		}
		if old != nil {
			i.Incarnation, i.Given, i.Starts, i.Ran = old.Incarnation, old.Given, old.Starts, old.Ran
		}
		t.Put(t.AdvanceFor(i, wire.Terminated, now, t.m.Tier(), wire.CauseCompleted, "completed"))
		n++
	}
	t.Event("service/"+key, "restored from a backup: the root knows of %d indexes that have completed here since that was made", n)
}

// runsNow: its worker says that it runs.
func (t *tx) runsNow(i *wire.Instance) bool {
	w := t.m.Workers[i.Worker]
	if w == nil || !w.EverHeard || !hasProcess(i) {
		return false
	}
	st, ok := w.Status[i.ID]
	return ok && st.Phase == wire.PhaseRunning && st.Incarnation == i.Incarnation
}
