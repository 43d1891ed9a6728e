package backup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/bus/busserver"
	"github.com/verge-edge/verge/internal/wire"
)

// MarkKey is the key in a restored store that says so.
const MarkKey = "restored"

// Mark is what is under MarkKey in a store that was restored, or that is an older copy
// of one that went on, until its role has found out all that it can about what happened
// since.
type Mark struct {
	V int `json:"v"`
	// At is when it was restored, Made when the backup was made.
	At   time.Time `json:"at"`
	Made time.Time `json:"made"`
	// Dropped are keys of records that somebody has dropped since they could not be read
	// (verge records drop). Where there are some nothing was restored: all else in the store
	// is what it was. Made is then At.
	Dropped []string `json:"dropped,omitempty"`
	// Ahead is who proved that the store is an older copy: it had seen what the store
	// does not have. "" where a backup was restored. At and Made are then when the
	// store began to differ from the one that went on.
	Ahead string `json:"ahead,omitempty"`
	// Twin is when somebody was last found to have been told by another process with
	// the same keys while this one was running.
	Twin time.Time `json:"twin,omitzero"`
	// Asked are those below that have been asked, and said, what they hold.
	Asked map[string]time.Time `json:"asked,omitempty"`
	// Seen are the revisions that they had then, as versions before Settled wrote them.
	Seen map[string]wire.Rev `json:"seen,omitempty"`
}

// Heard is a copy of m that says that somebody has said what it holds.
func (m *Mark) Heard(name string, at time.Time) *Mark {
	next := *m
	next.Asked = copyOf(m.Asked)
	next.Asked[name] = at.Round(0)
	return &next
}

// Proof is what a peer has proved.
type Proof struct {
	Peer, By string   // its name in Mark.Asked, and in words
	Has      wire.Rev // the state that it was told, in which the store has never been
	From     wire.Era // in which the store may have begun to differ from the one that was
	Twin     bool     // this process had told the peer something before
}

// Behind is the mark of a store that a peer has proved to be an older copy of one that went
// on. It is nil where that leads to no question: where m, the mark that is there (nil: none),
// or what is settled covers it. peers are all that can be asked.
func (m *Mark) Behind(past *Settled, p Proof, peers []string, now time.Time) *Mark {
	var next Mark
	switch {
	case m != nil && len(m.Dropped) == 0 && m.Asked[p.Peer].IsZero():
		return nil
	case past.covers(p.Peer, p.Has, p.Twin) || m != nil && m.Seen[p.Peer] == p.Has:
		return nil
	case m != nil && len(m.Dropped) == 0:
		next = *m
		next.Asked = copyOf(m.Asked)
		delete(next.Asked, p.Peer)
	case p.Twin && past != nil && past.Until != 0:
		// The others have been asked, and are asked again when they prove something.
		next = Mark{V: wire.Version, At: past.At, Made: past.At, Ahead: p.By, Asked: map[string]time.Time{}}
		for _, peer := range peers {
			if peer != p.Peer {
				next.Asked[peer] = past.At
			}
		}
	default: // a recovery of dropped records asks for less
		at := p.From.Began()
		if at.IsZero() {
			at = now
		}
		next = Mark{V: wire.Version, At: at.Round(0), Made: at.Round(0), Ahead: p.By}
	}
	if p.Twin {
		next.Twin = now.Round(0)
	}
	return &next
}

func copyOf[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return maps.Clone(m)
}

// Restore makes the data directory dir of an archive: as a whole or not at all. dir
// must not be there, or be empty. The contents of objects, which are read beside it
// (ReadInto), are moved into it.
func Restore(ctx context.Context, dir string, a Archive, now time.Time, log *slog.Logger) (err error) {
	if err := vacant(dir); err != nil {
		return err
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	parent := filepath.Dir(dir)
	if err := atomicfile.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	// Beside it, so that it is put in place by a change of its name.
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+".restoring-*")
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(tmp))
		}
	}()
	for _, f := range a.Files {
		if err := put(tmp, f); err != nil {
			return fmt.Errorf("restore: %w", err)
		}
	}
	if a.Dir != "" && a.Contents > 0 {
		if err := os.Rename(a.Dir, filepath.Join(tmp, ObjectsDir)); err != nil {
			return fmt.Errorf("restore: contents of objects: %w", err)
		}
		if err := atomicfile.SyncDir(filepath.Join(tmp, ObjectsDir)); err != nil {
			return fmt.Errorf("restore: contents of objects: %w", err)
		}
	}
	mark, err := json.Marshal(Mark{V: wire.Version, At: now.Round(0), Made: a.Made})
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	snap := a.Store
	snap.Amend(MarkKey, mark)
	store := filepath.Join(tmp, StoreDir)
	if err := atomicfile.MkdirAll(store, 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := busserver.WriteSnapshot(ctx, store, snap, log); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	if err := vacant(dir); err != nil {
		return err
	}
	// An empty directory gives way; one that is not cannot be removed like that.
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore: %w", err)
	}
	if err := os.Rename(tmp, dir); err != nil {
		return fmt.Errorf("restore: put the data directory in place: %w", err)
	}
	return atomicfile.SyncDir(parent)
}

// put writes one file of an archive.
func put(dir string, f File) error {
	local, err := filepath.Localize(f.Path)
	if err != nil {
		return fmt.Errorf("file %q of the backup: %w", f.Path, err)
	}
	p := filepath.Join(dir, local)
	if err := atomicfile.MkdirAll(filepath.Dir(p), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(p, f.Data, 0o600)
}

// vacant says whether nothing is in dir that could be lost.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return wire.Problemf(0, "bad-data-dir", "choose another --data-dir", "the data directory cannot be used", "%v",
			err)
	case len(entries) == 0:
		return nil
	}
	why := fmt.Sprintf("%s holds %s and more", dir, entries[0].Name())
	if inUse(dir) {
		why = fmt.Sprintf("a process works in %s", dir)
	}
	return wire.Problemf(0, "data-dir-not-empty", "choose another --data-dir, or move that one away first",
		"nothing is restored over what is there", "%s", why)
}

// inUse: a root or cluster has dir open.
func inUse(dir string) bool {
	lock := filepath.Join(dir, StoreDir, "lock")
	if _, err := os.Stat(lock); err != nil {
		return false
	}
	unlock, err := atomicfile.Lock(lock)
	if err != nil {
		return errors.Is(err, atomicfile.ErrLocked)
	}
	unlock()
	return false
}
