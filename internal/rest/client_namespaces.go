package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/verge-edge/verge/internal/wire"
)

// CreateNamespace makes a namespace; see Spaces.
func (c *Client) CreateNamespace(ctx context.Context, r wire.NamespaceRequest) (v wire.NamespaceView, err error) {
	err = c.send(ctx, http.MethodPost, "/v1/namespaces", r, &v)
	return v, err
}

// SetQuota changes the quota of a namespace; see Spaces.
func (c *Client) SetQuota(ctx context.Context, name string, q wire.Quota) (v wire.NamespaceView, err error) {
	err = c.send(ctx, http.MethodPut, namespacePath(name)+"/quota", q, &v)
	return v, err
}

// SetStanding changes what a namespace may claim beside others; see Spaces.
func (c *Client) SetStanding(ctx context.Context, name string, s wire.Standing) (v wire.NamespaceView, err error) {
	err = c.send(ctx, http.MethodPut, namespacePath(name)+"/standing", s, &v)
	return v, err
}

// RemoveNamespace removes an empty one; see Spaces.
func (c *Client) RemoveNamespace(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: namespacePath(name)}, nil)
}

// Namespaces lists all; see Spaces.
func (c *Client) Namespaces(ctx context.Context) ([]wire.NamespaceView, error) {
	return getList[wire.NamespaceView](ctx, c, "/v1/namespaces", nil)
}

// Namespace is one of them; see Spaces.
func (c *Client) Namespace(ctx context.Context, name string) (wire.NamespaceView, error) {
	return get[wire.NamespaceView](ctx, c, call{path: namespacePath(name)})
}

func namespacePath(name string) string { return "/v1/namespaces/" + url.PathEscape(name) }
