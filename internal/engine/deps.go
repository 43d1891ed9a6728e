package engine

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/gateway"
	"github.com/verge-edge/verge/internal/engine/images"
	"github.com/verge-edge/verge/internal/engine/logs"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/objects"
	"github.com/verge-edge/verge/internal/engine/profiles"
	"github.com/verge-edge/verge/internal/engine/proximity"
	"github.com/verge-edge/verge/internal/engine/routes"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/sessions"
	"github.com/verge-edge/verge/internal/engine/stats"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engine/supervise"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

// router is what the engine needs of a proxy.Router.
type router interface {
	routerLife
	routerReports
	stats.DemandSource
	gateway.Router
	profiles.Router
	supervise.Router
	SetRoutes(routes []wire.Route)
	// Reserve returns the loopback address of each port of a service, by port name.
	Reserve(app, service string, ports []api.Port) (map[string]string, error)
	// PeersChanged says that peers may be refused now that were not before.
	PeersChanged()
	// LocalChanged says that answers of Target may be others now.
	LocalChanged()
	// SecretsChanged says that secrets with certificates may have other values.
	SecretsChanged()
	// Serve takes what a listener accepts as connections to a port of a service.
	Serve(ln net.Listener, app, service, port string)
}

// routerLife is its begin and end.
type routerLife interface {
	// Start serves the loopback entries.
	Start(ctx context.Context) error
	// Open opens the ports that are not open yet and returns those that could not
	// be opened.
	Open(ctx context.Context) []*proxy.PortError
	Close()
	// Drain takes no new connection and waits until none is left; Connections counts
	// them.
	Drain(ctx context.Context) error
	Connections() int
}

// routerReports are what it knows of itself.
type routerReports interface {
	proximity.Router
	// Entries are the loopback addresses, in order.
	Entries() []proxy.Entry
	DataAddr() string
	GatewayAddr() string
	// Stats are counters since the router was made, and what is open now.
	Stats() proxy.Stats
	// LastUse is when a service was used last, now where it is; zero if never.
	LastUse(key string) time.Time
}

// orphanProcesses ends what a dead engine may have started without noting it.
type orphanProcesses interface {
	supervise.Orphans
	Find(first bool) (map[wire.InstanceID][]int, error)
	// EndExec ends what a session has left.
	EndExec(ctx context.Context, session string) error
}

// deps are the parts of an engine. They do not change once loaded is closed.
type deps struct {
	config engineapi.EngineConfig
	// plugged are devices that were added since; nil: none.
	plugged atomic.Pointer[[]engineapi.DeviceNode]

	router    router
	distances *proximity.Distances // nil where there is no data path
	network   *network.Network
	relay     *network.Relay
	gateway   *gateway.Watcher
	local     *routes.Local // touched with applying held
	reporter  *proximity.Reporter
	demand    *stats.Demand

	problems *status.Problems
	logs     *logs.Store
	vault    *secrets.Vault
	volumes  *volumes.Store
	objects  *objects.Cache
	images   *images.Manager
	orphans  orphanProcesses
	sessions *sessions.Sessions // its mutex is taken before that of the engine
	profiles *profiles.Profiles // so is its
	// readiness holds one when readiness of instances may be another.
	readiness chan struct{}
	// supervise has what supervisors need of all that.
	supervise *supervise.Deps
}
