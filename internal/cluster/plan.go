package cluster

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/wire"
)

// A plan is a rehearsal: the passes that would carry out a change run on a copy of
// the model, with workers that start and stop at once what they are told to. So a
// plan cannot differ from what would be done but by what happens meanwhile.

const (
	// rehearseFor bounds the time of a rehearsal, so that a root that asks hears of it
	// in its patience.
	rehearseFor = time.Second
	// maxScenes bounds its length: an update of so many instances of one service.
	maxScenes = 2000
	// maxAnswer bounds the instances in an answer to the root.
	maxAnswer = 2000
)

// clone shares no state with m but records, which nobody modifies. TestAClone… finds
// what is forgotten here, and what is shared and modified after all.
func (m *model) clone() *model {
	c := *m
	c.Model = m.Model.Clone()
	c.attach()
	// A plan goes by none of what instances and hooks answer: it changes all the time.
	c.outcomes, c.waveWords, c.counts = nil, nil, nil
	c.paces, c.gates, c.uses = maps.Clone(m.paces), maps.Clone(m.gates), maps.Clone(m.uses)
	c.wants, c.look.rest = maps.Clone(m.wants), maps.Clone(m.look.rest)
	c.plugins, c.counsels, c.breakers = maps.Clone(m.plugins), maps.Clone(m.counsels), maps.Clone(m.breakers)
	c.otherPorts = maps.Clone(m.otherPorts)
	c.near, c.entering = m.near.clone(), slices.Clone(m.entering)
	c.flows = records.CloneEach(m.flows)
	for _, f := range c.flows {
		f.at, f.replicas = maps.Clone(f.at), maps.Clone(f.replicas)
	}
	return &c
}

// rehearse lets m, a copy, and its workers act until there is nothing left to do at
// this moment. Plugins are asked by by, and distances measured; nil: they are not. whys are
// the decisions. whole is false if it took too long.
func (m *model) rehearse(ctx context.Context, by *consulting, now time.Time) (whys map[wire.InstanceID]*place.Record, whole bool) {
	whys = map[wire.InstanceID]*place.Record{}
	m.Rehearsing = true
	for range maxScenes {
		for range maxRounds {
			t := m.step(now)
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
		if !m.perform() && (by == nil || !by.meter.helps(ctx, m, now)) {
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
func (m *model) perform() (changed bool) {
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
			st = wire.InstanceStatus{V: wire.Version, ID: o.ID, Incarnation: o.Incarnation, Revision: o.Revision, Phase: wire.PhaseRunning, Ready: true}
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

// becomes says what becomes of the instances of an application: before are those
// that there were, m is how it ended. Workers are named where details is set.
func (m *model) becomes(app string, before map[wire.InstanceID]*wire.Instance, whys map[wire.InstanceID]*place.Record, details bool, now time.Time) []wire.InstancePlan {
	t := m.begin()
	t.Now = now
	where := func(i *wire.Instance) string {
		if !details || i.Worker == "" {
			return m.Name
		}
		return m.Name + "/" + i.Worker
	}
	var out []wire.InstancePlan
	for _, id := range records.SortedKeys(before) {
		a := before[id]
		if b := m.Insts[id]; a.App == app && !a.Draining && !standIn(a) && (b == nil || !t.wanted(b)) {
			out = append(out, wire.InstancePlan{ID: id, Service: a.Service, Action: wire.PlanStop, From: where(a), Why: "no longer wanted", State: wire.Terminated})
		}
	}
	for _, b := range t.Instances() {
		if b.App != app || !t.wanted(b) || standIn(b) {
			continue
		}
		a := before[b.ID]
		p := wire.InstancePlan{ID: b.ID, Service: b.Service, Action: wire.PlanKeep, State: b.State, Why: b.Reason}
		if placed(a) {
			p.From = where(a)
		}
		switch {
		case !placed(b) && t.later(b):
			p.Action = wire.PlanLater
		case !placed(b):
			p.Action = wire.PlanWait
		case !placed(a):
			p.Action, p.To, p.Why = wire.PlanStart, where(b), lastWhy(b, wire.WorkerScheduled)
		case a.Incarnation == b.Incarnation:
			p.To = p.From
			if s := m.Shares[b.App+"."+b.Service]; s != nil && b.State == wire.Running && b.Revision != s.Revision {
				p.Action = wire.PlanWait
				p.Why = cmp.Or(p.Why, "it is brought to the new revision when its worker is heard of, and the others of its service are ready")
			}
		case a.Worker == b.Worker:
			p.Action, p.To, p.Why = wire.PlanRestart, where(b), lastWhy(b, wire.WorkerScheduled)
		default:
			p.Action, p.To, p.Why = wire.PlanMove, where(b), lastWhy(b, wire.WorkerScheduled)
		}
		if w := whys[b.ID]; details && w != nil && p.Action != wire.PlanKeep {
			d := w.Decision
			d.InputsOmitted, d.Workers = d.InputsOmitted+len(d.Workers), nil
			p.Decisions = []wire.Explained{{Tier: m.Tier(), At: w.At, Decision: d}}
		}
		out = append(out, p)
	}
	for _, key := range records.SortedKeys(m.Shares) {
		s := m.Shares[key]
		if s.App != app || s.Spec.Cron == nil || s.Cron != nil && s.Cron.Elsewhere {
			continue
		}
		for _, o := range ordinals(s) { // of which there is nothing before it is due
			if id := instanceID(s.App, s.Service, o); t.Inst(id) == nil {
				out = append(out, wire.InstancePlan{ID: id, Service: s.Service, Action: wire.PlanLater, Why: t.due(s)})
			}
		}
	}
	return out
}

// later: an instance of a job has no worker because it is not its turn.
func (t *tx) later(i *wire.Instance) bool {
	s := t.m.jobOf(i)
	if s == nil || i.Job == nil || i.State == wire.Terminated {
		return false
	}
	rec := t.job(s.App + "." + s.Service)
	if rec == nil || !goesOn(&rec.Run) || s.Spec.Job.Suspend {
		return s.Spec.Job.Suspend
	}
	at := 0
	for _, x := range t.indexes(s, rec.Run.N) {
		if o := instanceID(s.App, s.Service, x.Ordinal); x.Phase == job.Runs || x.Phase == job.Waits {
			if at++; o == i.ID {
				return at > job.Parallel(s)
			}
		}
	}
	return false
}

// due says when a job with a schedule runs next.
func (t *tx) due(s *wire.Share) string {
	if s.Spec.Job.Suspend {
		return "its job is suspended"
	}
	rules, err := t.m.cronRules(s)
	if err != nil {
		return err.Error()
	}
	at := rules.Schedule.Next(t.Now)
	if at.IsZero() {
		return "its schedule has no time to come"
	}
	return "its schedule says next: " + at.Format("2006-01-02 15:04 MST")
}

// placed says whether an instance has a worker, or is done.
func placed(i *wire.Instance) bool {
	return i != nil && (i.State == wire.Terminated || i.Worker != "" && (i.State == wire.Running || i.State == wire.WorkerScheduled))
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

// planNotes say what a plan does not know.
func (m *model) planNotes(whole bool, now time.Time) (notes []string) {
	if m.gathering(now) {
		notes = append(notes, "cluster "+m.Name+" has not heard from all its workers yet: what seems to have no place may have one then")
	}
	if !whole {
		notes = append(notes, "the plan of cluster "+m.Name+" was cut off: it goes on in the same way")
	}
	return notes
}

// planShares answers the root: what would become of an application here, were these
// its shares.
// It measures for at most measure what must be near, beyond its own time.
func (c *core) planShares(ctx context.Context, q *wire.PlanAsk, measure time.Duration, now time.Time) (wire.SitePlan, error) {
	out := wire.SitePlan{V: wire.Version}
	given := map[string]*wire.Share{}
	if q == nil || q.App == "" {
		return out, wire.Problemf(400, "invalid-request", "upgrade the root", "the question is not complete", "it names no application")
	}
	for n := range q.Shares {
		s := &q.Shares[n]
		if err := checkShare(s, q.App+"."+s.Service); err != nil {
			return out, wire.Problemf(400, "invalid-request", "upgrade the root", "the question is not valid", "share %s: %v", cut(s.Service, maxName), err)
		}
		given[q.App+"."+s.Service] = s
	}
	c.planning.Lock()
	defer c.planning.Unlock()
	c.mu.Lock()
	if c.m.Unasked(state.TheRoot) {
		c.mu.Unlock()
		return out, wire.Problemf(409, "recovering", "wait until it has recovered: verge recovery, at the cluster", "the cluster was restored and does not plan yet", "cluster %s hears its workers first", c.name)
	}
	m, details := c.m.clone(), c.m.Details
	if c.ports != nil {
		m.otherPorts = c.ports.others(m.Name)
	}
	by := c.consulting(m)
	by.meter = c.measureFor(measure)
	before := maps.Clone(c.m.Insts)
	c.mu.Unlock()
	keys := records.SortedKeys(given)
	for key, s := range m.Given {
		if s.App == q.App && given[key] == nil {
			delete(m.Given, key)
			keys = append(keys, key)
		}
	}
	maps.Copy(m.Given, given)
	m.effect(keys...)
	conflicts := len(m.conflicts)
	ctx, cancel := context.WithTimeout(ctx, rehearseFor+by.meter.span)
	defer cancel()
	whys, whole := m.rehearse(ctx, by, now)
	out.Notes = by.said()
	out.Instances = m.becomes(q.App, before, whys, details, now)
	if len(m.conflicts) > conflicts {
		out.Notes = append(out.Notes, "changes that were made at cluster "+c.name+" give way: verge local, there")
	}
	out.Notes = append(out.Notes, m.planNotes(whole, now)...)
	if len(out.Instances) > maxAnswer {
		return out, wire.Problemf(413, "too-large", "look at the cluster itself after the apply", "the plan is too large to be sent", "%d instances, at most %d", len(out.Instances), maxAnswer)
	}
	decisions := 0
	for n := range out.Instances {
		if decisions += len(out.Instances[n].Decisions); decisions > maxDecisions {
			out.Instances[n].Decisions = nil
		}
	}
	return out, nil
}

// maxDecisions are told of in one answer: they are mostly alike.
const maxDecisions = 50

// Plan implements rest.Backend: what an apply at this site would do.
func (b backend) Plan(ctx context.Context, source []byte) (wire.Plan, error) {
	return b.planLocal(ctx, source, time.Now())
}

func (c *core) planLocal(ctx context.Context, source []byte, now time.Time) (wire.Plan, error) {
	var out wire.Plan
	spec, res, err := parsed(source)
	if err != nil {
		return out, err
	}
	c.planning.Lock()
	defer c.planning.Unlock()
	e, before, was, err := c.rehearseApply(ctx, spec, &res, now)
	if err != nil {
		return out, err
	}
	m := e.m
	c.mu.Lock()
	by := c.consulting(m)
	by.meter = c.measureFor(planMeasureFor)
	c.mu.Unlock()
	out = wire.Plan{ApplyResult: res, Namespace: e.ns, Source: m.Tier(), Services: plan.Services(was, m.written(spec.Application))}
	ctx, cancel := context.WithTimeout(ctx, 5*rehearseFor+by.meter.span)
	defer cancel()
	whys, whole := m.rehearse(ctx, by, now)
	out.Notes = append(by.said(), m.planNotes(whole, now)...)
	out.Instances = m.becomes(spec.Application, before, whys, true, now)
	plan.Close(&out)
	return out, nil
}

// rehearseApply makes a copy of the model in which a descriptor has been applied,
// with the instances and the services that there were before.
func (c *core) rehearseApply(ctx context.Context, spec *api.Application, res *wire.ApplyResult, now time.Time) (*edit, map[wire.InstanceID]*wire.Instance, *api.Application, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, err := c.rehearseEdit(ctx, spec.Application, now)
	if err != nil {
		return nil, nil, nil, err
	}
	was := e.m.written(spec.Application)
	if err := e.apply(access.From(ctx), spec, res); err != nil {
		return nil, nil, nil, err
	}
	t, err := e.tx()
	if err != nil {
		return nil, nil, nil, err
	}
	t.Done()
	return e, maps.Clone(c.m.Insts), was, nil
}

// written is what counts here of an application, as a descriptor; nil: nothing.
func (m *model) written(app string) *api.Application {
	out := &api.Application{Application: app, Services: map[string]*api.Service{}}
	for _, s := range m.Shares {
		if s.App == app {
			svc := *s.Spec
			svc.Replicas = api.Replicas{Min: promised(s), Max: promised(s)}
			if d := m.delegated(s.App + "." + s.Service); d != nil && d.Max > d.Min {
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
