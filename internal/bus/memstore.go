package bus

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/wire"
)

var _ Store = (*MemStore)(nil)

// MemStore is the twin of the durable store for tests: the same promises, but
// for the disk.
type MemStore struct {
	timeline wire.Timeline
	m        *mirror

	writeMu sync.Mutex
	// Guarded by writeMu.
	last    uint64
	fail    error
	unknown unknownOutcome
	closed  bool
}

type unknownOutcome int

const (
	outcomeKnown unknownOutcome = iota
	outcomeLost
	outcomeWritten
)

// NewMemStore returns an empty store in its first era.
func NewMemStore() *MemStore {
	return OpenMemStore(Snapshot{})
}

// OpenMemStore returns a store with the content of a copy, in a new era.
func OpenMemStore(c Snapshot) *MemStore {
	s := &MemStore{timeline: c.Timeline.Next(c.Last), m: newMirror(), last: c.Last}
	s.m.applyLocked(c.Entries, func(int) *record { return nil })
	s.m.floor = c.Floor
	return s
}

// Snapshot implements Store.
func (s *MemStore) Snapshot(ctx context.Context) (Snapshot, error) {
	if err := s.ready(ctx); err != nil {
		return Snapshot{}, err
	}
	return s.snapshot(), nil
}

func (s *MemStore) snapshot() Snapshot {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	return s.m.snapshot(s.timeline, s.last)
}

// Reopen closes s and returns a store with the same content in a new era, as
// after a restart of the process.
func (s *MemStore) Reopen() *MemStore {
	c := s.snapshot()
	s.Close()
	return OpenMemStore(c)
}

// Close ends the watches; every later call fails with ErrClosed.
func (s *MemStore) Close() {
	s.writeMu.Lock()
	s.closed = true
	s.writeMu.Unlock()
	s.m.close()
}

// FailWrites makes every Commit fail with err, which WriteError then returns
// too, until it is called with nil.
func (s *MemStore) FailWrites(err error) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	s.fail = err
}

// LoseNextOutcome makes the next Commit return ErrUnknownOutcome; written
// chooses what really happens to its operations.
func (s *MemStore) LoseNextOutcome(written bool) {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	s.unknown = outcomeLost
	if written {
		s.unknown = outcomeWritten
	}
}

// Commit implements Store.
func (s *MemStore) Commit(ctx context.Context, ops ...Op) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := checkOps(ops); err != nil {
		return 0, err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.closed {
		return 0, ErrClosed
	}
	if err := s.m.checkIfs(ops); err != nil {
		return 0, err
	}
	ops = s.m.effective(ops)
	if len(ops) == 0 {
		return s.m.rev(nil), nil
	}
	if s.fail != nil {
		return 0, fmt.Errorf("store refuses writes: %w", s.fail)
	}
	outcome := s.unknown
	s.unknown = outcomeKnown
	if outcome == outcomeLost {
		return 0, ErrUnknownOutcome
	}
	s.last += uint64(len(ops))
	s.m.apply(entriesOf(ops, s.last), nil)
	if drop := s.m.surplus(MaxTombstones, tombstoneSlack); len(drop) > 0 {
		s.m.forget(drop, drop[len(drop)-1].Rev)
	}
	if outcome == outcomeWritten {
		return 0, ErrUnknownOutcome
	}
	return s.last, nil
}

// Put implements Store.
func (s *MemStore) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.Commit(ctx, Put(key, value))
}

// CompareAndSwap implements Store.
func (s *MemStore) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return s.Commit(ctx, Op{Key: key, Value: value, If: &rev})
}

// Delete implements Store.
func (s *MemStore) Delete(ctx context.Context, key string) (uint64, error) {
	return s.Commit(ctx, Del(key))
}

// Get implements Store.
func (s *MemStore) Get(ctx context.Context, key string) (Entry, error) {
	if err := s.ready(ctx); err != nil {
		return Entry{}, err
	}
	return s.m.get(key)
}

// List implements Store.
func (s *MemStore) List(ctx context.Context, prefix string) ([]Entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.m.list(prefix), nil
}

// Changes implements Store.
func (s *MemStore) Changes(ctx context.Context, since uint64, prefixes ...string) ([]Entry, bool, error) {
	if err := s.ready(ctx); err != nil {
		return nil, false, err
	}
	changes, ok := s.m.changes(since, prefixes)
	return changes, ok, nil
}

func (s *MemStore) ready(ctx context.Context) error {
	s.m.mu.RLock()
	defer s.m.mu.RUnlock()
	if s.m.closed {
		return ErrClosed
	}
	return ctx.Err()
}

// Rev implements Store.
func (s *MemStore) Rev(prefixes ...string) uint64 { return s.m.rev(prefixes) }

// Timeline implements Store.
func (s *MemStore) Timeline() wire.Timeline { return slices.Clone(s.timeline) }

// Watch implements Store.
func (s *MemStore) Watch(prefix string, fn func([]Entry)) (stop func()) { return s.m.watch(prefix, fn) }

// WriteError implements Store.
func (s *MemStore) WriteError() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	return s.fail
}
