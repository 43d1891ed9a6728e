package cgroup

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// dir is a group in one hierarchy.
type dir struct {
	path        string
	v2          bool
	controllers []string
}

// Group of one task, in all hierarchies at hand. Its methods may be called
// concurrently.
type Group struct{ dirs []dir }

// Path names the group for Load: its directories, separated by colons.
func (g *Group) Path() string {
	paths := make([]string, len(g.dirs))
	for i, d := range g.dirs {
		paths[i] = d.path
	}
	return strings.Join(paths, ":")
}

// Fork calls fork with attr filled in such that the child it forks is born into
// the group. In version 1 the calling thread enters the group itself: the
// caller has locked it and must let it end, and it must not be the main thread.
func (g *Group) Fork(attr *syscall.SysProcAttr, fork func() error) error {
	for _, d := range g.dirs {
		if d.v2 {
			fd, err := unix.Open(d.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("open control group: %w", err)
			}
			defer unix.Close(fd) //nolint:errcheck // nothing was written
			attr.UseCgroupFD, attr.CgroupFD = true, fd
			continue
		}
		if err := write(filepath.Join(d.path, "tasks"), strconv.Itoa(unix.Gettid())); err != nil {
			return fmt.Errorf("enter control group: %w", err)
		}
	}
	return fork()
}

// Entries opens the files through which a process that is about to execute its program enters
// the group: by its first thread writing 0 to each of them. What it has used before stays with
// the group that it leaves. In version 1 that thread enters alone, as the others end with the
// exec: a whole process waits until all processors have been through the kernel's scheduler,
// 5 to 30 ms.
func (g *Group) Entries() ([]*os.File, error) {
	var out []*os.File
	for _, d := range g.dirs {
		name := "tasks"
		if d.v2 {
			name = "cgroup.procs"
		}
		f, err := os.OpenFile(filepath.Join(d.path, name), os.O_WRONLY, 0)
		if err != nil {
			for _, f := range out {
				err = errors.Join(err, f.Close())
			}
			return nil, fmt.Errorf("open control group: %w", err)
		}
		out = append(out, f)
	}
	return out, nil
}

// subPrefix begins the names of groups that Sub makes, so that they are not
// taken for those of a program.
const subPrefix = "verge-"

// Sub makes a group within the group, by which some processes of the task can be
// told from its others: born is what to Fork them into, own what to Kill and to
// Remove in the end. The limits of the group hold for all together, and what
// ends the group ends them too.
func (g *Group) Sub(name string) (born, own *Group, err error) {
	if !validName(name) || len(g.dirs) == 0 {
		return nil, nil, fmt.Errorf("control group: bad name %q", name)
	}
	// One hierarchy is enough to tell them apart, and there a group without
	// settings of its own must change nothing: so not in that of memory in version
	// 1, where old kernels do not count a child's use for its parent, and not in
	// that of cpu, where it would compete with the task.
	at := slices.IndexFunc(g.dirs, func(d dir) bool { return d.v2 || slices.Contains(d.controllers, "pids") })
	at = max(at, 0)
	for n := range 100 {
		d := dir{path: filepath.Join(g.dirs[at].path, fmt.Sprintf("%s%s-%d", subPrefix, name, n)), v2: g.dirs[at].v2}
		err = os.Mkdir(d.path, 0o755)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("make control group: %w", err)
		}
		if !d.v2 { // version 2 enables no controllers in it
			d.controllers = g.dirs[at].controllers
		}
		dirs := slices.Clone(g.dirs)
		dirs[at] = d
		return &Group{dirs: dirs}, &Group{dirs: []dir{d}}, nil
	}
	return nil, nil, fmt.Errorf("make control group: %w", err)
}

// SubName is how `runc exec --cgroup` is told a group that Sub has made.
func (g *Group) SubName() string {
	d := g.dirs[0]
	if d.v2 {
		return filepath.Base(d.path)
	}
	return d.controllers[0] + ":" + filepath.Base(d.path)
}

// RemoveSubs removes all groups that Sub has made, and kills what is in them.
func (g *Group) RemoveSubs(ctx context.Context) error {
	var errs []error
	for _, d := range g.dirs {
		entries, err := os.ReadDir(d.path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("list control group: %w", err))
		}
		for _, e := range entries {
			if e.IsDir() && strings.HasPrefix(e.Name(), subPrefix) {
				errs = append(errs, (&Group{dirs: []dir{{path: filepath.Join(d.path, e.Name()), v2: d.v2}}}).Remove(ctx))
			}
		}
	}
	return errors.Join(errs...)
}

// with returns the directory that has a controller.
func (g *Group) with(controller string) (dir, bool) {
	for _, d := range g.dirs {
		if slices.Contains(d.controllers, controller) {
			return d, true
		}
	}
	return dir{}, false
}

// PIDs of the group's processes, without our own: a thread of ours is in the
// group for the instant of a fork. An absent group has none.
func (g *Group) PIDs() ([]int, error) {
	var out []int
	self := os.Getpid()
	for _, path := range g.tree() {
		pids, err := readPIDs(filepath.Join(path, "cgroup.procs"))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("list control group: %w", err)
		}
		for _, pid := range pids {
			// 0 stands for a process of another pid namespace.
			if pid > 0 && pid != self && !slices.Contains(out, pid) {
				out = append(out, pid)
			}
		}
	}
	return out, nil
}

// Kill kills every process of the group and returns when none is left.
func (g *Group) Kill(ctx context.Context) error {
	pause := time.Millisecond
	for first := true; ; first = false {
		pids, err := g.PIDs()
		if err != nil || len(pids) == 0 {
			return err
		}
		if !g.killAtOnce() {
			for _, pid := range pids {
				if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
					return fmt.Errorf("kill process %d: %w", pid, err)
				}
			}
		}
		if first {
			// Nothing can be forked any more, so that a few rounds reach every
			// process; not before the first round, lest a program sees its fork fail
			// and ends with an exit code of its own.
			if err := g.forbidForks(); err != nil {
				return fmt.Errorf("kill control group: %w", err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("processes %v do not end: %w", pids, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

func (g *Group) forbidForks() error {
	d, ok := g.with("pids")
	if !ok {
		return nil
	}
	err := write(filepath.Join(d.path, "pids.max"), "0")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) { // just removed
		return nil
	}
	return err
}

// killAtOnce uses version 2's cgroup.kill, which the kernel has since 5.14.
func (g *Group) killAtOnce() bool {
	for _, d := range g.dirs {
		if d.v2 && write(filepath.Join(d.path, "cgroup.kill"), "1") == nil {
			return true
		}
	}
	return false
}

// Remove kills what is left in the group and removes it.
func (g *Group) Remove(ctx context.Context) error {
	pause := time.Millisecond
	for {
		// Mostly the group is empty, and removing it is the cheapest way to know.
		err := g.remove()
		if err == nil {
			return nil
		}
		if !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.ENOTEMPTY) {
			return fmt.Errorf("remove control group: %w", err)
		}
		if err := g.Kill(ctx); err != nil {
			return err
		}
		// The kernel takes a moment to notice that the last process is gone; so
		// does our own thread that forked it.
		select {
		case <-ctx.Done():
			return fmt.Errorf("remove control group: %w (%w)", err, ctx.Err())
		case <-time.After(pause):
		}
		pause = min(2*pause, 100*time.Millisecond)
	}
}

// RemoveTree kills what is in the control group at path and in those beneath it, and removes
// them: those of an engine that is not there any more.
func RemoveTree(ctx context.Context, path string) error {
	_, err := os.Stat(filepath.Join(path, "cgroup.controllers"))
	return (&Group{dirs: []dir{{path: path, v2: err == nil}}}).Remove(ctx)
}

// tree lists the group's directories and those beneath them, parents first: a
// program with the right to do so may have made groups of its own.
func (g *Group) tree() []string {
	var all []string
	for _, d := range g.dirs {
		_ = filepath.WalkDir(d.path, func(p string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				all = append(all, p)
			}
			return nil // what cannot be read has just been removed
		})
	}
	return all
}

func (g *Group) remove() error {
	paths := make([]string, len(g.dirs))
	for i, d := range g.dirs {
		paths[i] = d.path
	}
	errs := rmdir(paths)
	if len(errs) > 0 {
		errs = rmdir(g.tree()) // there may be groups beneath
	}
	return errors.Join(errs...)
}

// rmdir removes directories, the last first.
func rmdir(paths []string) (errs []error) {
	for _, p := range slices.Backward(paths) {
		if err := unix.Rmdir(p); err != nil && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, &fs.PathError{Op: "rmdir", Path: p, Err: err})
		}
	}
	return errs
}

// OOMKills is how often the kernel killed a process of the group because the
// group's memory was used up; 0 where that is not known, and without a group.
func (g *Group) OOMKills() int64 {
	if g == nil {
		return 0
	}
	d, ok := g.with("memory")
	if !ok {
		return 0
	}
	file := "memory.oom_control"
	if d.v2 {
		file = "memory.events"
	}
	return max(0, readKey(filepath.Join(d.path, file), "oom_kill"))
}

// Usage of the group now.
func (g *Group) Usage() Usage {
	u := Usage{CPU: -1, Memory: -1, PIDs: -1}
	if d, ok := g.with("cpuacct"); ok {
		u.CPU = time.Duration(readInt(filepath.Join(d.path, "cpuacct.usage")))
	}
	for _, d := range g.dirs {
		if d.v2 && u.CPU < 0 {
			// There without the cpu controller, too.
			if us := readKey(filepath.Join(d.path, "cpu.stat"), "usage_usec"); us >= 0 {
				u.CPU = time.Duration(us) * time.Microsecond
			}
		}
	}
	if d, ok := g.with("memory"); ok {
		usage, cache := "memory.usage_in_bytes", "total_inactive_file"
		if d.v2 {
			usage, cache = "memory.current", "inactive_file"
		}
		if u.Memory = readInt(filepath.Join(d.path, usage)); u.Memory >= 0 {
			u.Memory = max(0, u.Memory-max(0, readKey(filepath.Join(d.path, "memory.stat"), cache)))
		}
	}
	if d, ok := g.with("pids"); ok {
		u.PIDs = int(readInt(filepath.Join(d.path, "pids.current")))
	}
	return u
}

// write writes to a file of a group, which must exist.
func write(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

func readPIDs(path string) ([]int, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []int
	for f := range strings.FieldsSeq(string(b)) {
		pid, err := strconv.Atoi(f)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, pid)
	}
	return out, nil
}

// readInt reads a file that holds a number, -1 if that fails.
func readInt(path string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	n, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// readKey reads the number behind key in a file of "key number" lines, -1 if
// that fails.
func readKey(path, key string) int64 {
	b, err := os.ReadFile(path)
	if err != nil {
		return -1
	}
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		if k, v, ok := strings.Cut(s.Text(), " "); ok && k == key {
			if n, err := strconv.ParseInt(v, 10, 64); err == nil {
				return n
			}
		}
	}
	return -1
}
