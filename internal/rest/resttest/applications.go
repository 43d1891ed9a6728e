package resttest

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Scale answers ApplyAnswer; Hook changes what there is.
func (f *Fake) Scale(ctx context.Context, app, service string, replicas int) (apiv1.ApplyResult, error) {
	return do(f, "scale", func() (apiv1.ApplyResult, error) {
		f.noteLocal(ctx)
		for i := range f.Apps {
			for j, s := range f.Apps[i].Services {
				if f.Apps[i].Name == app && s.Name == service {
					f.Apps[i].Services[j].Wanted = replicas
					return f.ApplyAnswer, nil
				}
			}
		}
		return apiv1.ApplyResult{}, missing("service", app+"."+service)
	})
}

// Restart answers RestartAnswer; Hook changes what there is.
func (f *Fake) Restart(_ context.Context, app string, r apiv1.RestartRequest) (apiv1.RestartResult, error) {
	return do(f, "restart", func() (apiv1.RestartResult, error) {
		f.Restarts = append(f.Restarts, r)
		for i := range f.Apps {
			if f.Apps[i].Name == app {
				return f.RestartAnswer, nil
			}
		}
		return apiv1.RestartResult{}, missing("application", app)
	})
}

// Job notes what was asked for in Jobs and answers JobAnswer.
func (f *Fake) Job(_ context.Context, app, service string, r apiv1.JobRequest) (apiv1.JobResult, error) {
	return do(f, "job", func() (apiv1.JobResult, error) {
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
		return apiv1.JobResult{}, missing("service", app+"."+service)
	})
}

// CordonWorker notes it in WorkerList.
func (f *Fake) CordonWorker(_ context.Context, cluster, worker string, q rpc.CordonRequest) (wire.Cordon, error) {
	c := wire.Cordon{By: "admin/ann", Why: q.Reason, Drain: q.Drain}
	return c, f.onWorker("cordon", cluster, worker, func(w *rpc.WorkerView) { w.Cordon = &c })
}

// UncordonWorker takes it back.
func (f *Fake) UncordonWorker(_ context.Context, cluster, worker string) error {
	return f.onWorker("uncordon", cluster, worker, func(w *rpc.WorkerView) { w.Cordon = nil })
}

// onWorker does what op is to a worker of WorkerList.
func (f *Fake) onWorker(op, cluster, worker string, do func(*rpc.WorkerView)) error {
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
	return g, f.onWorker("allow-gateway", cluster, worker, func(w *rpc.WorkerView) { w.GatewayGrant = &g })
}

// DenyGateway takes it back.
func (f *Fake) DenyGateway(_ context.Context, cluster, worker string) error {
	return f.onWorker("deny-gateway", cluster, worker, func(w *rpc.WorkerView) { w.GatewayGrant = nil })
}

// CordonCluster notes it in ClusterList.
func (f *Fake) CordonCluster(_ context.Context, cluster string, q rpc.CordonRequest) (wire.Cordon, error) {
	c := wire.Cordon{By: "admin/ann", Why: q.Reason, Drain: q.Drain}
	return c, f.cordonCluster("cordon", cluster, &c)
}

// UncordonCluster takes it back.
func (f *Fake) UncordonCluster(_ context.Context, cluster string) error {
	return f.cordonCluster("uncordon", cluster, nil)
}

func (f *Fake) cordonCluster(op, cluster string, c *wire.Cordon) error {
	return f.run(op, func() error {
		for i := range f.ClusterList {
			if f.ClusterList[i].Name == cluster {
				f.ClusterList[i].Cordon = c
				return nil
			}
		}
		return missing("cluster", cluster)
	})
}

// WorkerDrain is Drain.
func (f *Fake) WorkerDrain(context.Context, string, string) (rpc.DrainView, error) {
	return f.drain()
}

// ClusterDrain is Drain.
func (f *Fake) ClusterDrain(context.Context, string) (rpc.DrainView, error) { return f.drain() }

func (f *Fake) drain() (rpc.DrainView, error) {
	return give(f, "drain", &f.Drain)
}

// Rollout answers with RolloutAnswer.
func (f *Fake) Rollout(context.Context, string) (apiv1.RolloutView, error) {
	return give(f, "rollout", &f.RolloutAnswer)
}

// Pause notes the request, and marks the services that it names.
func (f *Fake) Pause(_ context.Context, _ string, q apiv1.RolloutRequest) (apiv1.RolloutView, error) {
	return f.hold("pause", q, wire.RolloutPaused)
}

// Resume notes the request, and marks the services that it names.
func (f *Fake) Resume(_ context.Context, _ string, q apiv1.RolloutRequest) (apiv1.RolloutView, error) {
	return f.hold("resume", q, wire.RolloutRolling)
}

func (f *Fake) hold(op string, q apiv1.RolloutRequest, phase string) (apiv1.RolloutView, error) {
	end, err := f.begin(op)
	if err != nil {
		return apiv1.RolloutView{}, err
	}
	defer end()
	f.Rollouts = append(f.Rollouts, q)
	f.RolloutAnswer.Services = slices.Clone(f.RolloutAnswer.Services)
	for n := range f.RolloutAnswer.Services {
		if s := &f.RolloutAnswer.Services[n]; q.Service == "" || s.Name == q.Service {
			s.Phase = phase
		}
	}
	return f.RolloutAnswer, nil
}

// Undo notes the request and answers with ApplyAnswer.
func (f *Fake) Undo(_ context.Context, _ string, q apiv1.RolloutRequest) (apiv1.ApplyResult, error) {
	return do(f, "undo", func() (apiv1.ApplyResult, error) {
		f.Rollouts = append(f.Rollouts, q)
		return f.ApplyAnswer, nil
	})
}

// Revisions are those of RevisionList, without their descriptors.
func (f *Fake) Revisions(context.Context, string) ([]apiv1.AppRevision, error) {
	return do(f, "revisions", func() ([]apiv1.AppRevision, error) {
		out := slices.Clone(f.RevisionList)
		for n := range out {
			out[n].Descriptor = ""
		}
		return out, nil
	})
}

// Revision is one of RevisionList.
func (f *Fake) Revision(_ context.Context, app string, n uint64) (apiv1.AppRevision, error) {
	return do(f, "revision", func() (apiv1.AppRevision, error) {
		for _, r := range f.RevisionList {
			if r.Revision == n {
				return r, nil
			}
		}
		return apiv1.AppRevision{},
			wire.Problemf(404, "no-such-revision", "verge rollout history "+app, "there is no such revision",
				"revision %d of %s is not kept", n, app)
	})
}

// Plan answers with PlanAnswer, and notes the descriptor.
func (f *Fake) Plan(ctx context.Context, source []byte) (apiv1.Plan, error) {
	return do(f, "plan", func() (apiv1.Plan, error) {
		f.noteLocal(ctx)
		f.Planned = append(f.Planned, append([]byte(nil), source...))
		return f.PlanAnswer, nil
	})
}

// ScaleReports are those of Scales for that service.
func (f *Fake) ScaleReports(_ context.Context, app, service string) ([]rpc.ScaleReport, error) {
	list, err := all(f, "scale-reports", &f.Scales)
	out := []rpc.ScaleReport{}
	for _, r := range list {
		if r.App == app && r.Service == service {
			out = append(out, r)
		}
	}
	if err == nil && len(out) == 0 {
		err = missing("service", app+"."+service)
	}
	return out, err
}
