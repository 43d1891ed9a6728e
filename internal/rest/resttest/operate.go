package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Scale answers ApplyAnswer; Hook changes what there is.
func (f *Fake) Scale(ctx context.Context, app, service string, replicas int) (wire.ApplyResult, error) {
	end, err := f.begin("scale")
	if err != nil {
		return wire.ApplyResult{}, err
	}
	defer end()
	f.noteLocal(ctx)
	for i := range f.Apps {
		for j, s := range f.Apps[i].Services {
			if f.Apps[i].Name == app && s.Name == service {
				f.Apps[i].Services[j].Wanted = replicas
				return f.ApplyAnswer, nil
			}
		}
	}
	return wire.ApplyResult{}, missing("service", app+"."+service)
}

// Restart answers RestartAnswer; Hook changes what there is.
func (f *Fake) Restart(_ context.Context, app string, r wire.RestartRequest) (wire.RestartResult, error) {
	end, err := f.begin("restart")
	if err != nil {
		return wire.RestartResult{}, err
	}
	defer end()
	f.Restarts = append(f.Restarts, r)
	for i := range f.Apps {
		if f.Apps[i].Name == app {
			return f.RestartAnswer, nil
		}
	}
	return wire.RestartResult{}, missing("application", app)
}

// Job notes what was asked for in Jobs and answers JobAnswer.
func (f *Fake) Job(_ context.Context, app, service string, r wire.JobRequest) (wire.JobResult, error) {
	end, err := f.begin("job")
	if err != nil {
		return wire.JobResult{}, err
	}
	defer end()
	f.Jobs = append(f.Jobs, r)
	for i := range f.Apps {
		for _, s := range f.Apps[i].Services {
			if f.Apps[i].Name == app && s.Name == service {
				out := f.JobAnswer
				out.Name = app + "." + service
				return out, nil
			}
		}
	}
	return wire.JobResult{}, missing("service", app+"."+service)
}

// CordonWorker notes it in WorkerList.
func (f *Fake) CordonWorker(_ context.Context, cluster, worker string, q wire.CordonRequest) (wire.Cordon, error) {
	c := wire.Cordon{By: "admin/ann", Why: q.Reason, Drain: q.Drain}
	return c, f.onWorker("cordon", cluster, worker, func(w *wire.WorkerView) { w.Cordon = &c })
}

// UncordonWorker takes it back.
func (f *Fake) UncordonWorker(_ context.Context, cluster, worker string) error {
	return f.onWorker("uncordon", cluster, worker, func(w *wire.WorkerView) { w.Cordon = nil })
}

// onWorker does what op is to a worker of WorkerList.
func (f *Fake) onWorker(op, cluster, worker string, do func(*wire.WorkerView)) error {
	end, err := f.begin(op)
	if err != nil {
		return err
	}
	defer end()
	for i := range f.WorkerList {
		if w := &f.WorkerList[i]; w.Cluster == cluster && w.Name == worker {
			do(w)
			return nil
		}
	}
	return missing("worker", cluster+"/"+worker)
}

// AllowGateway notes it in WorkerList.
func (f *Fake) AllowGateway(_ context.Context, cluster, worker string) (wire.GatewayGrant, error) {
	g := wire.GatewayGrant{Allowed: true, By: "admin/ann"}
	return g, f.onWorker("allow-gateway", cluster, worker, func(w *wire.WorkerView) { w.GatewayGrant = &g })
}

// DenyGateway takes it back.
func (f *Fake) DenyGateway(_ context.Context, cluster, worker string) error {
	return f.onWorker("deny-gateway", cluster, worker, func(w *wire.WorkerView) { w.GatewayGrant = nil })
}

// CordonCluster notes it in ClusterList.
func (f *Fake) CordonCluster(_ context.Context, cluster string, q wire.CordonRequest) (wire.Cordon, error) {
	c := wire.Cordon{By: "admin/ann", Why: q.Reason, Drain: q.Drain}
	return c, f.cordonCluster("cordon", cluster, &c)
}

// UncordonCluster takes it back.
func (f *Fake) UncordonCluster(_ context.Context, cluster string) error {
	return f.cordonCluster("uncordon", cluster, nil)
}

func (f *Fake) cordonCluster(op, cluster string, c *wire.Cordon) error {
	end, err := f.begin(op)
	if err != nil {
		return err
	}
	defer end()
	for i := range f.ClusterList {
		if f.ClusterList[i].Name == cluster {
			f.ClusterList[i].Cordon = c
			return nil
		}
	}
	return missing("cluster", cluster)
}

// WorkerDrain is Drain.
func (f *Fake) WorkerDrain(context.Context, string, string) (wire.DrainView, error) {
	return f.drain()
}

// ClusterDrain is Drain.
func (f *Fake) ClusterDrain(context.Context, string) (wire.DrainView, error) { return f.drain() }

func (f *Fake) drain() (wire.DrainView, error) {
	end, err := f.begin("drain")
	if err != nil {
		return wire.DrainView{}, err
	}
	defer end()
	return f.Drain, nil
}
