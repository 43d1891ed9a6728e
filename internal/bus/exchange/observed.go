package exchange

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// maxPageChanges bounds the changes in one report.
const maxPageChanges = 500

// Source is the observed state that a lower side reports.
type Source interface {
	// Rev is the current revision.
	Rev() wire.Rev
	// Since returns changes that lead from `from` to `to`, oldest first. from is
	// zero where r is not known: then they start from nothing. more says that
	// there is a next page, from `to`.
	Since(ctx context.Context, r wire.Rev) (changes []wire.Change, from, to wire.Rev, more bool, err error)
}

// StoreSource reports what a store holds under a prefix, without the prefix.
type StoreSource struct {
	Store  bus.Store
	Prefix string
}

var _ Source = StoreSource{}

// Rev implements Source.
func (s StoreSource) Rev() wire.Rev {
	return Desired{Store: s.Store, Parts: []Part{{Prefix: s.Prefix}}}.Rev()
}

// Since implements Source.
func (s StoreSource) Since(ctx context.Context, r wire.Rev) (changes []wire.Change, from, to wire.Rev, more bool, err error) {
	last := s.Rev()
	var entries []bus.Entry
	known := !r.IsZero() && s.Store.Timeline().Known(r, s.Store.Rev())
	if known {
		if entries, known, err = s.Store.Changes(ctx, r.N, s.Prefix); err != nil {
			return nil, from, to, false, fmt.Errorf("reading changes since %s: %w", r, err)
		}
	}
	if !known {
		if entries, err = s.Store.List(ctx, s.Prefix); err != nil {
			return nil, from, to, false, fmt.Errorf("listing %s: %w", s.Prefix, err)
		}
		r = wire.Rev{}
	}
	// By revision, so that a page may end anywhere.
	sort.Slice(entries, func(i, j int) bool { return entries[i].Rev < entries[j].Rev })
	size := 0
	for i, e := range entries {
		if i > 0 && (i >= maxPageChanges || size+len(e.Value) > pageBytes) {
			return changes, r, s.Store.Timeline().At(entries[i-1].Rev), true, nil
		}
		size += len(e.Key) + len(e.Value) + 16
		changes = append(changes, wire.Change{Key: e.Key[len(s.Prefix):], Value: json.RawMessage(e.Value), Deleted: e.Deleted})
	}
	return changes, r, last, false, nil
}

// MemSource is observed state that lives in memory, as an agent's does: a new
// process has a new history and is taken over in full.
type MemSource struct {
	inc string

	mu   sync.Mutex
	seq  uint64
	keys map[string]memEntry
}

type memEntry struct {
	value   json.RawMessage
	seq     uint64
	deleted bool
}

var _ Source = (*MemSource)(nil)

// NewMemSource returns an empty source with a history of its own.
func NewMemSource() *MemSource {
	return &MemSource{inc: wire.NewID(), keys: map[string]memEntry{}}
}

// Set records the value of key; it reports whether that is a change.
func (s *MemSource) Set(key string, value []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.keys[key]; ok && !old.deleted && string(old.value) == string(value) {
		return false
	}
	s.seq++
	s.keys[key] = memEntry{value: value, seq: s.seq}
	return true
}

// Drop records that key is gone; it reports whether it was there. The tombstone
// is kept: an agent's keys are the instances it was ever given, and a few dozen
// bytes each until it restarts.
func (s *MemSource) Drop(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old, ok := s.keys[key]; !ok || old.deleted {
		return false
	}
	s.seq++
	s.keys[key] = memEntry{seq: s.seq, deleted: true}
	return true
}

// Keys returns the live keys.
func (s *MemSource) Keys() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var keys []string
	for k, e := range s.keys {
		if !e.deleted {
			keys = append(keys, k)
		}
	}
	sort.Strings(keys)
	return keys
}

// After counts the keys that have changed since r.
func (s *MemSource) After(r wire.Rev) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Inc != s.inc {
		r.N = 0
	}
	for _, e := range s.keys {
		if e.seq > r.N {
			n++
		}
	}
	return n
}

// Rev implements Source.
func (s *MemSource) Rev() wire.Rev {
	s.mu.Lock()
	defer s.mu.Unlock()
	return wire.Rev{Inc: s.inc, N: s.seq}
}

// Since implements Source.
func (s *MemSource) Since(_ context.Context, r wire.Rev) (changes []wire.Change, from, to wire.Rev, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := r.Inc != s.inc || r.N > s.seq
	if full {
		r = wire.Rev{}
	}
	type item struct {
		key string
		memEntry
	}
	var items []item
	for k, e := range s.keys {
		if e.seq > r.N && (!full || !e.deleted) {
			items = append(items, item{k, e})
		}
	}
	sort.Slice(items, func(i, j int) bool { return items[i].seq < items[j].seq })
	size := 0
	for i, it := range items {
		if i > 0 && (i >= maxPageChanges || size+len(it.value) > pageBytes) {
			return changes, r, wire.Rev{Inc: s.inc, N: items[i-1].seq}, true, nil
		}
		size += len(it.key) + len(it.value) + 16
		changes = append(changes, wire.Change{Key: it.key, Value: it.value, Deleted: it.deleted})
	}
	return changes, r, wire.Rev{Inc: s.inc, N: s.seq}, false, nil
}
