package supervise

import (
	"context"
	"log/slog"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/health"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/status"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

// Deps is what the supervisors of an engine work with. It does not change once they run.
type Deps struct {
	// Dir is the directory of the engine, Mark what its instances have as VERGE_ENGINE.
	Dir, Mark string
	Config    engineapi.EngineConfig
	Boot      string               // the kernel's id of this boot
	Uptime    func() time.Duration // how long ago that was, 0 where it is not known
	// CannotMount says why nothing can be mounted here, "" if it can.
	CannotMount string
	// Hide are directories that instances do not see.
	Hide    []string
	Drivers map[string]runtime.Driver
	// Devices of the worker.
	Devices func() []engineapi.DeviceNode
	Log     *slog.Logger

	Board    Board
	Problems Problems
	Router   Router
	Network  Network
	// Addrs are the addresses of a service for instances of an order.
	Addrs func(o *wire.Order, service string, ports []api.Port) (map[string]string, error)
	Ports Ports
	// Users is nil where instances run as the user of this process.
	Users   Users
	Objects Objects
	Secrets Secrets
	Volumes Volumes
	Logs    Logs
	Orphans Orphans
	Checks  Checks
	// Restart decides about an exit.
	Restart RestartRule
	// Counters count the starts of programs.
	Counters Counters

	// Changed is called when the readiness of an instance may be another.
	Changed func()
	// Released is called, without any lock, when an instance gave back its reservation.
	Released func()
	// Forgotten is called when all traces of an instance are gone; false if it is wanted
	// again meanwhile.
	Forgotten func(in *Instance) bool
	// MakeRoom removes images that nothing needs, and says whether there were any.
	MakeRoom func(ctx context.Context) bool
	// Force is closed when the time of a shutdown is over.
	Force <-chan struct{}
}

// Checks is how checks are made.
type Checks struct {
	Prober health.Prober
	// Commands holds one for each check by command that is being made.
	Commands chan struct{}
}

// Counters count the starts of programs, and those that failed.
type Counters struct{ Starts, Failed atomic.Uint64 }

// RestartRule decides about an exit; life.Restart.
type RestartRule func(policy api.Restart, exit wire.Exit, inARow int, ranFor time.Duration, seed uint64) life.Action

// Board shows the status of instances, see status.Board.
type Board interface {
	Put(s wire.InstanceStatus, off *status.Unavailable)
	Awaited(id wire.InstanceID)
	AnswersAt(id wire.InstanceID, a netip.Addr)
}

// Problems shows what is wrong now, see status.Problems.
type Problems interface {
	Set(subject string, err error)
	Tell(subject, sentence string)
}

// Router is what supervisors need of the router.
type Router interface {
	// WaitIdle returns nil when no connection to the instance is left.
	WaitIdle(ctx context.Context, id wire.InstanceID) error
	// LastRequest is when an instance here was used last, now while it is; zero if it
	// never was.
	LastRequest(id wire.InstanceID) time.Time
}

// Network connects instances, see network.Network.
type Network interface {
	Attach(o *wire.Order, had *overlay.Place, pid int, dir string) (network.Attachment, error)
	Detach(id wire.InstanceID) error
	Waits(err error) bool
}

// Ports gives port numbers, see portpool.Pool.
type Ports interface {
	Keep(id wire.InstanceID, ports map[string]int)
	Give(id wire.InstanceID, service []api.Port, had map[string]int) (map[string]int, error)
	Release(id wire.InstanceID)
}

// Users gives users of the machine, see users.Pool.
type Users interface {
	Give(id wire.InstanceID, had uint32) (uint32, error)
	Note(id wire.InstanceID, asRoot bool) string
	Release(id wire.InstanceID) error
}

// Objects says where instances reach objects, see objects.Cache.
type Objects interface {
	URL(namespace, host string) string
}

// Secrets opens secrets, see secrets.Vault.
type Secrets interface {
	OpenOrder(o *wire.Order) (secrets.Values, error)
	OpenAll(namespace string, names []string) (secrets.Values, error)
	Versions(namespace string, names []string) map[string]string
}

// Volumes has the named volumes, see volumes.Store.
type Volumes interface {
	Of(o *wire.Order) ([]workdir.Volume, error)
	Do(ctx context.Context, o *wire.Order) *wire.VolumeReport
}

// Logs bounds and retains logs, see logs.Store.
type Logs interface {
	Rotate(id wire.InstanceID)
	Keep(id wire.InstanceID, incarnation int) error
}

// Orphans ends what a dead engine may have started without noting it, see
// orphans.Processes.
type Orphans interface {
	End(ctx context.Context, id wire.InstanceID) error
}

// resident says whether the tasks of an order are part of this process.
func (d *Deps) resident(o *wire.Order) bool {
	_, ok := d.Drivers[state.RuntimeOf(o)].(runtime.Resident)
	return ok
}
