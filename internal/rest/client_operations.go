package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Apply sends a descriptor; see Backend.
func (c *Client) Apply(ctx context.Context, source []byte, dryRun bool) (r wire.ApplyResult, err error) {
	q := url.Values{}
	if dryRun {
		q.Set("dry_run", "true")
	}
	err = c.do(ctx, call{method: http.MethodPut, path: "/v1/applications/-", query: c.meant(q), body: source, contentType: "application/yaml"}, &r)
	return r, err
}

// Delete starts the end of an application; see Backend.
func (c *Client) Delete(ctx context.Context, app string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/applications/" + url.PathEscape(app), query: c.meant(nil)}, nil)
}

// Applications lists all; see Backend.
func (c *Client) Applications(ctx context.Context) ([]wire.AppView, error) {
	return getList[wire.AppView](ctx, c, "/v1/applications", nil)
}

// Application is one of them; see Backend.
func (c *Client) Application(ctx context.Context, app string) (wire.AppView, error) {
	return get[wire.AppView](ctx, c, call{path: "/v1/applications/" + url.PathEscape(app)})
}

// Instances of one application and service where these are not ""; see Backend.
func (c *Client) Instances(ctx context.Context, app, service string) ([]wire.InstanceView, error) {
	q := url.Values{}
	if app != "" {
		q.Set("app", app)
	}
	if service != "" {
		q.Set("service", service)
	}
	return getList[wire.InstanceView](ctx, c, "/v1/instances", q)
}

// Instance is one of them; see Backend.
func (c *Client) Instance(ctx context.Context, id wire.InstanceID) (wire.InstanceView, error) {
	return get[wire.InstanceView](ctx, c, call{path: "/v1/instances/" + url.PathEscape(id)})
}

// Explain says why an instance is where it is; see Backend.
func (c *Client) Explain(ctx context.Context, id wire.InstanceID) (wire.Explanation, error) {
	return get[wire.Explanation](ctx, c, call{path: "/v1/instances/" + url.PathEscape(id) + "/explain"})
}

// Logs reads a part of an instance's log; see Backend. wait is at most 30s.
func (c *Client) Logs(ctx context.Context, id wire.InstanceID, ask wire.LogAsk) (wire.LogChunk, error) {
	q := url.Values{"offset": {strconv.FormatInt(ask.Offset, 10)}, "max": {strconv.Itoa(ask.Max)}, "wait": {ask.Wait.String()}}
	if ask.Since > 0 {
		q.Set("since", ask.Since.String())
	}
	if ask.Times {
		q.Set("times", "true")
	}
	if ask.Previous {
		q.Set("previous", "true")
	}
	if ask.Former > 0 {
		q.Set("former", strconv.Itoa(ask.Former))
	}
	return get[wire.LogChunk](ctx, c, call{path: "/v1/instances/" + url.PathEscape(id) + "/logs", query: q, wait: ask.Wait})
}

// Clusters lists all; see Backend.
func (c *Client) Clusters(ctx context.Context) ([]wire.ClusterView, error) {
	return getList[wire.ClusterView](ctx, c, "/v1/clusters", nil)
}

// Workers lists all; see Backend.
func (c *Client) Workers(ctx context.Context) ([]wire.WorkerView, error) {
	return getList[wire.WorkerView](ctx, c, "/v1/workers", nil)
}

// Entries of a worker; see Backend.
func (c *Client) Entries(ctx context.Context, cluster, worker string) ([]wire.EntryView, error) {
	return getList[wire.EntryView](ctx, c, "/v1/workers/"+url.PathEscape(cluster)+"/"+url.PathEscape(worker)+"/entries", nil)
}

// Events after a sequence number; see Backend. wait is at most 30s.
func (c *Client) Events(ctx context.Context, after uint64, wait time.Duration) (wire.EventPage, error) {
	q := url.Values{"after": {strconv.FormatUint(after, 10)}, "wait": {wait.String()}}
	return get[wire.EventPage](ctx, c, call{path: "/v1/events", query: q, wait: wait})
}

// Status of the serving tier and what is below it; see Backend.
func (c *Client) Status(ctx context.Context) (wire.StatusView, error) {
	return get[wire.StatusView](ctx, c, call{path: "/v1/status"})
}

// CreateToken makes a token; see Backend.
func (c *Client) CreateToken(ctx context.Context, r wire.TokenRequest) (reply wire.TokenReply, err error) {
	body, err := json.Marshal(r)
	if err != nil {
		return reply, fmt.Errorf("encode the token request: %w", err)
	}
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/tokens", body: body, contentType: "application/json"}, &reply)
	return reply, err
}

// Version of the process that answers.
func (c *Client) Version(ctx context.Context) (wire.VersionView, error) {
	return get[wire.VersionView](ctx, c, call{path: "/v1/version"})
}

func get[T any](ctx context.Context, c *Client, r call) (out T, err error) {
	r.method = http.MethodGet
	err = c.do(ctx, r, &out)
	return out, err
}

func getList[T any](ctx context.Context, c *Client, path string, q url.Values) ([]T, error) {
	l, err := get[items[T]](ctx, c, call{path: path, query: q})
	return l.Items, err
}
