package jobs

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

var (
	// Table is the runs of jobs, by application and service.
	Table = table.Add(&state.Schema, records.Kind{
		Prefix: Key, Fate: records.Holds, Ask: true,
		Drop: "the runs of the job are forgotten: the root is asked which indexes have completed, and how far its schedule is",
	}, table.Rules[Record]{Stage: table.First, Leads: state.LeadsService})
	// UpTable is what the root is told of them.
	UpTable = table.Add(&state.Schema, records.Kind{
		Prefix: KeyUp, Fate: records.Again, Drop: state.UpDrop,
	}, table.Rules[wire.JobReport]{Group: state.OfService[wire.JobReport]})
)

// A job is a service whose instances end: each has an index, is started when it is its
// turn, and once more where it failed. This cluster runs the indexes that it was given
// by itself; what it has of them is in its instances, and what of the job as a whole in
// a record beside them. Workers do not start anything of a job again by themselves, so
// that what is counted here is all there is.

// Key + app.service is the run of a job.
const Key = "job."

// maxPast runs of a job are remembered.
const maxPast = 10

// Record is what is kept of a job beside its instances.
type Record struct {
	V       int    `json:"v"`
	App     string `json:"app"`
	Service string `json:"service"`
	// Run is the latest one, Past those before it, newest last.
	Run  wire.JobRun   `json:"run"`
	Past []wire.JobRun `json:"past,omitempty"`
	// Stopped is the latest mark of its end that was heeded, Cron how far it is with its
	// schedule; nil without one.
	Stopped uint64          `json:"stopped,omitempty"`
	Cron    *wire.CronState `json:"cron,omitempty"`
	// Epoch is that of the wire.CronStart that it began with.
	Epoch uint64 `json:"epoch,omitempty"`
	// Recovered is the last restore from a backup after which the root was asked what had
	// begun since that was made, Held how long nothing begins for that; zero: it is over.
	Recovered time.Time `json:"recovered,omitzero"`
	Held      time.Time `json:"held,omitzero"`
}

// Begin begins a run of each job that has none of its program, whose time has come, or
// of which another one was asked for, ends what was asked to end, and forgets the jobs that
// are gone.
func Begin(t *state.Tx, now time.Time) {
	for key := range Table.Rows(t.Model.DB) {
		if s := t.Model.Shares[key]; s == nil || s.Spec.Job == nil {
			Table.Put(t.Rows, key, nil)
		}
	}
	for _, key := range records.SortedKeys(t.Model.Shares) {
		s := t.Model.Shares[key]
		if s.Spec.Job == nil {
			continue
		}
		r := Record{V: wire.Version, App: s.App, Service: s.Service}
		if old := Table.Get(t.Rows, key); old != nil {
			r = *old
		}
		stopRun(t, s, &r, now)
		if next := nextOf(t, s, &r, now); next != nil {
			beginRun(t, s, &r, *next, now)
		}
		if done := Pass(t).doneBack[key]; done != nil {
			takeDone(t, s, &r, done, now)
		}
		Table.Put(t.Rows, key, &r)
	}
}

// nextOf is the run of a job that is to begin now; nil for none.
func nextOf(t *state.Tx, s *wire.Share, r *Record, now time.Time) *wire.JobRun {
	if s.Spec.Cron != nil {
		return dueRun(t, s, r, now)
	}
	r.Cron = nil
	if asksDone(t, s, r, now) {
		return nil
	}
	next := wire.JobRun{Program: t.Program(s.Spec)}
	if s.Restart != nil {
		next.Restarted, next.Asked = s.Restart.N, wanted(*s.Restart)
	}
	if r.Run.N > 0 && r.Run.Program == next.Program {
		if r.Run.Restarted >= next.Restarted {
			return nil
		}
	} else if next.Restarted <= r.Run.Restarted {
		next.Asked = "" // its program is another
	}
	return &next
}

// beginRun begins another run. What goes on of the one before is ended by Fulfil.
func beginRun(t *state.Tx, s *wire.Share, r *Record, next wire.JobRun, now time.Time) {
	if was := r.Run; was.N > 0 && !was.Began.IsZero() {
		if was.Outcome == "" {
			endRun(t, s, r, wire.JobReplaced, "another run has begun", now)
			was = r.Run
		}
		most := maxPast
		if s.Spec.Cron != nil {
			most = s.Spec.Cron.Retained()
		}
		r.Past = append(slices.Clone(r.Past), was)
		r.Past = r.Past[max(0, len(r.Past)-most):]
	}
	next.N, next.Program, next.Began = r.Run.N+1, t.Program(s.Spec), now.Round(0)
	switch {
	case !next.Scheduled.IsZero():
		t.Event(event.JobRunBegun, s.App+"."+s.Service, "run %d of the job begins, for %s", next.N,
			next.Scheduled.Format(time.RFC3339))
	case next.Asked != "":
		t.Event(event.JobRunBegun, s.App+"."+s.Service, "run %d of the job begins, asked for by %s", next.N, next.Asked)
	case next.N > 1:
		t.Event(event.JobRunBegun, s.App+"."+s.Service, "run %d of the job begins", next.N)
	}
	r.Run = next
}

// indexOf is the index that an ordinal of a share works on.
func indexOf(s *wire.Share, ordinal int) int {
	if x, ok := s.Index[ordinal]; ok {
		return x
	}
	if ordinal >= wire.LocalOrdinals {
		return ordinal - wire.LocalOrdinals
	}
	return ordinal
}

// Fulfil makes the instances of a job: one for each index, of its latest run. One of
// a run before is ended first, so that no index runs twice.
func Fulfil(t *state.Tx, s *wire.Share, now time.Time) {
	key := s.App + "." + s.Service
	rec := *Table.Get(t.Rows, key)
	if !rec.Held.IsZero() {
		return
	}
	for _, o := range state.Ordinals(s) {
		old := t.Inst(state.InstanceID(s.App, s.Service, o))
		why := "taken over from the root"
		switch mine := old != nil && old.Job != nil && old.Job.Run == rec.Run.N; {
		case s.Spec.Cron != nil && !GoesOn(&rec.Run) && !mine:
			// There is nothing to do before it is due.
			if old != nil && state.HasProcess(old) && !old.Draining {
				halt(t, old.ID, "its job has a schedule", now)
			}
			continue
		case old == nil:
			if rec.Run.Outcome != "" { // it was given one index more
				rec.Run.Outcome, rec.Run.Why, rec.Run.Ended, rec.Run.Completed, rec.Run.Failed = "", "", time.Time{},
					0, 0
				Table.Put(t.Rows, key, &rec)
			}
		case (old.Job == nil || old.Job.Run == 0) && state.HasProcess(old) && old.Program == rec.Run.Program:
			// It was no job before, or this cluster was restored from a backup.
			next := *old
			next.Job = &wire.JobTry{Index: indexOf(s, o), Run: rec.Run.N}
			t.Put(next)
			if given := t.Ordered(next.Worker + "." + next.ID); given != nil && given.Job == nil {
				order := *given
				order.Job = OrderOf(t, &next, s)
				t.Order(next.Worker, next.ID, &order)
			}
			continue
		case old.Job != nil && old.Job.Run == rec.Run.N:
			r := jobMark(s, &rec, o)
			again := r.N > old.Restarted && !state.HasProcess(old) &&
				(old.State == wire.Terminated || old.Job.Over != "")
			if !again && (old.State != wire.Terminated || old.Completed() || old.Job.Over != "") {
				continue
			}
			if again {
				why = state.Asked(r)
				rec.Run.Outcome, rec.Run.Why, rec.Run.Ended, rec.Run.Completed, rec.Run.Failed = "", "", time.Time{},
					0, 0
				rec.Run.Began = now.Round(0) // and with it its deadline
				Table.Put(t.Rows, key, &rec)
			}
		case state.HasProcess(old):
			halt(t, old.ID, fmt.Sprintf("run %d of its job has begun", rec.Run.N), now)
			continue
		default:
			why = fmt.Sprintf("run %d of its job", rec.Run.N)
		}
		i := wire.Instance{
			V: wire.Version, ID: state.InstanceID(s.App, s.Service, o), App: s.App, Service: s.Service, Ordinal: o,
			Revision: s.Revision, Cluster: t.Model.Name,
			Program: rec.Run.Program, Restarted: max(rec.Run.Restarted, jobMark(s, &rec, o).N),
			State: wire.ClusterScheduled, Since: now.Round(0), Job: &wire.JobTry{Index: indexOf(s, o), Run: rec.Run.N},
			History: []wire.Transition{{To: wire.ClusterScheduled, At: now.Round(0), Tier: t.Model.Tier(), Why: why}},
		}
		if old != nil {
			i.Incarnation, i.Given, i.Pinned = old.Incarnation, old.Given, old.Pinned
			i.Starts, i.Ran, i.AllRestarts = old.Starts, old.Ran, old.Again()
			if old.Shadow != nil {
				i.Given = state.NextIncarnation(old) - 1
			}
		}
		t.Put(i)
	}
}

// jobMark is the latest mark of a restart that an instance of a job is to heed. One of
// the whole job with a schedule may still wait for the run before to end.
func jobMark(s *wire.Share, r *Record, ordinal int) wire.Restart {
	if s.Spec.Cron == nil {
		return state.RestartOf(s, ordinal)
	}
	if one, ok := s.RestartOf[ordinal]; ok && one.N > r.Run.Restarted {
		return one
	}
	return wire.Restart{}
}

// halt ends an instance of a job that is not to run any more, by its stop rule.
func halt(t *state.Tx, id wire.InstanceID, why string, now time.Time) {
	i := *t.Inst(id)
	state.Drop(&i)
	if i.Job != nil && i.Job.Over == "" && !i.Completed() {
		try := *i.Job
		try.Over = why
		i.Job = &try
	}
	w := t.Model.Workers[i.Worker]
	switch {
	case i.State == wire.Running && (w == nil || w.Suspect):
		// Nobody is there to stop it. Its order goes, so that it stops on return.
		i.Draining, i.Shadow = true, nil
		i = t.Advance(i, wire.Terminated, now, t.Model.Tier(), why+"; its worker is away and will stop it on return")
	case i.State == wire.WorkerScheduled &&
		(w == nil || w.Suspect), i.State == wire.ClusterScheduled, i.State == wire.Requested:
		i.Shadow = nil
		i = t.Advance(i, wire.Terminated, now, t.Model.Tier(), why)
	case i.State == wire.Running, i.State == wire.WorkerScheduled:
		i.Draining = true // until its worker says that it has ended
	}
	t.Put(i)
}

// Indexes are those of a share as the decider sees them.
func Indexes(t *state.Tx, s *wire.Share, run uint64) []job.Index {
	var out []job.Index
	for _, o := range state.Ordinals(s) {
		i := t.Inst(state.InstanceID(s.App, s.Service, o))
		if i == nil {
			continue
		}
		x := job.Index{Ordinal: o}
		mine := i.Job != nil && i.Job.Run == run
		switch {
		case state.HasProcess(i):
			x.Phase = job.Runs
		case mine && i.Completed():
			x.Phase = job.Completed
		case mine && (state.Halted(i) || i.State == wire.Terminated):
			x.Phase = job.Failed
		case mine:
			x.Next = i.Job.Next
		}
		out = append(out, x)
	}
	return out
}

// longest is the longest delay between two runs of an index.
func longest(s *api.Service) time.Duration {
	return max(s.Restart.MaxDelay.Std(), s.Restart.Delay.Std(), life.MaxBackoff)
}

// Judge ends the runs that are over, and says which indexes may start.
func Judge(t *state.Tx, now time.Time) {
	Pass(t).turns = map[wire.InstanceID]bool{}
	for _, key := range records.SortedKeys(t.Model.Shares) {
		s := t.Model.Shares[key]
		if s.Spec.Job == nil {
			continue
		}
		rec := *Table.Get(t.Rows, key)
		if !rec.Held.IsZero() {
			continue
		}
		all := Indexes(t, s, rec.Run.N)
		was := rec.Run.Outcome
		if rec.Run.N > 0 {
			rec.Run, _ = job.Judge(s.Spec.Job, rec.Run, all, s.Min, now)
		}
		if rec.Run.Outcome != was {
			t.Event(event.OfRun(rec.Run.Outcome), key, "the job is %s: %s", rec.Run.Outcome, rec.Run.Why)
			tallyRun(t, s.App, rec.Run.Outcome)
			Table.Put(t.Rows, key, &rec)
		}
		parallel := job.Parallel(s)
		start, _ := job.Admit(parallel, all, longest(s.Spec), now)
		if !GoesOn(&rec.Run) {
			start = nil
		}
		for _, o := range start {
			Pass(t).turns[state.InstanceID(s.App, s.Service, o)] = true
		}
		for _, x := range all {
			id := state.InstanceID(s.App, s.Service, x.Ordinal)
			i := t.Inst(id)
			switch {
			case rec.Run.Outcome != "" && (x.Phase == job.Waits || x.Phase == job.Runs) && i.Leaving == nil:
				halt(t, id, rec.Run.Why, now)
			case rec.Run.Outcome == "" && x.Phase == job.Runs && i.State == wire.Running && state.Halted(i) &&
				i.Job.Run == rec.Run.N:
				alive(t, *i) // it was given up, and is back with its worker
			case x.Phase == job.Waits && !Pass(t).turns[id] && x.Next.IsZero():
				next := *i
				next.Reason = fmt.Sprintf("it waits for its turn: %d of its job run at a time", parallel)
				if s.Spec.Job.Suspend {
					next.Reason = "its job is suspended"
				}
				t.Put(next)
			}
		}
	}
}

// alive lets an instance go on that was taken for lost once too often.
func alive(t *state.Tx, i wire.Instance) {
	try := *i.Job
	try.Over = ""
	i.Job, i.Draining = &try, false
	t.Put(i)
}

// MayStart says whether it is the turn of an instance of a job.
func MayStart(t *state.Tx, i *wire.Instance) bool { return Pass(t).turns[i.ID] && !state.Halted(i) }

// AfterAll takes over how an instance of a job ended whose worker was away, and on which
// it was given up meanwhile: if it ended well, it has completed. Nothing is known of it
// any more that could come back.
func AfterAll(t *state.Tx, i wire.Instance, by string, st wire.InstanceStatus, now time.Time) wire.Instance {
	if state.JobOf(t.Model, &i) == nil || i.Job == nil || i.State != wire.Failed || i.Shadow == nil ||
		i.Shadow.Incarnation != st.Incarnation {
		return i
	}
	i.Shadow = nil
	if st.LastExit == nil || !life.Clean(*st.LastExit) {
		return i
	}
	return t.Advance(i, wire.Running, now, by, "its worker is back, and it had not been replaced")
}

// DoneThere says whether an instance of a job has completed where it was lost, of which
// a worker says st: whatever runs in its place is not needed.
func DoneThere(t *state.Tx, i *wire.Instance, st wire.InstanceStatus) bool {
	o := t.Model.Orders[i.Shadow.Worker+"."+i.ID]
	return state.JobOf(t.Model, i) != nil && i.Job != nil && o != nil && o.Job != nil && o.Job.Run == i.Job.Run &&
		!i.Completed() &&
		st.Incarnation == i.Shadow.Incarnation && st.Phase == wire.PhaseExited && st.LastExit != nil &&
		life.Clean(*st.LastExit)
}

// Attempted counts that an instance of a job has failed, or was lost, since it was as in was.
// One that its worker refused, or that was told to end, has not been tried.
func Attempted(t *state.Tx, was *wire.Instance, i wire.Instance, now time.Time) wire.Instance {
	s := state.JobOf(t.Model, &i)
	if s == nil || i.Job == nil || state.Halted(&i) || i.State != wire.Failed || was.State != wire.Running &&
		was.State != wire.WorkerScheduled || i.Because() == wire.CauseRefused {
		return i
	}
	said := i.Reason
	for _, sep := range []string{", ", "; "} { // that of all jobs, as their workers see it
		said = strings.TrimSuffix(said, sep+"the restart policy is never")
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(i.ID)) // never fails
	try, why := job.Again(s.Spec.Job, *i.Job, said, life.Backoff(s.Spec.Restart, i.Job.Failed, h.Sum64()+i.Job.Run),
		now)
	i.Job, i.Reason = &try, why
	if n := len(i.History); n > 0 {
		i.History = slices.Clone(i.History)
		i.History[n-1].Why = why
	}
	return i
}

// keeps says whether the order of an instance of a job that has ended stays at its
// worker, which has its logs as long as that.
func keeps(t *state.Tx, i *wire.Instance, now time.Time) bool {
	s := state.JobOf(t.Model, i)
	if s == nil || i.Job == nil || i.Worker == "" || s.Spec.Job.Keep == nil {
		return false
	}
	switch {
	case i.State == wire.Failed && !state.Halted(i):
		return true // until it runs again
	case i.State != wire.Failed && i.State != wire.Terminated:
		return false
	}
	age, keep := now.Sub(i.Since), s.Spec.Job.Keep.Std()
	return age < keep && age > -keep // the clock may have been set back
}

// KeepOrder keeps what an ended instance left on its worker. The order says that it is
// not to run: a worker that has lost its disk would start it again.
func KeepOrder(t *state.Tx, i *wire.Instance, want map[string]bool, now time.Time) {
	key := i.Worker + "." + i.ID
	o := t.Ordered(key)
	if o == nil || !keeps(t, i, now) {
		return
	}
	want[key] = true
	if !o.Stop && i.Shadow == nil {
		stop := *o
		stop.Stop = true
		t.Order(i.Worker, i.ID, &stop)
	}
}

// OrderOf is what an instance of a job is told of it.
func OrderOf(t *state.Tx, i *wire.Instance, s *wire.Share) *wire.JobOrder {
	if s.Spec.Job == nil || i.Job == nil {
		return nil
	}
	var scheduled time.Time
	if r := Table.Get(t.Rows, s.App+"."+s.Service); r != nil && r.Run.N == i.Job.Run {
		scheduled = r.Run.Scheduled
	}
	return &wire.JobOrder{Index: i.Job.Index, Completions: s.Spec.Job.Completions, Run: i.Job.Run, Scheduled: scheduled}
}

// Roll brings the instances of a job to the revision of their share, where that is
// the same program. Another program is another run, see Begin.
func Roll(t *state.Tx, s *wire.Share) {
	for _, o := range state.Ordinals(s) {
		i := t.Inst(state.InstanceID(s.App, s.Service, o))
		if i == nil || i.Revision == s.Revision || i.Program != t.Program(s.Spec) {
			continue
		}
		next := *i
		next.Revision = s.Revision
		t.Put(next)
	}
}

// View is how far the part of a job that is here is, and what keeps it from going on,
// "" for nothing.
func View(m *state.Model, s *wire.Share) (v apiv1.JobView, message string) {
	v = apiv1.JobView{Completions: s.Min, Suspended: s.Spec.Job.Suspend}
	rec := Table.Rows(m.DB)[s.App+"."+s.Service]
	if rec == nil {
		return v, "it has not begun"
	}
	v.Outcome, v.Why, v.Run = rec.Run.Outcome, rec.Run.Why, rec.Run.N
	cronView(m, &v, s, rec)
	if s.Spec.Cron != nil && rec.Run.N == 0 {
		return v, CronMessage(m, s)
	}
	reason := ""
	for _, x := range Indexes(m.Read(), s, rec.Run.N) {
		i := m.Insts[state.InstanceID(s.App, s.Service, x.Ordinal)]
		switch x.Phase {
		case job.Completed:
			v.Completed++
		case job.Failed:
			v.Failed++
			if v.Failed == 1 && i.Job.Over != rec.Run.Why {
				v.Why += fmt.Sprintf("; index %d: %s", i.Job.Index, i.Job.Over)
			}
		case job.Runs:
			v.Active++
		case job.Waits:
			if reason == "" && i.Reason != "" {
				reason = i.ID + ": " + i.Reason
			}
		}
	}
	v.Why = strings.TrimPrefix(v.Why, "; ")
	switch {
	case v.Outcome == wire.JobFailed:
		message = "its job failed: " + v.Why
	case s.Spec.Cron == nil && !rec.Held.IsZero():
		message = "the cluster was restored from a backup, and asks the root what of the job has completed since that was made"
	case s.Spec.Cron != nil && CronMessage(m, s) != "":
		message = CronMessage(m, s)
	case v.Outcome == "" && !v.Suspended && v.Active == 0 && reason != "":
		message = reason
	}
	return v, message
}

// Known is what this process knows beside what is stored.
type Known struct {
	Schedules *Schedules // a cache with a lock of its own
	Timer     Timer
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Schedules: &Schedules{}} },
	Clone: func(k *Known) *Known {
		c := *k
		c.Timer.Rest = maps.Clone(k.Timer.Rest)
		return &c
	},
	Derived: true,
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// Scratch is what is worked out in the course of one pass.
type Scratch struct {
	// doneBack is what the root said of jobs just now, since this cluster was restored.
	doneBack map[string]*wire.JobDone
	turns    map[wire.InstanceID]bool // the instances of jobs that may start
}

var scratch = table.AddScratch[Scratch](&state.Schema)

// Pass is the scratch of the pass that t is of.
func Pass(t *state.Tx) *Scratch { return scratch.Of(t.Rows, nil) }
