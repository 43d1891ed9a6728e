package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// LocalChanged tells the Router that readiness or ports of instances of this
// worker may have changed. It asks Local about them soon, from a goroutine of
// its own.
func (r *Router) LocalChanged() { r.services.LocalChanged() }

// InFlight returns how many proxied connections an instance of this worker has,
// including those that a gateway keeps open between requests.
func (r *Router) InFlight(id wire.InstanceID) int { return r.services.Local.InFlight(id) }

// LastRequest returns when an instance of this worker was last used: now if it is in use, zero if
// it never was or that is unknown. On ports that are routed by request, requests count, and
// whatever they opened without an end (an upgraded connection, a stream); kept connections do
// not. On other ports connections count.
func (r *Router) LastRequest(id wire.InstanceID) time.Time { return r.services.Local.LastRequest(id) }

// Drained returns a channel that is closed once no proxied connection to the
// instance is left; it is closed already if there is none. Let Local.Target
// refuse the instance first, then call LocalChanged and Drained.
func (r *Router) Drained(id wire.InstanceID) <-chan struct{} { return r.services.Local.Drained(id) }

// WaitIdle waits until the instance has no proxied connection, or ctx ends.
func (r *Router) WaitIdle(ctx context.Context, id wire.InstanceID) error {
	return r.services.Local.WaitIdle(ctx, id)
}

// Answers are how the instances of this worker have answered since it was called last, of
// services whose requests are counted, by their ids. It is for one caller.
func (r *Router) Answers() []wire.InstanceAnswers { return r.services.Local.Answers() }

// Ask sends a request to a port of an instance of this worker and reads the answer to
// its end: through the queue in front of it, as requests of clients go, and to no other.
// It is no demand, nor does what becomes of it say anything about the instance to those
// who route. Of req, the URL's path and query count.
func (r *Router) Ask(id wire.InstanceID, port string, req *http.Request) (status int, err error) {
	return r.services.Local.Ask(id, port, req)
}

// Places are how many requests an instance of a service may work on at a time; 0: any
// number, or the service is not routed by request.
func (r *Router) Places(id wire.InstanceID) int { return r.services.Places(id) }
