package bustest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/memtable"
	"github.com/verge-edge/verge/internal/wire"
)

var _ bus.Store = (*MemStore)(nil)

// MemStore is the twin of the durable store for tests: the same promises, but
// for the disk.
type MemStore struct {
	timeline wire.Timeline
	m        *memtable.Table

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
	return OpenMemStore(bus.Snapshot{})
}

// OpenMemStore returns a store with the content of a copy, in a new era.
func OpenMemStore(c bus.Snapshot) *MemStore {
	s := &MemStore{timeline: c.Timeline.Next(c.Last), m: memtable.New(), last: c.Last}
	s.m.Fill(c.Entries, c.Floor, memtable.Nowhere)
	return s
}

// Snapshot implements Store.
func (s *MemStore) Snapshot(ctx context.Context) (bus.Snapshot, error) {
	if err := s.ready(ctx); err != nil {
		return bus.Snapshot{}, err
	}
	return s.snapshot(), nil
}

func (s *MemStore) snapshot() bus.Snapshot {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	return s.m.Snapshot(s.timeline, s.last)
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
	s.m.Close()
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
func (s *MemStore) Commit(ctx context.Context, ops ...bus.Op) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := bus.CheckOps(ops); err != nil {
		return 0, err
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.closed {
		return 0, bus.ErrClosed
	}
	if err := s.m.CheckIfs(ops); err != nil {
		return 0, err
	}
	ops = s.m.Effective(ops)
	if len(ops) == 0 {
		return s.m.Rev(nil), nil
	}
	if s.fail != nil {
		return 0, fmt.Errorf("store refuses writes: %w", s.fail)
	}
	outcome := s.unknown
	s.unknown = outcomeKnown
	if outcome == outcomeLost {
		return 0, bus.ErrUnknownOutcome
	}
	s.last += uint64(len(ops))
	s.m.Apply(memtable.EntriesOf(ops, s.last), nil)
	s.m.Trim()
	if outcome == outcomeWritten {
		return 0, bus.ErrUnknownOutcome
	}
	return s.last, nil
}

// Put implements Store.
func (s *MemStore) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.Commit(ctx, bus.Put(key, value))
}

// CompareAndSwap implements Store.
func (s *MemStore) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return s.Commit(ctx, bus.Op{Key: key, Value: value, If: &rev})
}

// Delete implements Store.
func (s *MemStore) Delete(ctx context.Context, key string) (uint64, error) {
	return s.Commit(ctx, bus.Del(key))
}

// Get implements Store.
func (s *MemStore) Get(ctx context.Context, key string) (bus.Entry, error) {
	if err := s.ready(ctx); err != nil {
		return bus.Entry{}, err
	}
	return s.m.Get(key)
}

// List implements Store.
func (s *MemStore) List(ctx context.Context, prefix string) ([]bus.Entry, error) {
	if err := s.ready(ctx); err != nil {
		return nil, err
	}
	return s.m.List(prefix), nil
}

// Changes implements Store.
func (s *MemStore) Changes(ctx context.Context, since uint64, prefixes ...string) ([]bus.Entry, bool, error) {
	if err := s.ready(ctx); err != nil {
		return nil, false, err
	}
	changes, ok := s.m.Changes(since, prefixes)
	return changes, ok, nil
}

func (s *MemStore) ready(ctx context.Context) error {
	if s.m.Ended() {
		return bus.ErrClosed
	}
	return ctx.Err()
}

// Rev implements Store.
func (s *MemStore) Rev(prefixes ...string) uint64 { return s.m.Rev(prefixes) }

// Timeline implements Store.
func (s *MemStore) Timeline() wire.Timeline { return slices.Clone(s.timeline) }

// Watch implements Store.
func (s *MemStore) Watch(prefix string, fn func([]bus.Entry)) (stop func()) {
	return s.m.Watch(prefix, fn)
}

// WriteError implements Store.
func (s *MemStore) WriteError() error {
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	return s.fail
}
