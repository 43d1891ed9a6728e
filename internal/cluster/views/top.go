package views

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// TopPage is how many instances or workers one answer of a cluster has.
	TopPage = 1000
	// topAtOnce is how many workers are asked at a time: they measure for half a
	// second, in which a question costs next to nothing here.
	topAtOnce = 256
	// topWithin bounds all questions of one answer; shorter than a root's patience.
	topWithin = 2500 * time.Millisecond
)

// measured is what a worker says about its instances.
type measured struct {
	use     map[wire.InstanceID]rpc.Use
	problem string
}

// measure asks workers what their instances use, some at a time.
func measure(ctx context.Context, c *core.Core, names []string) map[string]measured {
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
			m := measureWorker(ctx, c, name)
			mu.Lock()
			defer mu.Unlock()
			out[name] = m
		})
	}
	all.Wait()
	return out
}

func measureWorker(ctx context.Context, c *core.Core, name string) measured {
	var top rpc.WorkerTop
	if err := core.AskWorker(ctx, c, name, rpc.Ask{What: rpc.AskTop}, "it cannot be measured now", &top); err != nil {
		m := measured{problem: err.Error()}
		var p *wire.Problem
		if errors.As(err, &p) {
			m.problem = p.Detail
		}
		return m
	}
	m := measured{use: make(map[wire.InstanceID]rpc.Use, len(top.Instances))}
	for _, i := range top.Instances {
		m.use[i.ID] = i.Bounded()
	}
	return m
}

// TopInstances are those after an id, measured by the workers that have them.
func TopInstances(ctx context.Context, c *core.Core, app, after string) rpc.TopPage {
	p := rpc.TopPage{At: time.Now()}
	workers := map[string]bool{}
	core.Do(c, func(m *state.Model) {
		all := slices.Clone(m.Read().Instances())
		slices.SortFunc(all, func(a, b *wire.Instance) int { return cmp.Compare(a.ID, b.ID) })
		for _, i := range all {
			if i.ID <= after || (app != "" && i.App != app) {
				continue
			}
			if len(p.Instances) == TopPage {
				p.More = true
				break
			}
			v := rpc.InstanceTop{ID: i.ID, Namespace: m.NamespaceOf(i), Cluster: c.ClusterName, Worker: i.Worker,
				State: i.State}
			if s := m.Shares[i.App+"."+i.Service]; s != nil {
				v.Reserved, v.Limits = s.Spec.Resources, s.Spec.Limits
			}
			if w := m.Workers[i.Worker]; w != nil {
				if v.AgeSeconds = p.At.Sub(w.Heard).Seconds(); Status(m, w) == "never-seen" {
					v.AgeSeconds = -1
				}
				workers[i.Worker] = true
			} else {
				v.Problem = "it is on no worker"
			}
			p.Instances = append(p.Instances, v)
		}
	})
	found := measure(ctx, c, records.SortedKeys(workers))
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

// TopWorkers are those after a name.
func TopWorkers(ctx context.Context, c *core.Core, after string) rpc.TopPage {
	p := rpc.TopPage{At: time.Now()}
	var names []string
	for _, w := range Workers(c) {
		if w.Name <= after {
			continue
		}
		if len(p.Workers) == TopPage {
			p.More = true
			break
		}
		names = append(names, w.Name)
		p.Workers = append(p.Workers, rpc.WorkerTopView{
			Name: w.Name, Cluster: c.ClusterName, Reserved: w.Used, Capacity: w.Capacity, Instances: w.Instances,
			AgeSeconds: w.AgeSeconds,
		})
	}
	found := measure(ctx, c, names)
	for n := range p.Workers {
		v := &p.Workers[n]
		m := found[v.Name]
		if v.Problem = m.problem; v.Problem != "" {
			continue
		}
		v.Used = &rpc.Use{}
		for _, u := range m.use {
			v.Used.Add(u)
		}
	}
	return p
}
