package engine

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

// volumesDir holds the named volumes, below the engine's directory: by namespace,
// instance and name. Only RemoveVolume removes them.
const volumesDir = "volumes"

// workplace is where files and volumes of the instance are put.
func (in *instance) workplace() workdir.Place {
	return workdir.Place{Work: in.place.work(), Mounts: in.place.mounts(), MayMount: in.kit.cannotMount == ""}
}

// furnish puts the files and volumes of an order into the working directory; env
// are the variables that files may refer to, which are no secrets. A container gets
// them as mounts instead, its files from the working directory.
func (in *instance) furnish(o *wire.Order, env map[string]string, known secrets) ([]runtime.Mount, error) {
	files, err := in.files(o, env, known)
	if err != nil {
		return nil, err
	}
	volumes, err := in.volumes(o)
	if err != nil {
		return nil, err
	}
	var mounts []runtime.Mount
	if runtimeOf(o) == api.Container {
		mounts, files = in.mounts(o, files, volumes)
		volumes = nil
	}
	if len(files)+len(volumes)+len(in.rec.Placed) == 0 {
		return mounts, nil
	}
	in.rec.Placed, err = in.workplace().Furnish(files, volumes, in.rec.Placed)
	return mounts, err
}

// mounts are the files and volumes of a container. The files are to be put into
// the working directory under the names that are returned.
func (in *instance) mounts(o *wire.Order, files []workdir.File, volumes []workdir.Volume) ([]runtime.Mount, []workdir.File) {
	var out []runtime.Mount
	placed := make([]workdir.File, len(files))
	for i, f := range files {
		placed[i] = f
		placed[i].Path = containerFile(i)
		out = append(out, runtime.Mount{Source: filepath.Join(in.place.work(), placed[i].Path), Target: f.Path, Own: true})
	}
	for i, v := range volumes {
		out = append(out, runtime.Mount{
			Source: v.Dir, Tmpfs: int64(v.Tmpfs), Target: v.Path, ReadOnly: v.ReadOnly, Own: o.Spec.Volumes[i].Name != "",
		})
	}
	return out, placed
}

// files of an order, with their variables filled in.
func (in *instance) files(o *wire.Order, env map[string]string, known secrets) ([]workdir.File, error) {
	var out []workdir.File
	for _, path := range slices.Sorted(maps.Keys(o.Spec.Files)) {
		f := o.Spec.Files[path]
		mode := fs.FileMode(cmp.Or(f.Mode, api.DefaultFileMode)).Perm()
		if f.Secret != "" {
			out = append(out, workdir.File{Path: path, Content: known[f.Secret], Mode: mode, Secret: true})
			continue
		}
		text, err := api.Expand(f.Content, func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", path, err)
		}
		out = append(out, workdir.File{Path: path, Content: []byte(text), Mode: mode})
	}
	return out, nil
}

// volumes of an order. Named ones are made if they are not there yet.
func (in *instance) volumes(o *wire.Order) ([]workdir.Volume, error) {
	var out []workdir.Volume
	for i := range o.Spec.Volumes {
		v := &o.Spec.Volumes[i]
		w := workdir.Volume{Path: v.Path, Tmpfs: v.Tmpfs, ReadOnly: v.ReadOnly}
		var err error
		switch {
		case v.Name != "":
			w.Dir = filepath.Join(in.kit.dir, volumesDir, wire.OrderNamespace(o), o.ID, v.Name)
			err = os.MkdirAll(w.Dir, 0o700)
		case v.Host != "":
			w.Dir, err = hostDir(v.Host, in.kit.config.HostPaths)
		}
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Path, err)
		}
		out = append(out, w)
	}
	return out, nil
}

// unmount ends the mounts of the instance; a failure is shown, and tried again
// before the next start and before anything is removed.
func (in *instance) unmount() bool {
	err := in.workplace().Clear()
	if err != nil {
		err = fmt.Errorf("what was mounted for it can't be unmounted: %w", err)
	}
	in.kit.problems.set("mounts of "+in.id, err)
	return err == nil
}

// hostDir finds out where a directory of the machine really is, and whether that
// is allowed.
func hostDir(path string, allowed []string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("there is no %s on this worker; make it there, or choose another directory", path)
	case err != nil:
		return "", fmt.Errorf("%s of this worker: %w", path, err)
	}
	if st, err := os.Stat(real); err != nil || !st.IsDir() {
		return "", fmt.Errorf("%s of this worker is not a directory", path)
	}
	for _, prefix := range allowed {
		if p, err := filepath.EvalSymlinks(prefix); err == nil && within(real, p) {
			return real, nil
		}
	}
	if real != path {
		path += " (which is " + real + ")"
	}
	return "", errors.New(notAllowed(path, allowed))
}

// notAllowed says why a directory of the machine is refused.
func notAllowed(path string, allowed []string) string {
	if len(allowed) == 0 {
		return fmt.Sprintf("this worker gives no directory of its own to instances, so not %s either; its operator can allow some with --allow-host-path", path)
	}
	return fmt.Sprintf("%s is not below a directory that this worker gives to instances (--allow-host-path): %s", path, strings.Join(allowed, ", "))
}

// within says whether path is dir or below it; both are clean and absolute.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// unfitVolumes says why this worker can't give an instance its volumes, "" if it
// can: as far as that can be told without looking.
func unfitVolumes(s *api.Service, hostPaths []string, cannotMount string) string {
	for i := range s.Volumes {
		v := &s.Volumes[i]
		if v.Host != "" && !slices.ContainsFunc(hostPaths, func(dir string) bool { return within(v.Host, filepath.Clean(dir)) }) {
			return fmt.Sprintf("volume %s: %s", v.Path, notAllowed(v.Host, hostPaths))
		}
		if cannotMount == "" {
			continue
		}
		switch {
		case s.Runtime == api.Container: // whose mounts are made by others
		case v.Tmpfs > 0:
			return fmt.Sprintf("volume %s: a directory in memory has to be mounted, which this worker may not: %s", v.Path, cannotMount)
		case v.ReadOnly:
			return fmt.Sprintf("volume %s: read_only has to be mounted, which this worker may not: %s; leave read_only out, or choose another worker", v.Path, cannotMount)
		}
	}
	return ""
}
