package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/verge-edge/verge/internal/wire"
)

// SetHook makes a hook or changes it; see Hooking.
func (c *Client) SetHook(ctx context.Context, namespace, name string, r wire.HookRequest) (v wire.HookView, err error) {
	data, err := json.Marshal(r)
	if err != nil {
		return v, fmt.Errorf("encoding the hook: %w", err)
	}
	q := hookCall(http.MethodPut, namespace, name, "")
	q.body, q.contentType = data, "application/octet-stream"
	err = c.do(ctx, q, &v)
	return v, err
}

// RotateHook gives a hook another secret; see Hooking.
func (c *Client) RotateHook(ctx context.Context, namespace, name, secret string, overlapSeconds int) (v wire.HookView, err error) {
	q := hookCall(http.MethodPut, namespace, name, "/secret")
	q.body, q.contentType = []byte(secret), "application/octet-stream"
	q.query.Set("overlap_seconds", strconv.Itoa(overlapSeconds))
	err = c.do(ctx, q, &v)
	return v, err
}

// RemoveHook removes a hook; see Hooking.
func (c *Client) RemoveHook(ctx context.Context, namespace, name string) (v wire.HookView, err error) {
	err = c.do(ctx, hookCall(http.MethodDelete, namespace, name, ""), &v)
	return v, err
}

// PauseHook pauses a hook; see Hooking.
func (c *Client) PauseHook(ctx context.Context, namespace, name string) (v wire.HookView, err error) {
	err = c.do(ctx, hookCall(http.MethodPost, namespace, name, "/pause"), &v)
	return v, err
}

// ResumeHook resumes a hook; see Hooking.
func (c *Client) ResumeHook(ctx context.Context, namespace, name string) (v wire.HookView, err error) {
	err = c.do(ctx, hookCall(http.MethodPost, namespace, name, "/resume"), &v)
	return v, err
}

// TestHook tests a hook; see Hooking.
func (c *Client) TestHook(ctx context.Context, namespace, name string) (v wire.HookTested, err error) {
	err = c.do(ctx, hookCall(http.MethodPost, namespace, name, "/test"), &v)
	return v, err
}

// Hooks are those that the caller may manage; see Hooking.
func (c *Client) Hooks(ctx context.Context) ([]wire.HookView, error) {
	return getList[wire.HookView](ctx, c, "/v1/hooks", nil)
}

func hookCall(method, namespace, name, what string) call {
	q := url.Values{}
	if namespace != "" {
		q.Set("namespace", namespace)
	}
	return call{method: method, path: "/v1/hooks/" + url.PathEscape(name) + what, query: q}
}
