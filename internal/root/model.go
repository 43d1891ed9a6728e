package root

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of the root's store.
const (
	keyApp       = "app."     // + name: wire.Application
	keyInstance  = "inst."    // + id: wire.Instance, the root's part of its life
	keyWhy       = "why."     // + id: place.Record
	keyShare     = "to."      // + cluster.app.service: wire.Share
	keyRoute     = "route."   // + app.service: wire.Route, for all clusters
	keyNamespace = "ns."      // + name: wire.Namespace
	keyPublish   = "publish." // + namespace: wire.Publish, for all clusters
	keyCluster   = "cluster." // + name: clusterRecord
	keyGone      = "gone."    // + hash of a key: enroll.Gone, of clusters
	keyRevoked   = "revoked." // + who says so.hash of a key: wire.Revocation, for all clusters
)

// clusterRecord is what is kept about a cluster over restarts.
type clusterRecord struct {
	V       int       `json:"v"`
	Name    string    `json:"name"`
	Areas   []string  `json:"areas,omitempty"`
	Joined  time.Time `json:"joined"`
	Version string    `json:"version,omitempty"`
	// KeyHash of its authority's key: a second cluster cannot take its name.
	KeyHash string `json:"key_hash"`
	// Cordon is set while the cluster is given nothing new.
	Cordon *wire.Cordon `json:"cordon,omitempty"`
	// Expires is when the last certificate that it was given does.
	Expires time.Time `json:"expires,omitzero"`
	// Revoked since: its key does not count any more, and it has to join again.
	Revoked time.Time `json:"revoked,omitzero"`
}

// cluster is a registered cluster: what is stored, and what is known of it now.
type cluster struct {
	clusterRecord

	// Of this process, from monotonic clocks.
	heard     time.Time // last report; the start of this process before the first
	everHeard bool
	lambda    time.Duration
	connected bool // by the link's own word
	skew      exchange.Skew
	suspect   bool
	since     time.Time // of suspect
	agg       *wire.Aggregate
	has       wire.Rev // of its desired state, as its last report said
	current   bool     // that was the current one
	inbox     exchange.Inbox
	held      *held  // what it says that it holds; nil: not asked, or not needed
	unheld    string // why it could not be asked
	over      int    // reported changes that were too many, as far as that was said
	seen      map[wire.InstanceID]*wire.Reported
	sites
	tallies tallies
	lost    *lost                      // nil: it was not away since the root started
	revoked map[string]wire.Revocation // what it says about keys of its workers, by hash
	renewed time.Time                  // when it was certified last by this process
	matched bool                       // it has had what this process wants of it
	// refused are the services that it is not asked for again for a while, by app.service.
	refused map[string]refusal
	// short is what it lacks of services (app.service); nil: it has not been heard.
	short map[string]*shortage
	// rollouts are how far it says that it is with services (app.service).
	rollouts map[string]*wire.RolloutReport
	// jobs are what it says of the runs of jobs (app.service).
	jobs map[string]*wire.JobReport
	// losses are what the silence of its workers affects; losing are those of the report that
	// is being taken over, by worker ("" where the cluster does not name it).
	losses []*life.Loss
	losing map[string]*life.Loss
}

// model is all that a root knows. It is only touched under the mutex of its
// owner; changes to what is stored go through a tx.
type model struct {
	db       *table.DB // what is stored; maps of it are here as well, see bind
	apps     map[string]*wire.Application
	insts    map[wire.InstanceID]*wire.Instance
	shares   map[string]*wire.Share // by cluster.app.service
	routes   map[string]*wire.Route // by app.service
	clusters map[string]*cluster
	// namespaces that have a record; see hasNamespace.
	namespaces map[string]*wire.Namespace
	gone       map[string]*enroll.Gone     // keys of clusters that do not count any more, by hash
	revoked    map[string]*wire.Revocation // what all clusters are told
	over       map[string]*overflow        // by app.service
	schedules  map[string]*schedule        // by app.service
	// leads are services of which a replica should be in another cluster, by app.service:
	// of this process.
	leads map[string]*leading
	// unkept says when instances of a service were last begun to be moved since their
	// cluster does not keep their agreement, by app.service: of this process.
	unkept map[string]time.Time
	// pruned is when refusals were looked through last.
	pruned time.Time
	vault  vault
	net    network
	// history is what applications were; rehearsing: this is a copy, of a plan.
	history    history
	rehearsing bool
	// gates as in hooks.Keeper.Gates, of waves of rollouts; of this process.
	gates map[string]string
	// deadAfter is how long a cluster may be away before what it ran is placed
	// elsewhere.
	deadAfter time.Duration
	recovery  recovery
	unread    []records.Unread // stored records that cannot be read
	alone     bool             // no cluster is heard: it may be this root that is cut off
	// index are the ids of insts by app.service; nil when it must be made again.
	index map[string][]wire.InstanceID
}

func newModel(deadAfter time.Duration) *model {
	m := &model{
		clusters: map[string]*cluster{}, recovery: recovery{proven: map[string]wire.Rev{}}, deadAfter: deadAfter,
		unkept: map[string]time.Time{}, history: history{},
	}
	m.bind(schema.New())
	return m
}

// bind makes db what is stored.
func (m *model) bind(db *table.DB) {
	m.db = db
	m.apps, m.insts, m.shares, m.routes = appTable.Rows(db), instanceTable.Rows(db), shareTable.Rows(db), routeTable.Rows(db)
	m.namespaces, m.gone, m.revoked = namespaceTable.Rows(db), goneTable.Rows(db), revokedTable.Rows(db)
	m.over, m.schedules = overTable.Rows(db), scheduleTable.Rows(db)
	m.vault.secrets, m.vault.sealed = secretTable.Rows(db), sealTable.Rows(db)
	m.net.leases = leaseTable.Rows(db)
	m.index = nil
}

// derive makes what follows from what is stored, once that was loaded.
func (m *model) derive(now time.Time) {
	for name, rec := range clusterTable.Rows(m.db) {
		m.clusters[name] = newCluster(*rec, now)
	}
	for _, r := range revisionTable.Rows(m.db) {
		m.history.add(*r)
	}
}

// serviceNetwork is the network of all instances; nil: there is none yet.
func (m *model) serviceNetwork() *lease.Network { return networkTable.One(m.db) }

// mark of a recovery; nil: there is none.
func (m *model) mark() *backup.Mark { return markTable.One(m.db) }

// past is what recoveries have settled; nil: there was none.
func (m *model) past() *backup.Settled { return settledTable.One(m.db) }

func newCluster(rec clusterRecord, now time.Time) *cluster {
	return &cluster{clusterRecord: rec, heard: now, lambda: maxLambda, seen: map[string]*wire.Reported{}, revoked: map[string]wire.Revocation{}, refused: map[string]refusal{}}
}

// tx collects what one pass of the loop changes. Nothing of it is seen by anyone
// before it is durable. A nil value deletes.
type tx struct {
	sorted []*wire.Instance // all, see instances; nil where they have changed since
	m      *model
	rows   *table.Tx // what is stored of it; the maps below that are, are its own
	apps   map[string]*wire.Application
	insts  map[wire.InstanceID]*wire.Instance
	whys   map[wire.InstanceID]*place.Record
	shares map[string]*wire.Share
	routes map[string]*wire.Route
	over   map[string]*overflow
	// schedules by app.service.
	schedules map[string]*schedule
	// revoked is what all clusters are told about keys.
	revoked map[string]*wire.Revocation
	seals   map[string]*wire.SealedSecret // by cluster.namespace.name
	leases  map[string]*wire.ClusterLease // by cluster
	// touched are the keys of insts by app.service.
	touched map[string]map[wire.InstanceID]struct{}
	// nudge are the clusters whose desired state changes; all of them if all.
	nudge  map[string]bool
	all    bool
	events []event
	// notices for hooks.
	notices []hooks.Notice
}

type event struct{ subject, what string }

func (m *model) begin() *tx {
	rows := m.db.Begin()
	return &tx{
		m: m, rows: rows, apps: appTable.Changes(rows), insts: instanceTable.Changes(rows), whys: whyTable.Changes(rows),
		shares: shareTable.Changes(rows), routes: routeTable.Changes(rows), revoked: revokedTable.Changes(rows),
		seals: sealTable.Changes(rows), leases: leaseTable.Changes(rows), over: overTable.Changes(rows), schedules: scheduleTable.Changes(rows),
		nudge: map[string]bool{}, touched: map[string]map[wire.InstanceID]struct{}{},
	}
}

// reads is a tx for those who change nothing: it has no room for changes, and costs little.
func (m *model) reads() *tx { return &tx{m: m, rows: m.db.Begin()} }

func (t *tx) event(subject, format string, args ...any) {
	t.events = append(t.events, event{subject, fmt.Sprintf(format, args...)})
}

// inst is the instance as this tx sees it; nil if there is none.
func (t *tx) inst(id wire.InstanceID) *wire.Instance {
	if i, ok := t.insts[id]; ok {
		return i
	}
	return t.m.insts[id]
}

func (t *tx) put(i wire.Instance) {
	if old := t.m.insts[i.ID]; old != nil && records.Same(old, &i) {
		if _, changed := t.insts[i.ID]; changed {
			delete(t.insts, i.ID) // back to what is stored
			t.sorted = nil
		}
		return
	}
	t.insts[i.ID], t.sorted = &i, nil
	key := i.App + "." + i.Service
	if t.touched[key] == nil {
		t.touched[key] = map[wire.InstanceID]struct{}{}
	}
	t.touched[key][i.ID] = struct{}{}
}

// remove forgets an instance, which has ended.
func (t *tx) remove(id wire.InstanceID, now time.Time) {
	if i := t.m.insts[id]; i != nil && !t.m.right(i) {
		t.note(wire.HookInstanceEnded, i, now, "Terminated: no longer wanted")
	}
	t.insts[id], t.whys[id], t.sorted = nil, nil, nil
}

// instances of one application (of all where app is ""), as this tx sees them, by
// application, service and ordinal. The cost is that of looking at all. Nobody changes
// the slice: that of all is the same until an instance changes.
func (t *tx) instances(app string) []*wire.Instance {
	if app == "" && t.sorted != nil {
		return t.sorted
	}
	var out []*wire.Instance
	for _, i := range records.Merged(t.m.insts, t.insts) {
		if app == "" || i.App == app {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, byName)
	if app == "" {
		t.sorted = out
	}
	return out
}

// of are the instances of one service, as this tx sees them, by ordinal. The cost
// is that of looking at these.
func (t *tx) of(app, service string) []*wire.Instance {
	key := app + "." + service
	var out []*wire.Instance
	for _, id := range t.m.byService()[key] {
		if _, changed := t.insts[id]; !changed {
			out = append(out, t.m.insts[id])
		}
	}
	for id := range t.touched[key] {
		if i := t.insts[id]; i != nil {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, byName)
	return out
}

func byName(a, b *wire.Instance) int {
	if c := cmp.Compare(a.App, b.App); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Service, b.Service); c != 0 {
		return c
	}
	return cmp.Compare(a.Ordinal, b.Ordinal)
}

// byService are the ids of the stored instances by app.service.
func (m *model) byService() map[string][]wire.InstanceID {
	if m.index == nil {
		m.index = make(map[string][]wire.InstanceID, len(m.insts))
		for id, i := range m.insts {
			key := i.App + "." + i.Service
			m.index[key] = append(m.index[key], id)
		}
	}
	return m.index
}

// Done implements keeper.Tx: what the tx changed is part of the model.
func (t *tx) Done() {
	for _, r := range revisionTable.Changes(t.rows) {
		if r != nil {
			t.m.history.add(*undescribed(r))
		}
	}
	for key, r := range revisionTable.Changes(t.rows) {
		if r == nil {
			t.m.history.drop(key)
		}
	}
	t.rows.Done()
	t.m.index = nil
	for name, c := range t.m.clusters {
		if t.all || t.nudge[name] {
			c.current = false // until it says that it has what has changed
		}
	}
}

func instanceID(app, svc string, ordinal int) wire.InstanceID {
	return fmt.Sprintf("%s.%s.%d", app, svc, ordinal)
}
