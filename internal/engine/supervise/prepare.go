package supervise

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/environment"
	"github.com/verge-edge/verge/internal/engine/network"
	"github.com/verge-edge/verge/internal/engine/plan"
	"github.com/verge-edge/verge/internal/engine/secrets"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engine/users"
	"github.com/verge-edge/verge/internal/filecopy"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/logfile"
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
func (in *Instance) prepareWorkdir(o *wire.Order, env map[string]string, known secrets.Values,
	u *runtime.User) (mounts []runtime.Mount, dirs []string, err error) {
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
	return fmt.Errorf("the instance runs as user %d, who may not read %s of this worker (mode %#o); chmod it there, "+
		"or name a user of the machine who may (user)",
		u.UID, dir, st.Mode().Perm())
}

// mounts are the files and volumes of a container. The files are to be put into
// the working directory under the names that are returned.
func (in *Instance) mounts(o *wire.Order, files []workdir.File, volumes []workdir.Volume) ([]runtime.Mount,
	[]workdir.File) {
	var out []runtime.Mount
	placed := make([]workdir.File, len(files))
	for i, f := range files {
		placed[i] = f
		placed[i].Path = containerFile(i)
		out = append(out, runtime.Mount{Source: filepath.Join(in.layout.Work(), placed[i].Path), Target: f.Path,
			Own: true})
	}
	for i, v := range volumes {
		out = append(out, runtime.Mount{
			Source: v.Dir, Tmpfs: int64(v.Tmpfs), Target: v.Path, ReadOnly: v.ReadOnly,
			Own: o.Spec.Volumes[i].Name != "",
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

// userOf is who an order runs as; nil is the user of this engine.
func (in *Instance) userOf(o *wire.Order) (*runtime.User, error) {
	if in.deps.Users == nil || state.Sandboxed(o) {
		return nil, nil //nolint:nilnil // see above
	}
	u := &runtime.User{}
	if o.Spec.User == "" {
		uid, err := in.deps.Users.Give(in.ID, in.rec.User)
		if err != nil {
			return nil, err
		}
		in.rec.User = uid
		u.UID, u.GID = uid, uid
	} else {
		var err error
		if u, err = users.Lookup(o.Spec.User); err != nil || u == nil {
			return nil, err
		}
	}
	u.LowPorts = in.net.NetNS == "" && slices.ContainsFunc(o.Spec.Ports,
		func(p api.Port) bool { return p.Number > 0 && p.Number < 1024 })
	return u, nil
}

// noteUser keeps the report up to date of what runs as root that should not.
func (in *Instance) noteUser() {
	if in.deps.Users == nil {
		return
	}
	o := &in.rec.Order
	asRoot := in.task != nil && o.Spec != nil && !state.Sandboxed(o) && in.task.Handle().User == nil &&
		!api.IsRoot(o.Spec.User)
	in.deps.Problems.Tell("users of instances", in.deps.Users.Note(in.ID, asRoot))
}

// view is what the process of an order sees of the machine: nothing of the worker's
// directory but what is the instance's own.
func (in *Instance) view(o *wire.Order, volumes []string) runtime.View {
	v := runtime.View{
		Hide: append([]string{in.deps.Dir, filepath.Dir(users.ClaimsDir), filepath.Dir(ctrd.DefaultAddress)},
			in.deps.Hide...),
		Show:     append([]string{in.layout.Dir}, volumes...),
		Programs: filepath.SplitList(in.deps.Config.Path),
		Tmp:      in.layout.Tmp(),
		Devices:  environment.Paths(environment.Devices(o, in.deps.Devices())),
	}
	if own := in.deps.Config.Containerd; own != "" {
		v.Hide = append(v.Hide, own)
	}
	return v
}

// volumesAgain is the pause after a work on volumes failed.
const volumesAgain = 5 * time.Second

// workOnVolumes does what an order asks for of the volumes of the instance, which is
// stopped. False if there is nothing to do.
func (in *Instance) workOnVolumes(ctx context.Context, o *wire.Order) bool {
	w := o.Volumes
	if w == nil || w.Do == wire.VolumeHold || o.Spec == nil || in.worked.About(w) &&
		(in.worked.Done || in.worked.Final) {
		return false
	}
	in.endCopies(wire.Problemf(http.StatusConflict, "volume-busy",
		"copy it again when the instance runs: verge describe instance/"+in.ID, "it was not copied as a whole",
		"the volumes of %s are copied themselves now (%s)", in.ID, w.Do))
	done := make(chan struct{})
	var report *wire.VolumeReport
	working, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer close(done)
		report = in.deps.Volumes.Do(working, o)
	}()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-in.wake:
			if g := in.Goal(); g.Kind != plan.Stop || !g.Order.Volumes.Same(w) {
				cancel() // it is not wanted any more
				<-done
				over = true
			}
		}
	}
	if working.Err() != nil {
		return true
	}
	in.worked = report
	in.settle(in.Goal())
	if !report.Done {
		in.log.Warn("the volumes could not be "+w.Do+"ed", "final", report.Final, "error", report.Why)
	}
	if !report.Done && !report.Final {
		in.pause(ctx, volumesAgain)
	}
	return true
}

// attach gives the instance its part of the service network, or finds it again.
// Where the worker has none it does nothing.
func (in *Instance) attach(o *wire.Order) error {
	pid := 0
	if in.rec.Handle != nil {
		pid = in.rec.Handle.PID
	}
	a, err := in.deps.Network.Attach(o, in.rec.Net, pid, in.layout.Dir)
	if err != nil {
		return err
	}
	in.rec.Net, in.net = a.Place, a
	return nil
}

// detach ends the instance's part of the service network.
func (in *Instance) detach() error {
	in.net = network.Attachment{}
	return in.deps.Network.Detach(in.ID)
}

// securityOf is what the containers of a service may do.
func securityOf(s *api.Service) runtime.Security {
	sec := s.Security
	return runtime.Security{
		WritableRoot: !sec.ReadOnly(), Capabilities: sec.Capabilities(), Extra: sec.Add,
		NewPrivileges: sec.NewPrivileges, NoSeccomp: sec.Seccomp == api.SeccompNone,
	}
}

// hintBytes of the end of a log are searched for the cause of a failure.
const hintBytes = 4 << 10

// readOnlyHint says what may be wrong with a container whose log says that it could not write:
// programs seldom tell by their exit code.
func (in *Instance) readOnlyHint(exit wire.Exit) string {
	o := &in.rec.Order
	if exit.Code == 0 || exit.Unknown || o.Spec == nil || state.RuntimeOf(o) != api.Container ||
		!o.Spec.Security.ReadOnly() {
		return ""
	}
	end, err := logfile.End(in.layout.Log())
	if err != nil {
		return ""
	}
	last, err := logfile.Read(in.layout.Log(), max(0, end-hintBytes), hintBytes)
	if err != nil || !bytes.Contains(bytes.ToLower(last.Data), []byte("read-only file system")) {
		return ""
	}
	return "; its log says \"read-only file system\": a container cannot write to the files of its image; give it a " +
		"volume where it writes (volumes: [{path: /var/cache, tmpfs: 64Mi}]), or write security: {root: writable}"
}
