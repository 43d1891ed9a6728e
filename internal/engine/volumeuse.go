package engine

import (
	"context"
	"fmt"
	"net/http"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Volumes lists the named volumes of this worker, by namespace, instance and name.
func (e *Engine) Volumes(ctx context.Context) ([]rpc.VolumeView, error) {
	if err := e.wait(ctx); err != nil {
		return nil, err
	}
	out, err := e.deps.volumes.List(ctx)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range out {
		out[i].InUse = e.usesLocked(out[i].VolumeRef)
	}
	return out, nil
}

// usesLocked says whether an instance that is here, or ordered, names a volume.
// Where the orders are not known every one may be used.
func (e *Engine) usesLocked(r wire.VolumeRef) bool {
	if !e.known {
		return true
	}
	for i := range e.orders {
		if volumes.Names(&e.orders[i], r) {
			return true
		}
	}
	in := e.instances[r.Instance]
	if in == nil {
		return false
	}
	goal := in.Goal().Order
	run := in.Present().Order
	// Of one without an order nobody knows what it names.
	return volumes.Names(&goal, r) || volumes.Names(&run, r) || (goal.ID == "" && run.ID == "")
}

// RemoveVolume removes a named volume that nothing here uses, with all that is in
// it.
func (e *Engine) RemoveVolume(ctx context.Context, r wire.VolumeRef) error {
	if err := e.wait(ctx); err != nil {
		return err
	}
	if err := volumes.Check(r); err != nil {
		return fmt.Errorf("%w: %w", state.ErrBadQuery, err)
	}
	e.mu.Lock() // nothing begins to use it meanwhile
	defer e.mu.Unlock()
	if e.usesLocked(r) {
		return wire.Problemf(http.StatusConflict, "volume-in-use",
			"delete what uses it first: verge describe instance/"+r.Instance, "the volume is in use", "%s names %s",
			r.Instance, r.Name)
	}
	if err := e.deps.volumes.Remove(r); err != nil {
		return err
	}
	if e.spawn == nil {
		return nil // the next engine does it
	}
	e.spawn(func(context.Context) { e.clearVolumes() })
	return nil
}

// clearVolumes removes what RemoveVolume has moved aside.
func (e *Engine) clearVolumes() { e.deps.problems.Set("removed volumes", e.deps.volumes.Clear()) }
