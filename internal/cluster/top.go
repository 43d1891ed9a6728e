package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// topPage is how many instances or workers one answer of a cluster has.
	topPage = 1000
	// topAtOnce is how many workers are asked at a time: they measure for half a
	// second, in which a question costs next to nothing here.
	topAtOnce = 256
	// topWithin bounds all questions of one answer; shorter than a root's patience.
	topWithin = 2500 * time.Millisecond
)

// TopInstances implements rest.Backend.
func (b backend) TopInstances(ctx context.Context, app string) ([]wire.InstanceTop, error) {
	var out []wire.InstanceTop
	for after := ""; ; {
		p := b.topInstances(ctx, app, after)
		out = append(out, p.Instances...)
		if !p.More || ctx.Err() != nil {
			return out, ctx.Err()
		}
		after = out[len(out)-1].ID
	}
}

// TopWorkers implements rest.Backend.
func (b backend) TopWorkers(ctx context.Context) ([]wire.WorkerTopView, error) {
	var out []wire.WorkerTopView
	for after := ""; ; {
		p := b.topWorkers(ctx, after)
		out = append(out, p.Workers...)
		if !p.More || ctx.Err() != nil {
			return out, ctx.Err()
		}
		after = out[len(out)-1].Name
	}
}

// TopClusters implements rest.Backend: itself.
func (b backend) TopClusters(ctx context.Context) ([]wire.ClusterTop, error) {
	workers, err := b.TopWorkers(ctx)
	if err != nil {
		return nil, err
	}
	return []wire.ClusterTop{wire.SumTop(b.name, workers)}, nil
}

// measured is what a worker says about its instances.
type measured struct {
	use     map[wire.InstanceID]wire.Use
	problem string
}

// measure asks workers what their instances use, some at a time.
func (c *core) measure(ctx context.Context, names []string) map[string]measured {
	ctx, cancel := context.WithTimeout(ctx, topWithin)
	defer cancel()
	var mu sync.Mutex
	out := make(map[string]measured, len(names))
	var all sync.WaitGroup
	slots := make(chan struct{}, topAtOnce)
	for _, name := range names {
		slots <- struct{}{} // each is free again within topWithin
		all.Go(func() {
			defer func() { <-slots }()
			m := c.measureWorker(ctx, name)
			mu.Lock()
			defer mu.Unlock()
			out[name] = m
		})
	}
	all.Wait()
	return out
}

func (c *core) measureWorker(ctx context.Context, name string) measured {
	var top wire.WorkerTop
	if err := c.askWorker(ctx, name, wire.Ask{What: "top"}, "it cannot be measured now", &top); err != nil {
		m := measured{problem: err.Error()}
		var p *wire.Problem
		if errors.As(err, &p) {
			m.problem = p.Detail
		}
		return m
	}
	m := measured{use: make(map[wire.InstanceID]wire.Use, len(top.Instances))}
	for _, i := range top.Instances {
		m.use[i.ID] = i.Bounded()
	}
	return m
}

// topInstances are those after an id, measured by the workers that have them.
func (c *core) topInstances(ctx context.Context, app, after string) wire.TopPage {
	p := wire.TopPage{At: time.Now()}
	workers := map[string]bool{}
	c.mu.Lock()
	all := slices.Clone(c.m.reads().Instances())
	slices.SortFunc(all, func(a, b *wire.Instance) int { return cmp.Compare(a.ID, b.ID) })
	for _, i := range all {
		if i.ID <= after || (app != "" && i.App != app) {
			continue
		}
		if len(p.Instances) == topPage {
			p.More = true
			break
		}
		v := wire.InstanceTop{ID: i.ID, Namespace: c.m.NamespaceOf(i), Cluster: c.name, Worker: i.Worker, State: i.State}
		if s := c.m.Shares[i.App+"."+i.Service]; s != nil {
			v.Reserved, v.Limits = s.Spec.Resources, s.Spec.Limits
		}
		if w := c.m.Workers[i.Worker]; w != nil {
			if v.AgeSeconds = p.At.Sub(w.Heard).Seconds(); c.m.status(w) == "never-seen" {
				v.AgeSeconds = -1
			}
			workers[i.Worker] = true
		} else {
			v.Problem = "it is on no worker"
		}
		p.Instances = append(p.Instances, v)
	}
	c.mu.Unlock()
	found := c.measure(ctx, records.SortedKeys(workers))
	for n := range p.Instances {
		v := &p.Instances[n]
		if v.Problem != "" {
			continue
		}
		m := found[v.Worker]
		if use, ok := m.use[v.ID]; ok {
			v.Used = &use
		} else if v.Problem = m.problem; v.Problem == "" {
			v.Problem = "it does not run now"
		}
	}
	return p
}

// topWorkers are those after a name.
func (c *core) topWorkers(ctx context.Context, after string) wire.TopPage {
	p := wire.TopPage{At: time.Now()}
	var names []string
	for _, w := range c.workers() {
		if w.Name <= after {
			continue
		}
		if len(p.Workers) == topPage {
			p.More = true
			break
		}
		names = append(names, w.Name)
		p.Workers = append(p.Workers, wire.WorkerTopView{
			Name: w.Name, Cluster: c.name, Reserved: w.Used, Capacity: w.Capacity, Instances: w.Instances, AgeSeconds: w.AgeSeconds,
		})
	}
	found := c.measure(ctx, names)
	for n := range p.Workers {
		v := &p.Workers[n]
		m := found[v.Name]
		if v.Problem = m.problem; v.Problem != "" {
			continue
		}
		v.Used = &wire.Use{}
		for _, u := range m.use {
			v.Used.Add(u)
		}
	}
	return p
}
