package supervise

import (
	"cmp"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/filecopy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/workdir"
	"github.com/verge-edge/verge/internal/wire"
)

// workdirFor is workdir with files owned by a user; nil is the user of this process.
func (in *Instance) workdirFor(u *runtime.User) workdir.Place {
	p := in.workdir()
	if u != nil {
		p.Owner = &filecopy.Owner{UID: int(u.UID), GID: int(u.GID)}
	}
	return p
}

// workdir is where files and volumes of the instance are put.
func (in *Instance) workdir() workdir.Place {
	return workdir.Place{Work: in.layout.Work(), Mounts: in.layout.Mounts(), MayMount: in.deps.CannotMount == ""}
}

// prepareWorkdir puts the files and volumes of an order into the working directory; env
// are the variables that files may refer to, which are no secrets. A container gets
// them as mounts instead, its files from the working directory. All but directories of the
// machine is given to the user. dirs are those of the volumes.
func (in *Instance) prepareWorkdir(o *wire.Order, env map[string]string, known secrets.Values, u *runtime.User) (mounts []runtime.Mount, dirs []string, err error) {
	files, err := in.files(o, env, known)
	if err != nil {
		return nil, nil, err
	}
	volumes, err := in.deps.Volumes.Of(o)
	if err != nil {
		return nil, nil, err
	}
	if in.deps.Users != nil && !state.Sandboxed(o) {
		if dirs, err = ownVolumes(o, volumes, u); err != nil {
			return nil, nil, err
		}
	}
	if state.RuntimeOf(o) == api.Container {
		mounts, files = in.mounts(o, files, volumes)
		volumes = nil
	}
	if len(files)+len(volumes)+len(in.rec.Placed) == 0 {
		return mounts, dirs, nil
	}
	in.rec.Placed, err = in.workdirFor(u).Prepare(files, volumes, in.rec.Placed)
	return mounts, dirs, err
}

// ownVolumes gives the named volumes of an order to its user. Directories of the machine keep
// their owner; the user must be able to read them.
func ownVolumes(o *wire.Order, volumes []workdir.Volume, u *runtime.User) (dirs []string, err error) {
	for i, v := range volumes {
		if v.Dir == "" {
			continue
		}
		dirs = append(dirs, v.Dir)
		if o.Spec.Volumes[i].Name != "" {
			err = users.Chown(v.Dir, u)
		} else {
			err = readable(v.Dir, u)
		}
		if err != nil {
			return nil, fmt.Errorf("volume %s: %w", v.Path, err)
		}
	}
	return dirs, nil
}

// readable says why a user cannot read a directory of the machine; nil is root, who can.
func readable(dir string, u *runtime.User) error {
	if u == nil {
		return nil
	}
	st, err := os.Stat(dir)
	if err != nil {
		return err
	}
	sys, ok := st.Sys().(*syscall.Stat_t)
	if !ok || u.May(0o5, uint32(st.Mode().Perm()), sys.Uid, sys.Gid) {
		return nil
	}
	return fmt.Errorf("the instance runs as user %d, who may not read %s of this worker (mode %#o); chmod it there, or name a user of the machine who may (user)",
		u.UID, dir, st.Mode().Perm())
}

// mounts are the files and volumes of a container. The files are to be put into
// the working directory under the names that are returned.
func (in *Instance) mounts(o *wire.Order, files []workdir.File, volumes []workdir.Volume) ([]runtime.Mount, []workdir.File) {
	var out []runtime.Mount
	placed := make([]workdir.File, len(files))
	for i, f := range files {
		placed[i] = f
		placed[i].Path = containerFile(i)
		out = append(out, runtime.Mount{Source: filepath.Join(in.layout.Work(), placed[i].Path), Target: f.Path, Own: true})
	}
	for i, v := range volumes {
		out = append(out, runtime.Mount{
			Source: v.Dir, Tmpfs: int64(v.Tmpfs), Target: v.Path, ReadOnly: v.ReadOnly, Own: o.Spec.Volumes[i].Name != "",
		})
	}
	return out, placed
}

// files of an order, with their variables filled in.
func (in *Instance) files(o *wire.Order, env map[string]string, known secrets.Values) ([]workdir.File, error) {
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

// unmount ends the mounts of the instance; a failure is shown, and tried again
// before the next start and before anything is removed.
func (in *Instance) unmount() bool {
	err := in.workdir().Clear()
	if err != nil {
		err = fmt.Errorf("what was mounted for it can't be unmounted: %w", err)
	}
	in.deps.Problems.Set("mounts of "+in.ID, err)
	return err == nil
}
