package backend

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ImageSources implements rest.Backend. A worker is told only of images that it is to
// run itself.
func (b *Backend) ImageSources(ctx context.Context, q rpc.ImageAsk) (rpc.ImageSources, error) {
	reply := rpc.ImageSources{V: wire.Version}
	who := access.From(ctx)
	worker, ok := strings.CutPrefix(who.Name, "worker/"+b.ClusterName+"/")
	if !who.Node || !ok {
		return reply, wire.Problemf(403, "not-a-worker", "see images with verge image ls on the worker's machine",
			"not allowed", "only workers of the cluster copy images from each other")
	}
	if err := wire.CheckVersion("the question of a worker", q.V); err != nil {
		return reply, wire.Problemf(400, "wire-version", "use the same version of verge on both sides",
			"the question cannot be read", "%v", err)
	}
	return core.View2(b.Core, func(m *state.Model) (rpc.ImageSources, error) {
		for _, g := range q.Gone[:min(len(q.Gone), workers.MaxImagesGone)] {
			b.EventRing.Note(time.Now(), event.WorkerImageRemoved, event.WorkerName(b.ClusterName, worker),
				fmt.Sprintf("image %.300q (%s) was removed: %.200q", g.Image, api.Bytes(max(0, g.Size)), g.Why))
		}
		if q.Image == "" {
			return reply, nil
		}
		reply.Sources = workers.ImageSources(m, worker, q.Image)
		return reply, nil
	})
}
