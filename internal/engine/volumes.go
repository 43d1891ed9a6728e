package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// maxVolumeList is how many volumes fit one answer.
	maxVolumeList = 4000
	// removing begins the names of what is being removed.
	removing = ".removing-"
)

// Volumes lists the named volumes of this worker, by namespace, instance and name.
func (e *Engine) Volumes(ctx context.Context) ([]wire.VolumeView, error) {
	if err := e.wait(ctx); err != nil {
		return nil, err
	}
	out := []wire.VolumeView{}
	base := filepath.Join(e.opts.Dir, volumesDir)
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
		v := wire.VolumeView{VolumeRef: wire.VolumeRef{Namespace: parts[0], Instance: parts[1], Name: parts[2]}}
		if checkVolume(v.VolumeRef) != nil {
			return fs.SkipDir // nothing of ours
		}
		if info, err := d.Info(); err == nil {
			v.Changed = info.ModTime().Round(0)
		}
		if out = append(out, v); len(out) > maxVolumeList {
			return wire.Problemf(http.StatusRequestEntityTooLarge, "too-many-volumes", "look into the folder "+base+" of the worker", "the volumes cannot be listed", "there are more than %d", maxVolumeList)
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
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range out {
		out[i].InUse = e.usesLocked(out[i].VolumeRef)
	}
	return out, nil
}

// measure adds up what directories take on the disk, for a while: who asks waits for it,
// and a disk has other things to do.
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

// usesLocked says whether an instance that is here, or ordered, names a volume.
// Where the orders are not known every one may be used.
func (e *Engine) usesLocked(r wire.VolumeRef) bool {
	if !e.known {
		return true
	}
	names := func(o *wire.Order) bool {
		return o.ID == r.Instance && o.Spec != nil && wire.OrderNamespace(o) == r.Namespace && slices.ContainsFunc(o.Spec.Volumes, isNamed(r.Name))
	}
	for i := range e.orders {
		if names(&e.orders[i]) {
			return true
		}
	}
	in := e.instances[r.Instance]
	if in == nil {
		return false
	}
	goal := in.currentGoal().Order
	run := in.present().Order
	// Of one without an order nobody knows what it names.
	return names(&goal) || names(&run) || (goal.ID == "" && run.ID == "")
}

// RemoveVolume removes a named volume that nothing here uses, with all that is in
// it.
func (e *Engine) RemoveVolume(ctx context.Context, r wire.VolumeRef) error {
	if err := e.wait(ctx); err != nil {
		return err
	}
	if err := checkVolume(r); err != nil {
		return fmt.Errorf("%w: %w", state.ErrBadQuery, err)
	}
	base := filepath.Join(e.opts.Dir, volumesDir)
	aside := filepath.Join(base, removing+wire.NewID())
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.usesLocked(r) {
		return wire.Problemf(http.StatusConflict, "volume-in-use", "delete what uses it first: verge describe instance/"+r.Instance, "the volume is in use", "%s names %s", r.Instance, r.Name)
	}
	// Moved in one step, while nothing can begin to use it: an instance that comes
	// now begins with an empty one.
	err := os.Rename(filepath.Join(base, r.Namespace, r.Instance, r.Name), aside)
	if err == nil {
		err = atomicfile.SyncDir(filepath.Join(base, r.Namespace, r.Instance))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return wire.Problemf(http.StatusNotFound, "no-such-volume", "verge volume ls", "there is no such volume", "%s is not on worker %s", r, e.opts.Config.Worker)
	}
	if err != nil {
		return fmt.Errorf("remove volume %s: %w", r, err)
	}
	e.log.Info("a volume is removed", "volume", r.String())
	// Only where they are empty now.
	_ = os.Remove(filepath.Join(base, r.Namespace, r.Instance))
	_ = os.Remove(filepath.Join(base, r.Namespace))
	if e.spawn == nil {
		return nil // the next engine does it
	}
	e.spawn(func(context.Context) { e.clearVolumes() })
	return nil
}

// clearVolumes removes what was moved aside, also what an engine that was killed
// has left.
func (e *Engine) clearVolumes() {
	e.clearing.Lock()
	defer e.clearing.Unlock()
	base := filepath.Join(e.opts.Dir, volumesDir)
	list, err := os.ReadDir(base)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	var all []error
	for _, d := range list {
		if strings.HasPrefix(d.Name(), removing) {
			all = append(all, os.RemoveAll(filepath.Join(base, d.Name())))
		}
	}
	e.kit.problems.Set("removed volumes", errors.Join(append(all, err)...))
}

// checkVolume says whether r can name a volume: nothing of it leads anywhere else.
func checkVolume(r wire.VolumeRef) error {
	if !state.IsLabel(r.Namespace) || !state.ValidID(r.Instance) || !state.IsLabel(r.Name) {
		return fmt.Errorf("%.200q is not the name of a volume", r.String())
	}
	return nil
}

func (e *Engine) getVolumes(w http.ResponseWriter, r *http.Request) {
	list, err := e.Volumes(r.Context())
	e.answer(w, list, err)
}

func (e *Engine) deleteVolume(w http.ResponseWriter, r *http.Request) {
	ref := wire.VolumeRef{Namespace: r.FormValue("namespace"), Instance: r.FormValue("instance"), Name: r.FormValue("name")}
	if err := e.RemoveVolume(r.Context(), ref); err != nil {
		e.refuse(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func isNamed(name string) func(api.Volume) bool {
	return func(v api.Volume) bool { return v.Name == name }
}
