package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	"github.com/verge-edge/verge/internal/wire"
)

// Scale changes how many replicas a service has; see Operating.
func (c *Client) Scale(ctx context.Context, app, service string, replicas int) (r wire.ApplyResult, err error) {
	path := "/v1/applications/" + url.PathEscape(app) + "/services/" + url.PathEscape(service) + "/replicas"
	err = c.send(ctx, http.MethodPut, path, wire.ScaleRequest{Replicas: replicas}, &r)
	return r, err
}

// Restart asks for a new run; see Operating.
func (c *Client) Restart(ctx context.Context, app string, q wire.RestartRequest) (r wire.RestartResult, err error) {
	err = c.send(ctx, http.MethodPost, "/v1/applications/"+url.PathEscape(app)+"/restart", q, &r)
	return r, err
}

// Job does something about a job; see Operating.
func (c *Client) Job(ctx context.Context, app, service string, q wire.JobRequest) (r wire.JobResult, err error) {
	err = c.send(ctx, http.MethodPost, "/v1/applications/"+url.PathEscape(app)+"/jobs/"+url.PathEscape(service), q, &r)
	return r, err
}

// CordonWorker takes a worker out of use; see Operating.
func (c *Client) CordonWorker(ctx context.Context, cluster, worker string, q wire.CordonRequest) (r wire.Cordon, err error) {
	err = c.send(ctx, http.MethodPut, workerPath(cluster, worker)+"/cordon", q, &r)
	return r, err
}

// UncordonWorker takes that back; see Operating.
func (c *Client) UncordonWorker(ctx context.Context, cluster, worker string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: workerPath(cluster, worker) + "/cordon"}, nil)
}

// CordonCluster takes a cluster out of use; see Operating.
func (c *Client) CordonCluster(ctx context.Context, cluster string, q wire.CordonRequest) (r wire.Cordon, err error) {
	err = c.send(ctx, http.MethodPut, clusterPath(cluster)+"/cordon", q, &r)
	return r, err
}

// UncordonCluster takes that back; see Operating.
func (c *Client) UncordonCluster(ctx context.Context, cluster string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: clusterPath(cluster) + "/cordon"}, nil)
}

// AllowGateway lets a worker be a gateway with TLS; see Operating.
func (c *Client) AllowGateway(ctx context.Context, cluster, worker string) (r wire.GatewayGrant, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: workerPath(cluster, worker) + "/gateway"}, &r)
	return r, err
}

// DenyGateway takes that back; see Operating.
func (c *Client) DenyGateway(ctx context.Context, cluster, worker string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: workerPath(cluster, worker) + "/gateway"}, nil)
}

// WorkerDrain says how far a drain is; see Operating.
func (c *Client) WorkerDrain(ctx context.Context, cluster, worker string) (wire.DrainView, error) {
	return get[wire.DrainView](ctx, c, call{path: workerPath(cluster, worker) + "/drain"})
}

// ClusterDrain says how far a drain is; see Operating.
func (c *Client) ClusterDrain(ctx context.Context, cluster string) (wire.DrainView, error) {
	return get[wire.DrainView](ctx, c, call{path: clusterPath(cluster) + "/drain"})
}

func workerPath(cluster, worker string) string {
	return "/v1/workers/" + url.PathEscape(cluster) + "/" + url.PathEscape(worker)
}

func clusterPath(cluster string) string { return "/v1/clusters/" + url.PathEscape(cluster) }

// send sends a body in JSON and decodes the answer into out.
func (c *Client) send(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return fmt.Errorf("encode the request: %w", err)
	}
	return c.do(ctx, call{method: method, path: path, query: c.meant(nil), body: body, contentType: "application/json"}, out)
}
