package memtable

import (
	"fmt"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// tombstoneSlack is how many tombstones beyond bus.MaxTombstones may gather before they are
// dropped together: each drop makes the log write a floor, and walks the old entries.
const tombstoneSlack = 256

// Table is the content of a store in memory, and those who watch it. All methods may be
// called concurrently.
type Table struct {
	mu       sync.RWMutex
	index    index
	watchers map[*watcher]struct{}
	closed   bool
}

// New returns an empty table.
func New() *Table {
	return &Table{watchers: map[*watcher]struct{}{}, index: index{revs: map[string]uint64{}}}
}

// read calls fn while nobody writes.
func (m *Table) read(fn func(*index)) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	fn(&m.index)
}

// Fill takes over what was read from a log or a snapshot, before anybody watches. home says
// where each entry is in the log.
func (m *Table) Fill(entries []bus.Entry, floor uint64, home func(i int) *Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index.apply(entries, home)
	m.index.floor = floor
}

// Nowhere is the home of what is in no log.
func Nowhere(int) *Message { return nil }

// Apply takes over entries, whose revisions are ascending and greater than all
// before, and tells the watchers.
func (m *Table) Apply(entries []bus.Entry, home *Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index.apply(entries, func(int) *Message { return home })
	for w := range m.watchers {
		w.notify(entries)
	}
}

// Ended says whether the table was closed.
func (m *Table) Ended() bool {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.closed
}

// Get returns the value of key, or bus.ErrNotFound.
func (m *Table) Get(key string) (e bus.Entry, err error) {
	m.read(func(x *index) { e = x.last(key) })
	if e.Rev == 0 || e.Deleted {
		return bus.Entry{}, fmt.Errorf("key %q: %w", key, bus.ErrNotFound)
	}
	return e, nil
}

// List returns the live entries whose key starts with prefix, ordered by key.
func (m *Table) List(prefix string) (live []bus.Entry) {
	m.read(func(x *index) { live = x.list(prefix) })
	return live
}

// Changes is as that of bus.Store.
func (m *Table) Changes(since uint64, prefixes []string) (changes []bus.Entry, ok bool) {
	m.read(func(x *index) { changes, ok = x.changes(since, prefixes) })
	return changes, ok
}

// Rev is the newest revision below prefixes; none given: of all.
func (m *Table) Rev(prefixes []string) (rev uint64) {
	if slices.ContainsFunc(prefixes, func(p string) bool { return p == "" || !ends(p[len(p)-1]) }) || len(prefixes) == 0 {
		m.read(func(x *index) { rev = x.revByScan(prefixes) })
		return rev
	}
	known := false
	m.read(func(x *index) { rev, known = x.knownRev(prefixes) })
	if known {
		return rev
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.index.learnRev(prefixes)
}

// Trim drops the oldest tombstones beyond bus.MaxTombstones and remembers up to which revision
// they are missing.
func (m *Table) Trim() { m.trim(bus.MaxTombstones, tombstoneSlack) }

func (m *Table) trim(limit, slack int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.index.forget(m.index.surplus(limit, slack))
}

// Snapshot is a copy of all there is. Values are shared: nobody modifies them.
func (m *Table) Snapshot(timeline wire.Timeline, last uint64) bus.Snapshot {
	c := bus.Snapshot{Timeline: slices.Clone(timeline), Last: last}
	m.read(func(x *index) { c.Floor, c.Entries = x.floor, x.all() })
	return c
}

// Size is the bytes that the items take in a log that has nothing else.
func (m *Table) Size() (n int) {
	m.read(func(x *index) { n = x.bytes })
	return n
}

// Lowest is the revision of the newest tombstone that was dropped.
func (m *Table) Lowest() (floor uint64) {
	m.read(func(x *index) { floor = x.floor })
	return floor
}

// At returns the items at home in any of the records, by revision.
func (m *Table) At(homes map[*Message]bool) (items []*item) {
	m.read(func(x *index) { items = x.at(homes) })
	return items
}

// Move gives items a new home.
func (m *Table) Move(items []*item, home *Message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, it := range items {
		it.home.Live--
		it.home = home
		home.Live++
	}
}

// CheckIfs says whether the conditions of ops hold.
func (m *Table) CheckIfs(ops []bus.Op) (err error) {
	m.read(func(x *index) { err = x.checkIfs(ops) })
	return err
}

// Effective leaves out deletions of what is not there: they would only make
// tombstones that say nothing.
func (m *Table) Effective(ops []bus.Op) (left []bus.Op) {
	m.read(func(x *index) { left = x.effective(ops) })
	return left
}

// Watch registers fn and gives it what is there now.
func (m *Table) Watch(prefix string, fn func([]bus.Entry)) (stop func()) {
	w := &watcher{prefix: prefix, fn: fn, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return func() {}
	}
	w.push(m.index.list(prefix))
	m.watchers[w] = struct{}{}
	m.mu.Unlock()
	go w.run()
	return func() { m.unwatch(w) }
}

func (m *Table) unwatch(w *watcher) {
	m.mu.Lock()
	_, running := m.watchers[w]
	delete(m.watchers, w)
	m.mu.Unlock()
	if running {
		close(w.quit)
	}
	<-w.done
}

// Close ends all watches and waits for their running calls.
func (m *Table) Close() {
	m.mu.Lock()
	m.closed = true
	watchers := m.watchers
	m.watchers = map[*watcher]struct{}{}
	m.mu.Unlock()
	for w := range watchers {
		close(w.quit)
	}
	for w := range watchers {
		<-w.done
	}
}

// EntriesOf makes the entries that ops become, the last one at revision last.
func EntriesOf(ops []bus.Op, last uint64) []bus.Entry {
	entries := make([]bus.Entry, len(ops))
	for i, op := range ops {
		e := bus.Entry{Key: op.Key, Rev: last - uint64(len(ops)-1-i), Deleted: op.Delete}
		if !op.Delete {
			// The caller may use its buffer again; an empty value is not a nil one.
			e.Value = append([]byte{}, op.Value...)
		}
		entries[i] = e
	}
	return entries
}
