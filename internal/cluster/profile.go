package cluster

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// keyProfile is where the profile of a service is: + app.service: profile.
const keyProfile = "profile."

const (
	profileDefault = time.Minute
	// profileAsks is how many workers are asked at a time.
	profileAsks = 64
)

// profile is what the workers of this cluster were measured to do with a service.
type profile struct {
	V       int       `json:"v"`
	App     string    `json:"app"`
	Service string    `json:"service"`
	At      time.Time `json:"at"`
	By      string    `json:"by,omitempty"`
	// Program that was measured, see api.Service.ProgramID.
	Program string           `json:"program"`
	Load    wire.ProfileLoad `json:"load"`
	// Nodes that were measured, by name of the worker.
	Nodes map[string]profiledNode `json:"nodes"`
}

// profiledNode is one of them, and what kind of machine it was.
type profiledNode struct {
	wire.ProfileNode
	CPU  api.CPU `json:"cpu"`
	Arch string  `json:"arch"`
}

// kindOf a machine: those of one kind are taken to do alike.
func kindOf(cpu api.CPU, arch string) string { return fmt.Sprintf("%d/%s", cpu, arch) }

// rates says what workers do with a service, by its profile; nil: there is none.
type rates struct {
	*route.Estimator
	of  *profile
	old bool
}

// rates of a service.
func (m *model) rates(key string) *rates {
	p, s := m.profiles[key], m.Shares[key]
	if p == nil || s == nil {
		return nil
	}
	var nodes []route.Profiled
	for _, name := range records.SortedKeys(p.Nodes) {
		n := p.Nodes[name]
		nodes = append(nodes, route.Profiled{Kind: kindOf(n.CPU, n.Arch), Serves: n.Rate, CPU: float64(n.CPU)})
	}
	return &rates{route.NewEstimator(nodes), p, p.Program != s.Spec.ProgramID()}
}

// on is what a worker does, in requests per second, and where that comes from.
func (r *rates) on(w *state.Worker) (serves float64, by string) {
	if r == nil {
		return 0, ""
	}
	n := route.Profiled{Kind: kindOf(w.Info.Capacity.CPU, w.Info.Arch), Serves: r.of.Nodes[w.Info.Name].Rate, CPU: float64(w.Info.Capacity.CPU)}
	e := r.Of(n)
	switch {
	case e.From == route.ByProfile && r.old:
		by = wire.WeightOld
	case e.From == route.ByProfile:
		by = wire.WeightProfile
	case e.From == route.ByKind:
		by = wire.WeightKind
	case e.From == route.ByProcessors:
		by = wire.WeightCPU
	}
	return e.Serves, by
}

// rated is the rates of a service, worked out once for a pass.
func (t *tx) rated(key string) *rates {
	if t.m.profiles[key] == nil {
		return nil
	}
	r, ok := t.rates[key]
	if !ok {
		if r = t.m.rates(key); t.rates == nil {
			t.rates = map[string]*rates{}
		}
		t.rates[key] = r
	}
	return r
}

// forgetProfiles forgets those of services that are no more.
func (t *tx) forgetProfiles() {
	for key := range t.m.profiles {
		if t.m.delegated(key) == nil {
			t.profiles[key] = nil
		}
	}
}

// sharesByWeight says whether a policy asks what each worker does.
func sharesByWeight(p api.Policy) bool {
	return p.Name == api.PolicyWeighted || p.Name == api.PolicyBilliard || p.Fallback == api.PolicyWeighted
}

// profiling is a run that is under way, or was and may still be asked for.
type profiling struct {
	mu         sync.Mutex // guards below; held over questions to workers
	key, owner string
	program    string
	load       wire.ProfileLoad
	nodes      []*profilingNode
	turn, last int
	began      time.Time
	asked      time.Time // when a step was taken last
	ended      time.Time
	why        string // it failed
	kept       bool
}

// profilingNode is a worker in it.
type profilingNode struct {
	wire.ProfileNode
	turn      int
	instances []wire.InstanceID
	cpu       api.CPU
	arch      string
	missed    time.Time // since when it does not answer
}

// profileTurns says when each of the workers at these data addresses has its turn: those
// behind one host may share a machine, and go one after the other. What two share would
// be measured as half for each.
func profileTurns(addresses []string, oneByOne bool) []int {
	out, n := make([]int, len(addresses)), map[string]int{}
	for i, a := range addresses {
		host, _, err := net.SplitHostPort(a)
		if err != nil || oneByOne {
			host = "" // nobody knows
		}
		out[i] = n[host]
		n[host]++
	}
	return out
}

// profile takes a step of profiling a service.
func (c *core) profile(ctx context.Context, q *wire.ProfileAsk, owner string) (*wire.ProfileReport, error) {
	name := q.App + "." + q.Service
	switch q.Do {
	case wire.ProfileShow:
		return c.shownProfile(q)
	case wire.ProfileForget:
		return c.forgetProfile(ctx, q, owner)
	case wire.ProfileStart:
		return c.startProfile(ctx, q, owner)
	case wire.ProfileLook, wire.ProfileKeep, wire.ProfileEnd:
	default:
		return nil, wire.Problemf(400, "unknown-question", "upgrade the cluster", "the cluster cannot do that", "profiling has no step %q", q.Do)
	}
	c.profMu.Lock()
	run := c.profilings[name]
	c.profMu.Unlock()
	if run == nil || run.key != q.Key || run.owner != owner {
		return nil, wire.Problemf(404, "not-profiled", "start again: verge profile "+name, "it is not being profiled",
			"%s: that was never begun in cluster %s, or its orchestrator was started again; nothing was stored", name, c.name)
	}
	run.mu.Lock()
	defer run.mu.Unlock()
	switch q.Do {
	case wire.ProfileEnd:
		c.endProfile(ctx, run, q, "it was ended before its time")
	case wire.ProfileLook:
		c.lookAtProfile(ctx, run, q)
	case wire.ProfileKeep:
		if err := c.keepProfile(ctx, run, q); err != nil {
			return nil, err
		}
	}
	return run.report(q), nil
}

// startProfile begins one, unless it has begun already.
func (c *core) startProfile(ctx context.Context, q *wire.ProfileAsk, owner string) (*wire.ProfileReport, error) {
	if q.Load == nil || q.Key == "" {
		return nil, wire.Problemf(400, "bad-request", "upgrade the root", "the question cannot be understood", "a profile without what to ask")
	}
	name := q.App + "." + q.Service
	c.profMu.Lock()
	old := c.profilings[name]
	if old != nil && old.key == q.Key && old.owner == owner { // the same question again
		c.profMu.Unlock()
		old.mu.Lock()
		defer old.mu.Unlock()
		return old.report(q), nil
	}
	if old != nil && old.alive(time.Now()) {
		c.profMu.Unlock()
		return nil, wire.Problemf(409, "profiled-already", "wait until it is over", "it is being profiled already", "%s is, in cluster %s, for %s", name, c.name, old.owner)
	}
	run, err := c.newProfiling(q, owner)
	if err != nil {
		c.profMu.Unlock()
		return nil, err
	}
	if c.profilings == nil {
		c.profilings = map[string]*profiling{}
	}
	for k, p := range c.profilings { // those of which nobody wants to know any more
		if !p.alive(time.Now()) {
			delete(c.profilings, k)
		}
	}
	c.profilings[name] = run
	run.mu.Lock()
	defer run.mu.Unlock()
	c.profMu.Unlock()
	c.startTurn(ctx, run, q)
	c.settleProfile(ctx, run, q)
	c.events.Add(time.Now(), c.m.Tier(), "service/"+name, "profiled for "+owner)
	return run.report(q), nil
}

// alive: somebody asks for it. Where a step is under way, somebody does.
func (p *profiling) alive(now time.Time) bool {
	if !p.mu.TryLock() {
		return true
	}
	defer p.mu.Unlock()
	return p.ended.IsZero() && now.Sub(p.asked) < wire.ProfileIdle
}

// newProfiling plans one: which instances of which workers, and when.
func (c *core) newProfiling(q *wire.ProfileAsk, owner string) (*profiling, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := q.App + "." + q.Service
	s := c.m.Shares[name]
	if s == nil {
		return nil, wire.Problemf(404, "no-such-service", "verge get services", "there is no such service", "%s is not in cluster %s", name, c.name)
	}
	load := *q.Load
	load.For = api.Duration(cmp.Or(load.For.Std(), profileDefault))
	span := load.For.Std()
	switch {
	case span < time.Second || span > wire.MaxProfileFor:
		return nil, wire.Problemf(422, "invalid-request", "choose one between", "that cannot be done", "a profile takes 1s to %s for each worker, not %s", wire.MaxProfileFor, span)
	case load.Concurrency < 0 || load.Concurrency > wire.MaxProfileConcurrency:
		return nil, wire.Problemf(422, "invalid-request", "choose fewer", "that cannot be done", "%d requests at a time: 0 to %d", load.Concurrency, wire.MaxProfileConcurrency)
	case len(load.Body) > wire.MaxProfileBody:
		return nil, wire.Problemf(413, "too-large", "choose a smaller one", "the body is too large", "it has %d bytes, %d are the most", len(load.Body), wire.MaxProfileBody)
	case !slices.ContainsFunc(s.Spec.Ports, func(p api.Port) bool {
		return wire.SpeaksHTTP(&p) && (load.Port == "" || load.Port == cmp.Or(p.Name, "http"))
	}):
		return nil, wire.Problemf(422, "no-http", "verge describe service/"+name, "the service takes no requests", "%s has no such port whose protocol is http", name)
	}
	by := map[string]*profilingNode{}
	var addresses []string
	run := &profiling{key: q.Key, owner: owner, program: s.Spec.ProgramID(), load: load, began: time.Now(), asked: time.Now()}
	for _, i := range c.m.reads().Instances() {
		if i.App != q.App || i.Service != q.Service {
			continue
		}
		w, lost := c.m.Serves(i)
		if w == nil || lost {
			continue
		}
		n := by[w.Info.Name]
		if n == nil {
			n = &profilingNode{
				ProfileNode: wire.ProfileNode{Cluster: c.name, Worker: w.Info.Name, State: wire.ProfileWaits, By: owner},
				cpu:         w.Info.Capacity.CPU, arch: w.Info.Arch,
			}
			if w.Suspect {
				n.State, n.Problem = wire.ProfileFailed, "it is not heard of"
			}
			by[w.Info.Name] = n
			run.nodes = append(run.nodes, n)
			addresses = append(addresses, w.Info.Address)
		}
		n.instances = append(n.instances, i.ID)
		n.Instances = len(n.instances)
	}
	if len(run.nodes) == 0 {
		return nil, wire.Problemf(409, "nothing-runs", "verge get instances --app "+q.App, "there is nothing to profile", "no instance of %s is ready in cluster %s", name, c.name)
	}
	for i, turn := range profileTurns(addresses, load.OneByOne) {
		run.nodes[i].turn = turn
		run.last = max(run.last, turn)
	}
	if whole := run.whole(); whole > wire.MaxProfileWhole {
		return nil, wire.Problemf(422, "too-long", "choose a shorter --for", "that would take too long",
			"%d workers, one after the other, would take %s; %s is the most", run.last+1, whole, wire.MaxProfileWhole)
	}
	return run, nil
}

// whole is how long it takes.
func (p *profiling) whole() time.Duration {
	span := p.load.For.Std()
	return time.Duration(p.last+1) * (span + min(span/10, 5*time.Second))
}

// each asks the workers whose turn it is and who have a state, some at a time.
func (c *core) each(run *profiling, state string, f func(n *profilingNode)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, profileAsks)
	for _, n := range run.nodes {
		if n.turn == run.turn && n.State == state {
			slots <- struct{}{} // a question has an end
			all.Go(func() {
				defer func() { <-slots }()
				f(n)
			})
		}
	}
	all.Wait()
}

// askProfile puts a step to a worker.
func (c *core) askProfile(ctx context.Context, run *profiling, n *profilingNode, q wire.ProfileAsk) (*wire.ProfileNode, error) {
	var a wire.ExecAnswer
	step := wire.ExecAsk{Do: wire.ExecDoProfile, Owner: run.owner, Profile: &q}
	if err := c.askWorker(ctx, n.Worker, wire.Ask{What: "exec", Exec: &step}, "it cannot be profiled now", &a); err != nil {
		return nil, err
	}
	if a.Profile == nil || len(a.Profile.Nodes) != 1 {
		return nil, wire.Problemf(502, "odd-answer", "upgrade the worker", "the answer cannot be understood", "worker %s says nothing of a profile", n.Worker)
	}
	return &a.Profile.Nodes[0], nil
}

// startTurn begins with the workers whose turn it is.
func (c *core) startTurn(ctx context.Context, run *profiling, q *wire.ProfileAsk) {
	run.asked = time.Now()
	c.each(run, wire.ProfileWaits, func(n *profilingNode) {
		got, err := c.askProfile(ctx, run, n, wire.ProfileAsk{Do: wire.ProfileStart, App: q.App, Service: q.Service, Key: run.key, Load: &run.load, Instances: n.instances})
		if err != nil {
			n.State, n.Problem = wire.ProfileFailed, err.Error()
			return
		}
		n.learn(got)
	})
}

// learn takes over what a worker says.
func (n *profilingNode) learn(got *wire.ProfileNode) {
	n.missed = time.Time{}
	n.State, n.Problem, n.Concurrency = got.State, got.Problem, got.Concurrency
	n.Requests, n.Errors, n.Span = max(0, got.Requests), max(0, got.Errors), max(0, got.Span)
	n.Mean, n.P50, n.P99 = got.Mean, got.P50, got.P99
	if n.Rate = 0; n.Span > 0 {
		n.Rate = float64(n.Requests) / n.Span.Std().Seconds()
	}
}

// lookAtProfile asks how far the workers are, and goes on.
func (c *core) lookAtProfile(ctx context.Context, run *profiling, q *wire.ProfileAsk) {
	run.asked = time.Now()
	if !run.ended.IsZero() {
		return
	}
	c.each(run, wire.ProfileRuns, func(n *profilingNode) {
		got, err := c.askProfile(ctx, run, n, wire.ProfileAsk{Do: wire.ProfileLook, App: q.App, Service: q.Service, Key: run.key})
		switch now := time.Now(); {
		case err == nil:
			n.learn(got)
		case n.missed.IsZero():
			n.missed = now
		case now.Sub(n.missed) > wire.ProfileIdle: // by then it has given up, too
			n.State, n.Problem, n.Rate = wire.ProfileFailed, err.Error(), 0
		}
	})
	c.settleProfile(ctx, run, q)
}

// settleProfile ends a run that has failed, and begins the next turn where all of one
// are through.
func (c *core) settleProfile(ctx context.Context, run *profiling, q *wire.ProfileAsk) {
	for run.ended.IsZero() {
		busy := false
		for _, n := range run.nodes {
			if n.State == wire.ProfileFailed && n.Concurrency > 0 {
				c.endProfile(ctx, run, q, "worker "+n.Worker+": "+n.Problem)
				return
			}
			busy = busy || n.turn == run.turn && n.State == wire.ProfileRuns
		}
		switch {
		case busy:
			return
		case run.turn < run.last:
			run.turn++
			c.startTurn(ctx, run, q)
			continue
		}
		run.ended = time.Now()
		if !slices.ContainsFunc(run.nodes, func(n *profilingNode) bool { return n.State == wire.ProfileDone }) {
			run.why = "no worker could be measured: " + run.nodes[0].Worker + ": " + run.nodes[0].Problem
		}
	}
}

// endProfile breaks off.
func (c *core) endProfile(ctx context.Context, run *profiling, q *wire.ProfileAsk, why string) {
	if !run.ended.IsZero() {
		return
	}
	run.ended, run.why = time.Now(), why
	c.each(run, wire.ProfileRuns, func(n *profilingNode) {
		// Who cannot be told ends by itself, as nobody asks for it any more.
		if got, err := c.askProfile(ctx, run, n, wire.ProfileAsk{Do: wire.ProfileEnd, App: q.App, Service: q.Service, Key: run.key}); err == nil {
			n.learn(got)
		}
		n.State, n.Problem = wire.ProfileFailed, "it was ended before its time"
	})
}

// report is how far a run is.
func (p *profiling) report(q *wire.ProfileAsk) *wire.ProfileReport {
	r := &wire.ProfileReport{V: wire.Version, App: q.App, Service: q.Service, State: wire.ProfileRuns, Why: p.why, Stored: p.kept, Whole: api.Duration(p.whole())}
	end := time.Now()
	if !p.ended.IsZero() {
		end = p.ended
		if r.State = wire.ProfileDone; p.why != "" {
			r.State = wire.ProfileFailed
		}
	}
	r.Took = api.Duration(end.Sub(p.began))
	for _, n := range p.nodes {
		v := n.ProfileNode
		if v.State == wire.ProfileDone {
			v.From, v.At = wire.WeightProfile, p.ended
		}
		r.Nodes = append(r.Nodes, v)
	}
	return r
}

// keepProfile stores what was measured. It counts from now on.
func (c *core) keepProfile(ctx context.Context, run *profiling, q *wire.ProfileAsk) error {
	name := q.App + "." + q.Service
	if run.ended.IsZero() || run.why != "" {
		return wire.Problemf(409, "not-measured", "start again: verge profile "+name, "there is nothing to store", "the profile of %s is not through: %s", name, cmp.Or(run.why, "it goes on"))
	}
	p := &profile{V: wire.Version, App: q.App, Service: q.Service, At: run.ended.Round(0), By: run.owner, Program: run.program, Load: run.load, Nodes: map[string]profiledNode{}}
	p.Load.Key, p.Load.Body = "", nil // a body may be anything, also secret
	for _, n := range run.nodes {
		if n.State == wire.ProfileDone {
			p.Nodes[n.Worker] = profiledNode{n.ProfileNode, n.cpu, n.arch}
		}
	}
	if err := c.putProfile(ctx, name, p); err != nil {
		return err
	}
	run.kept = true
	return nil
}

// putProfile stores a profile, or (nil) removes it.
func (c *core) putProfile(ctx context.Context, name string, p *profile) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p != nil && c.m.Shares[name] == nil {
		return wire.Problemf(404, "no-such-service", "verge get services", "there is no such service", "%s is not in cluster %s any more", name, c.name)
	}
	t := c.m.begin()
	t.profiles[name] = p
	if err := c.keeper.Whole(ctx, t); err != nil {
		return unstored(err)
	}
	loop.Poke(c.wake)
	return nil
}

// shownProfile is what is stored, and what follows for workers that were not measured.
func (c *core) shownProfile(q *wire.ProfileAsk) (*wire.ProfileReport, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := q.App + "." + q.Service
	if c.m.Shares[name] == nil {
		return nil, wire.Problemf(404, "no-such-service", "verge get services", "there is no such service", "%s is not in cluster %s", name, c.name)
	}
	out := &wire.ProfileReport{V: wire.Version, App: q.App, Service: q.Service, Nodes: []wire.ProfileNode{}}
	r := c.m.rates(name)
	if r == nil {
		return out, nil
	}
	out.Stored = true
	count := map[string]int{}
	for _, i := range c.m.Insts {
		if i.App == q.App && i.Service == q.Service {
			if w, _ := c.m.Serves(i); w != nil {
				count[w.Info.Name]++
			}
		}
	}
	for _, worker := range records.SortedKeys(count) {
		n := wire.ProfileNode{Worker: worker}
		if was, ok := r.of.Nodes[worker]; ok {
			n = was.ProfileNode
			n.At, n.Old = r.of.At, r.old
		}
		n.Cluster, n.State, n.By, n.Instances = c.name, "", r.of.By, count[worker]
		n.Rate, n.From = r.on(c.m.Workers[worker])
		out.Nodes = append(out.Nodes, n)
	}
	return out, nil
}

// forgetProfile removes what is stored: processors count again.
func (c *core) forgetProfile(ctx context.Context, q *wire.ProfileAsk, owner string) (*wire.ProfileReport, error) {
	name := q.App + "." + q.Service
	c.mu.Lock()
	known, there := c.m.Shares[name] != nil, c.m.profiles[name] != nil
	c.mu.Unlock()
	if !known && !there {
		return nil, wire.Problemf(404, "no-such-service", "verge get services", "there is no such service", "%s is not in cluster %s", name, c.name)
	}
	if there {
		if err := c.putProfile(ctx, name, nil); err != nil {
			return nil, err
		}
		c.events.Add(time.Now(), c.m.Tier(), "service/"+name, "its profile was removed for "+owner)
	}
	return &wire.ProfileReport{V: wire.Version, App: q.App, Service: q.Service, Nodes: []wire.ProfileNode{}}, nil
}
