package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/wire"
)

// Keys of what workers say that they use. A worker of which there is usesOnly is told
// the endpoints of these services alone; of all others it is told all.
const (
	keyUses = "uses." // + worker. + one of the following
	// usesOnly is there as long as the worker says what it uses.
	usesOnly    = "only"
	usesApp     = "a." // + application
	usesService = "s." // + app.service
)

// usesMark is one thing that a worker uses; its key says what.
type usesMark struct{}

// uses is what a worker says that it uses.
type uses struct {
	marks map[string]bool // usesApp and usesService with what follows
}

// has says whether the worker is told the endpoints of a service; nil says all.
func (u *uses) has(key string) bool {
	if u == nil {
		return true
	}
	app, _, _ := strings.Cut(key, ".")
	return u.marks[usesService+key] || u.marks[usesApp+app]
}

// loadUses adds a stored mark to the model.
func (m *model) loadUses(rest string) {
	worker, mark, _ := strings.Cut(rest, ".")
	u := m.uses[worker]
	if u == nil {
		u = &uses{marks: map[string]bool{}}
		m.uses[worker] = u
	}
	if mark == usesOnly {
		return
	}
	u.marks[mark] = true
}

// marksOf are the marks of a statement; nil where the worker is told all.
func marksOf(s *wire.Uses) (map[string]bool, error) {
	if s == nil || s.All {
		return nil, nil
	}
	if len(s.Apps)+len(s.Services) > wire.MaxUses {
		return nil, fmt.Errorf("it says that it uses %d services, at most %d are read", len(s.Apps)+len(s.Services), wire.MaxUses)
	}
	marks := make(map[string]bool, len(s.Apps)+len(s.Services))
	for _, app := range s.Apps {
		if !enroll.IsName(app) {
			return nil, fmt.Errorf("%.80q is no name of an application", app)
		}
		marks[usesApp+app] = true
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

// takeUses stores what a worker says that it uses, where that is new. What cannot be
// understood makes it one that is told all, as one that says nothing.
func (c *core) takeUses(ctx context.Context, w *state.Worker, s *wire.Uses) error {
	name := w.Info.Name
	marks, err := marksOf(s)
	if err != nil {
		c.log.Warn("a worker is told the endpoints of all services", "worker", name, "why", err)
	}
	old := c.m.uses[name]
	t := c.m.begin()
	set := func(mark string, to *usesMark) { usesTable.Put(t.Rows, name+"."+mark, to) }
	var had map[string]bool
	if old != nil {
		had = old.marks
	}
	switch {
	case marks == nil && old != nil:
		set(usesOnly, nil)
	case marks != nil && old == nil:
		set(usesOnly, &usesMark{})
	}
	for _, mark := range records.SortedKeys(had) {
		if !marks[mark] {
			set(mark, nil)
		}
	}
	for _, mark := range records.SortedKeys(marks) {
		if !had[mark] {
			set(mark, &usesMark{})
		}
	}
	if t.Rows.Len() == 0 {
		return nil
	}
	if !w.Says.Allow() {
		return errTooSoon
	}
	if _, _, err := c.keeper.Parts(ctx, t); err != nil {
		return fmt.Errorf("storing what worker %s uses: %w", name, err)
	}
	if marks == nil {
		delete(c.m.uses, name)
	} else {
		c.m.uses[name] = &uses{marks: marks}
	}
	return nil
}

// dropUses forgets what a worker that is removed said.
func (t *tx) dropUses(name string) {
	u := t.m.uses[name]
	if u == nil {
		return
	}
	usesTable.Put(t.Rows, name+"."+usesOnly, nil)
	for mark := range u.marks {
		usesTable.Put(t.Rows, name+"."+mark, nil)
	}
}

// tellRoute notes that a route is another, or (nil) none, and who is to know.
func (t *tx) tellRoute(key string, r *wire.Route) {
	t.Routes[key] = r
	var name *wire.Route
	if r != nil {
		short := *r
		short.Endpoints, short.Beyond, short.Unasked, short.Lacks = nil, 0, true, ""
		name = &short
	}
	if old := t.m.Names[key]; (old == nil) != (name == nil) || old != nil && !records.Same(old, name) {
		t.Names[key], t.All = name, true
		return
	}
	for worker := range t.m.Workers {
		if t.m.uses[worker].has(key) {
			t.Nudge[worker] = true
		}
	}
}

// routesOf is the store as a worker is to see it that says what it uses: all routes,
// those that it uses with their endpoints. What it says is stored too, so that all of
// it has revisions as everything else has.
type routesOf struct {
	bus.Store
	worker string
}

func (v routesOf) prefix() string { return keyUses + v.worker + "." }

// said is what the worker says, by mark; false if it says nothing.
func (v routesOf) said(ctx context.Context) (marks map[string]bus.Entry, only bool, err error) {
	list, err := v.Store.List(ctx, v.prefix())
	if err != nil {
		return nil, false, err
	}
	marks = make(map[string]bus.Entry, len(list))
	for _, e := range list {
		mark := strings.TrimPrefix(e.Key, v.prefix())
		if mark == usesOnly {
			only = true
			continue
		}
		marks[mark] = e
	}
	return marks, only, nil
}

// Rev implements bus.Store. That of a store which cannot be read is 0, and what is
// fetched then says why.
func (v routesOf) Rev(prefixes ...string) uint64 {
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
		if app, ok := strings.CutPrefix(mark, usesApp); ok {
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
func (v routesOf) List(ctx context.Context, prefix string) ([]bus.Entry, error) {
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
func (v routesOf) Changes(ctx context.Context, since uint64, prefixes ...string) ([]bus.Entry, bool, error) {
	marks, only, err := v.said(ctx)
	if err != nil {
		return nil, false, err
	}
	changed, ok, err := v.Store.Changes(ctx, since, v.prefix())
	if err != nil || !ok {
		return nil, false, err
	}
	if slices.ContainsFunc(changed, func(e bus.Entry) bool { return e.Key == v.prefix()+usesOnly }) {
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
		if app, ok := strings.CutPrefix(mark, usesApp); ok {
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
	of      uses
	entries map[string]bus.Entry
}

func newMerge(marks map[string]bus.Entry) *merge {
	m := &merge{of: uses{marks: make(map[string]bool, len(marks))}, entries: map[string]bus.Entry{}}
	for mark := range marks {
		m.of.marks[mark] = true
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
