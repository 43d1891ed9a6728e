package bus

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
)

// Snapshot is all that a store holds at one moment, tombstones included, and the
// timeline that it belongs to: a store that is made of it is known to be a copy
// by whoever saw what the original did later.
type Snapshot struct {
	Timeline wire.Timeline
	// Last is the last revision that was given, Floor that of the newest tombstone
	// which is no longer kept.
	Last, Floor uint64
	// Entries by revision. Their values are shared with the store.
	Entries []Entry
}

// Amend adds an entry after all others, in an era of its own: the original may
// have given the revision to something else after the copy was made.
func (c *Snapshot) Amend(key string, value []byte) {
	c.Timeline = c.Timeline.Next(c.Last)
	c.Last++
	c.Entries = append(c.Entries, Entry{Key: key, Value: value, Rev: c.Last})
}

// List returns the live entries whose key starts with prefix, by revision.
func (c *Snapshot) List(prefix string) []Entry {
	m := newMirror()
	m.applyLocked(c.Entries, func(int) *record { return nil })
	return m.list(prefix)
}

// snapshotStep bounds the values in one record of a snapshot.
const snapshotStep = 1 << 20

// Records are the snapshot in the form in which a store keeps it.
func (c Snapshot) Records() iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		head := content{floor: c.Floor, timeline: c.Timeline}
		if head.timeline == nil {
			head.timeline = wire.Timeline{}
		}
		if b, err := head.encode(); !yield(b, err) || err != nil {
			return
		}
		for rest := c.Entries; len(rest) > 0; {
			n, size := 0, 0
			for n < len(rest) && n < MaxCommitOps && (n == 0 || size+len(rest[n].Value) <= snapshotStep) {
				size += len(rest[n].Key) + len(rest[n].Value) + itemOverhead
				n++
			}
			b, err := content{floor: c.Floor, entries: rest[:n]}.encode()
			if !yield(b, err) || err != nil {
				return
			}
			rest = rest[n:]
		}
	}
}

// ReadSnapshot reads what Records wrote. It checks all of it.
func ReadSnapshot(records iter.Seq2[[]byte, error]) (Snapshot, error) {
	var c Snapshot
	for b, err := range records {
		if err != nil {
			return Snapshot{}, err
		}
		part, err := decodeContent(b)
		if err != nil {
			return Snapshot{}, err
		}
		if part.timeline != nil {
			c.Timeline = part.timeline
		}
		c.Floor = max(c.Floor, part.floor)
		for _, e := range part.entries {
			if err := checkKey(e.Key); err != nil {
				return Snapshot{}, fmt.Errorf("%w: %w", errRecord, err)
			}
			if e.Rev <= c.Last || len(e.Value) > MaxValueBytes {
				return Snapshot{}, fmt.Errorf("%w: entry %s", errRecord, e.Key)
			}
			c.Last = e.Rev
			c.Entries = append(c.Entries, e)
		}
	}
	if len(c.Timeline) == 0 {
		return Snapshot{}, fmt.Errorf("%w: it has no timeline", errRecord)
	}
	return c, nil
}

// offline opens the log of a server that does not run. close must be called.
func offline(ctx context.Context, dir string, log *slog.Logger) (_ *store, close func(), err error) {
	e, err := start(ctx, dir, baseOptions("verge-restore", "restore", dir), noPeer, log, accountSystem, accountStore)
	if err != nil {
		return nil, nil, err
	}
	conn, err := e.connect(accountStore, false)
	if err != nil {
		e.close()
		return nil, nil, err
	}
	s := &store{
		log: log, js: &jsLog{nc: conn.nc, rest: newRester(), files: &streamFiles{dir: dir, stream: streamName}}, m: newMirror(), dir: dir,
		free: freeBytes, patience: ackTimeout, slack: cleanSlack, turn: make(chan struct{}, 1),
	}
	return s, func() { s.js.rest.end(); e.close() }, nil
}

// ReadStore copies the store of a server that does not run; nothing of it changes.
func ReadStore(ctx context.Context, dir string, log *slog.Logger) (Snapshot, error) {
	if _, err := os.Stat(filepath.Join(dir, storeMarker)); err != nil {
		return Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	s, end, err := offline(ctx, dir, log)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	defer end()
	state, err := s.openStream(ctx)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	timeline, err := s.load(ctx, state)
	if err != nil {
		return Snapshot{}, fmt.Errorf("read a store: %w", err)
	}
	return s.m.snapshot(timeline, s.rev), nil
}

// Edit opens the store of a server that does not run, for fn. As with each start, a new era
// of the store begins.
func Edit(ctx context.Context, dir string, log *slog.Logger, fn func(Store) error) error {
	if _, err := os.Stat(filepath.Join(dir, storeMarker)); err != nil {
		return fmt.Errorf("open a store: %w", err)
	}
	e, err := start(ctx, dir, baseOptions("verge-edit", "edit", dir), noPeer, log, accountSystem, accountStore)
	if err != nil {
		return fmt.Errorf("open a store: %w", err)
	}
	defer e.close()
	conn, err := e.connect(accountStore, false)
	if err != nil {
		return err
	}
	s, err := openStore(ctx, conn.nc, dir, log)
	if err != nil {
		return err
	}
	defer s.close()
	return fn(s)
}

// WriteSnapshot makes the store of a server that does not run of a copy: dir is as
// RootOptions.Dir or ClusterOptions.Dir, with the keys in it that belong to the
// copy, and without a store. What it leaves after an error must be removed.
func WriteSnapshot(ctx context.Context, dir string, c Snapshot, log *slog.Logger) (err error) {
	marker := filepath.Join(dir, storeMarker)
	if _, err := os.Stat(marker); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("there is a store in %s already", dir), err)
	}
	s, end, err := offline(ctx, dir, log)
	if err != nil {
		return fmt.Errorf("make a store of a copy: %w", err)
	}
	defer end()
	if _, err := s.openStream(ctx); err != nil {
		return fmt.Errorf("make a store of a copy: %w", err)
	}
	for b, err := range c.Records() {
		if err == nil {
			err = s.checkSpace(uint64(len(b)))
		}
		if err == nil {
			_, err = s.js.append(b, -1, ackTimeout+ackPerMiB)
		}
		if err != nil {
			return fmt.Errorf("make a store of a copy: %w", err)
		}
	}
	return atomicfile.Write(marker, []byte("verge store 1\n"), 0o600)
}
