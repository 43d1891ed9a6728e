package state

import (
	"cmp"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/policy/life"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Encode implements keeper.Tx.
func (t *Tx) Encode() ([][]bus.Op, error) {
	groups, err := t.Rows.Encode()
	if err != nil {
		t.sorted = nil // some may have been left
	}
	return groups, err
}

// maxPlaces are the former places that are remembered of an instance.
const maxPlaces = 3

// Left is places with the one that i has, which it leaves, before them.
func Left(i *wire.Instance, places []wire.Placement) []wire.Placement {
	was := wire.Placement{Worker: i.Worker, Incarnation: i.Incarnation}
	if was.Worker == "" || slices.Contains(places, was) {
		return places
	}
	return slices.Concat([]wire.Placement{was}, places[:min(len(places), maxPlaces-1)])
}

// Tx collects what one pass changes of what all parts know. Nothing of it is seen by anyone
// before it is durable. Of its maps nil deletes.
type Tx struct {
	Model *Model
	Rows  *table.Tx // what is stored of it; the maps below that are, are its own
	Now   time.Time
	Insts map[wire.InstanceID]*wire.Instance
	// Departed are the places of the logs of those that are deleted, and gone the namespaces
	// of the instances that are removed.
	Departed map[wire.InstanceID][]wire.Placement
	Gone     map[wire.InstanceID]string
	Orders   map[string]*wire.Order
	Routes   map[string]*wire.Route
	Names    map[string]*wire.Route
	Ups      map[wire.InstanceID]*wire.Reported
	Whys     map[wire.InstanceID]*place.Record
	Counters map[string]*wire.Counters
	// Nudge are the workers whose desired state changes; all of them if all.
	Nudge map[string]bool
	All   bool
	// sorted are the instances in order, nil where they have changed since.
	sorted []*wire.Instance
	// programs are the ids of those that were started.
	programs map[*api.Service]string
	// Events in words, for people.
	Events []event.Event
}

// Begin starts a transaction.
func (m *Model) Begin() *Tx {
	rows := m.DB.Begin()
	return &Tx{
		Model: m, Rows: rows, Nudge: map[string]bool{}, Gone: map[wire.InstanceID]string{},
		Insts: InstanceTable.Changes(rows), Orders: OrderTable.Changes(rows), Routes: RouteTable.Changes(rows),
		Names: NameTable.Changes(rows),
		Ups:   UpTable.Changes(rows), Whys: WhyTable.Changes(rows), Counters: CountersTable.Changes(rows),
	}
}

// Read returns a transaction for those who change nothing: it has no room for changes, and
// costs little.
func (m *Model) Read() *Tx { return &Tx{Model: m, Rows: m.DB.Begin()} }

// Inst is the instance as this tx sees it; nil if there is none.
func (t *Tx) Inst(id wire.InstanceID) *wire.Instance {
	if i, ok := t.Insts[id]; ok {
		return i
	}
	return t.Model.Insts[id]
}

// Instances as this tx sees them, by id. Nobody changes the slice: it is the same
// until an instance changes.
func (t *Tx) Instances() []*wire.Instance {
	if t.sorted != nil {
		return t.sorted
	}
	n := len(t.Model.Insts)
	for id, i := range t.Insts {
		if _, stored := t.Model.Insts[id]; stored {
			n--
		}
		if i != nil {
			n++
		}
	}
	out := make([]*wire.Instance, 0, n)
	// The order is that of the ids, which are almost always those of last time.
	for _, id := range t.Model.byName {
		if i := t.Inst(id); i != nil {
			out = append(out, i)
		}
	}
	if len(out) != n {
		out = out[:0]
		for _, i := range records.Merged(t.Model.Insts, t.Insts) {
			out = append(out, i)
		}
		slices.SortFunc(out, ByName)
		ids := make([]wire.InstanceID, n)
		for k, i := range out {
			ids[k] = i.ID
		}
		t.Model.byName = ids
	}
	t.sorted = out
	return out
}

// ByName compares no more than it must: most are of other services.
func ByName(a, b *wire.Instance) int {
	if c := cmp.Compare(a.App, b.App); c != 0 {
		return c
	}
	if c := cmp.Compare(a.Service, b.Service); c != 0 {
		return c
	}
	return cmp.Compare(a.Ordinal, b.Ordinal)
}

// Put records an instance if it differs from what is there.
func (t *Tx) Put(i wire.Instance) {
	old := t.Model.Insts[i.ID]
	if old != nil && old.Worker != i.Worker {
		i.Places = Left(old, i.Places)
	}
	same := old != nil && records.Identical(old, &i) // as most are, which takes no memory
	if !same {
		next := i
		if same = old != nil && records.Same(old, &next); !same {
			t.Insts[next.ID], t.sorted = &next, nil
			return
		}
	}
	if _, changed := t.Insts[i.ID]; changed {
		delete(t.Insts, i.ID) // back to what is stored
		t.sorted = nil
	}
}

// Remove deletes an instance, and the reason why it was where it was.
func (t *Tx) Remove(id wire.InstanceID) {
	if i := t.Model.Insts[id]; i != nil {
		t.Gone[id] = t.Model.SpaceOf(i)
		if t.Departed == nil {
			t.Departed = map[wire.InstanceID][]wire.Placement{}
		}
		t.Departed[id] = Left(i, i.Places)
	}
	t.Insts[id], t.sorted = nil, nil
	t.Whys[id] = nil
}

// Order gives a worker an order, or (nil) takes it back.
func (t *Tx) Order(worker, id string, o *wire.Order) {
	key := worker + "." + id
	old, ok := t.Model.Orders[key]
	if (o == nil && !ok) || (o != nil && ok && records.Same(old, o)) {
		delete(t.Orders, key)
		return
	}
	t.Orders[key] = o
	t.Nudge[worker] = true
}

// Event notes what people are told once the transaction is stored.
func (t *Tx) Event(kind event.Kind, name, format string, args ...any) {
	t.Events = append(t.Events, kind.On(name, format, args...))
}

// Done implements keeper.Tx.
func (t *Tx) Done() {
	m := t.Model
	t.Rows.Done()
	for id, i := range t.Insts {
		m.note(id, i)
	}
	for name, rec := range WorkerTable.Changes(t.Rows) {
		m.known(name, rec, t.Now)
	}
	if t.All {
		for _, w := range m.Workers {
			w.Current = false
		}
	}
	for name := range t.Nudge {
		if w := m.Workers[name]; w != nil {
			w.Current = false
		}
	}
	for _, d := range derived {
		if d.Done != nil {
			d.Done(t)
		}
	}
}

// Ordered is the order under a key as this tx leaves it; nil if there is none.
func (t *Tx) Ordered(key string) *wire.Order {
	if o, ok := t.Orders[key]; ok {
		return o
	}
	return t.Model.Orders[key]
}

// Advance returns i after a step for a reason by which nothing is decided. A step that is not
// allowed is refused, and people are told.
func (t *Tx) Advance(i wire.Instance, to wire.State, now time.Time, tier, why string) wire.Instance {
	return t.AdvanceFor(i, to, now, tier, "", why)
}

// AdvanceFor is Advance with a cause.
func (t *Tx) AdvanceFor(i wire.Instance, to wire.State, now time.Time, tier string, cause wire.Cause,
	why string) wire.Instance {
	next, err := life.AdvanceFor(i, to, now, tier, cause, why)
	if err != nil {
		t.Event(event.InstanceRefused, i.ID, "refused: %v", err)
		return i
	}
	next.Reason = why
	return next
}

// Program is the id of what a service runs, worked out once: it is a hash of much.
func (t *Tx) Program(s *api.Service) string {
	id, ok := t.programs[s]
	if !ok {
		if t.programs == nil {
			t.programs = map[*api.Service]string{}
		}
		id = s.ProgramID()
		t.programs[s] = id
	}
	return id
}

// Count adds to the count of an application.
func (t *Tx) Count(app string, n wire.Counters) {
	if old := t.Counters[app]; old != nil {
		n = n.Plus(*old)
	} else if old := t.Model.Counters[app]; old != nil {
		n = n.Plus(*old)
	}
	t.Counters[app] = &n
}
