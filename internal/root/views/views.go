package views

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Clusters are all clusters, as people are shown them.
func Clusters(c *core.Core) []apiv1.ClusterView {
	return core.View(c, func(m *state.Model) []apiv1.ClusterView {
		now := time.Now()
		out := []apiv1.ClusterView{}
		for _, name := range records.SortedKeys(m.Clusters) {
			out = append(out, status.Cluster(m, m.Clusters[name], now))
		}
		return out
	})
}

// Apps are all applications, as people are shown them.
func Apps(c *core.Core) []apiv1.AppView {
	return core.View(c, func(m *state.Model) []apiv1.AppView {
		out := []apiv1.AppView{}
		for _, name := range records.SortedKeys(m.Apps) {
			out = append(out, status.Application(m, m.Apps[name]))
		}
		return out
	})
}

// Status of the root and of all that it knows of.
func Status(ctx context.Context, c *core.Core) apiv1.StatusView {
	s := apiv1.StatusView{Role: "root", Name: "root", Version: obs.Version(), Started: c.Started, Time: time.Now(),
		Clusters: Seen(ctx, Clusters(c))}
	s.Apps = access.Visible(access.From(ctx), Apps(c), func(a apiv1.AppView) access.Object {
		return access.Object{Kind: access.Application, Name: a.Name, Namespace: a.Namespace}
	})
	s.Local, s.Conflicts = clusters.SeenLocal(ctx, c)
	for _, a := range s.Apps {
		s.Tally = s.Tally.Plus(a.Tally)
	}
	if access.From(ctx).Admin {
		core.Do(c, func(m *state.Model) {
			s.Network = netlease.View(m)
			s.Tally = counters.Total(m)
			s.Problems = append(s.Problems, records.Words(slices.Concat(m.Unread, c.HookKeeper.Unread()))...)
			s.Problems = append(s.Problems, recovery.Problems(recovery.View(m, time.Now()))...)
		})
	}
	s.Problems = append(s.Problems, apiv1.ConflictProblems(s.Conflicts)...)
	s.Problems = append(s.Problems, clusters.QuotaProblems(ctx, c)...)
	s.Problems = append(s.Problems, core.NetworkProblems(c)...)
	workers, missing := Workers(ctx, c, core.StatusTimeout)
	s.Workers = workers
	for _, cl := range s.Clusters {
		switch {
		case !cl.Revoked.IsZero():
			s.Problems = append(s.Problems,
				"the key of cluster "+cl.Name+" was revoked: it has to join again with a new token")
		case cl.AgeSeconds < 0:
			s.Problems = append(s.Problems, "cluster "+cl.Name+" has not reported since the root started")
		case !cl.Connected:
			s.Problems = append(s.Problems,
				fmt.Sprintf("cluster %s is away, last report %s ago", cl.Name,
					(time.Duration(cl.AgeSeconds)*time.Second).String()))
		}
	}
	for _, cl := range s.Clusters {
		if p := apiv1.SkewProblem("cluster "+cl.Name, "the root", cl.ClockSkewSeconds); p != "" && cl.Connected {
			s.Problems = append(s.Problems, p)
		}
	}
	for _, w := range workers {
		if w.Status != "ready" {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s of cluster %s is %s", w.Name, w.Cluster, w.Status))
			continue // what it said last is not news
		}
		if p := apiv1.SkewProblem("worker "+w.Cluster+"/"+w.Name, "its cluster", w.ClockSkewSeconds); p != "" {
			s.Problems = append(s.Problems, p)
		}
		for _, p := range w.Problems {
			s.Problems = append(s.Problems, fmt.Sprintf("worker %s/%s: %s", w.Cluster, w.Name, p))
		}
	}
	s.Problems = append(s.Problems, missing...)
	for _, a := range s.Apps {
		if !a.Holds {
			s.Problems = append(s.Problems, "application "+a.Name+": "+a.Message)
		}
	}
	if err := c.RecordStore.WriteError(); err != nil {
		s.Problems = append(s.Problems, "nothing can be stored: "+err.Error())
	}
	return s
}

// Unanswered turns what came of a question to a cluster into what is answered
// here: a problem of the cluster's goes on as it is.
func Unanswered(err error, cluster, code, title string) error {
	var p *wire.Problem
	switch {
	case err == nil, errors.As(err, &p):
		return err
	case core.Silent(err):
		return wire.Problemf(503, "cluster-away", "try again when it is back: verge get clusters", title,
			"cluster %s does not answer", cluster)
	}
	return wire.Problemf(502, code, "try again: verge status shows what is away", title, "%s",
		strings.TrimSpace(err.Error()))
}

// Find returns an instance.
func Find(c *core.Core, id wire.InstanceID) (apiv1.InstanceView, error) {
	return core.View2(c, func(m *state.Model) (v apiv1.InstanceView, err error) {
		i := m.Insts[id]
		if v, ok := rollouts.ExtraView(m, id, time.Now()); i == nil && ok {
			return v, nil
		}
		if i == nil {
			var near []string
			for other := range m.Insts {
				if strings.HasPrefix(other, id) {
					near = append(near, other)
				}
			}
			slices.Sort(near)
			detail := id + " is not known"
			if len(near) > 0 {
				detail += "; there are " + strings.Join(near[:min(len(near), 5)], ", ")
			}
			return v, wire.Problemf(404, "no-such-instance", "verge get instances", "there is no such instance", "%s",
				detail)
		}
		return status.Instance(m, i, time.Now()), nil
	})
}

// Seen are the clusters that who asks may see.
func Seen(ctx context.Context, list []apiv1.ClusterView) []apiv1.ClusterView {
	return access.Visible(access.From(ctx), list, func(c apiv1.ClusterView) access.Object {
		return access.Object{Kind: access.Cluster, Name: c.Name, Cluster: c.Name}
	})
}

// Workers of the clusters that let them be seen to who asks, all asked at once and
// waited for no longer than patience. missing says whose could not be had, and
// whose are shown as they were.
func Workers(ctx context.Context, c *core.Core, patience time.Duration) (out []rpc.WorkerView, missing []string) {
	out = []rpc.WorkerView{}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var asked []string
	for _, cl := range Seen(ctx, Clusters(c)) {
		if cl.Connected && cl.Aggregate != nil && cl.Aggregate.Details {
			asked = append(asked, cl.Name)
		}
	}
	lists, errs := make([][]rpc.WorkerView, len(asked)), make([]error, len(asked))
	var wg sync.WaitGroup
	for n, name := range asked {
		wg.Go(func() { errs[n] = core.Ask(ctx, c, name, rpc.Ask{What: rpc.AskWorkers}, &lists[n]) })
	}
	wg.Wait()
	now := time.Now()
	for n, name := range asked {
		if errs[n] == nil {
			c.Fleet.Keep(name, lists[n], now)
			out = append(out, lists[n]...)
			continue
		}
		list, age, ok := c.Fleet.Old(name, now)
		if !ok {
			missing = append(missing, fmt.Sprintf("the workers of cluster %s cannot be shown: %v", name, errs[n]))
			continue
		}
		out = append(out, list...)
		missing = append(missing, fmt.Sprintf("cluster %s does not answer: its workers are shown as they were %s ago",
			name, age.Round(time.Second)))
	}
	return out, missing
}
