package logstore

import (
	"context"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/verge-edge/verge/internal/bus/logrecord"
	"github.com/verge-edge/verge/internal/bus/memtable"
)

// The log is kept short the way log-structured stores do it: what is still
// valid at its old end is written again at its new end, then the old end is cut
// off. Each byte that is written causes at most about one more to be written.
const (
	// cleanSlack is how much more than twice its content the log may take.
	cleanSlack = 8 << 20
	// cleanStep bounds what one Commit moves, so that none takes long.
	cleanStep = 1 << 20
	// purgeStep is how much is cut off at a time: a cut rewrites a file.
	purgeStep = 4 << 20
)

// tidy bounds tombstones and log. It is called after a Commit; what fails
// is tried again after the next.
func (w *writer) tidy() {
	// Forgotten here only: the log has them until they are cut off, and by then
	// it has the floor.
	w.m.Trim()
	if w.logBytes > 2*w.m.Size()+w.slack {
		if err := w.move(); err != nil {
			w.log.Warn("clean the log: move", "error", err)
			return
		}
	}
	if err := w.purge(); err != nil {
		w.log.Warn("clean the log: cut off", "error", err)
	}
}

// move writes the live items of the oldest records again.
func (w *writer) move() error {
	homes := map[*memtable.Message]bool{}
	total := 0
	c := logrecord.Record{Floor: w.m.Lowest()}
	for _, r := range w.records {
		if r.Live == 0 {
			continue
		}
		if total += r.Size; total > cleanStep && len(homes) > 0 {
			break
		}
		homes[r] = true
		if r == w.timelineAt {
			c.Timeline = w.timeline
		}
	}
	items := w.m.At(homes)
	for _, it := range items {
		c.Entries = append(c.Entries, it.Entry)
	}
	home, err := w.write(c)
	if err != nil {
		return err
	}
	w.m.Move(items, home)
	return nil
}

// purge cuts off records without live items from the old end.
func (w *writer) purge() error {
	dead, bytes := 0, 0
	for dead < len(w.records) && w.records[dead].Live == 0 {
		bytes += w.records[dead].Size
		dead++
	}
	if bytes < min(purgeStep, w.slack) || dead == len(w.records) {
		return nil
	}
	if w.loggedFloor < w.m.Lowest() {
		if _, err := w.write(logrecord.Record{Floor: w.m.Lowest()}); err != nil {
			return err
		}
	}
	err := w.js.Purge(context.Background(), server.JSApiStreamPurgeRequest{Sequence: w.records[dead].Seq})
	if err != nil {
		return fmt.Errorf("purge the log: %w", err)
	}
	// Otherwise some of what was cut off could come back without the rest of it.
	if err := w.js.Sync(); err != nil {
		return err
	}
	w.records = w.records[dead:]
	w.logBytes -= bytes
	return nil
}
