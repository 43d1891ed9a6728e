package resttest

import (
	"context"
	"slices"

	"github.com/verge-edge/verge/internal/wire"
)

// RemoveWorker takes one out of WorkerList.
func (f *Fake) RemoveWorker(_ context.Context, cluster, worker string, _ bool) error {
	return f.leave("remove-worker", "worker", cluster+"/"+worker, func() bool {
		before := len(f.WorkerList)
		f.WorkerList = slices.DeleteFunc(f.WorkerList, func(w wire.WorkerView) bool { return w.Cluster == cluster && w.Name == worker })
		return len(f.WorkerList) < before
	})
}

// RevokeWorker changes nothing.
func (f *Fake) RevokeWorker(_ context.Context, cluster, worker string) error {
	return f.leave("revoke-worker", "worker", cluster+"/"+worker, func() bool {
		return slices.ContainsFunc(f.WorkerList, func(w wire.WorkerView) bool { return w.Cluster == cluster && w.Name == worker })
	})
}

// RevokePlugin changes nothing.
func (f *Fake) RevokePlugin(_ context.Context, plugin string) error {
	return f.leave("revoke-plugin", "plugin", plugin, func() bool { return plugin != "nobody" })
}

// RemoveCluster takes one out of ClusterList.
func (f *Fake) RemoveCluster(_ context.Context, cluster string, _ bool) error {
	return f.leave("remove-cluster", "cluster", cluster, func() bool {
		before := len(f.ClusterList)
		f.ClusterList = slices.DeleteFunc(f.ClusterList, func(c wire.ClusterView) bool { return c.Name == cluster })
		return len(f.ClusterList) < before
	})
}

// RevokeCluster changes nothing.
func (f *Fake) RevokeCluster(_ context.Context, cluster string) error {
	return f.leave("revoke-cluster", "cluster", cluster, func() bool {
		return slices.ContainsFunc(f.ClusterList, func(c wire.ClusterView) bool { return c.Name == cluster })
	})
}

func (f *Fake) leave(op, kind, name string, do func() bool) error {
	end, err := f.begin(op)
	if err != nil {
		return err
	}
	defer end()
	if !do() {
		return missing(kind, name)
	}
	return nil
}
