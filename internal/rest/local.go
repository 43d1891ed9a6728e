package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/wire"
)

// Sites is the part of a Backend that is about changes which operators make at a
// site while its root is away. A root shows what it was told of them.
type Sites interface {
	LocalChanges(ctx context.Context) (wire.LocalView, error)
	// DropLocal takes the local changes of a service back, of all services of the
	// application where service is "".
	DropLocal(ctx context.Context, app, service string) error
	// AckConflict forgets a conflict that somebody has looked at.
	AckConflict(ctx context.Context, id string) error
}

type localKey struct{}

// Local says whether who sent the request that ctx is of means it for this site
// alone, although the root could be asked.
func Local(ctx context.Context) bool {
	local, _ := ctx.Value(localKey{}).(bool)
	return local
}

// WithLocal is ctx for a call that is or is not meant for one site.
func WithLocal(ctx context.Context, local bool) context.Context {
	return context.WithValue(ctx, localKey{}, local)
}

type (
	dropInput struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `query:"service" maxLength:"63" doc:"only of this service"`
	}
	conflictInput struct {
		ID string `path:"id" maxLength:"30" doc:"as it is listed"`
	}
)

// OfLocal is what a local change is about: the application at its cluster; site:
// it is that cluster that is asked.
func OfLocal(l wire.LocalChange, site bool) access.Object {
	return access.Object{Kind: access.Application, Name: l.App, Namespace: l.Namespace, Cluster: l.Cluster, Site: site}
}

// visibleLocal leaves of the local changes what who may see.
func visibleLocal(s *Server, who access.Who, v wire.LocalView) wire.LocalView {
	v.Changes = access.Visible(who, v.Changes, func(l wire.LocalChange) access.Object { return s.here(OfLocal(l, false)) })
	v.Conflicts = access.Visible(who, v.Conflicts, func(c wire.Conflict) access.Object { return s.here(OfLocal(c.LocalChange, false)) })
	return v
}

func (s *Server) registerSites(api huma.API) {
	b := s.backend
	register(s, api, op("list-local-changes", http.MethodGet, "/v1/local", "What was changed at sites, and what of it gave way to the root", part(visibleLocal)),
		func(ctx context.Context, _ *none) (wire.LocalView, error) { return b.LocalChanges(ctx) })
	register(s, api, op("drop-local-change", http.MethodDelete, "/v1/local/changes/{app}", "Take the local changes of an application back", may(access.Operate, system)),
		func(ctx context.Context, in *dropInput) (none, error) {
			return none{}, b.DropLocal(ctx, in.App, in.Service)
		})
	register(s, api, op("acknowledge-conflict", http.MethodDelete, "/v1/local/conflicts/{id}", "Forget a conflict that was looked at", may(access.Operate, system)),
		func(ctx context.Context, in *conflictInput) (none, error) { return none{}, b.AckConflict(ctx, in.ID) })
}

// MeanLocal makes the changes that the client asks for ones of the site that it
// talks to, whether or not the root is connected.
func (c *Client) MeanLocal(local bool) { c.local = local }

// meant adds to the parameters of a change whether it is meant for one site.
func (c *Client) meant(q url.Values) url.Values {
	if !c.local {
		return q
	}
	if q == nil {
		q = url.Values{}
	}
	q.Set("local", "true")
	return q
}

// LocalChanges at the site, or at all where a root is asked; see Sites.
func (c *Client) LocalChanges(ctx context.Context) (wire.LocalView, error) {
	return get[wire.LocalView](ctx, c, call{path: "/v1/local"})
}

// DropLocal takes local changes back; see Sites.
func (c *Client) DropLocal(ctx context.Context, app, service string) error {
	q := url.Values{}
	if service != "" {
		q.Set("service", service)
	}
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/local/changes/" + url.PathEscape(app), query: q}, nil)
}

// AckConflict forgets a conflict; see Sites.
func (c *Client) AckConflict(ctx context.Context, id string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: "/v1/local/conflicts/" + url.PathEscape(id)}, nil)
}
