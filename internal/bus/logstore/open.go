package logstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/logrecord"
	"github.com/verge-edge/verge/internal/bus/memtable"
	"github.com/verge-edge/verge/internal/bus/stream"
	"github.com/verge-edge/verge/internal/wire"
)

// The stream of a store, and the subject of all its messages.
const (
	streamName = "STORE"
	logSubject = "log"
)

// storeMarker is a file that says that the directory has a store, so that one
// that JetStream cannot recover is not taken for a new one; and which sequence
// number the log had reached when it was opened, or closed in order, so that one
// that was cut off is not taken for a shorter one.
const storeMarker = "store"

const (
	markerHead = "verge store 1\n"
	markerLast = "last %d\n"
	maxMarker  = 100
)

// Has says whether there is a store in dir.
func Has(dir string) (bool, error) {
	_, err := os.Stat(filepath.Join(dir, storeMarker))
	if errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Check looks at the files of the log in dir before a server opens them.
func Check(dir string) error {
	had, err := reached(dir)
	if err != nil {
		return err
	}
	return stream.Check(dir, streamName, logSubject, had)
}

// reached is what the marker in dir says, 0 if it says nothing.
func reached(dir string) (n uint64, err error) {
	path := filepath.Join(dir, storeMarker)
	b, err := atomicfile.ReadBounded(path, maxMarker)
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if rest, ok := strings.CutPrefix(string(b), markerHead); !ok {
		err = errors.New("it is something else")
	} else if rest != "" { // else it is of before this was noted
		_, err = fmt.Sscanf(rest, markerLast, &n)
	}
	if err != nil {
		return 0, fmt.Errorf("%s is damaged (%w): if the rest of the directory is what it was, remove this file; "+
			"else restore the directory from a backup", path, err)
	}
	return n, nil
}

// mark notes how far the log has come.
func (w *writer) mark() error {
	if w.marked == w.seq {
		return nil
	}
	err := atomicfile.Write(filepath.Join(w.dir, storeMarker), fmt.Appendf([]byte(markerHead), markerLast, w.seq), 0o600)
	if err == nil {
		w.marked = w.seq
	}
	return err
}

func newStore(nc *nats.Conn, dir string, log *slog.Logger) *Store {
	return &Store{
		log: log, js: stream.New(nc, dir, streamName), m: memtable.New(), dir: dir,
		free: stream.FreeBytes, patience: ackTimeout, slack: cleanSlack, turn: make(chan *writer, 1),
	}
}

// Open opens the log of a server, or makes it, loads it into memory, and
// begins a new era. nc is used by nobody else.
func Open(ctx context.Context, nc *nats.Conn, dir string, log *slog.Logger) (_ *Store, err error) {
	s := newStore(nc, dir, log)
	w := &writer{Store: s}
	defer func() {
		if err != nil {
			s.js.Close()
		}
	}()
	state, err := s.openStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	former, err := w.load(ctx, state)
	if err != nil {
		return nil, fmt.Errorf("load store in %s: %w", dir, err)
	}
	// The new era is durable before anything else is served.
	s.timeline = former.Next(w.rev)
	if err := s.checkSpace(0); err != nil {
		return nil, fmt.Errorf("begin a new era of the store: %w", err)
	}
	if _, err := w.write(logrecord.Record{Floor: s.m.Lowest(), Timeline: s.timeline}); err != nil {
		return nil, fmt.Errorf("begin a new era of the store in %s: %w", dir, err)
	}
	if err := w.mark(); err != nil {
		return nil, fmt.Errorf("begin a new era of the store in %s: %w", dir, err)
	}
	w.release()
	return s, nil
}

// openStream returns the state of the stream, which it makes in a new directory.
func (s *Store) openStream(ctx context.Context) (server.StreamState, error) {
	var none server.StreamState
	info, found, err := s.js.Info(ctx, nil)
	if err != nil {
		return none, err
	}
	if found {
		return info.State, s.js.Sync()
	}
	if there, err := Has(s.dir); err != nil {
		return none, err
	} else if there {
		return none, errors.New("the data of the store is missing or damaged: " +
			"restore the directory from a backup, or delete it to start empty")
	}
	if err := s.js.Create(ctx, logSubject); err != nil {
		return none, err
	}
	if err := s.js.Sync(); err != nil {
		return none, err
	}
	return none, atomicfile.Write(filepath.Join(s.dir, storeMarker), []byte(markerHead), 0o600)
}

// loaded is the latest entry of a key while the log is read.
type loaded struct {
	entry bus.Entry
	home  *memtable.Message
}

// load reads the log into the table and returns the current timeline.
func (w *writer) load(ctx context.Context, state server.StreamState) (wire.Timeline, error) {
	var former wire.Timeline
	var count, floor uint64
	latest := map[string]loaded{}
	err := w.js.Each(ctx, state.FirstSeq, state.LastSeq, func(seq uint64, data []byte) error {
		c, err := logrecord.Decode(data)
		if err != nil {
			return err
		}
		count++
		home := w.note(seq, len(data), c)
		floor = max(floor, c.Floor)
		if c.Timeline != nil {
			former = c.Timeline
		}
		for _, e := range c.Entries {
			// The later one in the log is the later one in time, or a moved copy.
			latest[e.Key] = loaded{e, home}
			w.rev = max(w.rev, e.Rev)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if count != state.Msgs || (state.LastSeq > 0 && former == nil) {
		return nil, fmt.Errorf("%d of %d messages are readable: the data is damaged: restore the directory from a backup",
			count, state.Msgs)
	}
	w.seq = state.LastSeq
	w.fill(latest, floor)
	return former, nil
}

// fill puts what was read into the table, by revision.
func (w *writer) fill(latest map[string]loaded, floor uint64) {
	all := make([]loaded, 0, len(latest))
	for _, l := range latest {
		if !l.entry.Deleted || l.entry.Rev > floor {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b loaded) int { return cmp.Compare(a.entry.Rev, b.entry.Rev) })
	entries := make([]bus.Entry, len(all))
	for i, l := range all {
		entries[i] = l.entry
	}
	w.m.Fill(entries, floor, func(i int) *memtable.Message { return all[i].home })
}
