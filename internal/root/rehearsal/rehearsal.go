package rehearsal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/plan"
	"github.com/verge-edge/verge/internal/root/reconcile"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A plan is a rehearsal: the passes that would carry out an apply run on a copy of
// the model, and the clusters are asked what they would do with what they would be
// given, which they find out in the same way. What they would give back is placed
// again, as it would be.

const (
	// PlanTimeout is how long one question to the clusters may take, all of them asked
	// at once; planScenes how often they are asked.
	PlanTimeout = 1500 * time.Millisecond
	planScenes  = 8
	planFor     = 5 * time.Second // altogether
	// PlanMeasure is how much longer each may take where workers may have to measure first
	// what must be near.
	PlanMeasure = 3 * time.Second
)

// Plan is a plan that is being worked out.
type Plan struct {
	M      *state.Model // the copy
	App    string
	Before map[wire.InstanceID]*wire.Instance
	Whys   map[wire.InstanceID]*place.Record
	Now    time.Time
	Asked  map[string]string // what each cluster was asked last
	Sites  map[string]*Site
	Notes  []string
}

// Site is what a cluster has said.
type Site struct {
	Plan rpc.SitePlan
	by   map[wire.InstanceID]*rpc.InstancePlan
	Err  error // why it has said nothing
}

// Run goes back and forth between the root and the clusters until nothing is new.
func (r *Plan) Run(ctx context.Context, ask func(context.Context, map[string]rpc.PlanAsk) map[string]*Site) error {
	asking, cancel := context.WithTimeout(ctx, planFor+2*PlanMeasure)
	defer cancel()
	for range planScenes {
		if err := r.settle(); err != nil {
			return err
		}
		questions := map[string]rpc.PlanAsk{}
		for _, name := range r.involved() {
			q := r.question(name)
			text, err := json.Marshal(q)
			if err != nil {
				return fmt.Errorf("asking cluster %s: %w", name, err)
			}
			if r.Asked[name] == string(text) {
				continue
			}
			r.Asked[name] = string(text)
			if c := r.M.Clusters[name]; !c.EverHeard || c.Suspect {
				r.Sites[name] = &Site{Err: errors.New("it is away")}
				continue
			}
			questions[name] = q
		}
		if len(questions) == 0 {
			return nil
		}
		for name, s := range ask(asking, questions) {
			if s.Err == nil {
				s.Err = s.Check(r.App, name)
			}
			r.Sites[name] = s
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
		if text, err := json.Marshal(r.question(name)); err == nil && r.Asked[name] != string(text) {
			r.Notes = append(r.Notes, "what clusters would give back was not followed to the end")
			break
		}
	}
	return nil
}

// settle lets the root act until there is nothing left to do at this moment.
func (r *Plan) settle() error {
	for range reconcile.MaxRounds {
		t := reconcile.Step(r.M, r.Now)
		groups, _ := t.Encode() // what cannot be stored is left as it is, and was told
		if len(groups) == 0 {
			return nil
		}
		t.Done()
		for id, w := range t.Whys {
			if w != nil {
				r.Whys[id] = w
			}
		}
	}
	return nil
}

// involved are the clusters that have, or would have, something of the application.
func (r *Plan) involved() []string {
	names := map[string]bool{}
	for key, s := range r.M.Shares {
		if s.App == r.App {
			name, _, _ := strings.Cut(key, ".")
			names[name] = true
		}
	}
	for _, i := range r.Before {
		names[i.Cluster] = true
	}
	for name := range r.Asked { // it may have given all back
		names[name] = true
	}
	return slices.DeleteFunc(records.SortedKeys(names), func(name string) bool { return r.M.Clusters[name] == nil })
}

// question is what a cluster would have of the application.
func (r *Plan) question(name string) rpc.PlanAsk {
	q := rpc.PlanAsk{App: r.App}
	for _, key := range records.SortedKeys(r.M.Shares) {
		if s := r.M.Shares[key]; s.App == r.App && strings.HasPrefix(key, name+".") {
			q.Shares = append(q.Shares, *s)
		}
	}
	return q
}

// NotAsked is why a cluster has said nothing, in a few words.
func NotAsked(err error) error {
	var p *wire.Problem
	switch {
	case errors.As(err, &p) && (p.Code == "unknown-question" || p.Code == "kept-private"):
		return errors.New("it is too old to be asked")
	case errors.As(err, &p):
		return errors.New(p.Title)
	case errors.Is(err, bus.ErrNoResponder), errors.Is(err, bus.ErrDisconnected),
		errors.Is(err, context.DeadlineExceeded):
		return errors.New("it does not answer")
	}
	return errors.New(state.Cut(err.Error(), state.MaxWords))
}

// Check refuses an answer that is about something else, and cuts off what is longer
// than it can need to be.
func (s *Site) Check(app, name string) error {
	s.by = map[wire.InstanceID]*rpc.InstancePlan{}
	for n := range s.Plan.Instances {
		p := &s.Plan.Instances[n]
		if !strings.HasPrefix(p.ID, app+"."+p.Service+".") || len(p.ID) > 3*state.MaxName {
			return fmt.Errorf("its answer is about %q", state.Cut(p.ID, state.MaxName))
		}
		p.Why, p.From, p.To = state.Cut(p.Why, state.MaxWords), within(p.From, name), within(p.To, name)
		s.by[p.ID] = p
	}
	s.Plan.Notes = s.Plan.Notes[:min(len(s.Plan.Notes), 10)]
	for n := range s.Plan.Notes {
		s.Plan.Notes[n] = state.Cut(s.Plan.Notes[n], state.MaxWords)
	}
	return nil
}

// within is a place as a cluster may name it: itself, or something in it.
func within(place, name string) string {
	if place == "" || place == name || strings.HasPrefix(place, name+"/") {
		return state.Cut(place, 2*state.MaxName)
	}
	return name
}

// feed lets the copy hear what a cluster would report then. Of one that said nothing
// it is taken that it does what it is told.
func (r *Plan) feed(name string) {
	c, s := r.M.Clusters[name], r.Sites[name]
	given := map[wire.InstanceID]*wire.Share{}
	for _, sh := range r.question(name).Shares {
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				given[state.InstanceID(sh.App, sh.Service, o)] = &sh
			}
		}
	}
	for id, rep := range c.Seen {
		if rep.App != r.App {
			continue
		}
		if p := s.by[id]; s.Err == nil &&
			(p == nil || p.Action == rpc.PlanStop || p.Action == rpc.PlanLater && p.State == "") || s.Err != nil &&
			given[id] == nil {
			delete(c.Seen, id)
		}
	}
	for id, sh := range given {
		i := r.M.Insts[id]
		if i == nil {
			continue
		}
		rep := wire.Reported{Instance: *i}
		if old := c.Seen[id]; old != nil {
			rep = *old
		}
		rep.Cluster, rep.Revision = name, sh.Revision
		switch p := s.by[id]; {
		case s.Err == nil && (p == nil || p.Action == rpc.PlanLater && p.State == ""): // nothing of it is there yet
			continue
		case s.Err == nil && p.Action == rpc.PlanKeep:
		case s.Err == nil:
			rep.State, rep.Reason, rep.Ready = p.State, p.Why, p.State == wire.Running
		case c.Seen[id] == nil:
			rep.State, rep.Ready = wire.Running, true
		}
		c.Seen[id] = &rep
	}
}

// Close says what has come of it.
func (r *Plan) Close(out *apiv1.Plan) {
	for _, name := range r.involved() {
		s, c := r.Sites[name], r.M.Clusters[name]
		if s == nil {
			continue
		}
		ps := apiv1.PlanSite{Cluster: name, Asked: s.Err == nil, AgeSeconds: -1}
		if s.Err != nil {
			ps.Why = s.Err.Error()
		}
		if c.EverHeard {
			ps.AgeSeconds = r.Now.Sub(c.Heard).Seconds()
		}
		out.Sites = append(out.Sites, ps)
		out.Notes = append(out.Notes, s.Plan.Notes...)
	}
	out.Notes = append(out.Notes, r.Notes...)
	ids := maps.Clone(r.Before)
	for id, i := range r.M.Insts {
		if i.App == r.App {
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
func (r *Plan) becomes(id wire.InstanceID, out *apiv1.Plan) (p rpc.InstancePlan, ok bool) {
	a, b := r.Before[id], r.M.Insts[id]
	said := func(cluster string) *rpc.InstancePlan {
		if s := r.Sites[cluster]; s != nil && s.Err == nil {
			return s.by[id]
		}
		return nil
	}
	if b == nil || b.Draining {
		if a == nil || a.Draining {
			return p, false
		}
		p = rpc.InstancePlan{ID: id, Service: a.Service, Action: rpc.PlanStop, From: where(a),
			Why: "no longer wanted", State: wire.Terminated}
		if s := said(a.Cluster); s != nil && s.From != "" {
			p.From = s.From
		}
		return p, true
	}
	was := a != nil && a.Cluster == b.Cluster && a.Cluster != ""
	p = rpc.InstancePlan{ID: id, Service: b.Service, Action: rpc.PlanWait, Why: b.Reason, State: b.State}
	if was {
		p.From = where(a)
	}
	switch s := said(b.Cluster); {
	case b.Cluster == "":
	case s != nil:
		p = *s
		if !was && p.Action == rpc.PlanKeep {
			p.Action = rpc.PlanStart
		}
	case !was:
		p.Action, p.To, p.Why = rpc.PlanStart, b.Cluster, "delegated to cluster "+b.Cluster
	default:
		p.Action, p.To = r.presumed(b, out)
	}
	if p.Action != rpc.PlanWait && b.Replaces != "" && !was {
		p.Why = "replaces " + b.Replaces
	}
	if w := r.Whys[id]; w != nil {
		d := w.Decision
		d.InputsOmitted, d.Clusters = d.InputsOmitted+len(d.Clusters), nil
		p.Decisions = append([]rpc.Explained{{Tier: state.Tier, At: w.At, Decision: d}}, p.Decisions...)
	}
	return p, true
}

// presumed is what a cluster that was not asked will do with an instance that it
// has: a changed program is started again.
func (r *Plan) presumed(i *wire.Instance, out *apiv1.Plan) (action, to string) {
	for _, s := range out.Services {
		if s.Name == i.Service && s.Restarts {
			return rpc.PlanRestart, i.Cluster
		}
	}
	return rpc.PlanKeep, i.Cluster
}

// where an instance is, as far as the root knows.
func where(i *wire.Instance) string {
	if i.Worker == "" {
		return i.Cluster
	}
	return i.Cluster + "/" + i.Worker
}
