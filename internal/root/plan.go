package root

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/wire"
)

// A plan is a rehearsal: the passes that would carry out an apply run on a copy of
// the model, and the clusters are asked what they would do with what they would be
// given, which they find out in the same way. What they would give back is placed
// again, as it would be.

const (
	// planPatience is how long one question to the clusters may take, all of them asked
	// at once; planScenes how often they are asked.
	planPatience = 1500 * time.Millisecond
	planScenes   = 8
	planFor      = 5 * time.Second // altogether
	// planMeasure is how much longer each may take where workers may have to measure first
	// what must be near.
	planMeasure = 3 * time.Second
)

// clone shares no state with m but records, which nobody modifies. TestAClone… finds
// what is forgotten here, and what is shared and modified after all.
func (m *model) clone() *model {
	c := *m
	c.rehearsing = true
	c.bind(m.db.Clone())
	c.unread, c.recovery.proven = slices.Clone(m.unread), maps.Clone(m.recovery.proven)
	c.unkept, c.gates = maps.Clone(m.unkept), maps.Clone(m.gates)
	c.leads = records.CloneEach(m.leads)
	maps.Copy(c.shares, records.CloneEach(m.shares)) // a pass may note in one what it has compared
	c.history = make(history, len(m.history))
	for app, list := range m.history {
		c.history[app] = slices.Clone(list)
	}
	c.clusters = records.CloneEach(m.clusters)
	for _, cl := range c.clusters {
		cl.inbox = cl.inbox.Heading() // it hears no reports
		cl.seen, cl.refused, cl.revoked = maps.Clone(cl.seen), maps.Clone(cl.refused), maps.Clone(cl.revoked)
		cl.locals, cl.conflicts, cl.tallies = maps.Clone(cl.locals), maps.Clone(cl.conflicts), maps.Clone(cl.tallies)
		cl.losses, cl.losing = nil, nil // nobody is told of a rehearsal
		cl.rollouts, cl.jobs, cl.short = maps.Clone(cl.rollouts), maps.Clone(cl.jobs), records.CloneEach(cl.short)
	}
	return &c
}

// rehearsal is a plan that is being worked out.
type rehearsal struct {
	m      *model // the copy
	app    string
	before map[wire.InstanceID]*wire.Instance
	whys   map[wire.InstanceID]*place.Record
	now    time.Time
	asked  map[string]string // what each cluster was asked last
	sites  map[string]*site
	notes  []string
}

// site is what a cluster has said.
type site struct {
	plan wire.SitePlan
	by   map[wire.InstanceID]*wire.InstancePlan
	err  error // why it has said nothing
}

// Plan implements rest.Backend: what an apply would do. Nothing is changed.
func (b backend) Plan(ctx context.Context, source []byte) (wire.Plan, error) {
	spec, warnings, err := parsed(source)
	if err != nil {
		return wire.Plan{}, err
	}
	b.planning.Lock()
	defer b.planning.Unlock()
	now := time.Now()
	r, out, err := b.rehearse(ctx, func(m *model) (*wire.Application, wire.ApplyResult, error) {
		app, res, err := m.accept(access.From(ctx), spec, source, now)
		if err == nil {
			err = m.storable(app)
		}
		res.Warnings = append(warnings, res.Warnings...)
		return app, res, err
	}, now)
	if err != nil {
		return wire.Plan{}, err
	}
	if err := r.run(ctx, b.askPlans); err != nil {
		return wire.Plan{}, err
	}
	r.close(&out)
	return out, nil
}

// rehearse makes a copy of the model in which an application has been applied, and
// begins a plan of it.
func (c *core) rehearse(ctx context.Context, accept func(*model) (*wire.Application, wire.ApplyResult, error), now time.Time) (*rehearsal, wire.Plan, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.reload(ctx, now); err != nil {
		return nil, wire.Plan{}, unstored(err)
	}
	app, res, err := accept(c.m)
	if err != nil {
		return nil, wire.Plan{}, err
	}
	out := wire.Plan{ApplyResult: res, Namespace: wire.NamespaceOf(app.Spec), Source: tier}
	if old := c.m.apps[app.Name]; old != nil {
		out.Services = plan.Services(old.Spec, app.Spec)
	} else {
		out.Services = plan.Services(nil, app.Spec)
	}
	r := &rehearsal{
		m: c.m.clone(), app: app.Name, now: now, before: map[wire.InstanceID]*wire.Instance{}, whys: map[wire.InstanceID]*place.Record{},
		asked: map[string]string{}, sites: map[string]*site{},
	}
	for id, i := range c.m.insts {
		if i.App == app.Name {
			merged := c.m.merged(i)
			merged.State, merged.Draining = i.State, i.Draining
			r.before[id] = &merged
		}
	}
	r.m.apps[app.Name] = app
	if c.m.holding(now) {
		r.notes = append(r.notes, "the root recovers from a backup, and decides nothing before its clusters have been heard: verge recovery")
	}
	return r, out, nil
}

// run goes back and forth between the root and the clusters until nothing is new.
func (r *rehearsal) run(ctx context.Context, ask func(context.Context, map[string]wire.PlanAsk) map[string]*site) error {
	asking, cancel := context.WithTimeout(ctx, planFor+2*planMeasure)
	defer cancel()
	for range planScenes {
		if err := r.settle(); err != nil {
			return err
		}
		questions := map[string]wire.PlanAsk{}
		for _, name := range r.involved() {
			q := r.question(name)
			text, err := json.Marshal(q)
			if err != nil {
				return fmt.Errorf("asking cluster %s: %w", name, err)
			}
			if r.asked[name] == string(text) {
				continue
			}
			r.asked[name] = string(text)
			if c := r.m.clusters[name]; !c.everHeard || c.suspect {
				r.sites[name] = &site{err: errors.New("it is away")}
				continue
			}
			questions[name] = q
		}
		if len(questions) == 0 {
			return nil
		}
		for name, s := range ask(asking, questions) {
			if s.err == nil {
				s.err = s.check(r.app, name)
			}
			r.sites[name] = s
			r.feed(name)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	if err := r.settle(); err != nil {
		return err
	}
	for _, name := range r.involved() {
		if text, err := json.Marshal(r.question(name)); err == nil && r.asked[name] != string(text) {
			r.notes = append(r.notes, "what clusters would give back was not followed to the end")
			break
		}
	}
	return nil
}

// settle lets the root act until there is nothing left to do at this moment.
func (r *rehearsal) settle() error {
	for range maxRounds {
		t := r.m.step(r.now)
		groups, _ := t.Encode() // what cannot be stored is left as it is, and was told
		if len(groups) == 0 {
			return nil
		}
		t.Done()
		for id, w := range t.whys {
			if w != nil {
				r.whys[id] = w
			}
		}
	}
	return nil
}

// involved are the clusters that have, or would have, something of the application.
func (r *rehearsal) involved() []string {
	names := map[string]bool{}
	for key, s := range r.m.shares {
		if s.App == r.app {
			name, _, _ := strings.Cut(key, ".")
			names[name] = true
		}
	}
	for _, i := range r.before {
		names[i.Cluster] = true
	}
	for name := range r.asked { // it may have given all back
		names[name] = true
	}
	return slices.DeleteFunc(records.SortedKeys(names), func(name string) bool { return r.m.clusters[name] == nil })
}

// question is what a cluster would have of the application.
func (r *rehearsal) question(name string) wire.PlanAsk {
	q := wire.PlanAsk{App: r.app}
	for _, key := range records.SortedKeys(r.m.shares) {
		if s := r.m.shares[key]; s.App == r.app && strings.HasPrefix(key, name+".") {
			q.Shares = append(q.Shares, *s)
		}
	}
	return q
}

// askPlans puts the questions, all at once.
func (c *core) askPlans(ctx context.Context, questions map[string]wire.PlanAsk) map[string]*site {
	out := map[string]*site{}
	var wg sync.WaitGroup
	for name, q := range questions {
		s := &site{}
		out[name] = s
		hold := time.Duration(0)
		if slices.ContainsFunc(q.Shares, func(s wire.Share) bool { return s.Spec != nil && len(s.Spec.Latency)+len(s.Spec.DataHosts()) > 0 }) {
			hold = planMeasure
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, planPatience+hold)
			defer cancel()
			if s.err = c.ask(ctx, name, wire.Ask{What: wire.AskPlan, Plan: &q, WaitMs: int(hold.Milliseconds())}, &s.plan); s.err != nil {
				s.err = notAsked(s.err)
			}
		})
	}
	wg.Wait()
	return out
}

// notAsked is why a cluster has said nothing, in a few words.
func notAsked(err error) error {
	var p *wire.Problem
	switch {
	case errors.As(err, &p) && (p.Code == "unknown-question" || p.Code == "kept-private"):
		return errors.New("it is too old to be asked")
	case errors.As(err, &p):
		return errors.New(p.Title)
	case errors.Is(err, bus.ErrNoResponder), errors.Is(err, bus.ErrDisconnected), errors.Is(err, context.DeadlineExceeded):
		return errors.New("it does not answer")
	}
	return errors.New(cut(err.Error(), maxWords))
}

// check refuses an answer that is about something else, and cuts off what is longer
// than it can need to be.
func (s *site) check(app, name string) error {
	s.by = map[wire.InstanceID]*wire.InstancePlan{}
	for n := range s.plan.Instances {
		p := &s.plan.Instances[n]
		if !strings.HasPrefix(p.ID, app+"."+p.Service+".") || len(p.ID) > 3*maxName {
			return fmt.Errorf("its answer is about %q", cut(p.ID, maxName))
		}
		p.Why, p.From, p.To = cut(p.Why, maxWords), within(p.From, name), within(p.To, name)
		s.by[p.ID] = p
	}
	s.plan.Notes = s.plan.Notes[:min(len(s.plan.Notes), 10)]
	for n := range s.plan.Notes {
		s.plan.Notes[n] = cut(s.plan.Notes[n], maxWords)
	}
	return nil
}

// within is a place as a cluster may name it: itself, or something in it.
func within(place, name string) string {
	if place == "" || place == name || strings.HasPrefix(place, name+"/") {
		return cut(place, 2*maxName)
	}
	return name
}

// feed lets the copy hear what a cluster would report then. Of one that said nothing
// it is taken that it does what it is told.
func (r *rehearsal) feed(name string) {
	c, s := r.m.clusters[name], r.sites[name]
	given := map[wire.InstanceID]*wire.Share{}
	for _, sh := range r.question(name).Shares {
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				given[instanceID(sh.App, sh.Service, o)] = &sh
			}
		}
	}
	for id, rep := range c.seen {
		if rep.App != r.app {
			continue
		}
		if p := s.by[id]; s.err == nil && (p == nil || p.Action == wire.PlanStop || p.Action == wire.PlanLater && p.State == "") || s.err != nil && given[id] == nil {
			delete(c.seen, id)
		}
	}
	for id, sh := range given {
		i := r.m.insts[id]
		if i == nil {
			continue
		}
		rep := wire.Reported{Instance: *i}
		if old := c.seen[id]; old != nil {
			rep = *old
		}
		rep.Cluster, rep.Revision = name, sh.Revision
		switch p := s.by[id]; {
		case s.err == nil && (p == nil || p.Action == wire.PlanLater && p.State == ""): // nothing of it is there yet
			continue
		case s.err == nil && p.Action == wire.PlanKeep:
		case s.err == nil:
			rep.State, rep.Reason, rep.Ready = p.State, p.Why, p.State == wire.Running
		case c.seen[id] == nil:
			rep.State, rep.Ready = wire.Running, true
		}
		c.seen[id] = &rep
	}
}

// close says what has come of it.
func (r *rehearsal) close(out *wire.Plan) {
	for _, name := range r.involved() {
		s, c := r.sites[name], r.m.clusters[name]
		if s == nil {
			continue
		}
		ps := wire.PlanSite{Cluster: name, Asked: s.err == nil, AgeSeconds: -1}
		if s.err != nil {
			ps.Why = s.err.Error()
		}
		if c.everHeard {
			ps.AgeSeconds = r.now.Sub(c.heard).Seconds()
		}
		out.Sites = append(out.Sites, ps)
		out.Notes = append(out.Notes, s.plan.Notes...)
	}
	out.Notes = append(out.Notes, r.notes...)
	ids := maps.Clone(r.before)
	for id, i := range r.m.insts {
		if i.App == r.app {
			ids[id] = i
		}
	}
	for _, id := range records.SortedKeys(ids) {
		if p, ok := r.becomes(id, out); ok {
			out.Instances = append(out.Instances, p)
		}
	}
	plan.Close(out)
}

// becomes says what becomes of an instance.
func (r *rehearsal) becomes(id wire.InstanceID, out *wire.Plan) (p wire.InstancePlan, ok bool) {
	a, b := r.before[id], r.m.insts[id]
	said := func(cluster string) *wire.InstancePlan {
		if s := r.sites[cluster]; s != nil && s.err == nil {
			return s.by[id]
		}
		return nil
	}
	if b == nil || b.Draining {
		if a == nil || a.Draining {
			return p, false
		}
		p = wire.InstancePlan{ID: id, Service: a.Service, Action: wire.PlanStop, From: where(a), Why: "no longer wanted", State: wire.Terminated}
		if s := said(a.Cluster); s != nil && s.From != "" {
			p.From = s.From
		}
		return p, true
	}
	was := a != nil && a.Cluster == b.Cluster && a.Cluster != ""
	p = wire.InstancePlan{ID: id, Service: b.Service, Action: wire.PlanWait, Why: b.Reason, State: b.State}
	if was {
		p.From = where(a)
	}
	switch s := said(b.Cluster); {
	case b.Cluster == "":
	case s != nil:
		p = *s
		if !was && p.Action == wire.PlanKeep {
			p.Action = wire.PlanStart
		}
	case !was:
		p.Action, p.To, p.Why = wire.PlanStart, b.Cluster, "delegated to cluster "+b.Cluster
	default:
		p.Action, p.To = r.presumed(b, out)
	}
	if p.Action != wire.PlanWait && b.Replaces != "" && !was {
		p.Why = "replaces " + b.Replaces
	}
	if w := r.whys[id]; w != nil {
		d := w.Decision
		d.InputsOmitted, d.Clusters = d.InputsOmitted+len(d.Clusters), nil
		p.Decisions = append([]wire.Explained{{Tier: tier, At: w.At, Decision: d}}, p.Decisions...)
	}
	return p, true
}

// presumed is what a cluster that was not asked will do with an instance that it
// has: a changed program is started again.
func (r *rehearsal) presumed(i *wire.Instance, out *wire.Plan) (action, to string) {
	for _, s := range out.Services {
		if s.Name == i.Service && s.Restarts {
			return wire.PlanRestart, i.Cluster
		}
	}
	return wire.PlanKeep, i.Cluster
}

// where an instance is, as far as the root knows.
func where(i *wire.Instance) string {
	if i.Worker == "" {
		return i.Cluster
	}
	return i.Cluster + "/" + i.Worker
}
