package rehearsal

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/instances"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// MaxRounds of a pass: each is caused by the one before; more is a bug.
const MaxRounds = 8

// A plan is a rehearsal: the passes that would carry out a change run on a copy of
// the model, with workers that start and stop at once what they are told to. So a
// plan cannot differ from what would be done but by what happens meanwhile.

const (
	// RehearseFor bounds the time of a rehearsal, so that a root that asks hears of it
	// in its patience.
	RehearseFor = time.Second
	// maxScenes bounds its length: an update of so many instances of one service.
	maxScenes = 2000
	// MaxAnswer bounds the instances in an answer to the root.
	MaxAnswer = 2000
)

// Rehearse lets m, a copy, and its workers act until there is nothing left to do at
// this moment. Plugins are asked by by, and distances measured; nil: they are not. whys are
// the decisions. whole is false if it took too long.
func Rehearse(ctx context.Context, m *state.Model, by *Asker, now time.Time) (whys map[wire.InstanceID]*place.Record,
	whole bool) {
	whys = map[wire.InstanceID]*place.Record{}
	m.Rehearsing = true
	for range maxScenes {
		for range MaxRounds {
			t := reconcile.Step(m, now)
			groups, _ := t.Encode() // what cannot be stored is left as it is, and was told
			if len(groups) > 0 {
				t.Done()
			}
			if asked := by != nil && by.ask(ctx, m, t); len(groups) == 0 && !asked {
				break
			}
			for id, w := range t.Whys {
				if w != nil {
					whys[id] = w
				}
			}
		}
		if !perform(m) && (by == nil || !by.Meter.helps(ctx, m, now)) {
			return whys, true
		}
		select {
		case <-ctx.Done():
			return whys, false // what there is of it is true all the same
		default:
		}
	}
	return whys, false
}

// perform lets the workers do what they are told: what is started runs and is ready
// at once. What runs already stays as it is. It reports whether there was anything.
func perform(m *state.Model) (changed bool) {
	for name, w := range m.Workers {
		if w.Suspect || !w.EverHeard {
			continue
		}
		w.Current = true
		for id, st := range w.Status {
			switch o := m.Orders[name+"."+id]; {
			case o == nil:
				delete(w.Status, id)
				changed = true
			case o.Stop && (st.Phase == wire.PhaseRunning || st.Phase == wire.PhasePending):
				st.Phase, st.Ready = wire.PhaseStopped, false
				w.Status[id], changed = st, true
			}
		}
	}
	for key, o := range m.Orders {
		w := m.Workers[strings.TrimSuffix(key, "."+o.ID)]
		if w == nil || w.Suspect || !w.EverHeard || o.Stop {
			continue
		}
		st, known := w.Status[o.ID]
		switch {
		case !known || st.Incarnation != o.Incarnation:
			st = wire.InstanceStatus{V: wire.Version, ID: o.ID, Incarnation: o.Incarnation, Revision: o.Revision,
				Phase: wire.PhaseRunning, Ready: true}
			if o.Sleep != nil && !o.Sleep.Awake {
				st.Phase, st.Ready, st.Asleep = wire.PhasePending, false, true
			}
		case st.Revision != o.Revision:
			st.Revision = o.Revision
		default:
			continue
		}
		w.Status[o.ID], changed = st, true
	}
	return changed
}

// Becomes says what becomes of the instances of an application: before are those
// that there were, m is how it ended. Workers are named where details is set.
func Becomes(m *state.Model, app string, before map[wire.InstanceID]*wire.Instance,
	whys map[wire.InstanceID]*place.Record, details bool, now time.Time) []rpc.InstancePlan {
	t := m.Begin()
	t.Now = now
	where := func(i *wire.Instance) string {
		if !details || i.Worker == "" {
			return m.Name
		}
		return m.Name + "/" + i.Worker
	}
	var out []rpc.InstancePlan
	for _, id := range records.SortedKeys(before) {
		a := before[id]
		if b := m.Insts[id]; a.App == app && !a.Draining && !state.StandIn(a) && (b == nil || !instances.Wanted(t, b)) {
			out = append(out, rpc.InstancePlan{ID: id, Service: a.Service, Action: rpc.PlanStop, From: where(a),
				Why: "no longer wanted", State: wire.Terminated})
		}
	}
	for _, b := range t.Instances() {
		if b.App != app || !instances.Wanted(t, b) || state.StandIn(b) {
			continue
		}
		a := before[b.ID]
		p := rpc.InstancePlan{ID: b.ID, Service: b.Service, Action: rpc.PlanKeep, State: b.State, Why: b.Reason}
		if Placed(a) {
			p.From = where(a)
		}
		switch {
		case !Placed(b) && later(t, b):
			p.Action = rpc.PlanLater
		case !Placed(b):
			p.Action = rpc.PlanWait
		case !Placed(a):
			p.Action, p.To, p.Why = rpc.PlanStart, where(b), lastWhy(b, wire.WorkerScheduled)
		case a.Incarnation == b.Incarnation:
			p.To = p.From
			if s := m.Shares[b.App+"."+b.Service]; s != nil && b.State == wire.Running && b.Revision != s.Revision {
				p.Action = rpc.PlanWait
				p.Why = cmp.Or(p.Why, "it is brought to the new revision when its worker reports, and the "+
					"others of its service are ready")
			}
		case a.Worker == b.Worker:
			p.Action, p.To, p.Why = rpc.PlanRestart, where(b), lastWhy(b, wire.WorkerScheduled)
		default:
			p.Action, p.To, p.Why = rpc.PlanMove, where(b), lastWhy(b, wire.WorkerScheduled)
		}
		if w := whys[b.ID]; details && w != nil && p.Action != rpc.PlanKeep {
			d := w.Decision
			d.InputsOmitted, d.Workers = d.InputsOmitted+len(d.Workers), nil
			p.Decisions = []rpc.Explained{{Tier: m.Tier(), At: w.At, Decision: d}}
		}
		out = append(out, p)
	}
	for _, key := range records.SortedKeys(m.Shares) {
		s := m.Shares[key]
		if s.App != app || s.Spec.Cron == nil || s.Cron != nil && s.Cron.Elsewhere {
			continue
		}
		for _, o := range state.Ordinals(s) { // of which there is nothing before it is due
			if id := state.InstanceID(s.App, s.Service, o); t.Inst(id) == nil {
				out = append(out, rpc.InstancePlan{ID: id, Service: s.Service, Action: rpc.PlanLater, Why: due(t, s)})
			}
		}
	}
	return out
}

// later: an instance of a job has no worker because it is not its turn.
func later(t *state.Tx, i *wire.Instance) bool {
	s := state.JobOf(t.Model, i)
	if s == nil || i.Job == nil || i.State == wire.Terminated {
		return false
	}
	rec := jobs.Table.Get(t.Rows, s.App+"."+s.Service)
	if rec == nil || !jobs.GoesOn(&rec.Run) || s.Spec.Job.Suspend {
		return s.Spec.Job.Suspend
	}
	at := 0
	for _, x := range jobs.Indexes(t, s, rec.Run.N) {
		if o := state.InstanceID(s.App, s.Service, x.Ordinal); x.Phase == job.Runs || x.Phase == job.Waits {
			if at++; o == i.ID {
				return at > job.Parallel(s)
			}
		}
	}
	return false
}

// due says when a job with a schedule runs next.
func due(t *state.Tx, s *wire.Share) string {
	if s.Spec.Job.Suspend {
		return "its job is suspended"
	}
	rules, err := jobs.CronRules(t.Model, s)
	if err != nil {
		return err.Error()
	}
	at := rules.Schedule.Next(t.Now)
	if at.IsZero() {
		return "its schedule has no time to come"
	}
	return "its schedule says next: " + at.Format("2006-01-02 15:04 MST")
}

// Placed says whether an instance has a worker, or is done.
func Placed(i *wire.Instance) bool {
	return i != nil && (i.State == wire.Terminated || i.Worker != "" &&
		(i.State == wire.Running || i.State == wire.WorkerScheduled))
}

// lastWhy is why an instance entered a state the last time.
func lastWhy(i *wire.Instance, to wire.State) string {
	for _, h := range slices.Backward(i.History) {
		if h.To == to {
			return h.Why
		}
	}
	return ""
}

// Notes say what a plan does not know.
func Notes(m *state.Model, whole bool, now time.Time) (notes []string) {
	if instances.Gathering(m, now) {
		notes = append(notes, "cluster "+m.Name+" has not heard from all its workers yet: what seems to have no place may have one then")
	}
	if !whole {
		notes = append(notes, "the plan of cluster "+m.Name+" was cut off: it goes on in the same way")
	}
	return notes
}

// MaxDecisions are told of in one answer: they are mostly alike.
const MaxDecisions = 50

// Written is what counts here of an application, as a descriptor; nil: nothing.
func Written(m *state.Model, app string) *api.Application {
	out := &api.Application{Application: app, Services: map[string]*api.Service{}}
	for _, s := range m.Shares {
		if s.App == app {
			svc := *s.Spec
			svc.Replicas = api.Replicas{Min: rollouts.Promised(s), Max: rollouts.Promised(s)}
			if d := autoscale.Delegated(m, s.App+"."+s.Service); d != nil && d.Max > d.Min {
				svc.Replicas = api.Replicas{Min: d.Min, Max: d.Max}
			}
			out.Services[s.Service] = &svc
		}
	}
	if len(out.Services) == 0 {
		return nil
	}
	return out
}
