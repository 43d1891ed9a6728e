package state

import (
	"cmp"
	"fmt"
	"time"

	"github.com/verge-edge/verge/internal/backup"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/policy/lease/grant"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of the root's store.
const (
	KeyApp       = "app."     // + name: record.Application
	KeyInstance  = "inst."    // + id: wire.Instance, the root's part of its life
	KeyWhy       = "why."     // + id: place.Record
	KeyShare     = "to."      // + cluster.app.service: wire.Share
	KeyRoute     = "route."   // + app.service: wire.Route, for all clusters
	KeyNamespace = "ns."      // + name: record.Namespace
	KeyCluster   = "cluster." // + name: ClusterRecord
	KeyGone      = "gone."    // + hash of a key: enroll.Gone, of clusters
	KeyRevoked   = "revoked." // + who says so.hash of a key: wire.Revocation, for all clusters
)

// Model is all that a root knows. It is only touched under the lock of its
// owner; changes to what is stored go through a Tx. What serves one
// feature is a table or a memory of its package.
type Model struct {
	DB       *table.DB // what is stored; maps of it are here as well, see Bind
	Apps     map[string]*record.Application
	Insts    map[wire.InstanceID]*wire.Instance
	Shares   map[string]*wire.Share // by cluster.app.service
	Routes   map[string]*wire.Route // by app.service
	Clusters map[string]*Cluster
	// Namespaces that have a record, see namespaces.Has.
	Namespaces map[string]*record.Namespace
	Gone       map[string]*enroll.Gone     // keys of clusters that are revoked, by hash
	Revoked    map[string]*wire.Revocation // what all clusters are told
	// Rehearsing: this is a copy, of a plan.
	Rehearsing bool
	Process
	// Settled: a pass has decided on everything since all that a recovery asked for had come.
	Settled bool
	Unread  []records.Unread // stored records that cannot be read
	// index are the ids of insts by app.service; nil when it must be made again.
	index map[string][]wire.InstanceID
}

// Process is what this process knows beside the store: a model that is read again keeps it.
type Process struct {
	// DeadAfter is how long a cluster may be away before what it ran is placed
	// elsewhere.
	DeadAfter time.Duration
	Alone     bool // no cluster is heard: it may be this root that is cut off
	// Proven are the states of other eras that clusters have proved, by cluster.
	Proven map[string]wire.Rev
}

// NewModel returns what a root knows that has stored nothing.
func NewModel(deadAfter time.Duration) *Model {
	return newModel(Process{DeadAfter: deadAfter, Proven: map[string]wire.Rev{}})
}

func newModel(p Process) *Model {
	m := &Model{Clusters: map[string]*Cluster{}, Process: p}
	m.Bind(Schema.New())
	return m
}

// Again returns a model to which what is stored is added anew. It keeps what the process knows.
func (m *Model) Again() *Model {
	next := newModel(m.Process)
	next.DB.Inherit(m.DB)
	return next
}

// KeepClusters keeps what old knows of the clusters that are still registered.
func (m *Model) KeepClusters(old *Model) {
	for name, cl := range m.Clusters {
		if was := old.Clusters[name]; was != nil {
			was.follow(&cl.ClusterRecord)
			m.Clusters[name] = was
		}
	}
}

// Bind makes db what is stored.
func (m *Model) Bind(db *table.DB) {
	m.DB = db
	m.Apps, m.Insts, m.Shares, m.Routes = AppTable.Rows(db), instanceTable.Rows(db), shareTable.Rows(db),
		routeTable.Rows(db)
	m.Namespaces, m.Gone, m.Revoked = NamespaceTable.Rows(db), GoneTable.Rows(db), revokedTable.Rows(db)
	m.index = nil
}

// Loaded makes what follows from what is stored, once that was loaded.
func (m *Model) Loaded(now time.Time) {
	for name, rec := range ClusterTable.Rows(m.DB) {
		m.Clusters[name] = NewCluster(*rec, now)
	}
	for _, d := range derived {
		if d.Loaded != nil {
			d.Loaded(m)
		}
	}
}

// ServiceNetwork is the network of all instances; nil: there is none yet.
func (m *Model) ServiceNetwork() *grant.Network { return NetworkTable.One(m.DB) }

// Mark of a recovery; nil: there is none.
func (m *Model) Mark() *backup.Mark { return MarkTable.One(m.DB) }

// Past is what recoveries have settled; nil: there was none.
func (m *Model) Past() *backup.Settled { return SettledTable.One(m.DB) }

// ByName compares by application, service and ordinal.
func ByName(a, b *wire.Instance) int {
	if c := cmp.Compare(a.App, b.App); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Service, b.Service); c != 0 {
		return c
	}
	return cmp.Compare(a.Ordinal, b.Ordinal)
}

// ByService are the ids of the stored instances by app.service.
func (m *Model) ByService() map[string][]wire.InstanceID {
	if m.index == nil {
		m.index = make(map[string][]wire.InstanceID, len(m.Insts))
		for id, i := range m.Insts {
			key := i.App + "." + i.Service
			m.index[key] = append(m.index[key], id)
		}
	}
	return m.index
}

// InstanceID is the id of an instance.
func InstanceID(app, svc string, ordinal int) wire.InstanceID {
	return fmt.Sprintf("%s.%s.%d", app, svc, ordinal)
}
