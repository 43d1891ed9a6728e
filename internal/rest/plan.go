package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Planning is the part of a Backend that says what a change would do.
type Planning interface {
	// Plan says what Apply would do with the same descriptor, and refuses what it would
	// refuse. It changes nothing.
	Plan(ctx context.Context, source []byte) (wire.Plan, error)
}

type planInput struct {
	Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
	RawBody []byte `contentType:"application/yaml"`
}

func (in *planInput) descriptor() []byte { return in.RawBody }

func (s *Server) registerPlanning(api huma.API) {
	register(s, api, op("plan", http.MethodPost, "/v1/plan", "What applying a descriptor would do", may(access.Plan, inDescriptor)),
		func(ctx context.Context, in *planInput) (wire.Plan, error) {
			return s.backend.Plan(WithLocal(ctx, in.Local), in.RawBody)
		})
}

// Plan of a descriptor; see Planning.
func (c *Client) Plan(ctx context.Context, source []byte) (p wire.Plan, err error) {
	err = c.do(ctx, call{method: http.MethodPost, path: "/v1/plan", query: c.meant(nil), body: source, contentType: "application/yaml"}, &p)
	return p, err
}
