package leftover

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/wire"
)

// entry is what an engine registers. It lies in a file system in memory: what it is about
// does not outlive the machine's next start either.
type entry struct {
	Dir string `json:"dir"`
	PID int    `json:"pid"` // of the engine
}

// maxEntry bounds the file of an entry.
const maxEntry = 1 << 14

func registry(o Options) string {
	switch {
	case o.Registry != "":
		return o.Registry
	case os.Geteuid() == 0:
		return "/run/verge/workers"
	}
	return filepath.Join("/run/user", strconv.Itoa(os.Geteuid()), "verge/workers")
}

// Register notes that this process is the engine of the worker in dir, so that what the
// worker leaves can be led back to it. forget removes the note; it is called when nothing of
// the worker is left.
func Register(dir string) (forget func(), err error) { return register(Options{}, dir) }

func register(o Options, dir string) (forget func(), err error) {
	b, err := json.Marshal(entry{Dir: dir, PID: os.Getpid()})
	if err != nil {
		return nil, err
	}
	at := registry(o)
	if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // anybody may know where workers are
		return nil, fmt.Errorf("register the worker: %w", err)
	}
	file := filepath.Join(at, wire.Mark(dir))
	if err := atomicfile.Write(file, b, 0o644); err != nil {
		return nil, fmt.Errorf("register the worker: %w", err)
	}
	return func() { _ = os.Remove(file) }, nil // an entry too many names a worker that has left nothing
}

// entries are the workers that are registered, by their marks.
func entries(o Options) (map[string]entry, error) {
	at := registry(o)
	list, err := os.ReadDir(at)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list workers: %w", err)
	}
	out := map[string]entry{}
	for _, f := range list {
		var e entry
		b, err := atomicfile.ReadBounded(filepath.Join(at, f.Name()), maxEntry)
		if err != nil || json.Unmarshal(b, &e) != nil || wire.Mark(e.Dir) != f.Name() {
			continue // half of it was written, or it is somebody else's
		}
		out[f.Name()] = e
	}
	return out, nil
}
