package rest

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

type (
	profileInput struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
	}
	startProfileInput struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
		Body    wire.ProfileLoad
	}
	profileRunInput struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
		Run     string `path:"run" maxLength:"64" doc:"the key with which it was started"`
	}
)

// subject implements subjecter: what is sent may be secret, where to is not.
func (in *startProfileInput) subject() (on, detail string) {
	return "application/" + in.App, "service " + in.Service
}

func (in *profileInput) subject() (on, detail string) {
	return "application/" + in.App, "service " + in.Service
}

func (in *profileRunInput) subject() (on, detail string) {
	return "application/" + in.App, "service " + in.Service
}

func (s *Server) registerProfiles(api huma.API) {
	const path = "/v1/applications/{app}/services/{service}/profile"
	step := func(ctx context.Context, do, app, service, run string, load *wire.ProfileLoad) (wire.ProfileReport, error) {
		a, err := s.backend.Exec(ctx, wire.ExecAsk{Do: wire.ExecDoProfile, Profile: &wire.ProfileAsk{Do: do, App: app, Service: service, Key: run, Load: load}})
		if err == nil && a.Profile == nil {
			err = wire.Problemf(http.StatusBadGateway, "odd-answer", "upgrade the cluster", "the answer cannot be understood", "there is no profile in it")
		}
		if err != nil {
			return wire.ProfileReport{}, err
		}
		weighProfile(a.Profile.Nodes)
		return *a.Profile, nil
	}
	register(s, api, op("start-profile", http.MethodPost, path, "Keep the instances of a service busy, to see what each worker does", may(access.Profile, app("app"))),
		func(ctx context.Context, in *startProfileInput) (wire.ProfileReport, error) {
			if len(in.Body.Key) < 8 {
				return wire.ProfileReport{}, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "choose one at random", "the request is not valid", "the key of a run has 8 to 64 characters")
			}
			return step(ctx, wire.ProfileStart, in.App, in.Service, in.Body.Key, &in.Body)
		})
	register(s, api, op("show-profile", http.MethodGet, path, "What each worker does with a service, and the weights that follow", may(access.See, app("app"))),
		func(ctx context.Context, in *profileInput) (wire.ProfileReport, error) {
			return step(ctx, wire.ProfileShow, in.App, in.Service, "", nil)
		})
	register(s, api, op("forget-profile", http.MethodDelete, path, "Forget what was measured: processors count again", may(access.Profile, app("app"))),
		func(ctx context.Context, in *profileInput) (wire.ProfileReport, error) {
			return step(ctx, wire.ProfileForget, in.App, in.Service, "", nil)
		})
	register(s, api, op("look-at-profile", http.MethodGet, path+"/{run}", "How far a run is; it ends when nobody looks", may(access.Profile, app("app"))),
		func(ctx context.Context, in *profileRunInput) (wire.ProfileReport, error) {
			return step(ctx, wire.ProfileLook, in.App, in.Service, in.Run, nil)
		})
	register(s, api, op("keep-profile", http.MethodPut, path+"/{run}", "Store what a run has measured; it counts from now on", may(access.Profile, app("app"))),
		func(ctx context.Context, in *profileRunInput) (wire.ProfileReport, error) {
			return step(ctx, wire.ProfileKeep, in.App, in.Service, in.Run, nil)
		})
	register(s, api, op("end-profile", http.MethodDelete, path+"/{run}", "End a run; nothing is stored", may(access.Profile, app("app"))),
		func(ctx context.Context, in *profileRunInput) (wire.ProfileReport, error) {
			r, err := step(ctx, wire.ProfileEnd, in.App, in.Service, in.Run, nil)
			var p *wire.Problem
			if errors.As(err, &p) && p.Code == "not-profiled" {
				return wire.ProfileReport{V: wire.Version, App: in.App, Service: in.Service, Nodes: []wire.ProfileNode{}}, nil // it is over
			}
			return r, err
		})
}

// weighProfile fills in the weights that follow from what nodes do.
func weighProfile(nodes []wire.ProfileNode) {
	var list []route.Endpoint
	var of []int
	for i, n := range nodes {
		for range n.Instances {
			list, of = append(list, route.Endpoint{}), append(of, i)
		}
	}
	route.Weigh(list, func(k int) route.Capable {
		n := nodes[of[k]]
		return route.Capable{Node: n.Cluster + "/" + n.Worker, Serves: n.Rate}
	})
	for k, e := range list {
		nodes[of[k]].Weight = e.Weight
	}
}

func profilePath(app, service string) string {
	return "/v1/applications/" + url.PathEscape(app) + "/services/" + url.PathEscape(service) + "/profile"
}

// StartProfile begins to keep a service busy; load.Key names the run.
func (c *Client) StartProfile(ctx context.Context, app, service string, load wire.ProfileLoad) (r wire.ProfileReport, err error) {
	err = c.send(ctx, http.MethodPost, profilePath(app, service), load, &r)
	return r, err
}

// LookAtProfile says how far a run is. Who does not look for wire.ProfileIdle ends it.
func (c *Client) LookAtProfile(ctx context.Context, app, service, run string) (wire.ProfileReport, error) {
	return get[wire.ProfileReport](ctx, c, call{path: profilePath(app, service) + "/" + url.PathEscape(run)})
}

// KeepProfile stores what a run has measured.
func (c *Client) KeepProfile(ctx context.Context, app, service, run string) (r wire.ProfileReport, err error) {
	err = c.do(ctx, call{method: http.MethodPut, path: profilePath(app, service) + "/" + url.PathEscape(run)}, &r)
	return r, err
}

// EndProfile ends a run; nothing is stored.
func (c *Client) EndProfile(ctx context.Context, app, service, run string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: profilePath(app, service) + "/" + url.PathEscape(run)}, nil)
}

// Profile is what is stored.
func (c *Client) Profile(ctx context.Context, app, service string) (wire.ProfileReport, error) {
	return get[wire.ProfileReport](ctx, c, call{path: profilePath(app, service)})
}

// ForgetProfile removes what is stored.
func (c *Client) ForgetProfile(ctx context.Context, app, service string) error {
	return c.do(ctx, call{method: http.MethodDelete, path: profilePath(app, service)}, nil)
}
