package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/plugin"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of a cluster's store.
const (
	keyHave     = "have"      // revision of the root's desired state that is stored, with its proof
	keyShare    = "share."    // + app.service: wire.Share, from the root
	keyFar      = "far."      // + app.service: wire.Route, from the root
	keyLocal    = "local."    // + app.service: local
	keyConflict = "conflict." // + number of the local change: conflict
	keyAgain    = "again."    // + app.service: again
	keyLocals   = "locals"    // how many local changes there have been
	keyInstance = "inst."     // + id: wire.Instance
	keyWhy      = "why."      // + id: place.Record
	// keyScaled: scaled, see scale.go; keyProfile: profile, see profile.go
	keyOrder = "to."    // + worker.id: wire.Order
	keyRoute = "route." // + app.service: wire.Route, for the workers
	keyUp    = "up."    // + id: wire.Reported, for the root
	// + app.service: wire.LocalChange; + number: wire.Conflict, for the root. No id of
	// an instance has a slash.
	keyUpLocal    = keyUp + wire.ReportedLocal
	keyUpConflict = keyUp + wire.ReportedConflict
	keyWorker     = "worker."  // + name: workerRecord
	keyGone       = "gone."    // + hash of a key: enroll.Gone, of this cluster's own
	keyRevoked    = "revoked." // + hash of a key: wire.Revocation, the same for the workers
	keyFarGone    = "fargone." // + who says so.hash of a key: wire.Revocation, from the root
	keyPublish    = "publish." // + namespace: wire.Publish, from the root

	// upRevoked begins what the root is told about a key, see exchange.StoreSource.
	upRevoked = "revoked/"
)

// haveRecord is the revision of the root's desired state that is stored, and the proof
// that the root gave with it.
type haveRecord struct {
	wire.Rev
	Proof []byte `json:"proof,omitempty"`
	// Parts of the desired state that were understood when all of it was fetched last. A root
	// of a newer version sent more, which was left out.
	Parts []string `json:"parts,omitempty"`
}

// workerRecord is what is kept about a worker over restarts.
type workerRecord struct {
	V      int             `json:"v"`
	Info   wire.WorkerInfo `json:"info"`
	Joined time.Time       `json:"joined"`
	// PublicKey of its bus identity: a second worker cannot take its name.
	PublicKey string `json:"public_key"`
	// KeyHash of its TLS key, for the same reason.
	KeyHash string `json:"key_hash"`
	// Cordon is set while the worker takes nothing new.
	Cordon *wire.Cordon `json:"cordon,omitempty"`
	// Expires is when the last certificate that it was given does.
	Expires time.Time `json:"expires,omitzero"`
	// Gateway says whether it may be a gateway with TLS; nil in records of before there
	// were grants, see settle.
	Gateway *wire.GatewayGrant `json:"gateway,omitempty"`
	// Revoked since: its key does not count any more, and another node may take its
	// place.
	Revoked time.Time `json:"revoked,omitzero"`
}

// worker is a registered worker: what is stored, and what is known of it now.
type worker struct {
	workerRecord

	// Of this process, from monotonic clocks.
	heard     time.Time     // last report; the start of this process before the first
	everHeard bool          // a report came since this process started
	matched   bool          // it has had what this process wants of it
	lambda    time.Duration // how long until the next report, as it said
	connected bool
	closed    time.Time // when its connection was closed last
	suspect   bool
	since     time.Time // of suspect
	skew      exchange.Skew
	leaving   bool      // its agent announced a restart
	renewed   time.Time // when it was certified last by this process
	told      time.Time // when what it says about itself was stored last
	has       wire.Rev  // of its desired state, as its last report said
	current   bool      // that was the current one
	over      int       // reported changes that were too many, as far as that was said
	want      wire.Rev  // see wantOf; as the store was at revision wantAt, if lookedUp
	wantAt    uint64
	lookedUp  bool
	inbox     exchange.Inbox
	says      *rate.Limiter // how often what it uses may change
	status    map[wire.InstanceID]wire.InstanceStatus
	// coord is where it said last that it is; nil where that is not known.
	coord *wire.Coordinate
	// labels are its own over those of the site; nil where the site has none.
	labels map[string]string
}

// learn takes over what is stored about a worker.
func (w *worker) learn(rec workerRecord, site map[string]string) {
	w.workerRecord, w.labels = rec, nil
	if len(site) > 0 {
		w.labels = maps.Clone(site)
		maps.Copy(w.labels, rec.Info.Labels)
	}
}

// Model is what all parts of a cluster know. It is only touched under the mutex of its
// owner; changes to what is stored go through a Tx.
type Model struct {
	db      *table.DB // all that is stored; the maps below that are, are its own, see bind
	name    string
	details bool // whether details about workers may leave the cluster
	site    wire.Site
	// shares are those in force, made by effect of given (the root's) and of local changes.
	shares map[string]*wire.Share
	given  map[string]*wire.Share
	far    map[string]*wire.Route
	insts  map[wire.InstanceID]*wire.Instance
	byName []wire.InstanceID // as they were sorted last, see Tx.instances
	listed []string          // the names of workers as they were sorted last, see workerNames
	// leaving are those of insts that have a Leaving.
	leaving map[wire.InstanceID]bool
	orders  map[string]*wire.Order // by key without prefix: worker.id
	routes  map[string]*wire.Route
	names   map[string]*wire.Route // the routes without endpoints
	ups     map[wire.InstanceID]*wire.Reported
	tallies map[string]*wire.Tally // by application, or wire.TallyGone
	workers map[string]*worker
	// gone and farGone are the revoked keys, by hash: of this cluster, and of others.
	gone    map[string]*enroll.Gone
	farGone map[string]*wire.Revocation
	// rehearsing: this is a copy, in which time stands still.
	rehearsing bool
	recovery   recovery
	// unread are the stored records that cannot be read.
	unread []records.Unread
	// peer gives the opaque name of a worker for routers of other clusters.
	peer func(worker string) string
	// started is when this process did, waits from when workers get time to report
	// before silence counts: then, or when it was no longer cut off.
	started, waits time.Time
	alone          bool // nobody is heard: it may be this cluster that is cut off
}

// model is all that a cluster knows.
type model struct {
	*Model

	// byDefault is the scheduler of services that name none, "" is rom.
	byDefault string
	locals    map[string]*local
	// conflicts by the number of the local change.
	conflicts map[string]*conflict
	again     map[string]*again
	// rolls are rollouts, by application and service.
	rolls    map[string]*rolling
	paces    map[wire.InstanceID]pace // of services that are rolled out, of this process
	outcomes map[string]*outcomes     // the same, by application and service
	// gates are the namespaces in which hooks of this cluster are asked before waves of
	// rollouts, see hooks.Keeper.Gates, and waveWords what hooks have said, by application and
	// service. Both are of this process.
	gates     map[string]string
	waveWords map[string]*waveWord
	uses      map[string]*uses // who needs the endpoints of which routes
	// upLocals and upConflicts are what the root is told of locals and conflicts.
	upLocals    map[string]*wire.LocalChange
	upConflicts map[string]*wire.Conflict
	upRolls     map[string]*wire.RolloutReport
	upJobs      map[string]*wire.JobReport
	schedules   *schedules
	scaled      map[string]*scaled  // by application and service, as shares
	profiles    map[string]*profile // by the same
	jobs        map[string]*jobRecord
	snapshots   map[string]*wire.Snapshot // by namespace/object
	// leftVolumes by worker.instance.
	leftVolumes map[string]*wire.LeftVolumes
	look        jobLook // of this process
	// wants is what the last epoch decided, of services that somebody asked for lately.
	// It is of this process.
	wants map[string]*want
	near  *near // what is known of distances
	// flows are where the requests of services enter that are to be near them, by
	// application and service.
	flows map[string]*flows
	// entering is what of it the root is told.
	entering []wire.Entering
	// plugins that are registered, and whether they decide jointly; counsels is where
	// instances stand with them, breakers whether they rest. All are of this process.
	plugins  map[string]bool
	counsels map[wire.InstanceID]*counsel
	breakers map[string]plugin.Breaker
	members  map[string]*member // by plugin and hash of the key
	// upgraded is how far the workers are with the upgrade, by name.
	upgraded map[string]*upgradedRecord
	counts   *upgradeCounts // of this process; nil: none yet
	// publish is what namespaces may publish, by the root's word; of others it is the default.
	publish wire.PublishRules
	// otherPorts are those that other clusters hold on this machine, see PortBook. The map is
	// replaced, never changed.
	otherPorts map[int]string
	vault      vault
	// acmes are what gateways share of ACME servers, by acmeID, without the values.
	acmes map[string]*acmeRecord
	net   network
}

// NewModel returns what a cluster knows that has stored nothing.
func NewModel(name string, details bool, now time.Time) *Model {
	m := &Model{
		name: name, details: details, started: now, waits: now,
		shares: map[string]*wire.Share{}, leaving: map[string]bool{}, workers: map[string]*worker{},
		peer: func(w string) string { return w }, recovery: recovery{proven: map[string]wire.Rev{}},
	}
	m.bind(schema.New())
	return m
}

// bind makes db what is stored.
func (m *Model) bind(db *table.DB) {
	m.db = db
	m.given, m.far, m.farGone, m.gone = givenTable.Rows(db), farTable.Rows(db), farGoneTable.Rows(db), goneTable.Rows(db)
	m.insts, m.orders, m.routes, m.names = instanceTable.Rows(db), orderTable.Rows(db), routeTable.Rows(db), nameTable.Rows(db)
	m.ups, m.tallies = upTable.Rows(db), tallyTable.Rows(db)
}

// clone shares no state with m but records, which nobody modifies.
func (m *Model) clone() *Model {
	c := *m
	c.bind(m.db.Clone())
	c.shares, c.leaving, c.recovery.proven = maps.Clone(m.shares), maps.Clone(m.leaving), maps.Clone(m.recovery.proven)
	c.byName, c.listed, c.unread = slices.Clone(m.byName), slices.Clone(m.listed), slices.Clone(m.unread)
	c.workers = records.CloneEach(m.workers)
	for _, w := range c.workers {
		w.status, w.labels = maps.Clone(w.status), maps.Clone(w.labels)
		w.inbox = w.inbox.Heading() // it hears no reports
	}
	return &c
}

// loaded makes what follows from what is stored, once that was loaded.
func (m *Model) loaded(now time.Time) {
	for id, i := range m.insts {
		m.note(id, i)
	}
	for name, rec := range workerTable.Rows(m.db) {
		rec.settle()
		m.known(name, rec, now)
	}
}

func newModel(name string, details bool, now time.Time) *model {
	m := &model{
		Model: NewModel(name, details, now), waveWords: map[string]*waveWord{}, paces: map[wire.InstanceID]pace{}, outcomes: map[string]*outcomes{},
		schedules: &schedules{}, uses: map[string]*uses{}, wants: map[string]*want{}, near: newNear(), flows: map[string]*flows{},
		plugins: map[string]bool{}, counsels: map[wire.InstanceID]*counsel{}, breakers: map[string]plugin.Breaker{},
	}
	m.attach()
	return m
}

// attach makes the records of the parts those of the database.
func (m *model) attach() {
	db := m.db
	m.publish = publishTable.Rows(db)
	m.vault.given, m.vault.sealed = secretTable.Rows(db), sealTable.Rows(db)
	m.locals, m.conflicts, m.again = localTable.Rows(db), conflictTable.Rows(db), againTable.Rows(db)
	m.upLocals, m.upConflicts = upLocalTable.Rows(db), upConflictTable.Rows(db)
	m.upRolls, m.upJobs = upRolloutTable.Rows(db), upJobTable.Rows(db)
	m.rolls, m.jobs, m.scaled, m.profiles = rollTable.Rows(db), jobTable.Rows(db), scaledTable.Rows(db), profileTable.Rows(db)
	m.snapshots, m.leftVolumes = snapshotTable.Rows(db), leftVolumeTable.Rows(db)
	m.members, m.upgraded, m.acmes = memberTable.Rows(db), upgradedTable.Rows(db), acmeTable.Rows(db)
	m.net.leases, m.net.told, m.net.numbers = leaseTable.Rows(db), networkTable.Rows(db), numberTable.Rows(db)
}

// past is what recoveries have settled; nil: there was none.
func (m *Model) past() *backup.Settled { return settledTable.One(m.db) }

// mark of a recovery; nil: there is none.
func (m *Model) mark() *backup.Mark { return markTable.One(m.db) }

// have is the revision of the root's desired state that is stored.
func (m *Model) have() haveRecord {
	if h := haveTable.One(m.db); h != nil {
		return *h
	}
	return haveRecord{}
}

// changes is how many local changes there have been.
func (m *model) changes() uint64 {
	if n := localsTable.One(m.db); n != nil {
		return *n
	}
	return 0
}

// derive makes what follows from what is stored, once that was loaded.
func (m *model) derive(now time.Time) {
	m.loaded(now)
	for key := range usesTable.Rows(m.db) {
		m.loadUses(key)
	}
	m.effect()
}

func newWorker(rec workerRecord, now time.Time) *worker {
	return &worker{
		workerRecord: rec, heard: now, lambda: maxLambda, status: map[string]wire.InstanceStatus{},
		inbox: exchange.Inbox{MaxKeys: maxStatuses, MaxBytes: maxStatusBytes}, says: newUsesLimit(),
	}
}

// Tx collects what one pass changes of what all parts know. Nothing of it is seen by anyone
// before it is durable. Of its maps nil deletes.
type Tx struct {
	m     *Model
	rows  *table.Tx // what is stored of it; the maps below that are, are its own
	now   time.Time
	insts map[wire.InstanceID]*wire.Instance
	// departed are the places of the logs of those that are deleted, and gone the namespaces
	// of the instances that are removed.
	departed map[wire.InstanceID][]wire.Placement
	gone     map[wire.InstanceID]string
	orders   map[string]*wire.Order
	routes   map[string]*wire.Route
	names    map[string]*wire.Route
	ups      map[wire.InstanceID]*wire.Reported
	whys     map[wire.InstanceID]*place.Record
	tallies  map[string]*wire.Tally
	// nudge are the workers whose desired state changes; all of them if all.
	nudge map[string]bool
	all   bool
	// sorted are the instances in order, nil where they have changed since.
	sorted []*wire.Instance
	// programs are the ids of those that were started.
	programs map[*api.Service]string
	// events in words, for people.
	events []event
}

// tx collects what one pass of the loop changes.
type tx struct {
	*Tx

	m     *model
	seals map[string]*wire.SealedSecret // nil: deleted
	net   netChanges
	// nil: deleted
	locals      map[string]*local
	conflicts   map[string]*conflict
	again       map[string]*again
	upLocals    map[string]*wire.LocalChange
	upConflicts map[string]*wire.Conflict
	rolls       map[string]*rolling
	upRolls     map[string]*wire.RolloutReport
	upJobs      map[string]*wire.JobReport
	scaled      map[string]*scaled
	profiles    map[string]*profile
	jobs        map[string]*jobRecord
	snapshots   map[string]*wire.Snapshot    // nil: deleted
	leftVolumes map[string]*wire.LeftVolumes // nil: deleted
	// doneBack is what the root said of jobs just now, since this cluster was restored.
	doneBack map[string]*wire.JobDone
	// turns are the instances of jobs that may start.
	turns map[wire.InstanceID]bool
	// relays, numbers, use, fleet and apart are made when they are first asked for.
	relays  func() []wire.Relay
	numbers func() map[[2]string]uint32
	use     map[string]*usage
	fleet   *place.Fleet
	told    map[string]bool // services of which fleet knows the rates
	// standings of namespaces, see standing; turn is that of the instance that is being
	// placed in a round.
	standings map[string]wire.Standing
	turn      *turn.Turn
	room      *room // nil as long as nobody asks for any
	// victims were displaced, and wait for another worker since.
	victims []wire.InstanceID
	// certs are the secrets with certificates, see certificates; nil before it is asked.
	certs map[string]bool
	apart map[string][]string
	// portsOf is made when it is first asked for as well; see portIndex.
	portsOf *portIndex
	// before are the shares of the revision before, see shareFor.
	before map[string]*wire.Share
	// rates by application and service, made when they are first asked for.
	rates map[string]*rates
	// stays are the instances that cannot leave a worker that is drained, with the
	// reason; waits those whose turn has not come.
	stays map[wire.InstanceID]string
	waits map[wire.InstanceID]bool
	// tried are those that make room, and whose move elsewhere came to nothing.
	tried map[wire.InstanceID]bool
	// asks are the questions to plugins, waiting the instances that
	// have no decision yet because of one, counsels what changes of where they stand
	// (nil: deleted). spared counts by plugin the instances that rom has placed while it
	// rested.
	asks     map[string]*ask
	spared   map[string]uint64
	waiting  map[wire.InstanceID]bool
	counsels map[wire.InstanceID]*counsel
	// broken are the instances that are to move for their agreement, with the reason.
	broken map[wire.InstanceID]string
	// unkept are those of which nobody here is expected to keep the agreement, with what
	// the root is told.
	unkept map[wire.InstanceID]string
	// waves are those of rollouts about which hooks are to be asked, by application and service.
	waves map[string]*waveAsk
}

type event struct{ subject, what string }

func (m *model) begin() *tx {
	base := m.Begin()
	rows := base.rows
	return &tx{
		Tx: base, m: m,
		seals:  sealTable.Changes(rows),
		net:    netChanges{leases: leaseTable.Changes(rows), told: networkTable.Changes(rows), numbers: numberTable.Changes(rows)},
		locals: localTable.Changes(rows), conflicts: conflictTable.Changes(rows), again: againTable.Changes(rows),
		upLocals: upLocalTable.Changes(rows), upConflicts: upConflictTable.Changes(rows), upRolls: upRolloutTable.Changes(rows), upJobs: upJobTable.Changes(rows),
		rolls: rollTable.Changes(rows), jobs: jobTable.Changes(rows), scaled: scaledTable.Changes(rows),
		profiles: profileTable.Changes(rows), snapshots: snapshotTable.Changes(rows), leftVolumes: leftVolumeTable.Changes(rows),
		waves: map[string]*waveAsk{},
		asks:  map[string]*ask{}, spared: map[string]uint64{}, waiting: map[wire.InstanceID]bool{}, counsels: map[wire.InstanceID]*counsel{},
		relays: sync.OnceValue(m.relays), numbers: sync.OnceValue(m.givenNumbers),
	}
}

// Begin starts a transaction.
func (m *Model) Begin() *Tx {
	rows := m.db.Begin()
	return &Tx{
		m: m, rows: rows, nudge: map[string]bool{}, gone: map[wire.InstanceID]string{},
		insts: instanceTable.Changes(rows), orders: orderTable.Changes(rows), routes: routeTable.Changes(rows), names: nameTable.Changes(rows),
		ups: upTable.Changes(rows), whys: whyTable.Changes(rows), tallies: tallyTable.Changes(rows),
	}
}

// reads is a tx for those who change nothing: it has no room for changes, and costs little.
func (m *model) reads() *tx {
	return &tx{
		Tx: &Tx{m: m.Model, rows: m.db.Begin()}, m: m,
		relays: sync.OnceValue(m.relays), numbers: sync.OnceValue(m.givenNumbers),
	}
}

// inst is the instance as this tx sees it; nil if there is none.
func (t *Tx) inst(id wire.InstanceID) *wire.Instance {
	if i, ok := t.insts[id]; ok {
		return i
	}
	return t.m.insts[id]
}

// instances as this tx sees them, by id. Nobody changes the slice: it is the same
// until an instance changes.
func (t *Tx) instances() []*wire.Instance {
	if t.sorted != nil {
		return t.sorted
	}
	n := len(t.m.insts)
	for id, i := range t.insts {
		if _, stored := t.m.insts[id]; stored {
			n--
		}
		if i != nil {
			n++
		}
	}
	out := make([]*wire.Instance, 0, n)
	// The order is that of the ids, which are almost always those of last time.
	for _, id := range t.m.byName {
		if i := t.inst(id); i != nil {
			out = append(out, i)
		}
	}
	if len(out) != n {
		out = out[:0]
		for _, i := range records.Merged(t.m.insts, t.insts) {
			out = append(out, i)
		}
		slices.SortFunc(out, byName)
		ids := make([]wire.InstanceID, n)
		for k, i := range out {
			ids[k] = i.ID
		}
		t.m.byName = ids
	}
	t.sorted = out
	return out
}

// byName compares no more than it must: most are of other services.
func byName(a, b *wire.Instance) int {
	if c := cmp.Compare(a.App, b.App); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Service, b.Service); c != 0 {
		return c
	}
	return cmp.Compare(a.Ordinal, b.Ordinal)
}

// put records an instance if it differs from what is there.
func (t *Tx) put(i wire.Instance) {
	old := t.m.insts[i.ID]
	if old != nil && old.Worker != i.Worker {
		i.Places = left(old, i.Places)
	}
	same := old != nil && records.Identical(old, &i) // as most are, which takes no memory
	if !same {
		next := i
		if same = old != nil && records.Same(old, &next); !same {
			t.insts[next.ID], t.sorted = &next, nil
			return
		}
	}
	if _, changed := t.insts[i.ID]; changed {
		delete(t.insts, i.ID) // back to what is stored
		t.sorted = nil
	}
}

func (t *Tx) remove(id wire.InstanceID) {
	if i := t.m.insts[id]; i != nil {
		t.gone[id] = t.m.spaceOf(i)
		if t.departed == nil {
			t.departed = map[wire.InstanceID][]wire.Placement{}
		}
		t.departed[id] = left(i, i.Places)
	}
	t.insts[id], t.sorted = nil, nil
	t.whys[id] = nil
}

// order gives a worker an order, or (nil) takes it back.
func (t *Tx) order(worker, id string, o *wire.Order) {
	key := worker + "." + id
	old, ok := t.m.orders[key]
	if (o == nil && !ok) || (o != nil && ok && records.Same(old, o)) {
		delete(t.orders, key)
		return
	}
	t.orders[key] = o
	t.nudge[worker] = true
}

func (t *Tx) event(subject, format string, args ...any) {
	t.events = append(t.events, event{subject, fmt.Sprintf(format, args...)})
}

// note keeps account of an instance that was stored, or (nil) is no more.
func (m *Model) note(id wire.InstanceID, i *wire.Instance) {
	if i != nil && i.Leaving != nil {
		m.leaving[id] = true
	} else {
		delete(m.leaving, id)
	}
}

// Done implements keeper.Tx.
func (t *Tx) Done() {
	m := t.m
	t.rows.Done()
	for id, i := range t.insts {
		m.note(id, i)
	}
	for name, rec := range workerTable.Changes(t.rows) {
		m.known(name, rec, t.now)
	}
	for name, w := range m.workers {
		if t.all || t.nudge[name] {
			w.current = false
		}
	}
}

// Done implements keeper.Tx.
func (t *tx) Done() {
	t.Tx.Done()
	if len(t.scaled)+len(t.rolls)+len(t.locals)+len(t.again) > 0 {
		t.m.effect(slices.Concat(records.SortedKeys(t.scaled), records.SortedKeys(t.rolls), records.SortedKeys(t.locals), records.SortedKeys(t.again))...)
	}
}

// known takes over what is stored of a worker, or (nil) that it is no more.
func (m *Model) known(name string, rec *workerRecord, now time.Time) {
	switch w := m.workers[name]; {
	case rec == nil:
		delete(m.workers, name)
	case w != nil:
		w.learn(*rec, m.site.Labels)
	default:
		w = newWorker(*rec, now)
		w.learn(*rec, m.site.Labels)
		m.workers[name] = w
	}
}

// used is what the instances placed on each worker reserve, and how many of
// them belong to each service.
type usage struct {
	used api.Resources
	same map[string]int
	n    int // of all instances
	// held is what of its devices is taken, in thousandths, by their ids; nil: nothing.
	held map[string]api.Units
}

// add counts an instance.
func (u *usage) add(i *wire.Instance) {
	if u.same == nil {
		u.same = map[string]int{}
	}
	u.same[i.App+"."+i.Service]++
	u.n++
}

func (t *tx) usage() map[string]*usage {
	out, all := make(map[string]*usage, len(t.m.workers)), make([]usage, len(t.m.workers))
	for name := range t.m.workers {
		out[name], all = &all[0], all[1:]
	}
	add := func(worker string, i *wire.Instance) {
		u := out[worker]
		if u == nil {
			return
		}
		// What it is to be may ask for more than what it is, or for less; until it is
		// updated it takes the larger of both.
		var r api.Resources
		if s := t.m.shares[i.App+"."+i.Service]; s != nil {
			r = s.Spec.Resources
		}
		if o := t.ordered(worker + "." + i.ID); asleep(i) && i.Worker == worker {
			r = api.Resources{} // until somebody asks for it, and its worker finds room
		} else if o != nil && o.Spec != nil {
			r = amount.Larger(r, o.Spec.Resources)
		}
		u.used = amount.Add(u.used, r)
		u.add(i)
	}
	t.held(out)
	for _, i := range t.instances() {
		if i.Worker != "" && i.State != wire.Terminated && i.State != wire.Failed {
			add(i.Worker, i)
		}
		if underWay(i) {
			add(i.Moving.Worker, i)
		}
		if i.Leaving != nil {
			add(i.Leaving.Worker, i)
		}
		// What may come back with a lost worker still takes room there.
		if i.Shadow != nil && i.Shadow.Worker != i.Worker {
			add(i.Shadow.Worker, i)
		}
	}
	return out
}
