package engine

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/logs"
	"github.com/verge-edge/verge/internal/engine/objects"
	"github.com/verge-edge/verge/internal/engine/portpool"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/engine/volumes"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// router is what the engine needs of a proxy.Router.
type router interface {
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
	SetRoutes(routes []wire.Route)
	// PeersChanged says that peers may be refused now that were not before.
	PeersChanged()
	// Reserve returns the loopback address of each port of a service, by port
	// name, the same for as long as the worker lives.
	Reserve(app, service string, ports []api.Port) (map[string]string, error)
	// Ask sends a request to an instance of this worker, through its queue; Places is
	// how many it may work on at a time, 0 for any number.
	Ask(id wire.InstanceID, port string, req *http.Request) (status int, err error)
	Places(id wire.InstanceID) int
	// Entries are the loopback addresses, in order.
	Entries() []proxy.Entry
	// Serve takes what a listener accepts as connections to a port of a service.
	Serve(ln net.Listener, app, service, port string)
	// LocalChanged says that answers of Target may be others now.
	LocalChanged()
	// WaitIdle returns nil when no connection to the instance is left.
	WaitIdle(ctx context.Context, id wire.InstanceID) error
	DataAddr() string
	GatewayAddr() string
	GatewayTLSAddr() string
	// Gateway is what the gateway publishes now.
	Gateway() proxy.GatewayState
	// SecretsChanged says that secrets with certificates may have other values.
	SecretsChanged()
	// Stats are counters since the router was made, and what is open now.
	Stats() proxy.Stats
	// Route is how a service is routed; false where it is not. Workers are the others
	// behind it, or behind all services where key is "".
	Route(key string) (wire.RouteReport, bool)
	Workers(key string) []proxy.Worker
	// LastUse is when a service was used last, now where it is; zero if never.
	LastUse(key string) time.Time
	// Demand is what clients here asked for since it was called last, of the services
	// that scale by that; Asked receives when there is some again after there was none.
	Demand() []wire.ServiceDemand
	// Answers are how instances here have answered since it was called last, of services of
	// which that is counted.
	Answers() []wire.InstanceAnswers
	Asked() <-chan struct{}
	// LastRequest is when an instance here was used last, now while it is; zero if it
	// never was.
	LastRequest(id wire.InstanceID) time.Time
}

// orphanProcesses ends what a dead engine may have started without noting it.
type orphanProcesses interface {
	Find(first bool) (map[wire.InstanceID][]int, error)
	End(ctx context.Context, id wire.InstanceID) error
	// EndExec ends what a session has left.
	EndExec(ctx context.Context, session string) error
}

// rule decides about an exit; life.Restart.
type rule func(policy api.Restart, exit wire.Exit, inARow int, ranFor time.Duration, seed uint64) life.Action

// kit is what all supervisors of an engine work with. It does not change once
// they run.
type kit struct {
	dir    string
	config wire.EngineConfig
	// plugged are devices that were added since; nil: none.
	plugged atomic.Pointer[[]wire.DeviceNode]
	boot    string               // the kernel's id of this boot
	uptime  func() time.Duration // how long ago that was, 0 where it is not known
	// cannotMount says why nothing can be mounted here, "" if it can.
	cannotMount string
	// users is nil where instances run as the user of this process.
	users   *users.Pool
	hide    []string // from instances, see Options
	mark    string   // VERGE_ENGINE of our instances
	drivers map[string]runtime.Driver
	log     *slog.Logger

	router router
	// network is nil where instances share the machine's; noNetwork says why nothing
	// may start, where they must not. Where net says nil it is not used any more.
	network   network
	noNetwork error
	declined  atomic.Bool
	// optional: where there is no service network the machine's will do.
	optional bool
	far      *distances // nil where there is no data path
	board    *status.Board
	problems *status.Problems
	ports    *portpool.Pool
	objects  *objects.Cache
	vault    *secrets.Vault
	volumes  *volumes.Store
	orphans  orphanProcesses
	prober   health.Prober
	restart  rule
	logs     *logs.Store
	// commands holds one for each check by command that is being made.
	commands chan struct{}
	// starts and lost count the starts of programs, and those that failed.
	starts, lost atomic.Uint64

	// local holds one when readiness of instances may be another.
	local chan struct{}

	// released is called, without any lock, when an instance gave back its
	// reservation.
	released func()
	// forgotten is called when all traces of an instance are gone; false if it is
	// wanted again meanwhile.
	forgotten func(in *instance) bool
	// makeRoom removes images that nothing needs, and says whether there were any.
	makeRoom func(ctx context.Context) bool
	// hurry is closed when a shutdown's patience is over.
	hurry <-chan struct{}
}

// resident says whether the tasks of an order are part of this process.
func (k *kit) resident(o *wire.Order) bool {
	_, ok := k.drivers[state.RuntimeOf(o)].(runtime.Resident)
	return ok
}
