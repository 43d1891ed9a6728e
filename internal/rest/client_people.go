package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// CreateUser makes a user; see People.
func (c *Client) CreateUser(ctx context.Context, r wire.UserRequest) (v wire.UserReply, err error) {
	err = c.send(ctx, http.MethodPost, "/v1/users", r, &v)
	return v, err
}

// RotateToken makes a user a new token; see People.
func (c *Client) RotateToken(ctx context.Context, name string, ttl time.Duration) (v wire.UserReply, err error) {
	err = c.send(ctx, http.MethodPost, userPath(name)+"/token", wire.RotateRequest{TTLSeconds: int(ttl / time.Second)}, &v)
	return v, err
}

// RemoveUser removes a user; see People.
func (c *Client) RemoveUser(ctx context.Context, name string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: userPath(name)}, nil)
}

// Grant gives roles to a user; see People.
func (c *Client) Grant(ctx context.Context, name string, r wire.Roles) (v wire.UserView, err error) {
	err = c.send(ctx, http.MethodPost, userPath(name)+"/grant", r, &v)
	return v, err
}

// Revoke takes roles from a user; see People.
func (c *Client) Revoke(ctx context.Context, name string, r wire.Roles) (v wire.UserView, err error) {
	err = c.send(ctx, http.MethodPost, userPath(name)+"/revoke", r, &v)
	return v, err
}

// Users lists all; see People.
func (c *Client) Users(ctx context.Context) ([]wire.UserView, error) {
	return getList[wire.UserView](ctx, c, "/v1/users", nil)
}

// User is one of them; see People.
func (c *Client) User(ctx context.Context, name string) (wire.UserView, error) {
	return get[wire.UserView](ctx, c, call{path: userPath(name)})
}

// Tokens lists those that were made; see People.
func (c *Client) Tokens(ctx context.Context) ([]wire.TokenView, error) {
	return getList[wire.TokenView](ctx, c, "/v1/tokens", nil)
}

// RevokeToken takes one back; see People.
func (c *Client) RevokeToken(ctx context.Context, id string) ([]wire.TokenView, error) {
	var v items[wire.TokenView]
	err := c.do(ctx, call{method: http.MethodDelete, path: "/v1/tokens/" + url.PathEscape(id)}, &v)
	return v.Items, err
}

// Whoami says who asks, and what they may do.
func (c *Client) Whoami(ctx context.Context) (wire.WhoView, error) {
	return get[wire.WhoView](ctx, c, call{path: "/v1/me"})
}

// Audit reads a page of the audit log; see People.
func (c *Client) Audit(ctx context.Context, q wire.AuditQuery) (wire.AuditPage, error) {
	v := url.Values{}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	if q.User != "" {
		v.Set("who", q.User)
	}
	if q.Before > 0 {
		v.Set("before", strconv.FormatUint(q.Before, 10))
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return get[wire.AuditPage](ctx, c, call{path: "/v1/audit", query: v})
}

func userPath(name string) string { return "/v1/users/" + url.PathEscape(name) }
