package routes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// usesTable is what each worker says it uses.
var usesTable = table.Add[usesMark](&state.Schema,
	records.Kind{Prefix: KeyUses, Fate: records.Holds, Drop: "it is made anew"})

// Keys of what workers say that they use. A worker of which there is UsesOnly is told
// the endpoints of these services alone; of all others it is told all.
const (
	KeyUses = "uses." // + worker. + one of the following
	// UsesOnly is there as long as the worker says what it uses.
	UsesOnly    = "only"
	UsesApp     = "a." // + application
	usesService = "s." // + app.service
)

// usesMark is one thing that a worker uses; its key says what.
type usesMark struct{}

// Uses is what a worker says that it uses.
type Uses struct {
	Marks map[string]bool // UsesOnly, and UsesApp and usesService with what follows
}

// has says whether the worker is told the endpoints of a service; nil says all.
func (u *Uses) has(key string) bool {
	if u == nil {
		return true
	}
	app, _, _ := strings.Cut(key, ".")
	return u.Marks[usesService+key] || u.Marks[UsesApp+app]
}

// MarksOf are the marks of a statement; nil where the worker is told all.
func MarksOf(s *wire.Uses) (map[string]bool, error) {
	if s == nil || s.All {
		return nil, nil
	}
	if len(s.Apps)+len(s.Services) > wire.MaxUses {
		return nil, fmt.Errorf("it says that it uses %d services, at most %d are read", len(s.Apps)+len(s.Services),
			wire.MaxUses)
	}
	marks := make(map[string]bool, 1+len(s.Apps)+len(s.Services))
	marks[UsesOnly] = true
	for _, app := range s.Apps {
		if !enroll.IsName(app) {
			return nil, fmt.Errorf("%.80q is no name of an application", app)
		}
		marks[UsesApp+app] = true
	}
	for _, key := range s.Services {
		app, service, _ := strings.Cut(key, ".")
		if !enroll.IsName(app) || !enroll.IsName(service) {
			return nil, fmt.Errorf("%.150q is no name of a service", key)
		}
		marks[usesService+key] = true
	}
	return marks, nil
}

// SetUses notes what a worker uses, by marks; nil: it is told all.
func SetUses(t *state.Tx, worker string, marks map[string]bool) {
	var had map[string]bool
	if u := Memory(t.Model).Uses[worker]; u != nil {
		had = u.Marks
	}
	for mark := range had {
		if !marks[mark] {
			usesTable.Put(t.Rows, worker+"."+mark, nil)
		}
	}
	for mark := range marks {
		if !had[mark] {
			usesTable.Put(t.Rows, worker+"."+mark, &usesMark{})
		}
	}
}

// tellRoute notes that a route is another, or (nil) none, and who is to know.
func tellRoute(t *state.Tx, key string, r *wire.Route) {
	t.Routes[key] = r
	var name *wire.Route
	if r != nil {
		short := *r
		short.Endpoints, short.Beyond, short.Unasked, short.Lacks = nil, 0, true, ""
		name = &short
	}
	if old := t.Model.Names[key]; (old == nil) != (name == nil) || old != nil && !records.Same(old, name) {
		t.Names[key], t.All = name, true
		return
	}
	for worker := range t.Model.Workers {
		if Memory(t.Model).Uses[worker].has(key) {
			t.Nudge[worker] = true
		}
	}
}

// Of is the store as a worker is to see it that says what it uses: all routes,
// those that it uses with their endpoints. What it says is stored too, so that all of
// it has revisions as everything else has.
type Of struct {
	bus.Store
	Worker string
}

func (v Of) prefix() string { return KeyUses + v.Worker + "." }

// said is what the worker says, by mark; false if it says nothing.
func (v Of) said(ctx context.Context) (marks map[string]bus.Entry, only bool, err error) {
	list, err := v.Store.List(ctx, v.prefix())
	if err != nil {
		return nil, false, err
	}
	marks = make(map[string]bus.Entry, len(list))
	for _, e := range list {
		mark := strings.TrimPrefix(e.Key, v.prefix())
		if mark == UsesOnly {
			only = true
			continue
		}
		marks[mark] = e
	}
	return marks, only, nil
}

// Rev implements bus.Store. That of a store which cannot be read is 0, and what is
// fetched then says why.
func (v Of) Rev(prefixes ...string) uint64 {
	ctx := context.Background() // it reads what is in memory
	marks, only, err := v.said(ctx)
	if err != nil || !slices.Contains(prefixes, state.KeyRoute) {
		return v.Store.Rev(prefixes...)
	}
	prefixes = append(slices.Clone(prefixes), v.prefix())
	if !only {
		return v.Store.Rev(prefixes...)
	}
	prefixes = slices.DeleteFunc(prefixes, func(p string) bool { return p == state.KeyRoute })
	prefixes = append(prefixes, state.KeyName)
	for mark := range marks {
		if app, ok := strings.CutPrefix(mark, UsesApp); ok {
			prefixes = append(prefixes, state.KeyRoute+app+".")
		}
	}
	rev := v.Store.Rev(prefixes...)
	for mark := range marks {
		// One that was removed was so together with its name.
		if key, ok := strings.CutPrefix(mark, usesService); ok {
			if e, err := v.Store.Get(ctx, state.KeyRoute+key); err == nil {
				rev = max(rev, e.Rev)
			}
		}
	}
	return rev
}

// List implements bus.Store.
func (v Of) List(ctx context.Context, prefix string) ([]bus.Entry, error) {
	marks, only, err := v.said(ctx)
	if err != nil {
		return nil, err
	}
	if prefix != state.KeyRoute || !only {
		return v.Store.List(ctx, prefix)
	}
	names, err := v.Store.List(ctx, state.KeyName)
	if err != nil {
		return nil, err
	}
	out := newMerge(marks)
	for _, e := range names {
		if err := out.put(ctx, v.Store, strings.TrimPrefix(e.Key, state.KeyName), 0); err != nil {
			return nil, err
		}
	}
	return out.sorted(), nil
}

// Changes implements bus.Store.
func (v Of) Changes(ctx context.Context, since uint64, prefixes ...string) ([]bus.Entry, bool, error) {
	marks, only, err := v.said(ctx)
	if err != nil {
		return nil, false, err
	}
	changed, ok, err := v.Store.Changes(ctx, since, v.prefix())
	if err != nil || !ok {
		return nil, false, err
	}
	if slices.ContainsFunc(changed, func(e bus.Entry) bool { return e.Key == v.prefix()+UsesOnly }) {
		return nil, false, nil // it begins to say what it uses, or does not any more: all is different
	}
	if !only {
		return v.Store.Changes(ctx, since, prefixes...)
	}
	rest := slices.DeleteFunc(slices.Clone(prefixes), func(p string) bool { return p == state.KeyRoute })
	base, ok, err := v.Store.Changes(ctx, since, rest...)
	if err != nil || !ok {
		return nil, false, err
	}
	routes, ok, err := v.Store.Changes(ctx, since, state.KeyRoute, state.KeyName)
	if err != nil || !ok {
		return nil, false, err
	}
	out := newMerge(marks)
	for _, e := range routes {
		key, isName := strings.CutPrefix(e.Key, state.KeyName)
		if key = strings.TrimPrefix(key, state.KeyRoute); !isName && !out.uses(key) {
			continue
		}
		if err := out.put(ctx, v.Store, key, e.Rev); err != nil {
			return nil, false, err
		}
	}
	// What it says since, or does not say any more.
	for _, e := range changed {
		mark := strings.TrimPrefix(e.Key, v.prefix())
		keys := []string{strings.TrimPrefix(mark, usesService)}
		if app, ok := strings.CutPrefix(mark, UsesApp); ok {
			names, err := v.Store.List(ctx, state.KeyName+app+".")
			if err != nil {
				return nil, false, err
			}
			keys = keys[:0]
			for _, n := range names {
				keys = append(keys, strings.TrimPrefix(n.Key, state.KeyName))
			}
		}
		for _, key := range keys {
			if err := out.put(ctx, v.Store, key, e.Rev); err != nil {
				return nil, false, err
			}
		}
	}
	return append(base, out.sorted()...), true, nil
}

// merge collects routes as a worker is to have them, each with the revision of what
// made it so.
type merge struct {
	of      Uses
	entries map[string]bus.Entry
}

func newMerge(marks map[string]bus.Entry) *merge {
	m := &merge{of: Uses{Marks: make(map[string]bool, len(marks))}, entries: map[string]bus.Entry{}}
	for mark := range marks {
		m.of.Marks[mark] = true
	}
	return m
}

func (m *merge) uses(key string) bool { return m.of.has(key) }

// put adds a route as it is now, because of what happened at a revision. One that is
// none is a tombstone, unless there never was one.
func (m *merge) put(ctx context.Context, s bus.Store, key string, rev uint64) error {
	if old, again := m.entries[key]; again {
		old.Rev = max(old.Rev, rev)
		m.entries[key] = old
		return nil
	}
	at := state.KeyName + key
	if m.of.has(key) {
		at = state.KeyRoute + key
	}
	e, err := s.Get(ctx, at)
	switch {
	case errors.Is(err, bus.ErrNotFound):
		e = bus.Entry{Deleted: true}
	case err != nil:
		return err
	}
	e.Key, e.Rev = state.KeyRoute+key, max(e.Rev, rev)
	m.entries[key] = e
	return nil
}

func (m *merge) sorted() []bus.Entry {
	out := make([]bus.Entry, 0, len(m.entries))
	for _, key := range records.SortedKeys(m.entries) {
		out = append(out, m.entries[key])
	}
	return out
}

func init() {
	state.Derive(state.Derivation{
		Loaded: func(m *state.Model) { note(m, usesTable.Rows(m.DB)) },
		Done:   func(t *state.Tx) { note(t.Model, usesTable.Changes(t.Rows)) },
	})
}

// note keeps Known.Uses in step with marks; nil: it is no more. Clones of the model have the
// former values, so that workers get new ones.
func note(m *state.Model, marks map[string]*usesMark) {
	uses, fresh := Memory(m).Uses, map[string]bool{}
	for key, there := range marks {
		worker, mark, _ := strings.Cut(key, ".")
		if !fresh[worker] {
			fresh[worker] = true
			next := &Uses{Marks: map[string]bool{}}
			if was := uses[worker]; was != nil {
				maps.Copy(next.Marks, was.Marks)
			}
			uses[worker] = next
		}
		if there != nil {
			uses[worker].Marks[mark] = true
		} else {
			delete(uses[worker].Marks, mark)
		}
	}
	for worker := range fresh {
		if len(uses[worker].Marks) == 0 {
			delete(uses, worker)
		}
	}
}

// Known is what this process knows beside what is stored.
type Known struct {
	Uses map[string]*Uses // by worker: whose endpoints it needs
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	New: func() *Known { return &Known{Uses: map[string]*Uses{}} },
	Clone: func(k *Known) *Known {
		return &Known{Uses: maps.Clone(k.Uses)}
	},
	Derived: true,
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
