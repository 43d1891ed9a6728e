package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Scaling is the part of a Backend that is about how many instances of a service run.
type Scaling interface {
	// ScaleReports say for each cluster that has to do with a service how many of its
	// instances run there, and why. A cluster that cannot be asked says so in Problem.
	ScaleReports(ctx context.Context, app, service string) ([]wire.ScaleReport, error)
}

type scaleReportInput struct {
	App     string `path:"app" maxLength:"63" doc:"name of the application"`
	Service string `path:"service" maxLength:"63" doc:"name of the service"`
}

func (s *Server) registerScaling(api huma.API) {
	b := s.backend
	register(s, api, op("explain-scale", http.MethodGet, "/v1/applications/{app}/services/{service}/scale", "How many instances of a service run, and why", may(access.See, app("app"))),
		func(ctx context.Context, in *scaleReportInput) (items[wire.ScaleReport], error) {
			return list(b.ScaleReports(ctx, in.App, in.Service))
		})
}

// ScaleReports say how many instances of a service run, and why; see Scaling.
func (c *Client) ScaleReports(ctx context.Context, app, service string) ([]wire.ScaleReport, error) {
	return getList[wire.ScaleReport](ctx, c, "/v1/applications/"+url.PathEscape(app)+"/services/"+url.PathEscape(service)+"/scale", nil)
}
