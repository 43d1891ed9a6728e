package root

import (
	"context"

	"github.com/verge-edge/verge/internal/wire"
)

// Volumes implements rest.Backend: the worker's cluster asks it.
func (b backend) Volumes(ctx context.Context, cluster, worker string) ([]wire.VolumeView, error) {
	const title = "its volumes cannot be listed now"
	if err := b.details(cluster, title); err != nil {
		return nil, err
	}
	list := []wire.VolumeView{}
	err := b.ask(ctx, cluster, wire.Ask{What: wire.AskVolumes, Worker: worker}, &list)
	for i := range list {
		list[i].Cluster, list[i].Worker = cluster, worker // whatever it says
	}
	return list, unanswered(err, cluster, "worker-unavailable", title)
}
