package root

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// topAtOnce is how many clusters are asked at a time.
	topAtOnce = 8
	// topPages bounds what one cluster may answer.
	topPages = 100
)

// TopInstances implements rest.Backend: those of the clusters that let themselves
// be asked are measured, of the others it is said why not.
func (b backend) TopInstances(ctx context.Context, app string) ([]wire.InstanceTop, error) {
	list, err := b.Instances(ctx, app, "")
	if err != nil {
		return nil, err
	}
	// What who asks may not see is not measured for it either.
	list = access.Visible(access.From(ctx), list, func(v wire.InstanceView) access.Object {
		return access.Object{Kind: access.Instance, Name: v.ID, Namespace: v.Namespace, Cluster: v.Cluster}
	})
	held := make(map[wire.InstanceID]string, len(list))
	used := map[string]bool{}
	for _, i := range list {
		held[i.ID], used[i.Cluster] = i.Cluster, true
	}
	by := map[wire.InstanceID]wire.InstanceTop{}
	var mu sync.Mutex
	clusters := slices.DeleteFunc(b.clusters(), func(v wire.ClusterView) bool { return !used[v.Name] })
	problems := b.eachCluster(clusters, func(name string) error {
		return b.pages(ctx, name, wire.Ask{What: "top", Worker: app}, func(p wire.TopPage) (last string) {
			mu.Lock()
			defer mu.Unlock()
			for _, v := range p.Instances {
				if last = v.ID; held[v.ID] == name { // of others it has nothing to say
					v.Cluster = name
					by[v.ID] = v
				}
			}
			return last
		})
	})
	out := make([]wire.InstanceTop, 0, len(list))
	for _, i := range list {
		v := wire.InstanceTop{ID: i.ID, Cluster: i.Cluster, Worker: i.Worker, State: i.State, AgeSeconds: i.AgeSeconds, Problem: problems[i.Cluster]}
		switch m, ok := by[i.ID]; {
		case ok:
			v = m
		case i.Cluster == "":
			v.Problem = "it is in no cluster"
		case v.Problem == "":
			v.Problem = "its cluster does not have it yet"
		}
		v.Namespace = i.Namespace // of which the root is sure
		b.reserved(&v, i.App, i.Service)
		out = append(out, v)
	}
	return out, nil
}

// reserved fills in what the root has promised an instance.
func (c *core) reserved(v *wire.InstanceTop, app, service string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.m.apps[app]; a != nil && a.Spec.Services[service] != nil {
		v.Reserved, v.Limits = a.Spec.Services[service].Resources, a.Spec.Services[service].Limits
	}
}

// pages asks a cluster until there is no more. Each takes a page and returns the
// last name in it.
func (c *core) pages(ctx context.Context, cluster string, q wire.Ask, each func(wire.TopPage) (last string)) error {
	for after, n := "", 0; n < topPages; n++ {
		if q.What == "top" {
			q.Instance = after
		} else {
			q.Worker = after
		}
		var p wire.TopPage
		if err := c.ask(ctx, cluster, q, &p); err != nil {
			return err
		}
		last := each(p)
		if !p.More || last <= after {
			return nil
		}
		after = last
	}
	return nil
}

// TopWorkers implements rest.Backend. A cluster that does not let itself be asked,
// or does not answer, has one line without a name that says so.
func (b backend) TopWorkers(ctx context.Context) ([]wire.WorkerTopView, error) {
	clusters := seen(ctx, b.clusters())
	by, problems := b.topWorkers(ctx, clusters)
	out := []wire.WorkerTopView{}
	for _, cl := range clusters {
		out = append(out, by[cl.Name]...)
		if why := problems[cl.Name]; why != "" {
			out = append(out, wire.WorkerTopView{Cluster: cl.Name, Problem: why, AgeSeconds: cl.AgeSeconds})
		}
	}
	return out, nil
}

// topWorkers are the workers of each cluster that lets itself be asked, and why
// the others do not.
func (c *core) topWorkers(ctx context.Context, clusters []wire.ClusterView) (by map[string][]wire.WorkerTopView, problems map[string]string) {
	by = map[string][]wire.WorkerTopView{}
	var mu sync.Mutex
	problems = c.eachCluster(clusters, func(name string) error {
		return c.pages(ctx, name, wire.Ask{What: "top-workers"}, func(p wire.TopPage) (last string) {
			mu.Lock()
			defer mu.Unlock()
			for _, v := range p.Workers {
				last, v.Cluster = v.Name, name
				by[name] = append(by[name], v)
			}
			return last
		})
	})
	return by, problems
}

// TopClusters implements rest.Backend. Of a cluster that keeps its details to
// itself it shows what is reserved and what there is, as its aggregate says.
func (b backend) TopClusters(ctx context.Context) ([]wire.ClusterTop, error) {
	clusters := seen(ctx, b.clusters())
	by, problems := b.topWorkers(ctx, clusters)
	out := []wire.ClusterTop{}
	for _, cl := range clusters {
		v := wire.SumTop(cl.Name, by[cl.Name])
		v.Problem = problems[cl.Name]
		if agg := cl.Aggregate; agg != nil {
			if v.Workers == 0 {
				v.Workers, v.Instances, v.Capacity = agg.Workers, agg.Instances, agg.Capacity
				v.Reserved.CPU = max(0, v.Capacity.CPU-api.CPU(agg.CPU.Sum))
				v.Reserved.Memory = max(0, v.Capacity.Memory-api.Bytes(agg.Memory.Sum))
			}
		}
		v.AgeSeconds = cl.AgeSeconds
		out = append(out, v)
	}
	return out, nil
}

// eachCluster calls f for those of clusters that let themselves be asked, some at a
// time, and says of the others why they were not or did not answer.
func (c *core) eachCluster(clusters []wire.ClusterView, f func(name string) error) (problems map[string]string) {
	problems = map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, topAtOnce)
	const title = "it cannot be measured now"
	for _, cl := range clusters {
		err := c.details(cl.Name, title)
		if err == nil && !cl.Connected {
			err = wire.Problemf(503, "cluster-away", "", title, "cluster %s does not answer", cl.Name)
		}
		if err != nil {
			mu.Lock()
			problems[cl.Name] = inWords(err)
			mu.Unlock()
			continue
		}
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			if err := unanswered(f(cl.Name), cl.Name, "cluster-unavailable", title); err != nil {
				mu.Lock()
				defer mu.Unlock()
				problems[cl.Name] = inWords(err)
			}
		})
	}
	all.Wait()
	return problems
}

// inWords is the detail of a problem, or an error's text.
func inWords(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) && p.Detail != "" {
		return p.Detail
	}
	return err.Error()
}
