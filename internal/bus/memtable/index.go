package memtable

import (
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/verge-edge/verge/internal/bus"
)

// item is the latest entry of one key. It is replaced, never modified, except
// for its links and its home.
type item struct {
	bus.Entry
	older, newer *item    // neighbours by revision
	home         *Message // where the log has it; nil without a log
}

// Message is a message of the log, as far as memory knows it.
type Message struct {
	Seq  uint64
	Size int
	Live int // items that are at home here, and 1 for the current timeline
}

func (it *item) size() int { return len(it.Key) + len(it.Value) + bus.EntryOverhead }

// index has the latest entries of all keys, ordered by key for prefixes, and by revision
// for "what is new". Both orders are needed: a prefix may hold nearly all keys or a handful,
// and since may lie just behind or far back, so queries go by the shorter way. It has no
// lock: the Table has it.
//
// A sorted slice of pointers, not a tree: binary search gives the exact size of
// a prefix, which decides which way is shorter, and an insertion into 100,000
// keys moves 800 KB at worst, about 20 µs beside an fsync of milliseconds.
type index struct {
	sorted []*item // by key
	oldest *item
	newest *item
	tombs  int
	floor  uint64 // revision of the newest tombstone that was dropped
	bytes  int    // of all items in the log
	// revs are the newest revisions below prefixes that were asked for: each report of
	// each node asks for those of what it is to have, and it has many keys.
	revs map[string]uint64
}

// maxRevs prefixes are remembered, a few for each node; of more all are found anew.
const maxRevs = 1 << 17

func (x *index) apply(entries []bus.Entry, home func(i int) *Message) {
	var added []*item
	for n, e := range entries {
		it := &item{Entry: e, home: home(n)}
		if i, found := x.find(e.Key); found {
			x.unlink(x.sorted[i])
			x.sorted[i] = it
		} else {
			added = append(added, it)
		}
		x.link(it)
	}
	x.insert(added)
}

// insert merges new keys into the sorted slice from its end, so that a
// Commit of many new keys costs one pass.
func (x *index) insert(added []*item) {
	if len(added) == 0 {
		return
	}
	slices.SortFunc(added, func(a, b *item) int { return strings.Compare(a.Key, b.Key) })
	old := len(x.sorted)
	x.sorted = slices.Grow(x.sorted, len(added))[:old+len(added)]
	to := len(x.sorted)
	for n := len(added); n > 0; n-- {
		at, _ := search(x.sorted[:old], added[n-1].Key)
		copy(x.sorted[to-(old-at):to], x.sorted[at:old])
		to -= old - at
		old = at
		to--
		x.sorted[to] = added[n-1]
	}
}

func (x *index) link(it *item) {
	it.older = x.newest
	if x.newest != nil {
		x.newest.newer = it
	} else {
		x.oldest = it
	}
	x.newest = it
	for i := range len(it.Key) {
		if !ends(it.Key[i]) {
			continue
		}
		if _, asked := x.revs[it.Key[:i+1]]; asked {
			x.revs[it.Key[:i+1]] = it.Rev
		}
	}
	if it.Deleted {
		x.tombs++
	}
	x.bytes += it.size()
	if it.home != nil {
		it.home.Live++
	}
}

func (x *index) unlink(it *item) {
	if it.older != nil {
		it.older.newer = it.newer
	} else {
		x.oldest = it.newer
	}
	if it.newer != nil {
		it.newer.older = it.older
	} else {
		x.newest = it.older
	}
	it.older, it.newer = nil, nil
	if it.Deleted {
		x.tombs--
	}
	x.bytes -= it.size()
	if it.home != nil {
		it.home.Live--
	}
}

func search(sorted []*item, key string) (int, bool) {
	return slices.BinarySearchFunc(sorted, key, func(it *item, k string) int { return strings.Compare(it.Key, k) })
}

func (x *index) find(key string) (int, bool) { return search(x.sorted, key) }

// below returns the items with prefix.
func (x *index) below(prefix string) []*item {
	if prefix == "" {
		return x.sorted
	}
	from, _ := x.find(prefix)
	rest := x.sorted[from:]
	n := sort.Search(len(rest), func(i int) bool { return !strings.HasPrefix(rest[i].Key, prefix) })
	return rest[:n]
}

// last returns the latest entry of key; its Rev is 0 if there never was one or
// its tombstone was dropped.
func (x *index) last(key string) bus.Entry {
	if i, found := x.find(key); found {
		return x.sorted[i].Entry
	}
	return bus.Entry{Key: key}
}

func (x *index) list(prefix string) []bus.Entry {
	var live []bus.Entry
	for _, it := range x.below(prefix) {
		if !it.Deleted {
			live = append(live, it.Entry)
		}
	}
	return live
}

func (x *index) changes(since uint64, prefixes []string) ([]bus.Entry, bool) {
	if since < x.floor {
		return nil, false
	}
	var out []bus.Entry
	budget := x.width(prefixes)
	it := x.newest
	for ; it != nil && it.Rev > since && budget > 0; it, budget = it.older, budget-1 {
		if hasAnyPrefix(it.Key, prefixes) {
			out = append(out, it.Entry)
		}
	}
	if it != nil && it.Rev > since { // the prefixes are the shorter way
		out = out[:0]
		for _, p := range prefixes {
			for _, it := range x.below(p) {
				if it.Rev > since {
					out = append(out, it.Entry)
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b bus.Entry) int { return strings.Compare(a.Key, b.Key) })
	// Prefixes may overlap.
	return slices.CompactFunc(out, func(a, b bus.Entry) bool { return a.Key == b.Key }), true
}

// ends says whether a byte ends a part of a key.
func ends(c byte) bool { return c == '.' || c == '/' }

// width is how many items a scan of the prefixes would visit.
func (x *index) width(prefixes []string) int {
	if len(prefixes) == 0 {
		return len(x.sorted)
	}
	n := 0
	for _, p := range prefixes {
		n += len(x.below(p))
	}
	return n
}

func hasAnyPrefix(key string, prefixes []string) bool {
	if len(prefixes) == 0 {
		return true
	}
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(key, p) })
}

// surplus returns the oldest tombstones beyond limit, oldest first, or nothing
// while fewer than slack would go.
func (x *index) surplus(limit, slack int) []bus.Entry {
	n := x.tombs - limit
	if n < max(slack, 1) {
		return nil
	}
	drop := make([]bus.Entry, 0, n)
	for it := x.oldest; it != nil && len(drop) < n; it = it.newer {
		if it.Deleted {
			drop = append(drop, it.Entry)
		}
	}
	return drop
}

// forget drops tombstones, oldest first, and remembers up to which revision they are missing.
func (x *index) forget(tombstones []bus.Entry) {
	if len(tombstones) == 0 {
		return
	}
	x.floor = max(x.floor, tombstones[len(tombstones)-1].Rev)
	clear(x.revs)
	gone := make(map[*item]struct{}, len(tombstones))
	for _, e := range tombstones {
		if i, found := x.find(e.Key); found && x.sorted[i].Rev == e.Rev {
			gone[x.sorted[i]] = struct{}{}
			x.unlink(x.sorted[i])
		}
	}
	x.sorted = slices.DeleteFunc(x.sorted, func(it *item) bool { _, g := gone[it]; return g })
}

// at returns the items at home in any of the records, by revision.
func (x *index) at(homes map[*Message]bool) []*item {
	var items []*item
	for it := x.oldest; it != nil; it = it.newer {
		if homes[it.home] {
			items = append(items, it)
		}
	}
	return items
}

// checkIfs says whether the conditions of ops hold.
func (x *index) checkIfs(ops []bus.Op) error {
	for _, op := range ops {
		if op.If == nil {
			continue
		}
		var have uint64
		if i, found := x.find(op.Key); found && !x.sorted[i].Deleted {
			have = x.sorted[i].Rev
		}
		if have != *op.If {
			return fmt.Errorf("key %q is at revision %d, not %d: %w", op.Key, have, *op.If, bus.ErrConflict)
		}
	}
	return nil
}

// effective leaves out deletions of what is not there: they would only make
// tombstones that say nothing.
func (x *index) effective(ops []bus.Op) []bus.Op {
	return slices.DeleteFunc(slices.Clone(ops), func(op bus.Op) bool {
		if !op.Delete {
			return false
		}
		i, found := x.find(op.Key)
		return !found || x.sorted[i].Deleted
	})
}

func (x *index) revByScan(prefixes []string) uint64 {
	budget := x.width(prefixes)
	for it := x.newest; it != nil && budget > 0; it, budget = it.older, budget-1 {
		if hasAnyPrefix(it.Key, prefixes) {
			return it.Rev
		}
	}
	var rev uint64
	for _, p := range prefixes {
		for _, it := range x.below(p) {
			rev = max(rev, it.Rev)
		}
	}
	return rev
}

// knownRev is the newest revision below prefixes, if all of them were asked for before.
func (x *index) knownRev(prefixes []string) (rev uint64, ok bool) {
	for _, p := range prefixes {
		r, known := x.revs[p]
		if !known {
			return 0, false
		}
		rev = max(rev, r)
	}
	return rev, true
}

// learnRev finds the newest revision below prefixes and remembers it.
func (x *index) learnRev(prefixes []string) (newest uint64) {
	if len(x.revs) > maxRevs-len(prefixes) {
		clear(x.revs)
	}
	for _, p := range prefixes {
		rev, known := x.revs[p] // such as that of all routes, which every worker is to have
		if !known {
			for _, it := range x.below(p) {
				rev = max(rev, it.Rev)
			}
			x.revs[p] = rev
		}
		newest = max(newest, rev)
	}
	return newest
}

// all are the entries by revision.
func (x *index) all() []bus.Entry {
	out := make([]bus.Entry, 0, len(x.sorted))
	for it := x.oldest; it != nil; it = it.newer {
		out = append(out, it.Entry)
	}
	return out
}
