package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// maxVolumeList is how many volumes fit one answer.
	maxVolumeList = 4000
	// removing begins the names of what is being removed.
	removing = ".removing-"
)

// Options of a VolumeStore.
type Options struct {
	// Dir is the directory of the engine.
	Dir    string
	Worker string
	// HostPaths are the directories of the machine that instances may have.
	HostPaths []string
	// Objects is where volumes are put while they are moved.
	Objects ObjectStore
	Log     *slog.Logger
}

// Store has the named volumes of a worker.
type Store struct {
	o        Options
	clearing sync.Mutex // one Clear at a time
}

// New has the volumes below a directory.
func New(o Options) *Store { return &Store{o: o} }

// List lists the named volumes of this worker, by namespace, instance and name. Whether they
// are in use is left open.
func (s *Store) List(ctx context.Context) ([]rpc.VolumeView, error) {
	out := []rpc.VolumeView{}
	base := filepath.Join(s.o.Dir, Dir)
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(base, path) // path is below base
		parts := strings.Split(filepath.ToSlash(rel), "/")
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case rel == ".":
			return nil
		case !d.IsDir():
			return nil
		case strings.HasPrefix(parts[0], removing):
			return fs.SkipDir
		case len(parts) < 3:
			return nil
		}
		v := rpc.VolumeView{VolumeRef: wire.VolumeRef{Namespace: parts[0], Instance: parts[1], Name: parts[2]}}
		if Check(v.VolumeRef) != nil {
			return fs.SkipDir // nothing of ours
		}
		if info, err := d.Info(); err == nil {
			v.Changed = info.ModTime().Round(0)
		}
		if out = append(out, v); len(out) > maxVolumeList {
			return wire.Problemf(http.StatusRequestEntityTooLarge, "too-many-volumes",
				"look into the folder "+base+" of the worker", "the volumes cannot be listed", "there are more than %d",
				maxVolumeList)
		}
		return fs.SkipDir
	})
	if err != nil {
		return nil, fmt.Errorf("list the volumes: %w", err)
	}
	m := measure{ctx: ctx, until: time.Now().Add(measureVolumes)}
	for i := range out {
		v := &out[i]
		v.Bytes, v.Partial = m.dir(filepath.Join(base, v.Namespace, v.Instance, v.Name))
	}
	return out, nil
}

// measure adds up what directories take on the disk, for a bounded time.
type measure struct {
	ctx   context.Context //nolint:containedctx // of this one question
	until time.Time
	n     int
}

const (
	measureVolumes = time.Second
	measureEntries = 200_000
)

// dir is what is in a directory, at least so much if partial.
func (m *measure) dir(dir string) (bytes int64, partial bool) {
	seen := map[[2]uint64]bool{}
	over := errors.New("enough")
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if m.n++; m.n > measureEntries || m.n%256 == 0 && (time.Now().After(m.until) || m.ctx.Err() != nil) {
			m.n = max(m.n, measureEntries) // nor is anything else looked at
			return over
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // gone meanwhile
		}
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return nil //nolint:nilerr // as above
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			bytes += info.Size()
			return nil
		}
		if st.Nlink > 1 && !d.IsDir() {
			id := [2]uint64{uint64(st.Dev), st.Ino} //nolint:gosec,unconvert // a name
			if seen[id] {
				return nil
			}
			seen[id] = true
		}
		bytes += st.Blocks * 512
		return nil
	})
	return bytes, err != nil
}

// Names says whether an order names a volume.
func Names(o *wire.Order, r wire.VolumeRef) bool {
	return o.ID == r.Instance && o.Spec != nil && wire.OrderNamespace(o) == r.Namespace &&
		slices.ContainsFunc(o.Spec.Volumes, func(v api.Volume) bool { return v.Name == r.Name })
}

// Remove removes a named volume that nothing uses, with all that is in it. It is moved aside
// in one step, for Clear: an instance that comes then begins with an empty one.
func (s *Store) Remove(r wire.VolumeRef) error {
	base := filepath.Join(s.o.Dir, Dir)
	aside := filepath.Join(base, removing+wire.NewID())
	err := os.Rename(s.dir(r), aside)
	if err == nil {
		err = atomicfile.SyncDir(filepath.Join(base, r.Namespace, r.Instance))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return wire.Problemf(http.StatusNotFound, "no-such-volume", "verge volume ls", "there is no such volume",
			"%s is not on worker %s", r, s.o.Worker)
	}
	if err != nil {
		return fmt.Errorf("remove volume %s: %w", r, err)
	}
	s.o.Log.Info("a volume is removed", "volume", r.String())
	// Only where they are empty now.
	_ = os.Remove(filepath.Join(base, r.Namespace, r.Instance))
	_ = os.Remove(filepath.Join(base, r.Namespace))
	return nil
}

// Clear removes what was moved aside, also what an engine that was killed has left.
func (s *Store) Clear() error {
	s.clearing.Lock()
	defer s.clearing.Unlock()
	base := filepath.Join(s.o.Dir, Dir)
	list, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var all []error
	for _, d := range list {
		if strings.HasPrefix(d.Name(), removing) {
			all = append(all, os.RemoveAll(filepath.Join(base, d.Name())))
		}
	}
	return errors.Join(append(all, err)...)
}

// Check says whether r can name a volume: nothing of it leads anywhere else.
func Check(r wire.VolumeRef) error {
	if !state.IsLabel(r.Namespace) || !state.ValidID(r.Instance) || !state.IsLabel(r.Name) {
		return fmt.Errorf("%.200q is not the name of a volume", r.String())
	}
	return nil
}
