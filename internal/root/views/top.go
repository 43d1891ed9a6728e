package views

import (
	"context"
	"errors"
	"sync"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// TopAtOnce is how many clusters are asked at a time.
	TopAtOnce = 8
	// topPages bounds what one cluster may answer.
	topPages = 100
)

// Reserved fills in what the root has promised an instance.
func Reserved(c *core.Core, v *rpc.InstanceTop, app, service string) {
	core.Do(c, func(m *state.Model) {
		if a := m.Apps[app]; a != nil && a.Spec.Services[service] != nil {
			v.Reserved, v.Limits = a.Spec.Services[service].Resources, a.Spec.Services[service].Limits
		}
	})
}

// Pages asks a cluster until there is no more. Each takes a page and returns the
// last name in it.
func Pages(ctx context.Context, c *core.Core, cluster string, q rpc.Ask, each func(rpc.TopPage) (last string)) error {
	for after, n := "", 0; n < topPages; n++ {
		if q.What == rpc.AskTop {
			q.Instance = after
		} else {
			q.Worker = after
		}
		var p rpc.TopPage
		if err := core.Ask(ctx, c, cluster, q, &p); err != nil {
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

// TopWorkers are the workers of each cluster that lets itself be asked, and why
// the others do not.
func TopWorkers(ctx context.Context, c *core.Core, clusters []apiv1.ClusterView) (by map[string][]rpc.WorkerTopView,
	problems map[string]string) {
	by = map[string][]rpc.WorkerTopView{}
	var mu sync.Mutex
	problems = EachCluster(c, clusters, func(name string) error {
		return Pages(ctx, c, name, rpc.Ask{What: rpc.AskTopWorkers}, func(p rpc.TopPage) (last string) {
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

// EachCluster calls f for those of a list that let themselves be asked, some at a
// time, and says of the others why they were not or did not answer.
func EachCluster(c *core.Core, list []apiv1.ClusterView, f func(name string) error) (problems map[string]string) {
	problems = map[string]string{}
	var mu sync.Mutex
	var all sync.WaitGroup
	slots := make(chan struct{}, TopAtOnce)
	const title = "it cannot be measured now"
	for _, cl := range list {
		err := clusters.Details(c, cl.Name, title)
		if err == nil && !cl.Connected {
			err = wire.Problemf(503, "cluster-away", "", title, "cluster %s does not answer", cl.Name)
		}
		if err != nil {
			mu.Lock()
			problems[cl.Name] = InWords(err)
			mu.Unlock()
			continue
		}
		slots <- struct{}{} // a question has an end
		all.Go(func() {
			defer func() { <-slots }()
			if err := Unanswered(f(cl.Name), cl.Name, "cluster-unavailable", title); err != nil {
				mu.Lock()
				defer mu.Unlock()
				problems[cl.Name] = InWords(err)
			}
		})
	}
	all.Wait()
	return problems
}

// InWords is the detail of a problem, or an error's text.
func InWords(err error) string {
	var p *wire.Problem
	if errors.As(err, &p) && p.Detail != "" {
		return p.Detail
	}
	return err.Error()
}
