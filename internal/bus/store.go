package bus

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

var _ Store = (*store)(nil)

const (
	// ackTimeout is how long the acknowledgement of a Commit may take before its
	// outcome is called unknown; larger commits get ackPerMiB more.
	ackTimeout = 10 * time.Second
	ackPerMiB  = time.Second
	// settleTimeout bounds finding out what became of a commit; if it fails it is
	// not tried again for settlePause, so that callers fail fast.
	settleTimeout = 3 * time.Second
	settlePause   = 2 * time.Second
	// minFree is the space that a store leaves free: JetStream does not recover
	// from a disk that is entirely full without a restart.
	minFree = 32 << 20
)

// store is the durable Store: one JetStream stream, one subject per key, and a
// mirror of it in memory.
type store struct {
	log      *slog.Logger
	js       *jsLog
	timeline wire.Timeline
	m        *mirror
	dir      string
	free     func(dir string) (uint64, error) // replaced in tests
	patience time.Duration                    // ackTimeout; shorter in tests

	// turn is held by the one who writes; a channel, so that waiting for it ends
	// with a context.
	turn chan struct{}
	// Guarded by turn.
	unsettled map[string]struct{} // keys of commits whose outcome is unknown
	retryAt   time.Time           // no attempt to settle before
	doubtful  atomic.Bool         // unsettled is not empty; read without turn

	closed atomic.Bool
	errMu  sync.Mutex
	// Guarded by errMu.
	writeErr error
}

// lock takes the turn to write.
func (s *store) lock(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}
	select {
	case s.turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for the store: %w", ctx.Err())
	}
	if s.closed.Load() {
		s.unlock()
		return ErrClosed
	}
	return nil
}

func (s *store) unlock() { <-s.turn }

// Commit implements Store.
func (s *store) Commit(ctx context.Context, ops ...Op) (uint64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := checkOps(ops); err != nil {
		return 0, err
	}
	if err := s.lock(ctx); err != nil {
		return 0, err
	}
	defer s.unlock()
	if err := s.settleLocked(); err != nil {
		return 0, err
	}
	if err := s.m.checkIfs(ops); err != nil {
		return 0, err
	}
	ops = s.m.effective(ops)
	if len(ops) == 0 {
		return s.m.rev(nil), nil
	}
	if err := s.checkSpace(opBytes(ops)); err != nil {
		return 0, fmt.Errorf("store refuses writes: %w", err)
	}
	last, err := s.writeLocked(ops)
	if err != nil {
		return 0, err
	}
	s.m.apply(entriesOf(ops, last))
	s.dropTombstonesLocked()
	return last, nil
}

func opBytes(ops []Op) uint64 {
	n := 0
	for _, op := range ops {
		n += len(op.Key) + len(op.Value)
	}
	return uint64(n)
}

// writeLocked makes ops durable and returns the revision of the last one.
func (s *store) writeLocked(ops []Op) (uint64, error) {
	msgs := make([]logMsg, len(ops))
	for i, op := range ops {
		msgs[i] = logMsg{subject: dataSubject + op.Key, data: op.Value, tombstone: op.Delete}
		if op.If != nil {
			// The mirror has decided already; the log checks that the mirror is true.
			if seq := s.m.last(op.Key).Rev; seq > 0 {
				msgs[i].expect = &seq
			}
		}
	}
	wait := s.patience + time.Duration(opBytes(ops)>>20)*ackPerMiB
	last, err := s.js.append(msgs, wait)
	var refused *refusedError
	switch {
	case err == nil:
		s.setWriteError(nil)
		return last, nil
	case errors.As(err, &refused) && refused.conflict:
		// Never with one owner; if it happens the mirror is wrong about these keys.
		s.doubtLocked(ops)
		return 0, fmt.Errorf("commit: the log disagrees with memory: %w", ErrConflict)
	case errors.As(err, &refused):
		s.setWriteError(err)
		return 0, fmt.Errorf("commit: %w", err)
	default:
		s.doubtLocked(ops)
		s.setWriteError(fmt.Errorf("the disk under %s did not confirm a write: %w", s.dir, err))
		s.log.Warn("commit was not acknowledged", "operations", len(ops), "error", err)
		return 0, fmt.Errorf("commit: %w: %w", ErrUnknownOutcome, err)
	}
}

func (s *store) doubtLocked(ops []Op) {
	for _, op := range ops {
		s.unsettled[op.Key] = struct{}{}
	}
	s.doubtful.Store(true)
}

// settleLocked finds out what became of commits whose outcome is unknown.
func (s *store) settleLocked() error {
	if len(s.unsettled) == 0 {
		return nil
	}
	if time.Now().Before(s.retryAt) {
		return fmt.Errorf("store does not answer: %w", s.currentWriteError())
	}
	if err := s.reread(); err != nil {
		s.retryAt = time.Now().Add(settlePause)
		return fmt.Errorf("find out what became of an unacknowledged commit (free the disk or restart if this lasts): %w", err)
	}
	clear(s.unsettled)
	s.doubtful.Store(false)
	s.setWriteError(nil)
	return nil
}

func (s *store) reread() error {
	deadline := time.Now().Add(settleTimeout)
	// The fence is acknowledged only after all that was sent before it.
	if _, err := s.js.append([]logMsg{{subject: fenceSubject}}, settleTimeout); err != nil {
		return err
	}
	var entries []Entry
	for key := range s.unsettled {
		e, err := s.js.last(dataSubject+key, time.Until(deadline))
		if errors.Is(err, ErrNotFound) {
			continue // neither before nor now: there are no removals but of old tombstones
		}
		if err != nil {
			return err
		}
		if e.Rev > s.m.last(key).Rev && e.Rev > s.m.rev(nil) {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b Entry) int { return int(int64(a.Rev) - int64(b.Rev)) })
	if len(entries) > 0 {
		s.m.apply(entries)
	}
	return nil
}

// settle is settleLocked for readers.
func (s *store) settle(ctx context.Context) error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if !s.doubtful.Load() {
		return nil
	}
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	return s.settleLocked()
}

// dropTombstonesLocked keeps their number bounded. The floor is durable before
// the first is gone; what a crash leaves undone the next opening does.
func (s *store) dropTombstonesLocked() {
	drop := s.m.surplus(MaxTombstones, tombstoneSlack)
	if len(drop) == 0 {
		return
	}
	floor := drop[len(drop)-1].Rev
	if err := s.js.putFloor(floor, s.patience); err != nil {
		s.log.Warn("bound the tombstones: store the floor", "error", err)
		return // more will gather; tried again after the next commit
	}
	if err := s.js.remove(drop); err != nil {
		s.log.Warn("bound the tombstones: remove", "error", err)
		return
	}
	s.m.forget(drop, floor)
}

// checkSpace says whether n more bytes fit on the disk. A batch is written
// twice: staged, then committed.
func (s *store) checkSpace(n uint64) error {
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < minFree+2*n {
		return fmt.Errorf("disk under %s is full: %d MiB are free, %d are needed: make room, writing resumes by itself", s.dir, free>>20, (minFree+2*n)>>20)
	}
	return nil
}

// WriteError implements Store.
func (s *store) WriteError() error {
	if s.closed.Load() {
		return ErrClosed
	}
	if err := s.checkSpace(0); err != nil {
		return err
	}
	return s.currentWriteError()
}

func (s *store) currentWriteError() error {
	s.errMu.Lock()
	defer s.errMu.Unlock()
	return s.writeErr
}

func (s *store) setWriteError(err error) {
	s.errMu.Lock()
	defer s.errMu.Unlock()
	s.writeErr = err
}

// Put implements Store.
func (s *store) Put(ctx context.Context, key string, value []byte) (uint64, error) {
	return s.Commit(ctx, Put(key, value))
}

// CompareAndSwap implements Store.
func (s *store) CompareAndSwap(ctx context.Context, key string, value []byte, rev uint64) (uint64, error) {
	return s.Commit(ctx, Op{Key: key, Value: value, If: &rev})
}

// Delete implements Store.
func (s *store) Delete(ctx context.Context, key string) (uint64, error) {
	return s.Commit(ctx, Del(key))
}

// Get implements Store.
func (s *store) Get(ctx context.Context, key string) (Entry, error) {
	if err := s.settle(ctx); err != nil {
		return Entry{}, err
	}
	return s.m.get(key)
}

// List implements Store.
func (s *store) List(ctx context.Context, prefix string) ([]Entry, error) {
	if err := s.settle(ctx); err != nil {
		return nil, err
	}
	return s.m.list(prefix), nil
}

// Changes implements Store.
func (s *store) Changes(ctx context.Context, since uint64, prefixes ...string) ([]Entry, bool, error) {
	if err := s.settle(ctx); err != nil {
		return nil, false, err
	}
	changes, ok := s.m.changes(since, prefixes)
	return changes, ok, nil
}

// Rev implements Store.
func (s *store) Rev(prefixes ...string) uint64 { return s.m.rev(prefixes) }

// Timeline implements Store.
func (s *store) Timeline() wire.Timeline { return slices.Clone(s.timeline) }

// Watch implements Store.
func (s *store) Watch(prefix string, fn func([]Entry)) (stop func()) { return s.m.watch(prefix, fn) }

// close waits for a commit under way and ends the watches.
func (s *store) close() {
	s.closed.Store(true)
	s.turn <- struct{}{} // a commit under way ends within its patience
	s.unlock()
	s.m.close()
}
