package profiler

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Profile takes a step of profiling a service.
func Profile(ctx context.Context, c *core.Core, q *rpc.ProfileAsk, owner string) (*rpc.ProfileReport, error) {
	name := q.App + "." + q.Service
	switch q.Do {
	case rpc.ProfileShow:
		return shownProfile(c, q)
	case rpc.ProfileForget:
		return forgetProfile(ctx, c, q, owner)
	case rpc.ProfileStart:
		return startProfile(ctx, c, q, owner)
	case rpc.ProfileLook, rpc.ProfileKeep, rpc.ProfileEnd:
	default:
		return nil, wire.Problemf(400, "unknown-question", "upgrade the cluster", "the cluster cannot do that",
			"profiling has no step %q", q.Do)
	}
	c.ProfMu.Lock()
	run := c.Profilings[name]
	c.ProfMu.Unlock()
	if run == nil || run.Key != q.Key || run.Owner != owner {
		return nil, wire.Problemf(404, "not-profiled", "start again: verge profile "+name, "it is not being profiled",
			"%s: that was never begun in cluster %s, or its orchestrator was started again; nothing was stored", name,
			c.ClusterName)
	}
	run.Mu.Lock()
	defer run.Mu.Unlock()
	switch q.Do {
	case rpc.ProfileEnd:
		endProfile(ctx, c, run, q, "it was ended before its time")
	case rpc.ProfileLook:
		lookAtProfile(ctx, c, run, q)
	case rpc.ProfileKeep:
		if err := keepProfile(ctx, c, run, q); err != nil {
			return nil, err
		}
	}
	return run.Report(q), nil
}

// startProfile begins one, unless it has begun already.
func startProfile(ctx context.Context, c *core.Core, q *rpc.ProfileAsk, owner string) (*rpc.ProfileReport, error) {
	if q.Load == nil || q.Key == "" {
		return nil, wire.Problemf(400, "bad-request", "upgrade the root", "the question cannot be understood",
			"a profile without what to ask")
	}
	name := q.App + "." + q.Service
	c.ProfMu.Lock()
	old := c.Profilings[name]
	if old != nil && old.Key == q.Key && old.Owner == owner { // the same question again
		c.ProfMu.Unlock()
		old.Mu.Lock()
		defer old.Mu.Unlock()
		return old.Report(q), nil
	}
	if old != nil && old.Alive(time.Now()) {
		c.ProfMu.Unlock()
		return nil, wire.Problemf(409, "profiled-already", "wait until it is over", "it is being profiled already",
			"%s is, in cluster %s, for %s", name, c.ClusterName, old.Owner)
	}
	run, err := core.View2(c, func(m *state.Model) (*profile.Run, error) { return newProfiling(m, q, owner) })
	if err != nil {
		c.ProfMu.Unlock()
		return nil, err
	}
	if c.Profilings == nil {
		c.Profilings = map[string]*profile.Run{}
	}
	for k, p := range c.Profilings { // those of which nobody wants to know any more
		if !p.Alive(time.Now()) {
			delete(c.Profilings, k)
		}
	}
	c.Profilings[name] = run
	run.Mu.Lock()
	defer run.Mu.Unlock()
	c.ProfMu.Unlock()
	startTurn(ctx, c, run, q)
	settleProfile(ctx, c, run, q)
	c.EventRing.Note(time.Now(), event.ProfileMade, name, "profiled for "+owner)
	return run.Report(q), nil
}

// newProfiling plans one: which instances of which workers, and when.
func newProfiling(m *state.Model, q *rpc.ProfileAsk, owner string) (*profile.Run, error) {
	name := q.App + "." + q.Service
	s := m.Shares[name]
	if s == nil {
		return nil, core.NoService(m.Name, name)
	}
	load := *q.Load
	load.For = api.Duration(cmp.Or(load.For.Std(), profile.ProfileDefault))
	span := load.For.Std()
	switch {
	case span < time.Second || span > rpc.MaxProfileFor:
		return nil, wire.Problemf(422, "invalid-request", "choose one between", "that cannot be done",
			"a profile takes 1s to %s for each worker, not %s", rpc.MaxProfileFor, span)
	case load.Concurrency < 0 || load.Concurrency > rpc.MaxProfileConcurrency:
		return nil, wire.Problemf(422, "invalid-request", "choose fewer", "that cannot be done",
			"%d requests at a time: 0 to %d", load.Concurrency, rpc.MaxProfileConcurrency)
	case len(load.Body) > rpc.MaxProfileBody:
		return nil, wire.Problemf(413, "too-large", "choose a smaller one", "the body is too large",
			"it has %d bytes, %d are the most", len(load.Body), rpc.MaxProfileBody)
	case !slices.ContainsFunc(s.Spec.Ports, func(p api.Port) bool {
		return p.ForRequests() && (load.Port == "" || load.Port == cmp.Or(p.Name, "http"))
	}):
		return nil, wire.Problemf(422, "no-http", "verge describe service/"+name, "the service takes no requests",
			"%s has no such port whose protocol is http", name)
	}
	by := map[string]*profile.RunNode{}
	var addresses []string
	run := &profile.Run{Key: q.Key, Owner: owner, Program: s.Spec.ProgramID(), Load: load, Began: time.Now(),
		Asked: time.Now()}
	for _, i := range m.Read().Instances() {
		if i.App != q.App || i.Service != q.Service {
			continue
		}
		w, lost := m.Serves(i)
		if w == nil || lost {
			continue
		}
		n := by[w.Info.Name]
		if n == nil {
			n = &profile.RunNode{
				ProfileNode: rpc.ProfileNode{Cluster: m.Name, Worker: w.Info.Name, State: rpc.ProfileWaits,
					By: owner},
				Cpu: w.Info.Capacity.CPU, Arch: w.Info.Arch,
			}
			if w.Suspect {
				n.State, n.Problem = rpc.ProfileFailed, "it does not report"
			}
			by[w.Info.Name] = n
			run.Nodes = append(run.Nodes, n)
			addresses = append(addresses, w.Info.Address)
		}
		n.Count = append(n.Count, i.ID)
		n.Instances = len(n.Count)
	}
	if len(run.Nodes) == 0 {
		return nil, wire.Problemf(409, "nothing-runs", "verge get instances --app "+q.App,
			"there is nothing to profile", "no instance of %s is ready in cluster %s", name, m.Name)
	}
	for i, turn := range profile.Rounds(addresses, load.OneByOne) {
		run.Nodes[i].Turn = turn
		run.Last = max(run.Last, turn)
	}
	if whole := run.Whole(); whole > rpc.MaxProfileWhole {
		return nil, wire.Problemf(422, "too-long", "choose a shorter --for", "that would take too long",
			"%d workers, one after the other, would take %s; %s is the most", run.Last+1, whole, rpc.MaxProfileWhole)
	}
	return run, nil
}

// each asks the workers whose turn it is and who have a state, some at a time.
func each(run *profile.Run, state string, f func(n *profile.RunNode)) {
	var all sync.WaitGroup
	slots := make(chan struct{}, profile.ProfileAsks)
	for _, n := range run.Nodes {
		if n.Turn == run.Turn && n.State == state {
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
func askProfile(ctx context.Context, c *core.Core, run *profile.Run, n *profile.RunNode,
	q rpc.ProfileAsk) (*rpc.ProfileNode, error) {
	var a rpc.ExecAnswer
	step := rpc.ExecAsk{Do: rpc.ExecDoProfile, Owner: run.Owner, Profile: &q}
	if err := core.AskWorker(ctx, c, n.Worker, rpc.Ask{What: rpc.AskExec, Exec: &step}, "it cannot be profiled now",
		&a); err != nil {
		return nil, err
	}
	if a.Profile == nil || len(a.Profile.Nodes) != 1 {
		return nil, wire.Problemf(502, "odd-answer", "upgrade the worker", "the answer cannot be understood",
			"worker %s says nothing of a profile", n.Worker)
	}
	return &a.Profile.Nodes[0], nil
}

// startTurn begins with the workers whose turn it is.
func startTurn(ctx context.Context, c *core.Core, run *profile.Run, q *rpc.ProfileAsk) {
	run.Asked = time.Now()
	each(run, rpc.ProfileWaits, func(n *profile.RunNode) {
		got, err := askProfile(ctx, c, run, n,
			rpc.ProfileAsk{Do: rpc.ProfileStart, App: q.App, Service: q.Service, Key: run.Key, Load: &run.Load,
				Instances: n.Count})
		if err != nil {
			n.State, n.Problem = rpc.ProfileFailed, err.Error()
			return
		}
		n.Learn(got)
	})
}

// lookAtProfile asks how far the workers are, and goes on.
func lookAtProfile(ctx context.Context, c *core.Core, run *profile.Run, q *rpc.ProfileAsk) {
	run.Asked = time.Now()
	if !run.Ended.IsZero() {
		return
	}
	each(run, rpc.ProfileRuns, func(n *profile.RunNode) {
		got, err := askProfile(ctx, c, run, n,
			rpc.ProfileAsk{Do: rpc.ProfileLook, App: q.App, Service: q.Service, Key: run.Key})
		switch now := time.Now(); {
		case err == nil:
			n.Learn(got)
		case n.Missed.IsZero():
			n.Missed = now
		case now.Sub(n.Missed) > rpc.ProfileIdle: // by then it has given up, too
			n.State, n.Problem, n.Rate = rpc.ProfileFailed, err.Error(), 0
		}
	})
	settleProfile(ctx, c, run, q)
}

// settleProfile ends a run that has failed, and begins the next turn where all of one
// are through.
func settleProfile(ctx context.Context, c *core.Core, run *profile.Run, q *rpc.ProfileAsk) {
	for run.Ended.IsZero() {
		busy := false
		for _, n := range run.Nodes {
			if n.State == rpc.ProfileFailed && n.Concurrency > 0 {
				endProfile(ctx, c, run, q, "worker "+n.Worker+": "+n.Problem)
				return
			}
			busy = busy || n.Turn == run.Turn && n.State == rpc.ProfileRuns
		}
		switch {
		case busy:
			return
		case run.Turn < run.Last:
			run.Turn++
			startTurn(ctx, c, run, q)
			continue
		}
		run.Ended = time.Now()
		if !slices.ContainsFunc(run.Nodes, func(n *profile.RunNode) bool { return n.State == rpc.ProfileDone }) {
			run.Why = "no worker could be measured: " + run.Nodes[0].Worker + ": " + run.Nodes[0].Problem
		}
	}
}

// endProfile breaks off.
func endProfile(ctx context.Context, c *core.Core, run *profile.Run, q *rpc.ProfileAsk, why string) {
	if !run.Ended.IsZero() {
		return
	}
	run.Ended, run.Why = time.Now(), why
	each(run, rpc.ProfileRuns, func(n *profile.RunNode) {
		// Who cannot be told ends by itself, as nobody asks for it any more.
		if got, err := askProfile(ctx, c, run, n,
			rpc.ProfileAsk{Do: rpc.ProfileEnd, App: q.App, Service: q.Service, Key: run.Key}); err == nil {
			n.Learn(got)
		}
		n.State, n.Problem = rpc.ProfileFailed, "it was ended before its time"
	})
}

// keepProfile stores what was measured. It counts from now on.
func keepProfile(ctx context.Context, c *core.Core, run *profile.Run, q *rpc.ProfileAsk) error {
	name := q.App + "." + q.Service
	if run.Ended.IsZero() || run.Why != "" {
		return wire.Problemf(409, "not-measured", "start again: verge profile "+name, "there is nothing to store",
			"the profile of %s is not through: %s", name, cmp.Or(run.Why, "it goes on"))
	}
	p := &profile.Record{V: wire.Version, App: q.App, Service: q.Service, At: run.Ended.Round(0), By: run.Owner,
		Program: run.Program, Load: run.Load, Nodes: map[string]profile.Node{}}
	p.Load.Key, p.Load.Body = "", nil // a body may be anything, also secret
	for _, n := range run.Nodes {
		if n.State == rpc.ProfileDone {
			p.Nodes[n.Worker] = profile.Node{ProfileNode: n.ProfileNode, CPU: n.Cpu, Arch: n.Arch}
		}
	}
	if err := PutProfile(ctx, c, name, p); err != nil {
		return err
	}
	run.Kept = true
	return nil
}

// PutProfile stores a profile, or (nil) removes it.
func PutProfile(ctx context.Context, c *core.Core, name string, p *profile.Record) error {
	return core.Update(ctx, c, time.Now(), func(t *state.Tx) error {
		if p != nil && t.Model.Shares[name] == nil {
			return wire.Problemf(404, "no-such-service", "verge get services", "there is no such service",
				"%s is not in cluster %s any more", name, c.ClusterName)
		}
		profile.Table.Put(t.Rows, name, p)
		return nil
	})
}

// shownProfile is what is stored, and what follows for workers that were not measured.
func shownProfile(c *core.Core, q *rpc.ProfileAsk) (*rpc.ProfileReport, error) {
	return core.View2(c, func(m *state.Model) (*rpc.ProfileReport, error) {
		name := q.App + "." + q.Service
		if m.Shares[name] == nil {
			return nil, core.NoService(c.ClusterName, name)
		}
		out := &rpc.ProfileReport{V: wire.Version, App: q.App, Service: q.Service, Nodes: []rpc.ProfileNode{}}
		r := profile.RatesOf(m, name)
		if r == nil {
			return out, nil
		}
		out.Stored = true
		count := map[string]int{}
		for _, i := range m.Insts {
			if i.App == q.App && i.Service == q.Service {
				if w, _ := m.Serves(i); w != nil {
					count[w.Info.Name]++
				}
			}
		}
		for _, worker := range records.SortedKeys(count) {
			n := rpc.ProfileNode{Worker: worker}
			if was, ok := r.Profile.Nodes[worker]; ok {
				n = was.ProfileNode
				n.At, n.Old = r.Profile.At, r.Old
			}
			n.Cluster, n.State, n.By, n.Instances = c.ClusterName, "", r.Profile.By, count[worker]
			n.Rate, n.From = r.On(m.Workers[worker])
			out.Nodes = append(out.Nodes, n)
		}
		return out, nil
	})
}

// forgetProfile removes what is stored: processors count again.
func forgetProfile(ctx context.Context, c *core.Core, q *rpc.ProfileAsk, owner string) (*rpc.ProfileReport, error) {
	name := q.App + "." + q.Service
	known, there := core.View2(c, func(m *state.Model) (bool, bool) {
		return m.Shares[name] != nil, profile.Table.Rows(m.DB)[name] != nil
	})
	if !known && !there {
		return nil, core.NoService(c.ClusterName, name)
	}
	if there {
		if err := PutProfile(ctx, c, name, nil); err != nil {
			return nil, err
		}
		c.EventRing.Note(time.Now(), event.ProfileRemoved, name, "its profile was removed for "+owner)
	}
	return &rpc.ProfileReport{V: wire.Version, App: q.App, Service: q.Service, Nodes: []rpc.ProfileNode{}}, nil
}
