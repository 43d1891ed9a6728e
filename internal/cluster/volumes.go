package cluster

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// volumes asks a worker for its named volumes.
func (c *core) volumes(ctx context.Context, worker string) ([]wire.VolumeView, error) {
	list := []wire.VolumeView{}
	if !c.hasWorker(worker) {
		return list, noWorker(c.name, worker)
	}
	if err := c.askWorker(ctx, worker, wire.Ask{What: wire.AskVolumes, Worker: worker}, "its volumes cannot be listed now", &list); err != nil {
		return list, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range list {
		v := &list[i]
		v.Cluster, v.Worker = c.name, worker
		v.InUse = v.InUse || c.m.keeps(worker, v.VolumeRef)
		v.Left = c.m.isLeft(worker, v.VolumeRef)
	}
	return list, nil
}

// keeps says whether an instance that is on a worker, or pinned to it, names a
// volume; the worker itself may not have its order.
func (m *model) keeps(worker string, r wire.VolumeRef) bool {
	i := m.Insts[r.Instance]
	if i == nil || (i.Worker != worker && i.Pinned != worker) {
		return false
	}
	s := m.Shares[i.App+"."+i.Service]
	if s == nil || s.Spec == nil {
		return true // nobody knows what it names
	}
	return cmp.Or(s.Namespace, api.DefaultNamespace) == r.Namespace && slices.ContainsFunc(s.Spec.Volumes, func(v api.Volume) bool { return v.Name == r.Name })
}

// Volumes implements rest.Backend.
func (b backend) Volumes(ctx context.Context, cluster, worker string) ([]wire.VolumeView, error) {
	if cluster != b.name {
		return nil, rest.ElsewhereAt("asking for a worker", cluster)
	}
	return b.volumes(ctx, worker)
}

// RemoveVolume implements rest.Backend.
func (b backend) RemoveVolume(ctx context.Context, cluster, worker string, r wire.VolumeRef) error {
	if cluster != b.name {
		return rest.ElsewhereAt("removing a volume", cluster)
	}
	if !b.hasWorker(worker) {
		if was, err := b.removedVolume(ctx, worker, r); was || err != nil {
			return err // who knows that it will not come back may say so
		}
		return noWorker(b.name, worker)
	}
	b.mu.Lock()
	kept := b.m.keeps(worker, r)
	b.mu.Unlock()
	if kept {
		return wire.Problemf(409, "volume-in-use", "delete what uses it first: verge describe instance/"+r.Instance, "the volume is in use", "%s is on worker %s, or belongs there, and names %s", r.Instance, worker, r.Name)
	}
	err := b.askWorker(ctx, worker, wire.Ask{What: wire.AskRemoveVolume, Worker: worker, Volume: &r}, "the volume cannot be removed now", &struct{}{})
	var p *wire.Problem
	none := errors.As(err, &p) && p.Code == "no-such-volume"
	if err != nil && !none {
		return err
	}
	if was, werr := b.removedVolume(ctx, worker, r); was || werr != nil {
		return werr // where somebody had removed it by hand that is what was asked for, too
	}
	return err
}
