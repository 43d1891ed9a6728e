package core

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/tier/keeper"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Core is a root without its sockets: the model, the loop, and the exchange with
// each cluster. It works on any bus.
type Core struct {
	Logger      *slog.Logger
	EventRing   *obs.Events
	RecordStore bus.Store
	Key         *seal.Key     // of its secrets
	Prover      *seal.Prover  // of revisions; nil: there are no proofs
	HookKeeper  *hooks.Keeper // nil: nobody is told anything
	Keeper      keeper.Keeper // of the store; it has the lock of all that is used in Do
	// LinkTo returns the connection by which a cluster can be reached.
	LinkTo func(cluster string) (bus.Conn, error)
	// RenewCluster answers a cluster that wants its certificate renewed; nil: nobody does.
	RenewCluster func(ctx context.Context, cluster string, q rpc.RenewRequest) (rpc.JoinReply, error)

	// Heard, if set, is called with every report. It must not block.
	Heard func()

	Revoked pki.Revoked // the keys of clusters that are revoked
	Barred  pki.Revoked // with those, the keys of workers that clusters have revoked: for the relay
	Relayed func()      // tells the relay that Barred has changed; nil: there is none

	Wake, AskWake chan struct{} // a pass is wanted; a cluster is to be asked what it holds
	News          loop.Bell     // rings when what people see may have changed
	Started       time.Time
	Fleet         fleet

	Planning sync.Mutex // one plan at a time is worked out

	// M and what follows is used within Do, View and Update alone.
	M         *state.Model
	LastPass  time.Time
	Planned   time.Duration // from LastPass to the next look at the clock
	Isolation suspicion.Isolation
	Served    map[string]Serving // by cluster
	Trusts    string             // the authorities that are to be trusted, by name
	Held      bool               // a record cannot be read without which nothing may be decided
	unstored  string             // what could not be written, in words; "": nothing
	Batch     []event.Event      // of the report that is being taken over, see Say
}

// Read adds all that is stored to the model.
func Read(ctx context.Context, m *state.Model, store bus.Store, now time.Time) error {
	entries, err := store.List(ctx, "")
	if err != nil {
		return fmt.Errorf("loading the root's state: %w", err)
	}
	for _, e := range entries {
		if _, err := m.DB.Load(e); err != nil {
			m.Unread = append(m.Unread, records.Unread{Key: e.Key, Fate: state.Schema.Fate(e.Key), Err: err})
		}
	}
	if err := records.Stopped(m.Unread); err != nil {
		return fmt.Errorf("loading the root's state: %w", err)
	}
	m.Loaded(now)
	return nil
}

// Hold sees to what was loaded last: the worst that cannot be read may keep this root from
// deciding anything. What was stored before goes on.
func Hold(c *Core) {
	for _, words := range records.Words(c.M.Unread) {
		c.Logger.Error(words)
	}
	c.Held = records.Held(c.M.Unread) != ""
}

// Place tells the events which namespace each application is in.
func Place(c *Core) {
	for name, app := range c.M.Apps {
		c.EventRing.Place(name, wire.NamespaceOf(app.Spec))
	}
}

// Reload reads the model again where it may differ from what is stored, keeping
// what is known of the clusters now.
func Reload(ctx context.Context, c *Core, now time.Time) error {
	if !c.Keeper.Stale() {
		return nil
	}
	next := c.M.Again()
	if err := Read(ctx, next, c.RecordStore, now); err != nil {
		return err
	}
	next.KeepClusters(c.M)
	*c.M = *next // who has the model goes on with what is stored
	c.Keeper.Loaded()
	Hold(c)
	Refuse(c)
	Place(c)
	return nil
}

// Notify wakes those who wait for a change.
func Notify(c *Core) { c.News.Ring() }

// Serving is what clusters.Serve began for a cluster.
type Serving struct {
	Notifier *exchange.Notifier // brings it what is new
	Stop     func()
}

// Say adds events of a cluster's report to those that are sorted when all of the report was taken.
func Say(c *Core, now time.Time, cl *state.Cluster, events ...event.Event) {
	for _, e := range events {
		c.Batch = append(c.Batch, e.By(now, "cluster/"+cl.Name))
	}
}

// SayBatch adds what a report told in the order in which it happened: what a new process
// hears first is the history of each instance in turn.
func SayBatch(c *Core) {
	slices.SortStableFunc(c.Batch, func(a, b event.Event) int { return a.At.Compare(b.At) })
	for _, e := range c.Batch {
		c.EventRing.Add(e)
	}
	c.Batch = nil
}

// Unwritten tells, once, what could not be stored; nil: nothing is left of it. It is called within Do.
func Unwritten(c *Core, err error, now time.Time) {
	said := ""
	if err != nil {
		said = state.Cut(err.Error(), state.MaxWords)
	}
	if said == c.unstored {
		return
	}
	if c.unstored = said; said != "" {
		c.EventRing.Note(now, event.RootUnstored, "", "what was decided cannot be stored, and is left as it was: "+said)
	}
}

// AskTimeout bounds a question to a cluster, beyond what it may be held.
const AskTimeout = 3 * time.Second

// Ask asks a cluster, and reads its answer into out.
func Ask(ctx context.Context, c *Core, cluster string, q rpc.Ask, out any) error {
	conn, err := c.LinkTo(cluster)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, q.Hold()+AskTimeout)
	defer cancel()
	err = exchange.AskPeer(ctx, conn, exchange.ClusterSubjects(), q, out)
	if Silent(err) {
		return &silentCluster{cluster, err}
	}
	return err
}

// Silent says of an error that nobody has answered.
func Silent(err error) bool {
	return errors.Is(err, bus.ErrNoResponder) || errors.Is(err, bus.ErrDisconnected) ||
		errors.Is(err, context.DeadlineExceeded)
}

// silentCluster is the error of a question that nobody has answered, in words for people:
// those of the bus name its subjects.
type silentCluster struct {
	cluster string
	err     error
}

func (e *silentCluster) Error() string { return "cluster " + e.cluster + " does not answer" }
func (e *silentCluster) Unwrap() error { return e.err }
