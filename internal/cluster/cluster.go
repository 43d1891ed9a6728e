package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/secrets"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/seal"
	"github.com/verge-edge/verge/internal/tier/keeper"
	"github.com/verge-edge/verge/internal/wire"
)

// maxRounds of a pass: each is caused by the one before; more is a bug.
const maxRounds = 8

// core is a cluster orchestrator without its sockets: the model, the loop, and
// the two exchanges. It works on any bus.
type core struct {
	name   string
	areas  []string
	site   wire.Site     // what the operator says about it
	lambda time.Duration // longest between two reports of a worker; 0 is the workers' own
	log    *slog.Logger
	events *obs.Events
	store  bus.Store
	local  bus.Conn      // to the workers
	up     bus.Conn      // to the root
	key    *seal.Key     // of its secrets
	prover *seal.Prover  // of revisions; nil: there are no proofs
	hooks  *hooks.Keeper // nil: nobody is told anything
	keeper keeper.Keeper // of store, guarded by mu
	ports  *PortBook     // nil: no other cluster shares this machine

	revoked pki.Revoked // the keys that do not count any more
	// sign signs what a worker has of the service network; nil: nobody is given any.
	sign func(wire.Lease) (wire.SignedLease, error)

	herald    *exchange.Herald // brings workers what is new; nil before they are served
	wake      chan struct{}    // a pass is wanted
	news      loop.Bell        // rings when what people see may have changed
	upChanged chan struct{}    // there is something new for the root
	surveys   chan struct{}    // there may be something to measure
	upgrades  chan struct{}    // there may be something to do about the upgrade

	departed departed // guarded by mu

	planning sync.Mutex // one plan at a time is worked out

	// profilings are the services that are being profiled; a run's own mutex is taken
	// after profMu, and mu after both.
	profMu     sync.Mutex
	profilings map[string]*profiling

	// heardWake asks to heed what was heard of instances; nil: a pass does it.
	heardWake chan struct{}
	// asking are the questions to plugins that are open, which end with askCtx.
	asking    sync.WaitGroup
	askCtx    context.Context
	endAsking context.CancelFunc
	asksWave  bool // hooks are being asked about a wave; mu guards it

	mu       sync.Mutex // guards all below; held over commits, so that a pass is atomic
	m        *model
	lastPass time.Time
	planned  time.Duration // from lastPass to the next look at the clock
	// heardOf are the instances of which something was heard since the last pass or
	// heed; owed: something was heeded since the last pass, which ended at passed and
	// of which the steps took stepped.
	heardOf map[wire.InstanceID]bool
	owed    bool
	steady  bool // as the last pass left it
	passed  time.Time
	stepped time.Duration
	heeded  time.Duration  // that the last heed took
	marks   func() []byte  // of the objects that are here, nil: there is no shelf
	said    wire.Aggregate // what the root heard last
	saidAt  time.Time
	sumAt   time.Time     // when that was added up last, whether it was said or not
	sumTook time.Duration // and how long that took
	sumRev  uint64        // of the store then
	sumPass time.Time     // the last pass then
	sumSaid bool          // the root knows what came of it
	held    bool          // a record cannot be read without which nothing may be decided
	// unstored is what could not be written, in words.
	unstored string
	upErr    error         // of the last exchange with the root
	upAt     time.Time     // of the last that worked
	upLost   time.Time     // of the last that failed, or that found no link
	refused  *wire.Problem // why the root does not want this cluster any more; nil: it does
	expires  time.Time     // when the certificate of its authority does
	trusts   string        // the root authorities that this cluster trusts, by name
	lost     lost          // when the root was; when this process started, if it was not
	signs    string        // the key that it signs with, by name

	isolation life.Isolation
	// locks of gateways, by name, see acme.go.
	locks map[string]acmeLock
	// was is what the root had of this cluster, where that is a later state; see heedRoot.
	was atomic.Pointer[wire.Rev]
	// losses are what the silence of workers affects, by worker, until all of that answers again.
	losses map[string]*life.Loss

	// plugins that can be asked, by name.
	plugins map[string]*consultant

	// demand is what is asked for here, by application and service, and epochAt when
	// it was looked at last. It is of this process.
	demand  map[string]*demanded
	epochAt time.Time
}

// init loads the model from the store.
func (c *core) init(ctx context.Context, details bool, now time.Time) (err error) {
	c.wake, c.upChanged, c.surveys = make(chan struct{}, 1), make(chan struct{}, 1), make(chan struct{}, 1)
	c.upgrades = make(chan struct{}, 1)
	c.askCtx, c.endAsking = context.WithCancel(context.WithoutCancel(ctx))
	c.m = newModel(c.name, details, now)
	c.m.Site = c.site
	if c.m.vault.Key = c.key; c.key != nil {
		if c.prover, err = c.key.Prover(proofOf); err != nil {
			return err
		}
	}
	c.keeper.Store = c.store
	c.lastPass, c.planned = now, loop.Tick
	c.upErr = errors.New("not connected yet")
	if err = c.m.read(ctx, c.store, now); err != nil {
		return err
	}
	c.hold()
	if c.held { // before anybody else has the store
		c.store = records.Hold(c.store, records.Held(c.m.Unread))
		c.keeper.Store = c.store
	}
	c.m.recallMoves(now)
	c.demand, c.locks, c.losses = map[string]*demanded{}, map[string]acmeLock{}, map[string]*life.Loss{}
	c.revive()
	c.lost = lost{now, c.m.Counted()}
	c.revoked.Set(c.m.Revoked())
	c.place()
	return nil
}

// read adds all that is stored to the model.
func (m *model) read(ctx context.Context, store bus.Store, now time.Time) error {
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
	m.derive(now)
	m.HoldOnce()
	return nil
}

// hold sees to what was loaded last: the worst that cannot be read may keep this cluster
// from deciding anything. What was stored before goes on.
func (c *core) hold() {
	for _, words := range records.Words(c.m.Unread) {
		c.log.Error(words)
	}
	c.held = records.Held(c.m.Unread) != ""
}

// reload reads the model again where it may differ from what is stored, keeping
// what is known of the workers now.
func (c *core) reload(ctx context.Context, now time.Time) error {
	if !c.keeper.Stale() {
		return nil
	}
	next := newModel(c.m.Name, c.m.Details, c.m.Started)
	next.Recovery.Heard, next.Recovery.Proven = c.m.Recovery.Heard, c.m.Recovery.Proven
	next.vault.Key = c.key
	next.net.Signs, next.net.RelayOnly = c.m.net.Signs, c.m.net.RelayOnly
	next.wants, next.near, next.plugins, next.counsels, next.breakers = c.m.wants, c.m.near, c.m.plugins, c.m.counsels, c.m.breakers
	next.byDefault, next.flows, next.entering, next.paces, next.outcomes, next.counts = c.m.byDefault, c.m.flows, c.m.entering, c.m.paces, c.m.outcomes, c.m.counts
	next.waveWords = c.m.waveWords
	next.Peer, next.Waits, next.Alone, next.Site = c.m.Peer, c.m.Waits, c.m.Alone, c.m.Site
	if err := next.read(ctx, c.store, now); err != nil {
		return err
	}
	for name, w := range next.Workers {
		if old := c.m.Workers[name]; old != nil {
			old.WorkerRecord, old.Labels = w.WorkerRecord, w.Labels
			next.Workers[name] = old
		}
	}
	c.m = next
	c.keeper.Loaded()
	c.hold()
	c.revoked.Set(c.m.Revoked())
	c.told()
	return nil
}

// pause is the time to the next look: until a worker could be suspect where
// nothing else waits, a tick where something does, or less where an instance is
// to be replaced before that.
func (c *core) pause(settled bool) (d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer func() { c.planned = d }()
	now, least := time.Now(), loop.Tick
	if next, ok := c.untilEpoch(now); ok {
		defer func() { d = min(d, next) }()
	}
	if next, ok := c.m.look.until(now); ok {
		defer func() { d = min(d, next) }()
	}
	if settled {
		return life.NextLook(now, loop.Tick, func(yield func(life.Peer) bool) {
			for _, w := range c.m.Workers {
				if !yield(w.Peer()) {
					return
				}
			}
		})
	}
	if d := c.m.untilDecided(now); d > 0 {
		least = min(least, d)
	}
	if d := c.m.untilRolled(now); d > 0 {
		least = min(least, d)
	}
	for id := range c.m.Leaving {
		if d := c.m.Insts[id].Leaving.Started.Add(leaveAfter).Sub(now); d > 0 {
			least = min(least, d)
		}
	}
	for _, i := range c.m.Insts {
		w := c.m.Workers[i.Worker]
		if w == nil || !w.Suspect || (i.State != wire.Running && i.State != wire.WorkerScheduled) {
			continue
		}
		if d := w.Since.Add(c.m.ReplaceAfter(i, w)).Sub(now); d > 0 {
			least = min(least, d)
		}
	}
	return least
}

// pass judges the workers and, if that or anything else (changed) has changed,
// brings the cluster closer to what it should be until there is nothing left to
// do at this moment. settled: nothing is waiting for time to pass.
func (c *core) pass(ctx context.Context, now time.Time, changed bool) (settled bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return true, nil
	}
	judged, decided, told := c.judge(now), c.decide(now), c.m.entering
	changed = changed || c.m.look.due(now)
	changed = c.lookPorts() || changed
	led := c.m.lookFlows(now)
	if !slices.Equal(told, c.m.entering) {
		c.sumSaid = false // though nothing was stored
	}
	if !judged && !decided && !led && !changed {
		return true, nil
	}
	defer c.news.Ring()
	if decided {
		loop.Poke(c.upChanged) // the root may be told that something is lacking
	}
	if err := c.reload(ctx, now); err != nil {
		return false, err
	}
	if err := c.heedRoot(ctx, now); err != nil {
		return false, err
	}
	c.heardOf, c.owed, c.passed, c.stepped = nil, false, now, 0
	c.m.gates = c.hooks.Gates(wire.GateWave)
	c.m.lookNear(now)
	if len(c.m.near.since) > 0 {
		loop.Poke(c.surveys)
	}
	for range maxRounds {
		begin := time.Now()
		c.m.Recovery.Stored = c.store.Rev()
		t := c.m.step(now)
		c.stepped += time.Since(begin)
		// What cannot be decided: what is sealed, and what is signed.
		c.m.vault.Seal(ctx, t.Tx, c.store, c.log)
		t.net.Sign(c.sign, c.log)
		stored, left, err := c.keeper.Parts(ctx, t)
		c.unwritten(left, now)
		if err != nil {
			return false, fmt.Errorf("storing what was decided: %w", err)
		}
		c.consult(t)
		c.askWaves(t)
		if !stored {
			break
		}
		c.tell(t, now)
	}
	if c.ports != nil {
		c.ports.publish(c.m.Name, c.m.portsHeld())
	}
	c.tellLosses(now)
	c.m.Recovery.Settled = !c.m.Unasked(state.TheRoot)
	c.m.look = c.m.lookJobs(now)
	c.steady = c.m.steady()
	return c.calm() && c.m.Mark() == nil, nil
}

// nudge asks a worker for a report that is answered.
func (c *core) nudge(name string) {
	if err := exchange.Nudge(c.local, exchange.WorkerSubjects(name)); err != nil {
		c.log.Debug("nudging", "worker", name, "error", err)
	}
}

// tell brings workers what is new for them, and tells people.
func (c *core) tell(t *tx, now time.Time) {
	for id, places := range t.Departed {
		c.departed.add(id, places)
	}
	for name, w := range c.m.Workers {
		switch {
		case t.Nudge[name] && c.herald != nil && !c.m.Silent(name):
			c.herald.Tell(name, c.desiredOf(name), w.Has)
		case t.All || t.Nudge[name]:
			c.nudge(name) // of what is new for all each fetches what it uses, in its own time
		}
	}
	if len(t.Ups)+len(t.Tallies)+len(t.upRolls)+len(t.upJobs) > 0 {
		loop.Poke(c.upChanged)
	}
	for _, id := range records.SortedKeys(t.Insts) {
		i := t.Insts[id]
		if i == nil || len(i.History) == 0 {
			continue
		}
		last := i.History[len(i.History)-1]
		if last.At.Equal(now) {
			c.events.Add(now, last.Tier, "instance/"+id, fmt.Sprintf("%s: %s", last.To, last.Why))
		}
	}
	c.tellOf(t, now)
	for _, e := range t.Events {
		c.events.Add(now, c.m.Tier(), e.Subject, e.What)
		c.log.Info(e.What, "subject", e.Subject)
	}
}

// calm: no instance waits for a deadline. A worker that is away is nothing to wait for
// when what it ran is elsewhere: its return is heard of.
func (c *core) calm() bool {
	for key, sc := range c.m.scaled {
		if sc.Fits > 0 && c.demand[key] == nil {
			return false // there may be room again, and no epoch will ask
		}
	}
	if c.m.busyRolling() {
		return false
	}
	t := c.m.reads()
	for _, i := range c.m.Insts {
		if i.State != wire.Running && i.State != wire.Terminated && !state.Asleep(i) && !c.m.look.rest[i.ID] || i.Leaving != nil {
			return false
		}
		if i.Pinned == "" && c.m.Away(i.Worker) || i.Moving != nil && c.m.Away(i.Moving.Worker) {
			return false // it is replaced after a while
		}
		if len(i.Avoid) > 0 && c.m.Workers[i.Worker].Draining() {
			return false // it may be forgiven where it failed
		}
		if i.Ordinal >= wire.LocalOrdinals && !i.Draining && !t.wanted(i) {
			return false // it hands over, for a while
		}
	}
	return true
}

// desiredOf serves what a worker should be doing.
func (c *core) desiredOf(name string) exchange.Desired {
	return exchange.Desired{Store: routesOf{c.store, name}, Parts: []exchange.Part{
		{Prefix: state.KeyOrder + name + ".", As: "order."},
		{Prefix: state.KeyRoute, As: "route."},
		{Prefix: state.KeyRevoked, As: "revoked."},
		{Prefix: state.KeyFarGone, As: "fargone."},
		{Prefix: secrets.KeySealed + name + ".", As: "secret."},
		{Prefix: netlease.KeyNet + name + ".", As: "network."},
	}, Prove: c.prove(name)}
}

// serveWorkers answers the workers until stop is called.
func (c *core) serveWorkers(renew func(context.Context, string, wire.RenewRequest) (wire.JoinReply, error)) (stop func(), err error) {
	u := exchange.Upper{
		Conn: c.local, Log: c.log,
		Peer:     func(subject string) string { return token(subject, 1) },
		OnReport: c.onReport, TryReport: c.tryReport, Nudge: c.nudge,
		Desired: func(name string) (exchange.Desired, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			w := c.m.Workers[name]
			return c.desiredOf(name), w != nil && w.EverHeard && !c.m.Silent(name)
		},
	}
	stopExchange, err := u.Serve("w.*.report", "w.*.fetch")
	if err != nil {
		return nil, err
	}
	stopRenewals, err := u.ServeRenewals("w.*.renew", renew)
	if err != nil {
		stopExchange()
		return nil, err
	}
	stopDemand, err := c.serveDemand()
	if err != nil {
		stopRenewals()
		stopExchange()
		return nil, err
	}
	herald := &exchange.Herald{
		Conn: c.local, Log: c.log,
		Subject: func(name string) string { return exchange.WorkerSubjects(name).Nudge },
	}
	c.mu.Lock()
	c.herald = herald
	c.mu.Unlock()
	return func() {
		herald.Close()
		stopDemand()
		stopRenewals()
		stopExchange()
	}, nil
}
