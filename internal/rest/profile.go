package rest

import (
	"context"
	"errors"
	"net/http"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// What the operations take.
type (
	// StartProfileIn is what StartProfile takes.
	StartProfileIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
		Body    rpc.ProfileLoad
	}
	// ProfileIn is what ShowProfile and ForgetProfile take.
	ProfileIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
	}
	// ProfileRunIn is what LookAtProfile, KeepProfile and EndProfile take.
	ProfileRunIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
		Run     string `path:"run" maxLength:"64" doc:"the key with which it was started"`
	}
)

// Subject implements Subjecter: what is sent may be secret, where to is not.
func (in *StartProfileIn) Subject() (on, detail string) { return ofService(in.App, in.Service) }

// Subject implements Subjecter.
func (in *ProfileIn) Subject() (on, detail string) { return ofService(in.App, in.Service) }

// Subject implements Subjecter.
func (in *ProfileRunIn) Subject() (on, detail string) { return ofService(in.App, in.Service) }

func ofService(app, service string) (on, detail string) {
	return string(access.Application) + "/" + app, "service " + service
}

const profilePath = " /v1/applications/{app}/services/{service}/profile"

// The steps of a profile go the way of sessions (Exec).
var (
	StartProfile = define[Exec, StartProfileIn, rpc.ProfileReport]("start-profile", "POST"+profilePath,
		"Keep the instances of a service busy, to see what each worker does", may(access.Profile, app("app")), startProfile)
	ShowProfile = define("show-profile", "GET"+profilePath, "What each worker does with a service, and the weights that follow",
		may(access.See, app("app")), profileStep(rpc.ProfileShow))
	ForgetProfile = define("forget-profile", "DELETE"+profilePath, "Forget what was measured: processors count again",
		may(access.Profile, app("app")), profileStep(rpc.ProfileForget))
	LookAtProfile = define("look-at-profile", "GET"+profilePath+"/{run}", "How far a run is; it ends when nobody looks",
		may(access.Profile, app("app")), profileRunStep(rpc.ProfileLook))
	KeepProfile = define("keep-profile", "PUT"+profilePath+"/{run}", "Store what a run has measured; it counts from now on",
		may(access.Profile, app("app")), profileRunStep(rpc.ProfileKeep))
	EndProfile = define("end-profile", "DELETE"+profilePath+"/{run}", "End a run; nothing is stored",
		may(access.Profile, app("app")), profileRunStep(rpc.ProfileEnd))
)

func profileStep(do string) func(context.Context, Exec, *ProfileIn) (rpc.ProfileReport, error) {
	return func(ctx context.Context, b Exec, in *ProfileIn) (rpc.ProfileReport, error) {
		return profile(ctx, b, rpc.ProfileAsk{Do: do, App: in.App, Service: in.Service})
	}
}

func profileRunStep(do string) func(context.Context, Exec, *ProfileRunIn) (rpc.ProfileReport, error) {
	return func(ctx context.Context, b Exec, in *ProfileRunIn) (rpc.ProfileReport, error) {
		r, err := profile(ctx, b, rpc.ProfileAsk{Do: do, App: in.App, Service: in.Service, Key: in.Run})
		var p *wire.Problem
		if do == rpc.ProfileEnd && errors.As(err, &p) && p.Code == "not-profiled" {
			return rpc.ProfileReport{V: wire.Version, App: in.App, Service: in.Service, Nodes: []rpc.ProfileNode{}}, nil // it is over
		}
		return r, err
	}
}

func startProfile(ctx context.Context, b Exec, in *StartProfileIn) (rpc.ProfileReport, error) {
	if len(in.Body.Key) < 8 {
		return rpc.ProfileReport{}, wire.Problemf(http.StatusUnprocessableEntity, "invalid-request", "choose one at random",
			"the request is not valid", "the key of a run has 8 to 64 characters")
	}
	return profile(ctx, b, rpc.ProfileAsk{Do: rpc.ProfileStart, App: in.App, Service: in.Service, Key: in.Body.Key, Load: &in.Body})
}

// profile takes a step, and fills in the weights that follow from what nodes do.
func profile(ctx context.Context, b Exec, q rpc.ProfileAsk) (rpc.ProfileReport, error) {
	a, err := b.Exec(ctx, rpc.ExecAsk{Do: rpc.ExecDoProfile, Profile: &q})
	if err == nil && a.Profile == nil {
		err = wire.Problemf(http.StatusBadGateway, "odd-answer", "upgrade the cluster", "the answer cannot be understood", "there is no profile in it")
	}
	if err != nil {
		return rpc.ProfileReport{}, err
	}
	weighProfile(a.Profile.Nodes)
	return *a.Profile, nil
}

func weighProfile(nodes []rpc.ProfileNode) {
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
