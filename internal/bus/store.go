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

// store is the durable Store: a log in a JetStream stream, one message per
// Commit, and a mirror of its content in memory.
type store struct {
	log      *slog.Logger
	js       *jsLog
	timeline wire.Timeline
	m        *mirror
	dir      string
	free     func(dir string) (uint64, error) // replaced in tests
	patience time.Duration                    // ackTimeout; shorter in tests
	slack    int                              // cleanSlack; smaller in tests

	// turn is held by the one who writes; a channel, so that waiting for it ends
	// with a context.
	turn chan struct{}
	// Guarded by turn.
	rev         uint64    // last revision that was given
	seq         uint64    // of the last message of the log
	records     []*record // those not cut off, oldest first
	logBytes    int       // their size
	timelineAt  *record   // that has the timeline in force
	loggedFloor uint64    // the highest that a record has
	marked      uint64    // see mark
	retryAt     time.Time // no attempt to settle before

	doubtful atomic.Bool // written under turn: the log may have more than the mirror
	closed   atomic.Bool
	errMu    sync.Mutex
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
	entries := entriesOf(ops, s.rev+uint64(len(ops)))
	home, err := s.writeLocked(content{floor: s.m.lowest(), entries: entries})
	if err != nil {
		return 0, fmt.Errorf("commit: %w", err)
	}
	s.rev += uint64(len(ops))
	rev := s.rev
	s.m.apply(entries, home)
	s.tidyLocked()
	return rev, nil
}

func opBytes(ops []Op) uint64 {
	n := 0
	for _, op := range ops {
		n += len(op.Key) + len(op.Value)
	}
	return uint64(n)
}

// writeLocked appends a record to the log and returns it when it is on disk.
func (s *store) writeLocked(c content) (*record, error) {
	data, err := c.encode()
	if err != nil {
		return nil, err
	}
	wait := s.patience + time.Duration(len(data)>>20)*ackPerMiB
	// There is one owner, so the expectation always holds; should it not, memory
	// is wrong and is put right before the next operation.
	seq, err := s.js.append(data, int64(s.seq), wait)
	var refused *refusedError
	switch {
	case err == nil:
		s.setWriteError(nil)
		return s.noteLocked(seq, len(data), c), nil
	case errors.As(err, &refused) && refused.moved:
		s.doubtful.Store(true)
		return nil, fmt.Errorf("the log has more than memory (%w): %w", err, ErrConflict)
	case errors.As(err, &refused):
		s.setWriteError(err)
		return nil, err
	default:
		s.doubtful.Store(true)
		s.setWriteError(fmt.Errorf("the disk under %s did not confirm a write: %w", s.dir, err))
		s.log.Warn("write to the store was not acknowledged", "bytes", len(data), "error", err)
		return nil, fmt.Errorf("%w: %w", ErrUnknownOutcome, err)
	}
}

// noteLocked remembers a record that is in the log.
func (s *store) noteLocked(seq uint64, size int, c content) *record {
	r := &record{seq: seq, size: size}
	s.seq = seq
	s.records = append(s.records, r)
	s.logBytes += size
	s.loggedFloor = max(s.loggedFloor, c.floor)
	if c.timeline != nil {
		if s.timelineAt != nil {
			s.timelineAt.live--
		}
		s.timelineAt = r
		r.live++
	}
	return r
}

// settleLocked finds out what became of a write whose outcome is unknown.
func (s *store) settleLocked() error {
	if !s.doubtful.Load() {
		return nil
	}
	if time.Now().Before(s.retryAt) {
		return fmt.Errorf("store does not answer: %w", s.currentWriteError())
	}
	if err := s.catchUp(); err != nil {
		s.retryAt = time.Now().Add(settlePause)
		return fmt.Errorf("find out what became of an unacknowledged write (free the disk or restart if this lasts): %w", err)
	}
	s.doubtful.Store(false)
	s.setWriteError(nil)
	return nil
}

// catchUp reads what the log has beyond the mirror.
func (s *store) catchUp() error {
	fence, err := content{}.encode()
	if err != nil {
		return err
	}
	// The fence is acknowledged only after all that was sent before it.
	end, err := s.js.append(fence, -1, settleTimeout)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	return s.js.each(ctx, s.seq+1, end, func(seq uint64, data []byte) error {
		c, err := decodeContent(data)
		if err != nil {
			return err
		}
		home := s.noteLocked(seq, len(data), c)
		// Only those of a Commit are new; moved ones are known.
		c.entries = slices.DeleteFunc(c.entries, func(e Entry) bool { return e.Rev <= s.rev })
		if n := len(c.entries); n > 0 {
			s.rev = c.entries[n-1].Rev
			s.m.apply(c.entries, home)
		}
		return nil
	})
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

// checkSpace says whether n more bytes fit on the disk, and as many again for
// the cleaning of the log, and whether there can be new files.
func (s *store) checkSpace(n uint64) error {
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < minFree+2*n {
		return fmt.Errorf("disk under %s is full: %d MiB are free, %d are needed: make room, writing resumes by itself", s.dir, free>>20, (minFree+2*n)>>20)
	}
	return checkHandles(s.dir)
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

// Snapshot implements Store. Nobody writes while it is taken, which is as long as
// it takes to walk the entries once.
func (s *store) Snapshot(ctx context.Context) (Snapshot, error) {
	if err := s.lock(ctx); err != nil {
		return Snapshot{}, err
	}
	defer s.unlock()
	if err := s.settleLocked(); err != nil {
		return Snapshot{}, err
	}
	return s.m.snapshot(s.timeline, s.rev), nil
}

// Timeline implements Store.
func (s *store) Timeline() wire.Timeline { return slices.Clone(s.timeline) }

// Watch implements Store.
func (s *store) Watch(prefix string, fn func([]Entry)) (stop func()) { return s.m.watch(prefix, fn) }

// close waits for a commit under way and ends the watches.
func (s *store) close() {
	s.closed.Store(true)
	s.turn <- struct{}{} // a commit under way ends within its patience
	if err := s.mark(); err != nil {
		s.log.Warn("noting how far the log has come", "error", err)
	}
	s.unlock()
	s.js.rest.end()
	s.m.close()
}
