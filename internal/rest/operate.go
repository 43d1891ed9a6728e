package rest

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Operating is the part of a Backend that is about what runs already. Caller says
// who asks.
type Operating interface {
	// Scale changes how many replicas a service has, as an apply would that says
	// nothing else new; durable when it returns.
	Scale(ctx context.Context, app, service string, replicas int) (wire.ApplyResult, error)
	// Restart asks for a new run of what the request names; durable when it
	// returns.
	Restart(ctx context.Context, app string, r wire.RestartRequest) (wire.RestartResult, error)
}

type scaleInput struct {
	App     string `path:"app" maxLength:"63" doc:"name of the application"`
	Service string `path:"service" maxLength:"63" doc:"name of the service"`
	Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
	Body    wire.ScaleRequest
}

type restartInput struct {
	App  string `path:"app" maxLength:"63" doc:"name of the application"`
	Body wire.RestartRequest
}

func (s *Server) registerOperating(api huma.API) {
	b := s.backend
	register(s, api, op("scale-service", http.MethodPut, "/v1/applications/{app}/services/{service}/replicas", "Change how many replicas a service has", may(access.Scale, app("app"))),
		func(ctx context.Context, in *scaleInput) (wire.ApplyResult, error) {
			return b.Scale(WithLocal(ctx, in.Local), in.App, in.Service, in.Body.Replicas)
		})
	register(s, api, op("restart-application", http.MethodPost, "/v1/applications/{app}/restart", "Start instances again, one after the other", may(access.Restart, app("app"))),
		func(ctx context.Context, in *restartInput) (wire.RestartResult, error) {
			return b.Restart(ctx, in.App, in.Body)
		})
}
