package logstore

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/memtable"
	"github.com/verge-edge/verge/internal/bus/stream"
	"github.com/verge-edge/verge/internal/wire"
)

var _ bus.Store = (*Store)(nil)

const (
	// ackTimeout is how long the acknowledgement of a Commit may take before its
	// outcome is called unknown; larger commits get ackPerMiB more.
	ackTimeout = 10 * time.Second
	ackPerMiB  = time.Second
	// settleTimeout bounds finding out what became of a commit; if it fails it is
	// not tried again for settlePause, so that callers fail fast.
	settleTimeout = 3 * time.Second
	settlePause   = 2 * time.Second
)

// Store is the durable Store: a log in a JetStream stream, one message per
// Commit, and a table of its content in memory.
type Store struct {
	log      *slog.Logger
	js       *stream.Log
	timeline wire.Timeline
	m        *memtable.Table
	dir      string
	free     func(dir string) (uint64, error) // replaced in tests
	patience time.Duration                    // ackTimeout; shorter in tests
	slack    int                              // cleanSlack; smaller in tests

	// turn has the writer while nobody writes; a channel, so that waiting for it ends
	// with a context.
	turn chan *writer

	doubtful atomic.Bool // written by the writer: the log may have more than the table
	closed   atomic.Bool
	errMu    sync.Mutex
	// Guarded by errMu.
	writeErr error
}

// take waits for the turn to write, and for who has it.
func (s *Store) take(ctx context.Context) (*writer, error) {
	if s.closed.Load() {
		return nil, bus.ErrClosed
	}
	select {
	case w := <-s.turn:
		if s.closed.Load() {
			w.release()
			return nil, bus.ErrClosed
		}
		return w, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the store: %w", ctx.Err())
	}
}

// release ends the turn.
func (w *writer) release() { w.turn <- w }

// Commit implements Store.
func (s *Store) Commit(ctx context.Context, ops ...bus.Op) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := bus.CheckOps(ops); err != nil {
		return 0, err
	}
	w, err := s.take(ctx)
	if err != nil {
		return 0, err
	}
	defer w.release()
	return w.commit(ops)
}

// settle is that of the writer, for readers.
func (s *Store) settle(ctx context.Context) error {
	if s.closed.Load() {
		return bus.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.doubtful.Load() {
		return nil
	}
	w, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer w.release()
	return w.settle()
}

// checkSpace says whether n more bytes fit on the disk, and as many again for
// the cleaning of the log, and whether there can be new files.
func (s *Store) checkSpace(n uint64) error {
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < stream.MinFree+2*n {
		return fmt.Errorf("disk under %s is full: %d MiB are free, %d are needed: make room, writing resumes by itself",
			s.dir, free>>20, (stream.MinFree+2*n)>>20)
	}
	return stream.CheckHandles(s.dir)
}

// WriteError implements Store.
func (s *Store) WriteError() error {
	if s.closed.Load() {
		return bus.ErrClosed
	}
	if err := s.checkSpace(0); err != nil {
		return err
	}
	return s.currentWriteError()
}

func (s *Store) currentWriteError() error {
	s.errMu.Lock()
	defer s.errMu.Unlock()
	return s.writeErr
}

func (s *Store) setWriteError(err error) {
	s.errMu.Lock()
	defer s.errMu.Unlock()
	s.writeErr = err
}

// SetSlack sets how much more than twice its content the log may take before it is
// shortened, instead of 8 MiB. It is called before the first Commit.
func (s *Store) SetSlack(bytes int) { s.slack = bytes }

// Put implements Store.
func (s *Store) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.Commit(ctx, bus.Put(key, value))
}

// CompareAndSwap implements Store.
func (s *Store) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return s.Commit(ctx, bus.Op{Key: key, Value: value, If: &rev})
}

// Delete implements Store.
func (s *Store) Delete(ctx context.Context, key string) (uint64, error) {
	return s.Commit(ctx, bus.Del(key))
}

// Get implements Store.
func (s *Store) Get(ctx context.Context, key string) (bus.Entry, error) {
	if err := s.settle(ctx); err != nil {
		return bus.Entry{}, err
	}
	return s.m.Get(key)
}

// List implements Store.
func (s *Store) List(ctx context.Context, prefix string) ([]bus.Entry, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	return s.m.List(prefix), nil
}

// Changes implements Store.
func (s *Store) Changes(ctx context.Context, since uint64, prefixes ...string) ([]bus.Entry, bool, error) {
	if err := s.settle(ctx); err != nil {
		return nil, false, err
	}
	changes, ok := s.m.Changes(since, prefixes)
	return changes, ok, nil
}

// Rev implements Store.
func (s *Store) Rev(prefixes ...string) uint64 { return s.m.Rev(prefixes) }

// Snapshot implements Store. Nobody writes while it is taken, which is as long as
// it takes to walk the entries once.
func (s *Store) Snapshot(ctx context.Context) (bus.Snapshot, error) {
	w, err := s.take(ctx)
	if err != nil {
		return bus.Snapshot{}, err
	}
	defer w.release()
	if err := w.settle(); err != nil {
		return bus.Snapshot{}, err
	}
	return s.m.Snapshot(s.timeline, w.rev), nil
}

// Timeline implements Store.
func (s *Store) Timeline() wire.Timeline { return slices.Clone(s.timeline) }

// Watch implements Store.
func (s *Store) Watch(prefix string, fn func([]bus.Entry)) (stop func()) {
	return s.m.Watch(prefix, fn)
}

// Close waits for a commit under way and ends the watches.
func (s *Store) Close() {
	s.closed.Store(true)
	w := <-s.turn // a commit under way ends within its patience
	if err := w.mark(); err != nil {
		s.log.Warn("noting how far the log has come", "error", err)
	}
	w.release()
	s.js.Close()
	s.m.Close()
}
