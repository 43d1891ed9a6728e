package state

import (
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/hooks"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Tx collects what one pass of the loop changes. Nothing of it is seen by anyone
// before it is durable. A nil value deletes.
type Tx struct {
	sorted []*wire.Instance // all, see Instances; nil where they have changed since
	Model  *Model
	Rows   *table.Tx // what is stored of it; the maps below that are, are its own
	Now    time.Time // of a change that somebody asked for, see core.Update
	Apps   map[string]*record.Application
	Insts  map[wire.InstanceID]*wire.Instance
	Whys   map[wire.InstanceID]*place.Record
	Shares map[string]*wire.Share
	Routes map[string]*wire.Route
	// Revoked is what all clusters are told about keys.
	Revoked map[string]*wire.Revocation
	// touched are the keys of insts by app.service.
	touched map[string]map[wire.InstanceID]struct{}
	// Nudge are the clusters whose desired state changes; all of them if All.
	Nudge  map[string]bool
	All    bool
	Events []event.Event
	// Notices for hooks.
	Notices []hooks.Notice
}

// Begin starts a transaction.
func (m *Model) Begin() *Tx {
	rows := m.DB.Begin()
	return &Tx{
		Model: m, Rows: rows, Apps: AppTable.Changes(rows), Insts: instanceTable.Changes(rows),
		Whys:   whyTable.Changes(rows),
		Shares: shareTable.Changes(rows), Routes: routeTable.Changes(rows), Revoked: revokedTable.Changes(rows),
		Nudge: map[string]bool{}, touched: map[string]map[wire.InstanceID]struct{}{},
	}
}

// Read is a tx for those who change nothing: it has no room for changes, and costs little.
func (m *Model) Read() *Tx { return &Tx{Model: m, Rows: m.DB.Begin()} }

// Event notes what people are told once the transaction is stored.
func (t *Tx) Event(kind event.Kind, name, format string, args ...any) {
	t.Events = append(t.Events, kind.On(name, format, args...))
}

// Inst is the instance as this tx sees it; nil if there is none.
func (t *Tx) Inst(id wire.InstanceID) *wire.Instance {
	if i, ok := t.Insts[id]; ok {
		return i
	}
	return t.Model.Insts[id]
}

// Put records an instance if it differs from what is there.
func (t *Tx) Put(i wire.Instance) {
	if old := t.Model.Insts[i.ID]; old != nil && records.Same(old, &i) {
		if _, changed := t.Insts[i.ID]; changed {
			delete(t.Insts, i.ID) // back to what is stored
			t.sorted = nil
		}
		return
	}
	t.Insts[i.ID], t.sorted = &i, nil
	key := i.App + "." + i.Service
	if t.touched[key] == nil {
		t.touched[key] = map[wire.InstanceID]struct{}{}
	}
	t.touched[key][i.ID] = struct{}{}
}

// Remove forgets an instance, which has ended.
func (t *Tx) Remove(id wire.InstanceID, now time.Time) {
	if i := t.Model.Insts[id]; i != nil && !t.Model.Right(i) {
		t.Note(event.InstanceEnded, i, now, "Terminated: no longer wanted")
	}
	t.Insts[id], t.Whys[id], t.sorted = nil, nil, nil
}

// Instances of one application (of all where app is ""), as this tx sees them, by
// application, service and ordinal. The cost is that of looking at all. Nobody changes
// the slice: that of all is the same until an instance changes.
func (t *Tx) Instances(app string) []*wire.Instance {
	if app == "" && t.sorted != nil {
		return t.sorted
	}
	var out []*wire.Instance
	for _, i := range records.Merged(t.Model.Insts, t.Insts) {
		if app == "" || i.App == app {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, ByName)
	if app == "" {
		t.sorted = out
	}
	return out
}

// Of are the instances of one service, as this tx sees them, by ordinal. The cost
// is that of looking at these.
func (t *Tx) Of(app, service string) []*wire.Instance {
	key := app + "." + service
	var out []*wire.Instance
	for _, id := range t.Model.ByService()[key] {
		if _, changed := t.Insts[id]; !changed {
			out = append(out, t.Model.Insts[id])
		}
	}
	for id := range t.touched[key] {
		if i := t.Insts[id]; i != nil {
			out = append(out, i)
		}
	}
	slices.SortFunc(out, ByName)
	return out
}

// Done implements keeper.Tx: what the tx changed is part of the model.
func (t *Tx) Done() {
	t.Rows.Done()
	t.Model.index = nil
	for name, rec := range ClusterTable.Changes(t.Rows) {
		t.Model.putCluster(name, rec)
	}
	for name, c := range t.Model.Clusters {
		if t.All || t.Nudge[name] {
			c.Current = false // until it says that it has what has changed
		}
	}
	for _, d := range derived {
		if d.Done != nil {
			d.Done(t)
		}
	}
}

// App as this tx sees it; nil if there is none.
func (t *Tx) App(name string) *record.Application {
	if a, ok := t.Apps[name]; ok {
		return a
	}
	return t.Model.Apps[name]
}

// Advance returns i after a step. A step that is not allowed is refused, and people are told.
func (t *Tx) Advance(i wire.Instance, to wire.State, now time.Time, why string) wire.Instance {
	next, err := life.Advance(i, to, now, Tier, why)
	if err != nil {
		t.Event(event.InstanceRefused, i.ID, "refused: %v", err)
		return i
	}
	next.Reason = why
	return next
}

// End starts the end of an instance: it is taken out of what is delegated, and
// forgotten when no cluster has it any more.
func (t *Tx) End(i wire.Instance, now time.Time) {
	if i.Draining {
		return
	}
	if i.Cluster == "" {
		next := t.Advance(i, wire.Terminated, now, "no longer wanted")
		if !t.Model.Right(&i) {
			t.Event(event.InstanceEnded, i.ID, "%s: %s", next.State, next.Reason)
		}
		t.Remove(i.ID, now)
		return
	}
	i.Draining = true
	t.Put(i)
}

// Encode implements keeper.Tx.
func (t *Tx) Encode() ([][]bus.Op, error) {
	groups, err := t.Rows.Encode()
	if err != nil {
		t.sorted = nil // some may have been left
	}
	return groups, err
}
