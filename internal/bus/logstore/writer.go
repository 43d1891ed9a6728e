package logstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/logrecord"
	"github.com/verge-edge/verge/internal/bus/memtable"
	"github.com/verge-edge/verge/internal/bus/stream"
)

// writer is what only the one who writes to the log needs to know of it. A store has one,
// and who has it has the turn to write.
type writer struct {
	*Store

	rev         uint64              // last revision that was given
	seq         uint64              // of the last message of the log
	records     []*memtable.Message // those not cut off, oldest first
	logBytes    int                 // their size
	timelineAt  *memtable.Message   // that has the current timeline
	loggedFloor uint64              // the highest that a record has
	marked      uint64              // see mark
	retryAt     time.Time           // no attempt to settle before
}

// commit is Commit in turn.
func (w *writer) commit(ops []bus.Op) (uint64, error) {
	if err := w.settle(); err != nil {
		return 0, err
	}
	if err := w.m.CheckIfs(ops); err != nil {
		return 0, err
	}
	ops = w.m.Effective(ops)
	if len(ops) == 0 {
		return w.m.Rev(nil), nil
	}
	if err := w.checkSpace(opBytes(ops)); err != nil {
		return 0, fmt.Errorf("store refuses writes: %w", err)
	}
	entries := memtable.EntriesOf(ops, w.rev+uint64(len(ops)))
	home, err := w.write(logrecord.Record{Floor: w.m.Lowest(), Entries: entries})
	if err != nil {
		return 0, fmt.Errorf("commit: %w", err)
	}
	w.rev += uint64(len(ops))
	rev := w.rev
	w.m.Apply(entries, home)
	w.tidy()
	return rev, nil
}

// write appends a record to the log and returns it when it is on disk.
func (w *writer) write(c logrecord.Record) (*memtable.Message, error) {
	data, err := c.Encode()
	if err != nil {
		return nil, err
	}
	wait := w.patience + time.Duration(len(data)>>20)*ackPerMiB
	// There is one owner, so the expectation always holds; should it not, memory
	// is wrong and is put right before the next operation.
	seq, err := w.js.Append(logSubject, data, int64(w.seq), wait)
	var refused *stream.RefusedError
	switch {
	case err == nil:
		w.setWriteError(nil)
		return w.note(seq, len(data), c), nil
	case errors.As(err, &refused) && refused.Moved:
		w.doubtful.Store(true)
		return nil, fmt.Errorf("the log has more than memory (%w): %w", err, bus.ErrConflict)
	case errors.As(err, &refused):
		w.setWriteError(err)
		return nil, err
	default:
		w.doubtful.Store(true)
		w.setWriteError(fmt.Errorf("the disk under %s did not confirm a write: %w", w.dir, err))
		w.log.Warn("write to the store was not acknowledged", "bytes", len(data), "error", err)
		return nil, fmt.Errorf("%w: %w", bus.ErrUnknownOutcome, err)
	}
}

// note remembers a record that is in the log.
func (w *writer) note(seq uint64, size int, c logrecord.Record) *memtable.Message {
	r := &memtable.Message{Seq: seq, Size: size}
	w.seq = seq
	w.records = append(w.records, r)
	w.logBytes += size
	w.loggedFloor = max(w.loggedFloor, c.Floor)
	if c.Timeline != nil {
		if w.timelineAt != nil {
			w.timelineAt.Live--
		}
		w.timelineAt = r
		r.Live++
	}
	return r
}

// settle finds out what became of a write whose outcome is unknown.
func (w *writer) settle() error {
	if !w.doubtful.Load() {
		return nil
	}
	if time.Now().Before(w.retryAt) {
		return fmt.Errorf("store does not answer: %w", w.currentWriteError())
	}
	if err := w.catchUp(); err != nil {
		w.retryAt = time.Now().Add(settlePause)
		return fmt.Errorf("find out what became of an unacknowledged write (free the disk or restart if this lasts): %w", err)
	}
	w.doubtful.Store(false)
	w.setWriteError(nil)
	return nil
}

// catchUp reads what the log has beyond the table.
func (w *writer) catchUp() error {
	fence, err := logrecord.Record{}.Encode()
	if err != nil {
		return err
	}
	// The fence is acknowledged only after all that was sent before it.
	end, err := w.js.Append(logSubject, fence, -1, settleTimeout)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), settleTimeout)
	defer cancel()
	return w.js.Each(ctx, w.seq+1, end, func(seq uint64, data []byte) error {
		c, err := logrecord.Decode(data)
		if err != nil {
			return err
		}
		home := w.note(seq, len(data), c)
		// Only those of a Commit are new; moved ones are known.
		c.Entries = slices.DeleteFunc(c.Entries, func(e bus.Entry) bool { return e.Rev <= w.rev })
		if n := len(c.Entries); n > 0 {
			w.rev = c.Entries[n-1].Rev
			w.m.Apply(c.Entries, home)
		}
		return nil
	})
}

func opBytes(ops []bus.Op) uint64 {
	n := 0
	for _, op := range ops {
		n += len(op.Key) + len(op.Value)
	}
	return uint64(n)
}
