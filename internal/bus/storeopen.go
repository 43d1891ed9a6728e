package bus

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
	"github.com/verge-edge/verge/internal/wire"
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
		return 0, fmt.Errorf("%s is damaged (%w): if the rest of the directory is what it was, remove this file; else restore the directory from a backup", path, err)
	}
	return n, nil
}

// mark notes how far the log has come.
func (s *store) mark() error {
	if s.marked == s.seq {
		return nil
	}
	err := atomicfile.Write(filepath.Join(s.dir, storeMarker), fmt.Appendf([]byte(markerHead), markerLast, s.seq), 0o600)
	if err == nil {
		s.marked = s.seq
	}
	return err
}

// openStore opens the log of a server, or makes it, loads it into memory, and
// begins a new era. nc is used by nobody else.
func openStore(ctx context.Context, nc *nats.Conn, dir string, log *slog.Logger) (_ *store, err error) {
	s := &store{
		log: log, js: &jsLog{nc: nc, files: &streamFiles{dir: dir, stream: streamName}}, m: newMirror(), dir: dir,
		free: freeBytes, patience: ackTimeout, slack: cleanSlack,
		turn: make(chan struct{}, 1),
	}
	state, err := s.openStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("open store in %s: %w", dir, err)
	}
	s.js.rest = newRester()
	defer func() {
		if err != nil {
			s.js.rest.end()
		}
	}()
	former, err := s.load(ctx, state)
	if err != nil {
		return nil, fmt.Errorf("load store in %s: %w", dir, err)
	}
	// The new era is durable before anything else is served.
	s.timeline = former.Next(s.rev)
	if err := s.checkSpace(0); err != nil {
		return nil, fmt.Errorf("begin a new era of the store: %w", err)
	}
	if _, err := s.writeLocked(content{floor: s.m.floor, timeline: s.timeline}); err != nil {
		return nil, fmt.Errorf("begin a new era of the store in %s: %w", dir, err)
	}
	if err := s.mark(); err != nil {
		return nil, fmt.Errorf("begin a new era of the store in %s: %w", dir, err)
	}
	return s, nil
}

// openStream returns the state of the stream, which it makes in a new directory.
func (s *store) openStream(ctx context.Context) (server.StreamState, error) {
	var none server.StreamState
	marker := filepath.Join(s.dir, storeMarker)
	var info server.JSApiStreamInfoResponse
	if err := s.js.call(ctx, apiStreamInfo, nil, &info); err != nil {
		return none, err
	}
	if info.Error == nil {
		return info.State, s.js.files.sync()
	}
	if info.Error.ErrCode != uint16(server.JSStreamNotFoundErr) {
		return none, errors.New(info.Error.Description)
	}
	if _, err := os.Stat(marker); err == nil {
		return none, errors.New("the data of the store is missing or damaged: restore the directory from a backup, or delete it to start empty")
	} else if !errors.Is(err, os.ErrNotExist) {
		return none, err
	}
	var created server.JSApiStreamCreateResponse
	if err := s.js.call(ctx, apiStreamCreate, streamConfig(), &created); err != nil {
		return none, err
	}
	if created.Error != nil {
		return none, errors.New(created.Error.Description)
	}
	if err := s.js.files.sync(); err != nil {
		return none, err
	}
	return none, atomicfile.Write(marker, []byte(markerHead), 0o600)
}

// loaded is the latest entry of a key while the log is read.
type loaded struct {
	entry Entry
	home  *record
}

// load reads the log into the mirror and returns the timeline in force.
func (s *store) load(ctx context.Context, state server.StreamState) (wire.Timeline, error) {
	var former wire.Timeline
	var count, floor uint64
	latest := map[string]loaded{}
	err := s.js.each(ctx, state.FirstSeq, state.LastSeq, func(seq uint64, data []byte) error {
		c, err := decodeContent(data)
		if err != nil {
			return err
		}
		count++
		home := s.noteLocked(seq, len(data), c)
		floor = max(floor, c.floor)
		if c.timeline != nil {
			former = c.timeline
		}
		for _, e := range c.entries {
			// The later one in the log is the later one in time, or a moved copy.
			latest[e.Key] = loaded{e, home}
			s.rev = max(s.rev, e.Rev)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if count != state.Msgs || (state.LastSeq > 0 && former == nil) {
		return nil, fmt.Errorf("%d of %d messages are readable: the data is damaged: restore the directory from a backup", count, state.Msgs)
	}
	s.seq = state.LastSeq
	s.fill(latest, floor)
	return former, nil
}

// fill puts what was read into the mirror, by revision.
func (s *store) fill(latest map[string]loaded, floor uint64) {
	all := make([]loaded, 0, len(latest))
	for _, l := range latest {
		if !l.entry.Deleted || l.entry.Rev > floor {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b loaded) int { return cmp.Compare(a.entry.Rev, b.entry.Rev) })
	entries := make([]Entry, len(all))
	for i, l := range all {
		entries[i] = l.entry
	}
	s.m.applyLocked(entries, func(i int) *record { return all[i].home })
	s.m.floor = floor
}
