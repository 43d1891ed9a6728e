package stream

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/atomicfile"
)

// files makes the names of a stream's files durable. The server syncs the content
// of a file before it acknowledges a message, but not the directory in which it has made
// the file: after a power cut a file system may have lost the whole of it.
type files struct {
	dir    string // of the bus
	stream string

	mu    sync.Mutex
	msgs  string   // the directory of the messages, "" until it is known
	names []string // its files that are known to be durable
}

// sync makes durable what has been made or removed since the last time. The first time
// that is everything, with the directories on the way there and the end of the last
// file: a process that was killed may have left it unsynced, and its successor builds on
// it.
func (f *files) sync() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.msgs == "" {
		return f.first()
	}
	names, err := namesIn(f.msgs)
	if err != nil || slices.Equal(names, f.names) {
		return err
	}
	if err := atomicfile.SyncDir(f.msgs); err != nil {
		return err
	}
	f.names = names
	return nil
}

// first is the first sync. The mutex is held.
func (f *files) first() error {
	found, err := filepath.Glob(filepath.Join(f.dir, "jetstream", "jetstream", "*", "streams", f.stream, "msgs"))
	if err != nil || len(found) != 1 {
		return fmt.Errorf("sync stream %s: it has %d directories below %s, not one: %w",
			f.stream, len(found), f.dir, errors.Join(err, errLogDamaged))
	}
	msgs := found[0]
	names, err := namesIn(msgs)
	if err != nil {
		return err
	}
	last := uint64(0)
	for _, name := range names {
		if n, ok := blockNumber(name); ok {
			last = max(last, n)
		}
	}
	if last > 0 {
		if err := syncFile(filepath.Join(msgs, fmt.Sprintf("%d.blk", last))); err != nil {
			return err
		}
	}
	// From the messages up to the directory of the bus, and to the one that has that.
	for dir := msgs; ; dir = filepath.Dir(dir) {
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
		if dir == filepath.Dir(f.dir) || dir == filepath.Dir(dir) {
			break
		}
	}
	f.msgs, f.names = msgs, names
	return nil
}

// namesIn are the names in a directory, in order.
func namesIn(dir string) ([]string, error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("look at the store: %w", err)
	}
	names, err := d.Readdirnames(-1)
	if err = errors.Join(err, d.Close()); err != nil {
		return nil, fmt.Errorf("look at the store: %w", err)
	}
	slices.Sort(names)
	return names, nil
}

func syncFile(path string) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it was cut off meanwhile
	}
	if err == nil {
		err = errors.Join(file.Sync(), file.Close())
	}
	if err != nil {
		return fmt.Errorf("sync %s: %w", path, err)
	}
	return nil
}
