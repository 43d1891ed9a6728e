package network

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/wire"
)

// Overlay is what the engine needs of an overlay.Network.
type Overlay interface {
	Lifecycle
	Members
	Figures
	// Set tells it its lease and the routes.
	Set(n *wire.Network, routes []wire.Route) error
	// Changed says that instances may be ready that were not before, or the other way round.
	Changed()
	// PeersChanged says that peers may be refused now that were not before.
	PeersChanged()
	// ServeOffer answers a worker that wants to be a peer, and closes conn.
	ServeOffer(ctx context.Context, conn *tls.Conn)
}

// Lifecycle is its begin and end.
type Lifecycle interface {
	Start(ctx context.Context)
	Close()
	// Yield closes everything except the ports of the router, and with doors those for names and
	// objects.
	Yield(doors bool)
	// Clear removes all that is in the kernel.
	Clear() error
}

// Members are the instances in it.
type Members interface {
	Keep(i overlay.Instance) bool
	Settle() error
	Attach(i overlay.Instance) (overlay.Attachment, error)
	Detach(id wire.InstanceID) error
	ServiceAddrs(app, namespace, service string, ports []api.Port) (map[string]string, error)
}

// Figures are what it knows of itself.
type Figures interface {
	// Entries are the addresses of services on this machine, in no order.
	Entries() []overlay.Entry
	// InUse are those of some services, by key, to which connections are open.
	InUse(keys []string) map[string]bool
	// Paths to other workers, or an error with the reason.
	Paths() (peer.Paths, error)
	// Stats are its figures at this moment.
	Stats() (overlay.Stats, error)
	// Measure returns the round trip time to a worker by the path of packets; false without one.
	Measure(ctx context.Context, cluster, worker string) (time.Duration, bool)
}
