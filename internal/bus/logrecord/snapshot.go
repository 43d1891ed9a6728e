package logrecord

import (
	"fmt"
	"iter"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/wire"
)

// snapshotStep bounds the values in one record of a snapshot.
const snapshotStep = 1 << 20

// Snapshot are a snapshot in the form in which a store keeps it.
func Snapshot(c bus.Snapshot) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		head := Record{Floor: c.Floor, Timeline: c.Timeline}
		if head.Timeline == nil {
			head.Timeline = wire.Timeline{}
		}
		if b, err := head.Encode(); !yield(b, err) || err != nil {
			return
		}
		for rest := c.Entries; len(rest) > 0; {
			n, size := 0, 0
			for n < len(rest) && n < bus.MaxCommitOps && (n == 0 || size+len(rest[n].Value) <= snapshotStep) {
				size += len(rest[n].Key) + len(rest[n].Value) + bus.EntryOverhead
				n++
			}
			b, err := Record{Floor: c.Floor, Entries: rest[:n]}.Encode()
			if !yield(b, err) || err != nil {
				return
			}
			rest = rest[n:]
		}
	}
}

// ReadSnapshot reads what Records wrote. It checks all of it.
func ReadSnapshot(records iter.Seq2[[]byte, error]) (bus.Snapshot, error) {
	var c bus.Snapshot
	for b, err := range records {
		if err != nil {
			return bus.Snapshot{}, err
		}
		part, err := Decode(b)
		if err != nil {
			return bus.Snapshot{}, err
		}
		if part.Timeline != nil {
			c.Timeline = part.Timeline
		}
		c.Floor = max(c.Floor, part.Floor)
		for _, e := range part.Entries {
			if err := bus.CheckKey(e.Key); err != nil {
				return bus.Snapshot{}, fmt.Errorf("%w: %w", errDamaged, err)
			}
			if e.Rev <= c.Last || len(e.Value) > bus.MaxValueBytes {
				return bus.Snapshot{}, fmt.Errorf("%w: entry %s", errDamaged, e.Key)
			}
			c.Last = e.Rev
			c.Entries = append(c.Entries, e)
		}
	}
	if len(c.Timeline) == 0 {
		return bus.Snapshot{}, fmt.Errorf("%w: it has no timeline", errDamaged)
	}
	return c, nil
}
