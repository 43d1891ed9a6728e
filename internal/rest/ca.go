package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Certifying is the part of a Backend that is about the root's authority.
type Certifying interface {
	// CA is who trusts what, and until when.
	CA(ctx context.Context) (wire.CAView, error)
	// RotateCA begins to replace the authority, or ends that; durable when it
	// returns.
	RotateCA(ctx context.Context, r wire.CARotateRequest) (wire.CAView, error)
}

type caInput struct{ Body wire.CARotateRequest }

func (s *Server) registerCertifying(api huma.API) {
	b := s.backend
	register(s, api, op("get-ca", http.MethodGet, "/v1/ca", "Who trusts which authority, and until when", may(access.Manage, system)),
		func(ctx context.Context, _ *none) (wire.CAView, error) { return b.CA(ctx) })
	register(s, api, op("rotate-ca", http.MethodPost, "/v1/ca/rotate", "Replace the root's authority, step by step", may(access.Manage, system)),
		func(ctx context.Context, in *caInput) (wire.CAView, error) { return b.RotateCA(ctx, in.Body) })
}

// CA is who trusts what; see Certifying.
func (c *Client) CA(ctx context.Context) (wire.CAView, error) {
	return get[wire.CAView](ctx, c, call{path: "/v1/ca"})
}

// RotateCA replaces the authority, step by step; see Certifying.
func (c *Client) RotateCA(ctx context.Context, r wire.CARotateRequest) (v wire.CAView, err error) {
	err = c.send(ctx, http.MethodPost, "/v1/ca/rotate", r, &v)
	return v, err
}
