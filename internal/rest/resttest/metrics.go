package resttest

import (
	"context"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
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
func (f *Fake) Exec(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error) {
	end, err := f.begin("exec")
	if err != nil {
		return rpc.ExecAnswer{}, err
	}
	step := f.ExecStep
	end()
	if step == nil && q.Profile != nil {
		return rpc.ExecAnswer{Profile: &rpc.ProfileReport{V: wire.Version, App: q.Profile.App,
			Service: q.Profile.Service, State: rpc.ProfileRuns, Nodes: []rpc.ProfileNode{}}}, nil
	}
	if step == nil {
		return rpc.ExecAnswer{}, missing("session", q.Session)
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
func (f *Fake) TopInstances(_ context.Context, app string) ([]rpc.InstanceTop, error) {
	list, err := all(f, "top-instances", &f.InstanceTops)
	return slices.DeleteFunc(list,
		func(i rpc.InstanceTop) bool { return app != "" && !strings.HasPrefix(i.ID, app+".") }), err
}

// TopWorkers are WorkerTops.
func (f *Fake) TopWorkers(context.Context) ([]rpc.WorkerTopView, error) {
	return all(f, "top-workers", &f.WorkerTops)
}

// TopClusters are ClusterTops.
func (f *Fake) TopClusters(context.Context) ([]apiv1.ClusterTop, error) {
	return all(f, "top-clusters", &f.ClusterTops)
}
