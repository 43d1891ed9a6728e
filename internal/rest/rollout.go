package rest

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Rolling is the part of a Backend that is about how applications become what was
// applied, and what they were.
type Rolling interface {
	// Rollout says how far an application is.
	Rollout(ctx context.Context, app string) (wire.RolloutView, error)
	// Pause stops the rollouts of what the request names, until Resume, by which one that
	// has failed tries again; durable when they return.
	Pause(ctx context.Context, app string, q wire.RolloutRequest) (wire.RolloutView, error)
	Resume(ctx context.Context, app string, q wire.RolloutRequest) (wire.RolloutView, error)
	// Undo applies what an application, or one service of it, was in an earlier revision.
	Undo(ctx context.Context, app string, q wire.RolloutRequest) (wire.ApplyResult, error)
	// Revisions that are known of an application, from the newest on, without their
	// descriptors; Revision is one with it.
	Revisions(ctx context.Context, app string) ([]wire.AppRevision, error)
	Revision(ctx context.Context, app string, n uint64) (wire.AppRevision, error)
}

type rolloutInput struct {
	App string `path:"app" maxLength:"63" doc:"name of the application"`
}

type revisionInput struct {
	App      string `path:"app" maxLength:"63" doc:"name of the application"`
	Revision uint64 `path:"revision" minimum:"1" doc:"number of the revision"`
}

type rolloutChange struct {
	App  string `path:"app" maxLength:"63" doc:"name of the application"`
	Body wire.RolloutRequest
}

func (s *Server) registerRolling(api huma.API) {
	b := s.backend
	register(s, api, op("get-rollout", http.MethodGet, "/v1/applications/{app}/rollout", "How far an application is in becoming what was applied", may(access.See, app("app"))),
		func(ctx context.Context, in *rolloutInput) (wire.RolloutView, error) { return b.Rollout(ctx, in.App) })
	register(s, api, op("pause-rollout", http.MethodPost, "/v1/applications/{app}/rollout/pause", "Update no more instances for now", may(access.Apply, app("app"))),
		func(ctx context.Context, in *rolloutChange) (wire.RolloutView, error) {
			return b.Pause(ctx, in.App, in.Body)
		})
	register(s, api, op("resume-rollout", http.MethodPost, "/v1/applications/{app}/rollout/resume", "Go on with a rollout that was paused or has failed", may(access.Apply, app("app"))),
		func(ctx context.Context, in *rolloutChange) (wire.RolloutView, error) {
			return b.Resume(ctx, in.App, in.Body)
		})
	register(s, api, op("undo-rollout", http.MethodPost, "/v1/applications/{app}/rollout/undo", "Bring an earlier revision back", may(access.Apply, app("app"))),
		func(ctx context.Context, in *rolloutChange) (wire.ApplyResult, error) {
			return b.Undo(ctx, in.App, in.Body)
		})
	register(s, api, op("list-revisions", http.MethodGet, "/v1/applications/{app}/revisions", "What an application was, from the newest revision on", may(access.See, app("app"))),
		func(ctx context.Context, in *rolloutInput) (items[wire.AppRevision], error) {
			list, err := b.Revisions(ctx, in.App)
			return items[wire.AppRevision]{Items: list}, err
		})
	register(s, api, op("get-revision", http.MethodGet, "/v1/applications/{app}/revisions/{revision}", "A revision with its descriptor", may(access.See, app("app"))),
		func(ctx context.Context, in *revisionInput) (wire.AppRevision, error) {
			return b.Revision(ctx, in.App, in.Revision)
		})
}

func appPath(app string) string { return "/v1/applications/" + url.PathEscape(app) }

// Rollout says how far an application is; see Rolling.
func (c *Client) Rollout(ctx context.Context, app string) (wire.RolloutView, error) {
	return get[wire.RolloutView](ctx, c, call{path: appPath(app) + "/rollout"})
}

// Pause stops rollouts; see Rolling.
func (c *Client) Pause(ctx context.Context, app string, q wire.RolloutRequest) (v wire.RolloutView, err error) {
	err = c.send(ctx, http.MethodPost, appPath(app)+"/rollout/pause", q, &v)
	return v, err
}

// Resume lets them go on; see Rolling.
func (c *Client) Resume(ctx context.Context, app string, q wire.RolloutRequest) (v wire.RolloutView, err error) {
	err = c.send(ctx, http.MethodPost, appPath(app)+"/rollout/resume", q, &v)
	return v, err
}

// Undo brings an earlier revision back; see Rolling.
func (c *Client) Undo(ctx context.Context, app string, q wire.RolloutRequest) (r wire.ApplyResult, err error) {
	err = c.send(ctx, http.MethodPost, appPath(app)+"/rollout/undo", q, &r)
	return r, err
}

// Revisions of an application; see Rolling.
func (c *Client) Revisions(ctx context.Context, app string) ([]wire.AppRevision, error) {
	list, err := get[items[wire.AppRevision]](ctx, c, call{path: appPath(app) + "/revisions"})
	return list.Items, err
}

// Revision of an application, with its descriptor; see Rolling.
func (c *Client) Revision(ctx context.Context, app string, n uint64) (wire.AppRevision, error) {
	return get[wire.AppRevision](ctx, c, call{path: appPath(app) + "/revisions/" + strconv.FormatUint(n, 10)})
}
