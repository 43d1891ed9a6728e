package resttest

import (
	"context"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// WorkerMetrics is Figures.
func (f *Fake) WorkerMetrics(_ context.Context, cluster, worker string) ([]byte, error) {
	return do(f, "worker-metrics", func() ([]byte, error) {
		text, ok := f.Figures[cluster+"/"+worker]
		if !ok {
			return nil, missing("worker", worker)
		}
		return []byte(text), nil
	})
}

// Exec asks ExecStep, which is called without the fake's lock: it may hold its
// answer.
func (f *Fake) Exec(ctx context.Context, q wire.ExecAsk) (wire.ExecAnswer, error) {
	end, err := f.begin("exec")
	if err != nil {
		return wire.ExecAnswer{}, err
	}
	step := f.ExecStep
	end()
	if step == nil && q.Profile != nil {
		return wire.ExecAnswer{Profile: &wire.ProfileReport{V: wire.Version, App: q.Profile.App, Service: q.Profile.Service, State: wire.ProfileRuns, Nodes: []wire.ProfileNode{}}}, nil
	}
	if step == nil {
		return wire.ExecAnswer{}, missing("session", q.Session)
	}
	q.Owner = rest.Caller(ctx)
	return step(ctx, q)
}

// Change changes what is watched.
func (f *Fake) Change(do func(f *Fake)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	do(f)
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

// Changes is closed by the next Change.
func (f *Fake) Changes() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.news == nil {
		f.news = make(chan struct{})
	}
	return f.news
}

// TopInstances are those of InstanceTops that match.
func (f *Fake) TopInstances(_ context.Context, app string) ([]wire.InstanceTop, error) {
	list, err := all(f, "top-instances", &f.InstanceTops)
	return slices.DeleteFunc(list, func(i wire.InstanceTop) bool { return app != "" && !strings.HasPrefix(i.ID, app+".") }), err
}

// TopWorkers are WorkerTops.
func (f *Fake) TopWorkers(context.Context) ([]wire.WorkerTopView, error) {
	return all(f, "top-workers", &f.WorkerTops)
}

// TopClusters are ClusterTops.
func (f *Fake) TopClusters(context.Context) ([]wire.ClusterTop, error) {
	return all(f, "top-clusters", &f.ClusterTops)
}
