package core

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/tier/keeper"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Core is a cluster orchestrator without its sockets: the model, the loop, and
// the two exchanges. It works on any bus.
type Core struct {
	ClusterName string
	Areas       []string
	SiteInfo    wire.Site     // what the operator says about it
	Heartbeat   time.Duration // longest between two reports of a worker; 0 is the workers' own
	Logger      *slog.Logger
	EventRing   *obs.Events
	RecordStore bus.Store
	Local       bus.Conn        // to the workers
	Up          bus.Conn        // to the root
	Key         *seal.Key       // of its secrets
	Prover      *seal.Prover    // of revisions; nil: there are no proofs
	HookKeeper  *hooks.Keeper   // nil: nobody is told anything
	Keeper      keeper.Keeper   // of RecordStore; it has the lock of M
	Ports       *fleet.PortBook // nil: no other cluster shares this machine

	Revoked pki.Revoked // revoked keys
	// Sign signs what a worker has of the service network; nil: nobody is given any.
	Sign func(wire.Lease) (wire.SignedLease, error)

	Notifier *exchange.Notifier // brings workers what is new; nil before they are served
	Reloaded func()             // after the model was read again; nil: nobody cares
	News     loop.Bell          // rings when what people see may have changed
	bells

	Planning sync.Mutex // one plan at a time is worked out

	// Profilings are the services that are being profiled; a run's own mutex is taken
	// after ProfMu, and the lock of the model after both.
	ProfMu     sync.Mutex
	Profilings map[string]*profile.Run

	questions

	M     *state.Model  // the same one after a reload; used in Do, View and Update
	Marks func() []byte // of the objects that are here, nil: there is no shelf

	// Was is what the root had of this cluster, where that is a later state; see uplink.FollowRoot.
	Was atomic.Pointer[wire.Rev]
}

// bells wake the goroutines of a cluster.
type bells struct {
	Wake      chan struct{} // a pass is wanted
	UpChanged chan struct{} // there is something new for the root
	Surveys   chan struct{} // there may be something to measure
	Upgrades  chan struct{} // there may be something to do about the upgrade
	// HeardWake asks to apply what was heard of instances; nil: a pass does it.
	HeardWake chan struct{}
}

// questions to plugins and hooks that are open, which end with AskCtx.
type questions struct {
	Asking    sync.WaitGroup
	AskCtx    context.Context
	EndAsking context.CancelFunc
}

// Read adds all that is stored to the model.
func Read(ctx context.Context, m *state.Model, store bus.Store, now time.Time) error {
	entries, err := store.List(ctx, "")
	if err != nil {
		return fmt.Errorf("loading the cluster's state: %w", err)
	}
	for _, e := range entries {
		if _, err := m.DB.Load(e); err != nil {
			m.Unread = append(m.Unread, records.Unread{Key: e.Key, Fate: state.Schema.Fate(e.Key), Err: err})
		}
	}
	if err := records.Stopped(m.Unread); err != nil {
		return fmt.Errorf("loading the cluster's state: %w", err)
	}
	for _, u := range m.Unread {
		if key, is := strings.CutPrefix(u.Key, state.KeyName); is { // made, and removed, with its route
			if m.Routes[key] != nil {
				delete(m.Names, key)
			} else {
				m.Routes[key] = &wire.Route{}
			}
		}
	}
	m.Loaded(now)
	m.HoldOnce()
	return nil
}

// Hold sees to what was loaded last: the worst that cannot be read may keep this cluster
// from deciding anything. What was stored before goes on.
func Hold(c *Core) {
	for _, words := range records.Words(c.M.Unread) {
		c.Logger.Error(words)
	}
	Memory(c.M).Held = records.Held(c.M.Unread) != ""
}

// Reload reads the model again where it may differ from what is stored, and keeps what the
// process knows.
func Reload(ctx context.Context, c *Core, now time.Time) error {
	if !c.Keeper.Stale() {
		return nil
	}
	next := c.M.Again()
	if err := Read(ctx, next, c.RecordStore, now); err != nil {
		return err
	}
	next.KeepWorkers(c.M)
	*c.M = *next
	c.Keeper.Loaded()
	Hold(c)
	c.Revoked.Set(c.M.Revoked())
	if c.Reloaded != nil {
		c.Reloaded()
	}
	return nil
}

// Nudge asks a worker for a report that is answered.
func Nudge(c *Core, name string) {
	if err := exchange.Nudge(c.Local, exchange.WorkerSubjects(name)); err != nil {
		c.Logger.Debug("nudging", "worker", name, "error", err)
	}
}

// Known is what this process knows beside what is stored. The lock of the model guards it.
type Known struct {
	// Held: a record cannot be read without which nothing may be decided.
	Held     bool
	unstored string // what could not be written, in words
	Departed departed
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{})

// Memory is what is known beside the records of m. A rehearsal begins without.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }

// Unwritten tells, once, what could not be stored; nil: nothing is left of it. The caller
// has the model.
func Unwritten(c *Core, err error, now time.Time) {
	said := ""
	if err != nil {
		said = state.Cut(err.Error(), state.MaxWords)
	}
	if said == Memory(c.M).unstored {
		return
	}
	if Memory(c.M).unstored = said; said != "" {
		c.EventRing.Note(now, event.ClusterUnstored, c.ClusterName,
			"what was decided cannot be stored, and is left as it was: "+said)
	}
}

// NoInstance is the error for an instance that is not here.
func NoInstance(c *Core, id string) error {
	return wire.Problemf(404, "no-such-instance", "verge get instances", "there is no such instance",
		"%s is not in cluster %s", id, c.ClusterName)
}

// NoService is the error for a service, app.service, that is not in the cluster.
func NoService(cluster, key string) error {
	return wire.Problemf(404, "no-such-service", "verge get services", "there is no such service",
		"%s is not in cluster %s", key, cluster)
}

// Place tells the events which namespace each application is in.
func Place(c *Core) {
	for _, s := range c.M.Shares {
		c.EventRing.Place(s.App, cmp.Or(s.Namespace, api.DefaultNamespace))
	}
}

// askTimeout bounds a question to a worker, beyond what it may be held; shorter
// than a root's patience with this cluster, so that it hears who does not answer.
const askTimeout = 2 * time.Second

// AskWorker puts a question to a worker; title says what an away one means.
func AskWorker(ctx context.Context, c *Core, name string, q rpc.Ask, title string, out any) error {
	ctx, cancel := context.WithTimeout(ctx, q.Hold()+askTimeout)
	defer cancel()
	err := exchange.AskPeer(ctx, c.Local, exchange.WorkerSubjects(name), q, out)
	if errors.Is(err, bus.ErrNoResponder) || errors.Is(err, context.DeadlineExceeded) {
		return wire.Problemf(503, "worker-away", "try again when the worker is back: verge get workers", title,
			"worker %s, which knows, does not answer", name)
	}
	return err
}

// Token is the n-th token of a subject.
func Token(subject string, n int) string {
	for ; n > 0; n-- {
		_, rest, more := strings.Cut(subject, ".")
		if !more {
			return ""
		}
		subject = rest
	}
	first, _, _ := strings.Cut(subject, ".")
	return first
}
