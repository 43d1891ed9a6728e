package logs

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Bounds of one answer of a log. As text in a message it grows by a third.
const (
	defaultLog = 64 << 10
	MaxLog     = 512 << 10
	// followEvery is how often a log is looked at while a reader waits: programs write to the file
	// themselves.
	followEvery = 100 * time.Millisecond
)

// Read reads what an instance has written: at most q.Max bytes (0: 64 KiB, at most
// 512 KiB). If there is nothing it waits for something, at most for q.Wait.
func (s *Store) Read(ctx context.Context, id wire.InstanceID, q rpc.LogAsk) (rpc.LogChunk, error) {
	most := min(q.Max, MaxLog)
	if most <= 0 {
		most = defaultLog
	}
	dir, running, err := s.locate(id, q.Incarnation)
	if err != nil {
		return rpc.LogChunk{}, err
	}
	part := logfile.Range{To: math.MaxInt64}
	if q.Previous {
		if part, err = previousRun(id, dir, running); err != nil {
			return rpc.LogChunk{}, err
		}
	}
	offset := q.Offset
	read := func() (rpc.LogChunk, error) {
		if _, err := os.Stat(dir); os.IsNotExist(err) {
			return rpc.LogChunk{Next: max(offset, 0)}, nil // nothing was logged ever
		}
		c, err := logfile.ReadWithin(dir, part, offset, most)
		if err == nil && q.Times && len(c.Data) > 0 {
			c.Times, err = logfile.Times(dir, logfile.Range{From: c.Next - int64(len(c.Data)), To: c.Next})
		}
		if err != nil {
			err = fmt.Errorf("log of %s: %w", id, err)
		}
		return c, err
	}
	if q.Since > 0 {
		from, known, err := logfile.Since(dir, time.Now().Add(-q.Since))
		if err != nil {
			return rpc.LogChunk{}, fmt.Errorf("log of %s: %w", id, err)
		}
		if !known { // of a program that writes to the file itself
			from = s.marks.before(id, time.Now().Add(-q.Since))
		}
		if offset < 0 {
			// Where those lines begin is known when they are read.
			c, err := read()
			if err != nil {
				return rpc.LogChunk{}, err
			}
			offset = c.Next - int64(len(c.Data))
		}
		offset = max(offset, from)
	}
	var until <-chan time.Time
	if wait := min(q.Wait, state.MaxWait); wait > 0 {
		t := time.NewTimer(wait)
		defer t.Stop()
		until = t.C
	}
	for {
		c, err := read()
		if err != nil {
			return rpc.LogChunk{}, err
		}
		if len(c.Data) > 0 || c.Lost > 0 || until == nil {
			return c, nil
		}
		offset = c.Next
		t := time.NewTimer(followEvery)
		select {
		case <-t.C:
		case <-until:
			t.Stop()
			return c, nil
		case <-ctx.Done():
			t.Stop()
			return rpc.LogChunk{}, ctx.Err()
		case <-s.o.Ended:
			t.Stop()
			return c, nil
		}
	}
}
