package root

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
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

// core is a root without its sockets: the model, the loop, and the exchange with
// each cluster. It works on any bus.
type core struct {
	log    *slog.Logger
	events *obs.Events
	store  bus.Store
	key    *seal.Key     // of its secrets
	prover *seal.Prover  // of revisions; nil: there are no proofs
	hooks  *hooks.Keeper // nil: nobody is told anything
	keeper keeper.Keeper // of store, guarded by mu
	// link is the connection by which a cluster can be reached.
	link func(cluster string) (bus.Conn, error)
	// renew answers a cluster that wants its certificate renewed; nil: nobody does.
	renew func(ctx context.Context, cluster string, q wire.RenewRequest) (wire.JoinReply, error)

	// heard, if set, is called with every report. It must not block.
	heard func()

	revoked pki.Revoked // the keys of clusters that do not count any more
	barred  pki.Revoked // all keys that do not: what the relay goes by
	relayed func()      // tells the relay that barred has changed; nil: there is none

	wake    chan struct{} // a pass is wanted
	askWake chan struct{} // a cluster is to be asked what it holds
	news    loop.Bell     // rings when what people see may have changed
	started time.Time
	fleet   fleet

	planning sync.Mutex // one plan at a time is worked out

	mu        sync.Mutex // guards all below; held over commits, so that a pass is atomic
	m         *model
	lastPass  time.Time
	planned   time.Duration // from lastPass to the next look at the clock
	isolation life.Isolation
	served    map[string]serving // by cluster
	trusts    string             // the authorities that are to be trusted, by name
	held      bool               // a record cannot be read without which nothing may be decided
	unstored  string             // what could not be written, in words
	// heldSince is since when services hold of which that is not noted yet, by
	// application.service.revision.
	heldSince map[string]time.Time
	// stays are services whose rollout has failed and that have nothing to go back to, by
	// application.service, with the revision of which that is so.
	stays map[string]uint64
	batch []happened // see say
}

// init loads the model from the store.
func (c *core) init(ctx context.Context, deadAfter time.Duration, now time.Time) error {
	c.wake, c.askWake = make(chan struct{}, 1), make(chan struct{}, 1)
	c.m, c.started, c.lastPass, c.planned = newModel(deadAfter), now, now, loop.Tick
	if c.key != nil {
		c.m.vault.key = c.key.ID()
		var err error
		if c.prover, err = c.key.Prover(proofOf); err != nil {
			return err
		}
	}
	c.served, c.keeper.Store = map[string]serving{}, c.store
	if err := c.m.read(ctx, c.store, now); err != nil {
		return err
	}
	c.hold()
	if c.held { // before anybody else has the store
		c.store = records.Hold(c.store, records.Held(c.m.unread))
		c.keeper.Store = c.store
	}
	c.m.recallMoves(now)
	c.refuse()
	c.place()
	return nil
}

// read adds all that is stored to the model.
func (m *model) read(ctx context.Context, store bus.Store, now time.Time) error {
	entries, err := store.List(ctx, "")
	if err != nil {
		return fmt.Errorf("loading the root's state: %w", err)
	}
	for _, e := range entries {
		if _, err := m.db.Load(e); err != nil {
			m.unread = append(m.unread, records.Unread{Key: e.Key, Fate: schema.Fate(e.Key), Err: err})
		}
	}
	if err := records.Stopped(m.unread); err != nil {
		return fmt.Errorf("loading the root's state: %w", err)
	}
	m.derive(now)
	return nil
}

// hold sees to what was loaded last: the worst that cannot be read may keep this root from
// deciding anything. What was stored before goes on.
func (c *core) hold() {
	for _, words := range records.Words(c.m.unread) {
		c.log.Error(words)
	}
	c.held = records.Held(c.m.unread) != ""
}

// place tells the events which namespace each application is in.
func (c *core) place() {
	for name, app := range c.m.apps {
		c.events.Place(name, wire.NamespaceOf(app.Spec))
	}
}

// reload reads the model again where it may differ from what is stored, keeping
// what is known of the clusters now.
func (c *core) reload(ctx context.Context, now time.Time) error {
	if !c.keeper.Stale() {
		return nil
	}
	next := newModel(c.m.deadAfter)
	if err := next.read(ctx, c.store, now); err != nil {
		return err
	}
	next.recovery.proven = c.m.recovery.proven
	next.alone, next.vault.key, next.net.relay, next.leads, next.unkept = c.m.alone, c.m.vault.key, c.m.net.relay, c.m.leads, c.m.unkept
	for name, cl := range next.clusters {
		if old := c.m.clusters[name]; old != nil {
			old.clusterRecord = cl.clusterRecord
			next.clusters[name] = old
		}
	}
	c.m = next
	c.keeper.Loaded()
	c.hold()
	c.refuse()
	c.place()
	return nil
}

// pass judges the clusters and, if that or anything else (changed) has changed,
// brings the whole closer to what it should be until there is nothing left to do
// at this moment. settled: nothing is waiting for time to pass.
func (c *core) pass(ctx context.Context, now time.Time, changed bool) (settled bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return true, nil
	}
	judged := c.judge(now)
	if lulled := c.m.lull(now); !judged && !lulled && !changed {
		return true, nil
	}
	defer c.notify()
	if err := c.reload(ctx, now); err != nil {
		return false, err
	}
	c.m.gates = c.hooks.Gates(wire.GateWave)
	for range maxRounds {
		t := c.m.step(now)
		c.close(ctx, t)
		stored, left, err := c.keeper.Parts(ctx, t)
		c.unwritten(left, now)
		if err != nil {
			return false, fmt.Errorf("storing what was decided: %w", err)
		}
		if !stored {
			break
		}
		if len(t.revoked) > 0 {
			c.refuse()
		}
		c.tell(t, now)
	}
	c.tellFound(now)
	waits := c.noteHeld(ctx, now)
	c.rollBack(ctx, now)
	c.m.recovery.settled = !c.m.holding(now)
	return c.calm() && c.m.recovery.settled && !waits, nil
}

// notify wakes those who wait for a change.
func (c *core) notify() { c.news.Ring() }

// tellAll brings every cluster what was stored outside a pass. The mutex is held.
func (c *core) tellAll() {
	t := c.m.begin()
	t.all = true
	c.tell(t, time.Now())
}

// tell brings clusters what is new for them, and tells people.
func (c *core) tell(t *tx, now time.Time) {
	for name, cl := range c.m.clusters {
		if s := c.served[name]; s.herald != nil && (t.all || t.nudge[name]) {
			has := cl.has
			if c.m.silent(name) {
				has = wire.Rev{}
			}
			s.herald.Tell(name, c.desiredOf(name), has)
		}
	}
	for _, id := range records.SortedKeys(t.insts) {
		i := t.insts[id]
		if i == nil || c.m.right(i) {
			continue
		}
		for _, h := range i.History {
			if h.At.Equal(now) {
				c.events.Add(now, h.Tier, "instance/"+id, fmt.Sprintf("%s: %s", h.To, h.Why))
			}
		}
	}
	for _, n := range t.notices {
		c.hooks.Tell(n)
	}
	for _, e := range t.events {
		c.events.Add(now, tier, e.subject, e.what)
		c.log.Info(e.what, "subject", e.subject)
	}
}

// calm: nothing waits for a deadline.
func (c *core) calm() bool {
	if c.m.lulled() {
		return false
	}
	for _, cl := range c.m.clusters {
		if cl.suspect {
			return false
		}
	}
	for _, i := range c.m.insts {
		if i.Cluster == "" && !i.Draining && c.m.hidden(i) {
			continue // a right that nobody has room for: another aggregate will say so
		}
		if i.State != wire.ClusterScheduled || i.Draining {
			return false
		}
	}
	for _, a := range c.m.apps {
		if !a.Deleting.IsZero() {
			return false
		}
	}
	return true
}

// judge decides which clusters are suspect. A root that did not run for a while
// itself doubts itself first. It reports whether any verdict has changed.
func (c *core) judge(now time.Time) (changed bool) {
	stalled := life.Stalled(now.Sub(c.lastPass), c.planned, minLambda)
	c.lastPass = now
	for name, cl := range c.m.clusters {
		v := life.Judge(now, cl.peer(), stalled)
		cl.heard = v.Heard
		if v.Suspect != cl.suspect {
			changed = true
			what, kind, position := "heard of again", wire.HookClusterBack, hooks.NodeBack
			if v.Suspect {
				what, kind, position = "away: "+v.Why, wire.HookClusterLost, hooks.NodeLost
				cl.lose(now)
			}
			c.tellCluster(kind, name, position, what, now)
			c.events.Add(now, tier, "cluster/"+name, what)
			c.log.Info("cluster "+what, "cluster", name)
		}
		cl.suspect, cl.since = v.Suspect, v.Since
	}
	return c.doubt(now) || changed
}

// doubt asks whether it is this root that is cut off, and not its clusters: it
// hears of none. Then nothing of them is replaced, and afterwards their absence
// counts anew: their links do not come back at the same moment. Where there is one
// cluster only, there is nobody to replace anything. It reports whether that has
// changed.
func (c *core) doubt(now time.Time) bool {
	silent, missed := len(c.m.clusters) > 1, false
	for _, cl := range c.m.clusters {
		missed = missed || cl.suspect
		silent = silent && (cl.suspect || life.Quiet(now, cl.peer()))
	}
	silent = silent && missed
	was := c.isolation.Alone()
	var over bool
	c.isolation, over, _ = c.isolation.Look(now, silent, life.Elsewhere{})
	c.m.alone = c.isolation.Alone()
	if over {
		for _, cl := range c.m.clusters {
			if cl.suspect {
				cl.heard, cl.since = now, now
			}
		}
		c.events.Add(now, tier, "root", "no longer cut off: the clusters have time to be heard again")
		c.log.Info("no longer cut off: the clusters have time to be heard again")
	}
	return over || c.m.alone != was
}

// peer is the cluster as life judges it.
func (cl *cluster) peer() life.Peer {
	return life.Peer{Heard: cl.heard, Interval: cl.lambda, Since: cl.since, Connected: cl.connected || !cl.everHeard}
}

// pause is the time to the next look: until a cluster could be suspect where
// nothing else waits, a tick where something does.
func (c *core) pause(settled bool) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.planned = loop.Tick
	if settled {
		c.planned = life.NextLook(time.Now(), loop.Tick, func(yield func(life.Peer) bool) {
			for _, cl := range c.m.clusters {
				if !yield(cl.peer()) {
					return
				}
			}
		})
	}
	return c.planned
}

// desiredOf serves what a cluster should be running.
func (c *core) desiredOf(name string) exchange.Desired {
	return exchange.Desired{Store: c.store, Parts: []exchange.Part{
		{Prefix: keyShare + name + ".", As: "share."},
		{Prefix: keyRoute, As: "route."},
		{Prefix: keyRevoked, As: "revoked."},
		{Prefix: keyPublish, As: "publish."},
		{Prefix: keySealed + name + ".", As: "secret."},
		{Prefix: keyLease + name + ".", As: "lease."},
	}, Prove: c.prove(name)}
}

// serve answers the reports of a cluster until the core is stopped. The mutex is
// not held.
func (c *core) serve(name string) error {
	conn, err := c.link(name)
	if err != nil {
		return fmt.Errorf("connecting to the account of cluster %s: %w", name, err)
	}
	u := exchange.Upper{
		Conn: conn, Log: c.log,
		Peer:     func(string) string { return name }, // the account is the identity
		OnReport: c.onReport,
		Desired: func(name string) (exchange.Desired, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			cl := c.m.clusters[name]
			return c.desiredOf(name), cl != nil && cl.everHeard && !c.m.silent(name)
		},
	}
	s := exchange.ClusterSubjects()
	stopExchange, err := u.Serve(s.Report, s.Fetch)
	if err != nil {
		return err
	}
	stopRenewals, err := c.serveRenewals(&u)
	if err != nil {
		stopExchange()
		return err
	}
	stopGates, err := u.ServeGates(s.Gate, c.askWave)
	if err != nil {
		stopRenewals()
		stopExchange()
		return err
	}
	herald := &exchange.Herald{
		Conn: conn, Log: c.log,
		Subject: func(string) string { return exchange.ClusterSubjects().Nudge },
	}
	stop := func() {
		herald.Close()
		stopGates()
		stopRenewals()
		stopExchange()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.served[name] = serving{herald, stop}
	return nil
}

// serving is what serve began for a cluster.
type serving struct {
	herald *exchange.Herald // brings it what is new
	stop   func()
}

// stopServingAll ends what serve began, for all clusters.
func (c *core) stopServingAll() {
	c.mu.Lock()
	all := c.served
	c.served = map[string]serving{}
	c.mu.Unlock()
	for _, s := range all {
		s.stop()
	}
}

// onReport takes over a cluster's report.
func (c *core) onReport(ctx context.Context, name string, r wire.Report) wire.ReportReply {
	reply := wire.ReportReply{V: wire.Version}
	if c.heard != nil {
		c.heard()
	}
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := c.m.clusters[name]
	if cl == nil {
		reply.Refused = "cluster " + name + " is not registered here: join again with a new token"
		return reply
	}
	// What a process hears first counts when it has the status, and with it the proof of
	// what the cluster has seen.
	early := !cl.everHeard && r.Status == nil
	cl.has = r.Have
	if err := c.heedAhead(ctx, cl, r, now); err != nil {
		c.log.Error("a recovery cannot be begun", "cluster", name, "error", err)
		reply.Refused = err.Error()
		return reply
	}
	changed := !cl.everHeard || cl.suspect
	if r.Status != nil {
		var agg wire.Aggregate
		if err := decodeAggregate(r.Status, &agg); err != nil {
			c.log.Warn("a cluster's aggregate cannot be read", "cluster", name, "error", err)
		} else {
			changed = true
			checkNeed(agg.Network, name)
			agg.Short, agg.Entering = checkShort(agg.Short), checkEntering(agg.Entering)
			agg.Objects = agg.Objects[:min(len(agg.Objects), wire.MaxObjectMarks*len(wire.ObjectMark{}))]
			cl.agg = &agg
		}
	}
	reply.NeedStatus = cl.agg == nil
	reply.Renew = c.trusts != "" && cl.agg != nil && cl.agg.Trust != c.trusts
	before := cl.inbox.Ack()
	for _, ch := range cl.inbox.Accept(r) {
		changed = true
		if err := c.take(cl, ch, now); err != nil {
			c.log.Warn("a report about an instance cannot be read", "cluster", name, "instance", ch.Key, "error", err)
		}
	}
	c.sayBatch()
	c.tellLost(cl, now)
	if over := cl.inbox.Overflow(); over != cl.over {
		cl.over = over
		if over > 0 {
			c.log.Warn("a cluster reports more than is held of one: the rest is left out", "cluster", name, "left_out", over)
		}
	}
	if !cl.everHeard {
		c.tellCluster(wire.HookClusterBack, name, hooks.NodeBack, "heard of again", now)
	}
	cl.heard, cl.connected, cl.everHeard = now, true, true
	cl.skew.Heard(r, now)
	if r.Next > 0 {
		cl.lambda = min(time.Duration(r.Next)*time.Millisecond, 2*maxLambda)
	}
	desired := c.desiredOf(name)
	reply.Want = desired.Rev()
	reply.Ack = cl.inbox.AckFor(r)
	if r.From.IsZero() && !r.To.IsZero() && !before.IsZero() && before != r.To {
		reply.Was = before
	}
	silent := c.m.silent(name) || early
	if silent {
		reply.Want = r.Have // it keeps what it has
	}
	if r.Status != nil && reply.Want == r.Have && !silent && len(r.Proof) == 0 {
		reply.Proof = desired.Proof(r.Have)
	}
	if c.m.unasked(name) && cl.held == nil {
		loop.Poke(c.askWake)
	}
	current := reply.Want == r.Have && !silent
	if cl.matched = cl.matched || current; current != cl.current {
		cl.current, changed = current, true
	}
	if changed || before != cl.inbox.Ack() {
		loop.Poke(c.wake)
	}
	return reply
}

// take takes over one change of what a cluster reports, and tells people.
func (c *core) take(cl *cluster, ch wire.Change, now time.Time) error {
	if strings.HasPrefix(ch.Key, upRevoked) {
		return cl.takeRevoked(ch)
	}
	if ok, err := c.takeLocal(cl, ch, now); ok {
		return err
	}
	if ok, err := cl.takeTally(ch); ok {
		return err
	}
	rollout, job := strings.TrimPrefix(ch.Key, wire.ReportedRollout), strings.TrimPrefix(ch.Key, wire.ReportedJob)
	wasRollout, wasJob := cl.rollouts[rollout], cl.jobs[job]
	if ok, err := cl.takeRollout(ch); ok {
		c.tellRollout(cl, rollout, wasRollout)
		return err
	}
	if ok, err := cl.takeJob(ch); ok {
		c.tellJob(cl, job, wasJob)
		return err
	}
	old := cl.seen[ch.Key]
	if ch.Deleted {
		delete(cl.seen, ch.Key)
		if old != nil {
			c.say(now, "cluster/"+cl.Name, "instance/"+ch.Key, "gone")
			c.tellStandIn(old, now)
		}
		return nil
	}
	var rep wire.Reported
	if err := json.Unmarshal(ch.Value, &rep); err != nil {
		return err
	}
	if err := check(&rep, ch.Key); err != nil {
		return err
	}
	rep.Cluster = cl.Name // its identity is the account it used, not what it says
	cl.seen[ch.Key] = &rep
	for n, h := range rep.History {
		if n > 0 && (old == nil || h.At.After(old.Since)) { // the first repeats the root's last
			c.say(h.At, h.Tier, "instance/"+rep.ID, fmt.Sprintf("%s: %s", h.To, h.Why))
		}
	}
	c.tellReported(&rep, func(at time.Time) bool { return cl.everHeard && (old == nil || at.After(old.Since)) })
	if old != nil {
		for _, news := range wire.SecretNews(rep.ID, old.Secrets, rep.Secrets) {
			c.say(now, "cluster/"+cl.Name, "instance/"+rep.ID, news)
		}
	}
	if old != nil {
		if rep.Unreachable && !old.Unreachable && rep.State == wire.Running {
			cl.loses(&rep.Instance, now)
		}
		for _, what := range life.News(&old.Instance, &rep.Instance) {
			c.say(now, "cluster/"+cl.Name, "instance/"+rep.ID, what)
		}
	}
	return nil
}

// happened is an event of a report.
type happened struct {
	at                  time.Time
	tier, subject, what string
}

// say adds an event of a report to those that are sorted when all of the report was taken.
func (c *core) say(at time.Time, tier, subject, what string) {
	c.batch = append(c.batch, happened{at, tier, subject, what})
}

// sayBatch adds what a report told in the order in which it happened: what a new process
// hears first is the history of each instance in turn.
func (c *core) sayBatch() {
	slices.SortStableFunc(c.batch, func(a, b happened) int { return a.at.Compare(b.at) })
	for _, h := range c.batch {
		c.events.Add(h.at, h.tier, h.subject, h.what)
	}
	c.batch = nil
}

// onLink hears of a cluster's link opening or closing.
func (c *core) onLink(name string, up bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl := c.m.clusters[name]; cl != nil && cl.connected != up {
		cl.connected = up
		if !up {
			loop.Poke(c.wake)
		}
	}
}
