package container

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	taskapi "github.com/containerd/containerd/api/services/tasks/v1"
	"github.com/containerd/containerd/api/types"
	"github.com/containerd/containerd/api/types/runc/options"
	containerd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/containerd/v2/pkg/oci"
	"github.com/containerd/errdefs/pkg/errgrpc"
	"github.com/containerd/typeurl/v2"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/cgroup"
	"github.com/verge-edge/verge/internal/runtime/container/ctrd"
	"github.com/verge-edge/verge/internal/runtime/container/imagestore"
	"github.com/verge-edge/verge/internal/runtime/container/ocispec"
	"github.com/verge-edge/verge/internal/runtime/container/pidfd"
	"github.com/verge-edge/verge/internal/runtime/logfile"
)

const (
	shimName = "io.containerd.runc.v2"
	// rootfsDir is where the shim mounts the files of a container, in its bundle.
	rootfsDir = "rootfs"
	umask     = uint32(0o022)
)

// Start implements runtime.Driver.
func (d *Driver) Start(ctx context.Context, s runtime.Spec) (runtime.Task, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if s.Container == nil || s.Container.Image == "" {
		return nil, errors.New("no image given")
	}
	for _, v := range append(append([]string{}, s.Command...), s.Env...) {
		if strings.ContainsRune(v, 0) {
			return nil, errors.New("the command or its environment contains a NUL byte")
		}
	}
	if err := d.enter(); err != nil {
		return nil, err
	}
	var t *task
	var err error
	for range 1 + startTries {
		t, err = d.start(namespaces.WithNamespace(ctx, ctrd.Namespace), s)
		if errors.Is(err, errShimEnded) {
			d.seekOrphans()
		} else if !errors.Is(err, errUnfit) {
			break
		}
	}
	if err != nil {
		d.leave()
		return nil, err
	}
	d.watch(t)
	return t, nil
}

func (d *Driver) start(ctx context.Context, s runtime.Spec) (_ *task, err error) {
	c, release, err := d.conn.Use(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	seen, err := d.conn.MountsOf(ctx)
	if err != nil {
		return nil, err
	}
	named, err := seen.Network(&s)
	if err != nil {
		return nil, err
	}
	defer named()
	image, err := d.Resolve(ctx, c, s)
	if err != nil {
		return nil, err
	}
	d.step("image")
	pipe, err := filepath.Abs(logfile.Pipe(s.LogDir))
	if err != nil {
		return nil, err
	}
	out, err := logfile.OpenPipe(s.LogDir)
	if err != nil {
		return nil, fmt.Errorf("cannot write the log of %s: %w", s.ID, err)
	}
	defer out.Close() //nolint:errcheck // the shim has its own; nothing was written through it
	if err := seen.Sees(pipe); err != nil {
		return nil, err
	}
	if err := d.logs.Collect(s.LogDir); err != nil {
		return nil, fmt.Errorf("cannot keep the log of %s: %w", s.ID, err)
	}
	id, err := d.newID(s)
	if err != nil {
		return nil, err
	}
	d.know(id)
	group, err := d.groups.Create(id, cgroup.Limits{
		CPUWeight: s.CPUWeight, CPULimit: s.CPULimit, Memory: s.MemoryLimit, PIDs: defaultPIDs,
	})
	if err != nil && !errors.Is(err, cgroup.ErrUnavailable) {
		return nil, fmt.Errorf("cannot limit %s: %w", s.ID, err)
	}
	h := runtime.Handle{Container: id, Shim: d.join(s.ID)}
	if group != nil {
		h.Cgroup = group.Path()
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, d.undo(ctx, id, group))
			d.part(h.Shim)
		}
	}()
	if h.Boot, err = pidfd.BootID(); err != nil {
		return nil, err
	}
	d.step("files")

	shared, free := d.sharedRootfsOf(ctx, c, image, s, seen)
	defer free()
	var rootfs []*types.Mount
	files := base{key: h.Container}
	if shared != nil {
		image.Look(shared.mounts)
		files.key = shared.key
	} else {
		var list []mount.Mount
		if list, err = d.snapshot(ctx, c, h, image, s); err != nil {
			return nil, err
		}
		rootfs = toMount(list)
		if files.volumes, err = volumeMounts(ctx, imageVolumes(s, image), list, seen); err != nil {
			return nil, err
		}
	}
	d.step("snapshot")
	err = d.create(ctx, c, h, image, s, seen, files)
	if shared != nil && ctrd.IsNotFound(err) { // it went when the last container on it did
		d.forgetShared(shared)
		err = fmt.Errorf("%w: %w", errUnfit, err)
	}
	if err != nil {
		return nil, err
	}
	if shared != nil {
		if rootfs, err = d.mountShared(ctx, c, image, shared); err != nil {
			return nil, err
		}
	}
	d.step("container")
	// Two spellings of one pipe: what has one name the shim opens once, and closes
	// when stdout ends, so that the rest of stderr is lost (containerd 1.6 to 2.4).
	// The shim holds it open for reading, too, so it lives on while nobody else reads.
	stdout, stderr := pipe, filepath.Dir(pipe)+"/./"+filepath.Base(pipe)
	started, err := c.TaskService().Create(ctx,
		&taskapi.CreateTaskRequest{ContainerID: id, Rootfs: rootfs, Stdout: stdout, Stderr: stderr})
	if shimEnded(err) {
		d.abandon(h.Shim)
		return nil, fmt.Errorf("%w: %w", errShimEnded, err)
	}
	if shared != nil && rootfsRefused(err) {
		d.refuseShared(shared)
		return nil, fmt.Errorf("%w: %w", errUnfit, err)
	}
	if err != nil {
		return nil, d.explain(ctx, errgrpc.ToNative(err), s)
	}
	d.step("task")
	proc, err := pidfd.Find(int(started.Pid), 0)
	if err != nil {
		return nil, fmt.Errorf("identify the process of the container: %w", err)
	}
	h.PID, h.Started = proc.Pid, proc.Started
	if _, err := c.TaskService().Start(ctx, &taskapi.StartRequest{ContainerID: id}); err != nil {
		proc.Close()
		return nil, d.explain(ctx, errgrpc.ToNative(err), s)
	}
	d.step("start")
	return newTask(d, s, h, proc, group), nil
}

// newID makes the name of a container: of its instance, as far as that is allowed,
// and unique.
func (d *Driver) newID(s runtime.Spec) (string, error) {
	var b [6]byte
	if _, err := rand.Read(b[:]); err != nil {
		return "", err
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, s.ID)
	for strings.Contains(name, "--") { // which containerd does not allow
		name = strings.ReplaceAll(name, "--", "-")
	}
	name = strings.Trim(name[:min(len(name), 50)], "-")
	return strings.TrimPrefix(name+"-"+hex.EncodeToString(b[:]), "-"), nil
}

// undo removes what a start that failed has made.
func (d *Driver) undo(ctx context.Context, id string, group *cgroup.Group) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leftoverTimeout)
	defer cancel()
	defer d.forget(id)
	if err := d.remove(ctx, id); err != nil {
		d.log.Warn("a container that did not start is left", "container", id, "error", err)
		d.owe(id)
	}
	return d.removeGroup(ctx, id, group)
}

// removeGroup ends what is left in the control group of a container, nil is none, and then
// removes it everywhere: runc, where it was killed, leaves processes that it had begun, and
// groups in hierarchies in which we make none.
func (d *Driver) removeGroup(ctx context.Context, id string, group *cgroup.Group) error {
	if group == nil {
		return nil
	}
	if err := group.Remove(ctx); err != nil {
		return err
	}
	d.groups.Tidy(id)
	return nil
}

// snapshot makes the files of a container out of those of its image, and says how
// they are mounted. Until it has a container it is kept by its label: a lease would
// be two more writes to the disk.
func (d *Driver) snapshot(ctx context.Context, c *containerd.Client, h runtime.Handle, image *imagestore.Resolved,
	s runtime.Spec) ([]mount.Mount, error) {
	labels := d.labels(h, s)
	labels[labelKeep] = time.Now().UTC().Format(time.RFC3339)
	list, err := c.SnapshotService(image.Snapshotter).Prepare(ctx, h.Container, image.Chain, snapshots.WithLabels(labels))
	if ctrd.IsNotFound(err) {
		d.Forget(image) // somebody has removed what it was unpacked to
		err = fmt.Errorf("%w: the files of the image %s are gone; it is unpacked anew", runtime.ErrAway, image.Name)
	}
	if err != nil {
		return nil, fmt.Errorf("make the files of the container: %w", d.conn.OrAway(err))
	}
	image.Look(list)
	return list, nil
}

// base is what a container stands on.
type base struct {
	key     string        // of the snapshot
	volumes []specs.Mount // what of it is writable under a root that is not
}

// labels of what is made for a task.
func (d *Driver) labels(h runtime.Handle, s runtime.Spec) map[string]string {
	return map[string]string{ctrd.LabelEngine: d.mark, ctrd.LabelInstance: s.ID, labelCgroup: h.Cgroup}
}

// create makes the container on a snapshot, without anything that runs in it.
func (d *Driver) create(ctx context.Context, c *containerd.Client, h runtime.Handle, image *imagestore.Resolved,
	s runtime.Spec, seen ctrd.Mounts, files base) error {
	program, err := runc()
	if err != nil {
		return err
	}
	made := containers.Container{
		ID: h.Container, Labels: d.labels(h, s), Image: image.Name, Snapshotter: image.Snapshotter, SnapshotKey: files.key,
		Runtime: containers.RuntimeInfo{Name: shimName},
	}
	if made.Runtime.Options, err = typeurl.MarshalAny(&options.Options{BinaryName: program}); err != nil {
		return err
	}
	var wrong error // what the user is to know, in words
	spec, err := oci.GenerateSpec(ctx, c, &made,
		func(ctx context.Context, c oci.Client, made *containers.Container, spec *specs.Spec) error {
			wrong = image.SetUser(ctx, c, made, spec, s.Container.User)
			if wrong == nil {
				spec.Annotations = map[string]string{labelShim: h.Shim}
				spec.Root.Path = rootfsDir
				spec.Mounts = append(spec.Mounts, files.volumes...)
				wrong = d.fill(spec, h.Container, image, s, seen)
			}
			return wrong
		},
		ocispec.WithSeccomp(image.Narrow, s.Container.Security.NoSeccomp),
	)
	switch {
	case wrong != nil:
		return d.conn.OrAway(wrong)
	case err != nil:
		return fmt.Errorf("describe the container: %w", d.conn.OrAway(err))
	}
	if made.Spec, err = typeurl.MarshalAny(spec); err != nil {
		return err
	}
	if _, err := c.ContainerService().Create(ctx, made); err != nil {
		return fmt.Errorf("make the container: %w", d.conn.OrAway(err))
	}
	return nil
}

// fill completes what runc is told. Its errors are for users.
func (d *Driver) fill(spec *specs.Spec, id string, image *imagestore.Resolved, s runtime.Spec, seen ctrd.Mounts) error {
	p, config := spec.Process, image.Config
	ocispec.Secure(spec, s.Container.Security)
	p.Args, p.Cwd = s.Command, workingDir(s, image)
	if len(s.Command) == 0 {
		p.Args = append(append([]string{}, config.Entrypoint...), config.Cmd...)
		if len(s.Container.Args) > 0 {
			p.Args = append(append([]string{}, config.Entrypoint...), s.Container.Args...)
		}
	}
	if len(p.Args) == 0 || p.Args[0] == "" {
		return fmt.Errorf("no command given, and the image %s has none", s.Container.Image)
	}
	p.Env = environ(s.Env, config.Env)
	mask := umask
	p.User.Umask = &mask
	// Those of containerd's service hold: this process may not be allowed to raise
	// any.
	p.Rlimits = nil
	p.OOMScoreAdj = oomScore()
	spec.Hostname = hostname(s.ID)
	spec.Linux.CgroupsPath = d.groups.Inner(id)
	spec.Linux.Namespaces = inNetwork(spec.Linux.Namespaces, s.NetNS)
	for _, path := range s.Container.Devices {
		if err := ocispec.AddDevice(spec, path); err != nil {
			return err
		}
	}
	own, err := ownMounts(s, p.Cwd, p.User, seen)
	if err != nil {
		return err
	}
	spec.Mounts = append(append(spec.Mounts, ocispec.Tmp(s, image)...), own...)
	return nil
}

// workingDir is what the service says, or else its image.
func workingDir(s runtime.Spec, image *imagestore.Resolved) string {
	dir := cmp.Or(s.Dir, image.Config.WorkingDir)
	if !path.IsAbs(dir) {
		dir = "/" + dir
	}
	return dir
}

// environ is what the service says, and of the image what it does not.
func environ(ours, images []string) []string {
	have := map[string]bool{}
	for _, kv := range ours {
		name, _, _ := strings.Cut(kv, "=")
		have[name] = true
	}
	out := append([]string{}, ours...)
	for _, kv := range append(append([]string{}, images...), "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin") {
		if name, _, _ := strings.Cut(kv, "="); !have[name] {
			have[name] = true
			out = append(out, kv)
		}
	}
	return out
}

// oomScore is 0, as of any program, where the machine lets us set that: containerd
// itself may be protected, and its children would be too. nil leaves it alone.
func oomScore() *int {
	b, err := os.ReadFile("/proc/self/oom_score_adj")
	if err != nil {
		return nil
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	const sysResource = 24 // CAP_SYS_RESOURCE, without which it can't be lowered
	zero := 0
	for line := range strings.Lines(string(status)) {
		if v, ok := strings.CutPrefix(line, "CapEff:"); ok {
			var caps uint64
			if _, err := fmt.Sscanf(strings.TrimSpace(v), "%x", &caps); err == nil && caps&(1<<sysResource) != 0 {
				return &zero
			}
		}
	}
	if strings.TrimSpace(string(b)) == "0" {
		return &zero
	}
	return nil
}

// hostname of a container: letters, digits and - in what a name may have at most.
func hostname(id string) string {
	name := strings.ReplaceAll(id, ".", "-")
	return strings.Trim(name[:min(len(name), 63)], "-")
}

// inNetwork puts the container into a network namespace; "" is the machine's.
func inNetwork(list []specs.LinuxNamespace, netns string) []specs.LinuxNamespace {
	var out []specs.LinuxNamespace
	for _, n := range list {
		if n.Type != specs.NetworkNamespace {
			out = append(out, n)
		}
	}
	if netns != "" {
		out = append(out, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: netns})
	}
	return out
}

// ownMounts are the mounts that a container has besides those of every container.
func ownMounts(s runtime.Spec, cwd string, user specs.User, seen ctrd.Mounts) ([]specs.Mount, error) {
	var out []specs.Mount
	for at, source := range map[string]string{"/etc/hosts": "", "/etc/resolv.conf": s.Resolv} {
		if source == "" {
			source = at // containerd's, where that has mounts of its own
		} else if err := seen.Sees(source); err != nil {
			return nil, err
		}
		if _, err := os.Stat(source); err == nil {
			out = append(out, specs.Mount{Destination: at, Type: "bind", Source: source, Options: []string{"rbind", "ro"}})
		}
	}
	for _, m := range s.Container.Mounts {
		target := m.Target
		if !path.IsAbs(target) {
			target = path.Join(cwd, target)
		}
		if m.Source == "" {
			// Nobody else sees it; in the container a program may become another user.
			out = append(out, specs.Mount{Destination: target, Type: "tmpfs", Source: "tmpfs",
				Options: []string{"nosuid", "nodev", fmt.Sprintf("size=%d", m.Tmpfs), "mode=1777",
					fmt.Sprintf("uid=%d,gid=%d", user.UID, user.GID)}})
			continue
		}
		source, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.Target, err)
		}
		if err := seen.Sees(source); err != nil {
			return nil, fmt.Errorf("%s: %w", m.Target, err)
		}
		if m.Own && user.UID != 0 {
			if err := os.Lchown(source, int(user.UID), int(user.GID)); err != nil {
				return nil, fmt.Errorf("%s: give it to the container's user: %w", m.Target, err)
			}
		}
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		out = append(out, specs.Mount{Destination: target, Type: "bind", Source: source, Options: []string{"rbind", mode}})
	}
	return out, nil
}

// explain says in words why a container did not start.
func (d *Driver) explain(ctx context.Context, err error, s runtime.Spec) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if e := d.conn.OrAway(err); errors.Is(e, runtime.ErrAway) {
		return e
	}
	program := "the image's command"
	if len(s.Command) > 0 {
		program = fmt.Sprintf("%q", s.Command[0])
	}
	return words(err.Error(), program)
}

// words turns what runc says into what a user can act upon.
func words(text, program string) error {
	has := func(part string) bool { return strings.Contains(text, part) }
	switch {
	case has("executable file not found in $PATH"):
		return fmt.Errorf("command not found: %s is in no directory of PATH in the image; write its full path or set PATH in env",
			program)
	case has("no such file or directory") && has("exec"):
		return fmt.Errorf("command not found: %s, or the loader or interpreter that it needs, does not exist in the image",
			program)
	case has("exec format error"):
		return fmt.Errorf("cannot execute %s: it is neither a program for this machine nor a script with #! at its beginning",
			program)
	case has("permission denied") && has("exec"):
		return fmt.Errorf("command %s is not executable", program)
	case has("is a directory"):
		return fmt.Errorf("command %s is a directory", program)
	case has("argument list too long"):
		return fmt.Errorf("cannot execute %s: its arguments and environment are too long for the kernel", program)
	case has("did not terminate successfully: exit status 137"):
		return errors.New("the container did not start: runc was killed while it made it, most likely by the kernel because this machine has no memory left; its log (dmesg) says so, and verge top has who uses it")
	case has("chdir to cwd"):
		return errors.New("the working directory does not exist in the image, or its user may not enter it")
	}
	const noise = "failed to create shim task: OCI runtime create failed: "
	return errors.New("the container did not start: " + strings.TrimPrefix(text, noise))
}

// storedExit is what labelExit holds.
func storedExit(v any) string {
	b, err := json.Marshal(v)
	if err != nil { // of a struct of plain fields
		return ""
	}
	return string(b)
}
