package state

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/standing/publish"
	"github.com/verge-edge/verge/internal/policy/suspicion"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// NamespaceOf an instance; "" where it has no share any more. The site's operators
// see it all the same.
func (m *Model) NamespaceOf(i *wire.Instance) string {
	s := m.Shares[i.App+"."+i.Service]
	if s == nil {
		return ""
	}
	return cmp.Or(s.Namespace, api.DefaultNamespace)
}

// Namespace of an application that has a share here, or that the root runs
// elsewhere; else "".
func (m *Model) Namespace(app string) string {
	for _, s := range m.Shares {
		if s.App == app {
			return cmp.Or(s.Namespace, api.DefaultNamespace)
		}
	}
	for _, r := range m.Far {
		if r.App == app {
			return cmp.Or(r.Namespace, api.DefaultNamespace)
		}
	}
	return ""
}

// HoldOnce lets orders that are as their share says have its descriptor and not a copy:
// that they are alike is then seen at a glance, and held once.
func (m *Model) HoldOnce() {
	for _, o := range m.Orders {
		if s := m.Shares[o.App+"."+o.Service]; s != nil && o.Revision == s.Revision &&
			reflect.DeepEqual(o.Spec, s.Spec) {
			o.Spec = s.Spec
		}
	}
}

// Away says whether a worker is suspect.
func (m *Model) Away(worker string) bool {
	w := m.Workers[worker]
	return w != nil && w.Suspect
}

// WorkerNames are those of all workers in order, which are almost always those of last
// time. Nobody changes the slice.
func (m *Model) WorkerNames() []string {
	missing := func(name string) bool { return m.Workers[name] == nil }
	if len(m.listed) != len(m.Workers) || slices.ContainsFunc(m.listed, missing) {
		m.listed = records.SortedKeys(m.Workers)
	}
	return m.listed
}

// Serves is the worker on which requests for an instance may be answered, nil if
// there is none. lost: it is a lost placement that nobody has replaced yet. It may
// run all the same, and a try is better than a certain refusal. A worker whose key was
// revoked answers nobody.
func (m *Model) Serves(i *wire.Instance) (w *Worker, lost bool) {
	switch {
	case i.Draining:
		return nil, false
	case i.State == wire.Running && i.Ready, Asleep(i):
		w = m.Workers[i.Worker]
	case i.Shadow != nil && i.State != wire.Terminated:
		w, lost = m.Workers[i.Shadow.Worker], true
	}
	if w != nil && !w.Revoked.IsZero() {
		return nil, false
	}
	return w, lost
}

// SpaceOf is the namespace of an instance, also where its share is gone already.
func (m *Model) SpaceOf(i *wire.Instance) string {
	if ns := m.NamespaceOf(i); ns != "" {
		return ns
	}
	if o := m.Orders[i.Worker+"."+i.ID]; o != nil {
		return wire.OrderNamespace(o)
	}
	return m.Namespace(i.App)
}

// Revoked are all revoked keys, as far as they are known here.
func (m *Model) Revoked() []string {
	out := make([]string, 0, len(m.Gone)+len(m.farGone))
	for hash := range m.Gone {
		out = append(out, pki.RevokedBy(m.Name, hash))
	}
	for key, r := range m.farGone {
		out = append(out, pki.RevokedBy(r.Cluster, key[strings.LastIndexByte(key, '.')+1:]))
	}
	return out
}

// HaveRecord is the revision of the root's desired state that is stored, and the proof
// that the root gave with it.
type HaveRecord struct {
	wire.Rev
	Proof []byte `json:"proof,omitempty"`
	// Parts of the desired state that were understood when all of it was fetched last. A root
	// of a newer version sent more, which was left out.
	Parts []string `json:"parts,omitempty"`
}

// Model is what all parts of a cluster know. It is only used under the lock of its
// owner; changes to what is stored go through a Tx.
type Model struct {
	Process
	DB *table.DB // all that is stored; the maps of records below are its own, see Bind
	// Shares are the effective ones: the root's (FromRoot) merged with local changes.
	Shares   map[string]*wire.Share
	FromRoot map[string]*wire.Share
	Far      map[string]*wire.Route
	Insts    map[wire.InstanceID]*wire.Instance
	byName   []wire.InstanceID // as they were sorted last, see Tx.instances
	listed   []string          // the names of workers as they were sorted last, see WorkerNames
	// Leaving are those of insts that have a Leaving.
	Leaving  map[wire.InstanceID]bool
	Orders   map[string]*wire.Order // by key without prefix: worker.id
	Routes   map[string]*wire.Route
	Names    map[string]*wire.Route // the routes without endpoints
	Ups      map[wire.InstanceID]*wire.Reported
	Counters map[string]*wire.Counters // by application, or wire.GoneCounters
	Workers  map[string]*Worker
	// Gone and farGone are the revoked keys, by hash: of this cluster, and of others.
	Gone    map[string]*enroll.Gone
	farGone map[string]*wire.Revocation
	// Rehearsing: this is a copy, in which time stands still.
	Rehearsing bool
	Recovery   recovery
	// Unread are the stored records that cannot be read.
	Unread []records.Unread
}

// Process is what does not come from the store: the settings, and what this process learned.
type Process struct {
	Name    string
	Details bool // whether details about workers may leave the cluster
	Site    wire.Site
	// Scheduler of services that name none; "" is rom.
	Scheduler string
	// Peer gives the opaque name of a worker for routers of other clusters.
	Peer func(worker string) string
	// Started is when this process did, Waits from when workers get time to report
	// before silence counts: then, or when it was no longer cut off.
	Started, Waits time.Time
	Alone          bool // nobody is heard: it may be this cluster that is cut off
	RootHeard      bool // an exchange with the root has come to its end
	// Proven are the states of other eras that the root and workers have proved, by peer.
	Proven map[string]wire.Rev
}

// NewModel returns what a cluster knows that has stored nothing.
func NewModel(name string, details bool, now time.Time) *Model {
	return newModel(Process{Name: name, Details: details, Started: now, Waits: now,
		Peer: func(w string) string { return w }, Proven: map[string]wire.Rev{}})
}

func newModel(p Process) *Model {
	m := &Model{Process: p, Shares: map[string]*wire.Share{}, Leaving: map[string]bool{},
		Workers: map[string]*Worker{}}
	m.Bind(Schema.New())
	return m
}

// Again returns a model that has what m knows of the process, and no records: they are read anew.
func (m *Model) Again() *Model {
	next := newModel(m.Process)
	next.DB.Inherit(m.DB)
	return next
}

// KeepWorkers keeps what old knows of the workers that are still registered.
func (m *Model) KeepWorkers(old *Model) {
	for name, w := range m.Workers {
		if was := old.Workers[name]; was != nil {
			was.WorkerRecord, was.Labels = w.WorkerRecord, w.Labels
			m.Workers[name] = was
		}
	}
}

// Bind makes db what is stored.
func (m *Model) Bind(db *table.DB) {
	m.DB = db
	m.FromRoot, m.Far, m.farGone, m.Gone = FromRootTable.Rows(db), FarTable.Rows(db), FarGoneTable.Rows(db),
		GoneTable.Rows(db)
	m.Insts, m.Orders, m.Routes, m.Names = InstanceTable.Rows(db), OrderTable.Rows(db), RouteTable.Rows(db),
		NameTable.Rows(db)
	m.Ups, m.Counters = UpTable.Rows(db), CountersTable.Rows(db)
}

// Clone shares no state with m but records, which nobody modifies.
func (m *Model) Clone() *Model {
	c := *m
	c.Bind(m.DB.Clone())
	c.Shares, c.Leaving, c.Proven = maps.Clone(m.Shares), maps.Clone(m.Leaving), maps.Clone(m.Proven)
	c.byName, c.listed, c.Unread = slices.Clone(m.byName), slices.Clone(m.listed), slices.Clone(m.Unread)
	c.Workers = records.CloneEach(m.Workers)
	for _, w := range c.Workers {
		w.Status, w.Labels, w.Place = maps.Clone(w.Status), maps.Clone(w.Labels), slices.Clone(w.Place)
		w.Inbox = w.Inbox.Heading() // it hears no reports
	}
	return &c
}

// Loaded makes what follows from what is stored, once that was loaded.
func (m *Model) Loaded(now time.Time) {
	for id, i := range m.Insts {
		m.note(id, i)
	}
	for name, rec := range WorkerTable.Rows(m.DB) {
		rec.settle()
		m.known(name, rec, now)
	}
	for _, d := range derived {
		if d.Loaded != nil {
			d.Loaded(m)
		}
	}
}

// Past is what recoveries have settled; nil: there was none.
func (m *Model) Past() *backup.Settled { return SettledTable.One(m.DB) }

// Mark of a recovery; nil: there is none.
func (m *Model) Mark() *backup.Mark { return MarkTable.One(m.DB) }

// Have is the revision of the root's desired state that is stored.
func (m *Model) Have() HaveRecord {
	if h := HaveTable.One(m.DB); h != nil {
		return *h
	}
	return HaveRecord{}
}

// note keeps account of an instance that was stored, or (nil) is no more.
func (m *Model) note(id wire.InstanceID, i *wire.Instance) {
	if i != nil && i.Leaving != nil {
		m.Leaving[id] = true
	} else {
		delete(m.Leaving, id)
	}
}

// known takes over what is stored of a worker, or (nil) that it is no more.
func (m *Model) known(name string, rec *WorkerRecord, now time.Time) {
	switch w := m.Workers[name]; {
	case rec == nil:
		delete(m.Workers, name)
	case w != nil:
		w.Learn(*rec, m.Site.Labels)
	default:
		w = NewWorker(*rec, now)
		w.Learn(*rec, m.Site.Labels)
		m.Workers[name] = w
	}
}

// Tier is how this cluster signs transitions.
func (m *Model) Tier() string { return "cluster/" + m.Name }

// ReplaceAfter is how long a suspect worker may keep an instance: as the service
// says, and longer if its agent announced a restart.
func (m *Model) ReplaceAfter(i *wire.Instance, w *Worker) time.Duration {
	after := api.DefaultReplaceAfter.Std()
	if s := m.Shares[i.App+"."+i.Service]; s != nil && s.Spec.ReplaceAfter != nil {
		after = s.Spec.ReplaceAfter.Std()
	}
	if w.Leaving {
		after += suspicion.AnnouncedGrace
	}
	return after
}

// TheRoot stands for the root among those that a restored cluster must hear. No
// worker has such a name.
const TheRoot = "="

// recovery is how far a restored cluster is.
type recovery struct {
	// Stored is the last sequence number of the store as a pass begins.
	Stored uint64
	// Settled: a pass has decided on everything since the root was heard.
	Settled bool
}

// Unasked says whether the root or a worker must still be heard.
func (m *Model) Unasked(name string) bool {
	return m.Mark() != nil && m.Mark().Asked[name].IsZero()
}

// Silent says whether the worker is told nothing yet, and keeps what it has.
func (m *Model) Silent(name string) bool {
	return m.Mark() != nil && (m.Unasked(TheRoot) || m.Unasked(name) || !m.Recovery.Settled)
}

// Asleep says whether an instance is placed, and starts with the first request.
func Asleep(i *wire.Instance) bool { return i.State == wire.WorkerScheduled && i.Asleep }

// Counted is all that was ever counted here.
func (m *Model) Counted() (sum wire.Counters) {
	for _, n := range m.Counters {
		sum = sum.Plus(*n)
	}
	return sum
}

// Running are the instances that the silence of a worker affects, by worker.
func (m *Model) Running() map[string][]*wire.Instance {
	out := map[string][]*wire.Instance{}
	for _, i := range m.Insts {
		if (i.State == wire.Running || i.State == wire.WorkerScheduled) && !i.Draining {
			out[i.Worker] = append(out[i.Worker], i)
		}
	}
	return out
}

// Publish is what namespaces may publish, by the root's word; of others it is the default.
func (m *Model) Publish() publish.Rules { return PublishTable.Rows(m.DB) }
