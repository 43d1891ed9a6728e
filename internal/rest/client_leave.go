package rest

import (
	"context"
	"net/http"
	"net/url"
)

// RemoveWorker takes a worker out; see Leaving.
func (c *Client) RemoveWorker(ctx context.Context, cluster, worker string, force bool) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/workers/" + url.PathEscape(cluster) + "/" + url.PathEscape(worker), query: forced(force)}, nil)
}

// RevokeWorker makes the key of a worker count no more; see Leaving.
func (c *Client) RevokeWorker(ctx context.Context, cluster, worker string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(cluster) + "/" + url.PathEscape(worker) + "/revoke"}, nil)
}

// RevokePlugin makes the keys of a scheduler plugin count no more; see Leaving.
func (c *Client) RevokePlugin(ctx context.Context, plugin string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/plugins/" + url.PathEscape(plugin) + "/revoke"}, nil)
}

// RemoveCluster takes a cluster out; see Leaving.
func (c *Client) RemoveCluster(ctx context.Context, cluster string, force bool) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/clusters/" + url.PathEscape(cluster), query: forced(force)}, nil)
}

// RevokeCluster makes the key of a cluster count no more; see Leaving.
func (c *Client) RevokeCluster(ctx context.Context, cluster string) error {
	return c.do(ctx, call{method: http.MethodPost, path: "/v1/clusters/" + url.PathEscape(cluster) + "/revoke"}, nil)
}

func forced(force bool) url.Values {
	if !force {
		return nil
	}
	return url.Values{"force": {"true"}}
}
