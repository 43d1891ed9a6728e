package backend

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumemove"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// ForgetVolumes implements rest.Backend.
func (b *Backend) ForgetVolumes(ctx context.Context, cluster, worker string, r wire.VolumeRef,
	q apiv1.VolumeForgetRequest) error {
	return b.changeMove(ctx, cluster, worker, r,
		func(t *state.Tx, i wire.Instance, now time.Time) (wire.Instance, error) {
			const title = "the volume is not given up"
			switch {
			case q.Confirm != r.Instance:
				return i, wire.Problemf(http.StatusUnprocessableEntity, "not-confirmed",
					"say that it is meant: --confirm "+r.Instance, title,
					"%s would begin elsewhere with empty volumes, and what it has stored on worker %s would not be "+
						"used any more", r.Instance, worker)
			case i.Volumes != nil:
				return i, wire.Problemf(http.StatusConflict, "volume-busy",
					"cancel that first: verge volume move --cancel", title, "%s, since %s",
					volumemove.Describe(i.Volumes, ""), i.Volumes.Since.Format(time.RFC3339))
			case i.Pinned != worker:
				return i, wire.Problemf(http.StatusConflict, "volume-unused", "verge describe instance/"+i.ID, title,
					"%s is on %q, and does not wait for worker %s", i.ID, cmp.Or(i.Pinned, "no worker"), worker)
			case !t.Model.Away(worker):
				return i, wire.Problemf(http.StatusConflict, "worker-there",
					"move it instead: verge volume move … --to WORKER", title, "worker %s, which has it, is there",
					worker)
			}
			return volumes.GiveUp(t, i, worker, rest.Caller(ctx), now), nil
		})
}

// removedVolume notes that a volume is not on a worker any more; was says whether it was
// one that did not count.
func (b *Backend) removedVolume(ctx context.Context, worker string, r wire.VolumeRef) (was bool, err error) {
	err = core.Update(ctx, b.Core, time.Now(), func(t *state.Tx) error {
		if was = volumes.IsLeft(t.Model, worker, r) != ""; !was {
			return nil
		}
		next := *volumes.LeftTable.Get(t.Rows, worker+"."+r.Instance)
		next.Volumes = slices.DeleteFunc(slices.Clone(next.Volumes), func(v string) bool { return v == r.Name })
		change := &next
		if len(next.Volumes) == 0 {
			change = nil
		}
		volumes.LeftTable.Put(t.Rows, next.Key(), change)
		return nil
	})
	return was, err
}
