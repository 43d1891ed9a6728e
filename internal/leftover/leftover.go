package leftover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/engineapi"
)

// Kind of an Item.
type Kind string

// The kinds, in the order in which they are removed.
const (
	Daemon    Kind = "daemon" // an engine or agent whose directory was removed
	Container Kind = "container"
	Process   Kind = "process"
	Cgroup    Kind = "cgroup"
	Mount     Kind = "mount"
	Table     Kind = "nftables table"
	Device    Kind = "device"
)

// devFamily is the Detail of the table of a verge dev.
const devFamily = "ip"

var order = []Kind{Daemon, Container, Process, Cgroup, Mount, Table, Device}

// Item is one thing that a worker left.
type Item struct {
	Kind Kind
	// Name identifies it: a pid, a path, the name of a container, table or device.
	Name string
	// Detail is for people; "" where the name says it all.
	Detail string

	pid      int
	instance string // whose process it is, if it belongs to one
}

// Worker is one that does not run and has left something.
type Worker struct {
	// Mark is a prefix of the SHA-256 of its data directory, in hexadecimal; the longest
	// that is known.
	Mark string
	// Dir is its data directory, "" where nothing tells.
	Dir string
	// Intact says that the directory still has a worker in it: started again, it takes up
	// what it left.
	Intact bool
	// Dev says that it is no worker but the network of the workers of a verge dev.
	Dev   bool
	Items []Item

	forwards bool // the machine forwards IPv4 because of this verge dev
}

// String names the worker.
func (w *Worker) String() string {
	switch {
	case w.Dev && w.Dir == "":
		return "the verge dev with mark " + w.Mark
	case w.Dev:
		return "the verge dev in " + w.Dir + ", which does not run"
	case w.Dir == "":
		return "the worker with mark " + w.Mark
	case w.Intact:
		return "the worker in " + w.Dir + ", which does not run"
	}
	return "the worker in " + w.Dir + ", which was removed"
}

// Summary counts the items: "2 processes, 1 mount".
func (w *Worker) Summary() string {
	var out []string
	for _, k := range order {
		n := 0
		for i := range w.Items {
			if w.Items[i].Kind == k {
				n++
			}
		}
		if n > 0 {
			out = append(out, count(n, k))
		}
	}
	return strings.Join(out, ", ")
}

func count(n int, k Kind) string {
	if n == 1 {
		return "1 " + string(k)
	}
	if k == Process {
		return fmt.Sprintf("%d processes", n)
	}
	return fmt.Sprintf("%d %ss", n, k)
}

func (w *Worker) sort() {
	slices.SortStableFunc(w.Items,
		func(a, b Item) int { return slices.Index(order, a.Kind) - slices.Index(order, b.Kind) })
}

// Options of Find and Remove.
type Options struct {
	// Registry is where engines register, "" for the usual place.
	Registry string
	// Containerd is the address of its socket, "" for the usual one.
	Containerd string
	// Dir limits Find to one worker, "" for all.
	Dir string
	// AgentLocked says to Remove that the caller holds the lock of the agent.
	AgentLocked bool
}

// hasWorker says whether a directory is that of a worker.
func hasWorker(dir string) bool {
	if dir == "" {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, engineapi.EngineConfigFile))
	return err == nil
}

// realDir is a data directory as engines name it: absolute, without links. A directory that
// is gone keeps the part of its path that is.
func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("data directory: %w", err)
	}
	for there, rest := abs, ""; ; there, rest = filepath.Dir(there), filepath.Join(filepath.Base(there), rest) {
		if real, err := filepath.EvalSymlinks(there); err == nil {
			return filepath.Join(real, rest), nil
		}
		if there == filepath.Dir(there) {
			return abs, nil
		}
	}
}
