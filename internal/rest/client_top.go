package rest

import (
	"context"
	"net/url"

	"github.com/verge-edge/verge/internal/wire"
)

// TopInstances measures what instances use; see Using.
func (c *Client) TopInstances(ctx context.Context, app string) ([]wire.InstanceTop, error) {
	q := url.Values{}
	if app != "" {
		q.Set("app", app)
	}
	return getList[wire.InstanceTop](ctx, c, "/v1/top/instances", q)
}

// TopWorkers measures what the instances on workers use; see Using.
func (c *Client) TopWorkers(ctx context.Context) ([]wire.WorkerTopView, error) {
	return getList[wire.WorkerTopView](ctx, c, "/v1/top/workers", nil)
}

// TopClusters measures what the instances in clusters use; see Using.
func (c *Client) TopClusters(ctx context.Context) ([]wire.ClusterTop, error) {
	return getList[wire.ClusterTop](ctx, c, "/v1/top/clusters", nil)
}
