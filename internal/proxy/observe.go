package proxy

import (
	"context"
	"time"

	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/gateway"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Asked receives when there is a demand again after there was none.
func (r *Router) Asked() <-chan struct{} { return r.services.Asked() }

// Demand is what was asked for on this worker, of services that scale by their requests,
// since it was called last: those to which requests came, or have some under way, by
// application and service. It is for one caller.
func (r *Router) Demand() []wire.ServiceDemand { return r.services.Demand() }

// LastUse is when a client of a service came last, now where one is there; zero if
// there was none.
func (r *Router) LastUse(key string) time.Time { return r.services.LastUse(key) }

// Route is how a service is routed here, false where it is not.
func (r *Router) Route(key string) (rpc.RouteReport, bool) { return r.services.Route(key) }

// Workers are the other workers behind a service, or behind all where key is "".
func (r *Router) Workers(key string) []data.Worker { return r.services.Workers(key) }

// Measure measures the round trip to a worker over the data path. It says what is
// given, at most MaxEcho bytes, and returns what the other side answers, nothing
// where that is too old for it.
func (r *Router) Measure(ctx context.Context, w data.Worker, say []byte) (rtt time.Duration, answer []byte, err error) {
	return r.streams.Measure(ctx, w, say)
}

// PeersChanged says that PeerAllowed may refuse who it allowed before: open
// connections to and from whom it refuses now are cut.
func (r *Router) PeersChanged() {
	if r.opts.PeerAllowed != nil {
		r.paths.CutRefused(r.opts.PeerAllowed, r.log)
	}
}

// Gateway is what it publishes now; nothing where the Router is none.
func (r *Router) Gateway() gateway.State { return r.gateway.State() }

// SecretsChanged says that secrets with certificates may have other values.
func (r *Router) SecretsChanged() { r.gateway.RefreshSecrets() }
