package imagestore

import (
	"cmp"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/registryhttp"
)

// Settings is how pulls reach registries.
type Settings struct {
	Mirrors map[string]string // of registries, by their hosts
	Hosts   string            // folder in which the machine says how registries are reached
	Pace    *rate.Limiter     // of all pulls together, in bytes; nil is none
	Stall   time.Duration     // how long a registry may send nothing
}

// Store has the images of this machine, and fetches others from registries and from
// other workers.
type Store struct {
	Settings
	conn    *ctrd.Connection
	mark    string // LabelEngine of what is ours
	log     *slog.Logger
	copying copying

	mu sync.Mutex
	// Guarded by mu, by full names of images.
	resolved map[string]*Resolved
	pulls    map[string]*pullTurn // that are being fetched
}

// New has what containerd has. mark is the LabelEngine of what is ours.
func New(conn *ctrd.Connection, mark string, pull engineapi.PullConfig, log *slog.Logger) *Store {
	return &Store{
		conn: conn, mark: mark, log: log,
		Settings: Settings{
			Mirrors: pull.Mirrors, Hosts: cmp.Or(pull.Hosts, defaultHosts),
			Pace: registryhttp.NewPace(int64(pull.Rate) / 8), Stall: registryhttp.StallAfter,
		},
		copying:  copying{Waits: Waits{Begin: beginWithin, GoOn: goOnWithin, Again: askAgain}},
		resolved: map[string]*Resolved{}, pulls: map[string]*pullTurn{},
	}
}
