package process

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/process/setpriv"
)

// ProbeIsolation says whether tasks can run as users of their own here (err), and what is
// not kept from them although it should be ("" if nothing). It tries all that a start does,
// but for the program.
func (d *Driver) ProbeIsolation() (missing string, err error) {
	if os.Geteuid() != 0 {
		return "", errors.New("the worker does not run as root")
	}
	var held [2]unix.CapUserData
	if err := unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &held[0]); err != nil {
		return "", err
	}
	for c, name := range neededCaps {
		if held[0].Effective&(1<<c) == 0 {
			return "", fmt.Errorf("the worker lacks the capability %s", name)
		}
	}
	dir, err := os.MkdirTemp(d.base, "probe-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // made above, and nothing is mounted in it here
	s := runtime.Spec{
		// A directory, whose exec fails: so all that comes before it was permitted.
		Command: []string{"/"}, Dir: "/",
		User: &runtime.User{UID: nobody, GID: nobody}, View: runtime.View{Hide: []string{d.base},
			Show: []string{dir}, Tmp: dir},
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer null.Close() //nolint:errcheck // nothing is written to it
	ctx, cancel := context.WithTimeout(context.Background(), probeTimeout)
	defer cancel()
	proc, err := start(ctx, "/", s, stdio{in: null, out: null, err: null}, nil, nil, nil)
	var executed *setpriv.ExecError
	switch {
	case err == nil:
		proc.abandon()
		return "", errors.New("a directory was executed")
	case !errors.As(err, &executed):
		return "", fmt.Errorf("the system forbids it: %w", err)
	}
	err = onthread.Do(func() error {
		if err := remount(s); err != nil {
			return err
		}
		mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
		if err == nil && !hidesProcesses(string(mounts)) {
			missing = "processes see those of other users, with their arguments, in /proc: Linux before 5.8 hides them from all or from none"
		}
		return err
	})
	return missing, err
}

// hidesProcesses says whether the last /proc of a mountinfo shows a user only its own
// processes. Kernels before 5.8 have one for all mounts of a PID namespace, and ignore what a
// later mount asks for.
func hidesProcesses(mountinfo string) bool {
	hides := false
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(line, " - ")
		f, of := strings.Fields(before), strings.Fields(after)
		if len(f) < 5 || len(of) < 3 || f[4] != "/proc" {
			continue
		}
		hides = slices.ContainsFunc(strings.Split(of[2], ","), func(o string) bool {
			return o == "hidepid=2" || o == "hidepid=invisible"
		})
	}
	return hides
}

// probeTimeout bounds the probe, which takes milliseconds.
const probeTimeout = 10 * time.Second

// nobody is the user of that name on any machine.
const nobody = 65534

// neededCaps are the capabilities by which an instance gets a user and its files.
var neededCaps = map[int]string{
	unix.CAP_CHOWN: "CHOWN", unix.CAP_DAC_OVERRIDE: "DAC_OVERRIDE", unix.CAP_FOWNER: "FOWNER", unix.CAP_KILL: "KILL",
	unix.CAP_SETUID: "SETUID", unix.CAP_SETGID: "SETGID", unix.CAP_SETPCAP: "SETPCAP",
	unix.CAP_SYS_PTRACE: "SYS_PTRACE", unix.CAP_SYS_ADMIN: "SYS_ADMIN", unix.CAP_SYS_CHROOT: "SYS_CHROOT",
}

// graft is a detached copy of a part of the file system, to be attached where the
// part itself is hidden.
type graft struct {
	path string
	dir  bool
	fd   int
}

// isolate changes what the calling thread sees, in its mount namespace, to what v says
// for a process of u. Nothing of it reaches the mount namespace of the machine: the
// caller has made all mounts slaves of it.
func isolate(u *runtime.User, v runtime.View) error {
	for _, path := range v.Hide {
		// All mounts are below these.
		if !filepath.IsAbs(path) || filepath.Clean(path) == "/" {
			return fmt.Errorf("hide %q: it must be an absolute path below /", path)
		}
	}
	var trees []graft
	defer func() {
		for _, t := range trees {
			_ = unix.Close(t.fd) // a tree that was not attached goes with it
		}
	}()
	// The copies are made first: what they are copies of is covered then.
	for _, path := range slices.Concat(v.Show, unreached(u, v)) {
		t, err := cloneTree(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("show %s: %w", path, err)
		}
		trees = append(trees, t)
	}
	temporary := map[string]graft{}
	for _, dir := range temporaries {
		if st, err := os.Lstat(dir); v.Tmp == "" || err != nil || !st.IsDir() {
			continue // a link to the other, or none
		}
		t, err := cloneTree(v.Tmp)
		if err != nil {
			return fmt.Errorf("its own %s: %w", dir, err)
		}
		defer unix.Close(t.fd) //nolint:errcheck // as above
		t.path = dir
		temporary[dir] = t
	}
	covers, sockets, err := covered(u, v, trees)
	if err != nil {
		return err
	}
	if err := detachBelow(v.Hide); err != nil {
		return err
	}
	if err := privateDev(u, v.Devices); err != nil {
		return err
	}
	for dir, t := range temporary {
		if err := t.attach(); err != nil {
			return fmt.Errorf("its own %s: %w", dir, err)
		}
	}
	temporarily := func(path string) bool {
		for dir := range temporary {
			if within(path, dir) {
				return true
			}
		}
		return false
	}
	// What is shown below a directory of its own is so in a part of that which is in memory.
	for _, t := range trees {
		if dir := partOf(t.path); temporarily(t.path) && dir != t.path {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				return fmt.Errorf("show %s: %w", t.path, err)
			}
			covers = append(covers, dir)
		}
	}
	slices.Sort(covers)
	covers = slices.Compact(covers)
	covers = slices.DeleteFunc(covers, func(dir string) bool { return temporarily(dir) && partOf(dir) != dir })
	for _, dir := range covers {
		if _, err := os.Lstat(dir); temporarily(dir) && err != nil {
			continue // nothing of it is there, nor shown
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=256k,nr_inodes=256"); err != nil {
			return fmt.Errorf("cover %s: %w", dir, err)
		}
	}
	for _, path := range sockets {
		if err := unix.Mount("/dev/null", path, "", unix.MS_BIND, ""); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("cover %s: %w", path, err)
		}
	}
	// The outer ones first, so that they do not cover the inner ones.
	slices.SortStableFunc(trees, func(a, b graft) int { return cmp.Compare(len(a.path), len(b.path)) })
	for _, t := range trees {
		if !temporarily(t.path) && !slices.ContainsFunc(covers, func(dir string) bool { return within(t.path, dir) }) {
			continue // it is seen where it is
		}
		if err := t.attach(); err != nil {
			return fmt.Errorf("show %s: %w", t.path, err)
		}
	}
	// Processes of other users do not exist in it. There is no need of a PID namespace,
	// whose first process would have to be one that waits for orphans.
	if err := unix.Mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "hidepid=2"); err != nil {
		return fmt.Errorf("its own /proc: %w", err)
	}
	return nil
}

// temporaries are directories in whose place a process has its own.
var temporaries = []string{"/tmp", "/var/tmp"}

func isTemporary(path string) bool {
	return slices.ContainsFunc(temporaries, func(dir string) bool { return within(path, dir) })
}

// unreached are the directories of programs that have to be shown so that the user
// reaches them. One that is closed to it itself stays so.
func unreached(u *runtime.User, v runtime.View) []string {
	var out []string
	for _, dir := range v.Programs {
		real, err := filepath.EvalSymlinks(dir)
		if err != nil || real == "/" {
			continue
		}
		closed := firstClosed(real, u)
		if closed != real && (closed != "" || v.Tmp != "" && isTemporary(real)) {
			out = append(out, real)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// visible is the path at which a program below /tmp is seen by a process with a /tmp of
// its own, and v with what shows it. The user must be able to reach it on the machine.
func visible(path string, u *runtime.User, v runtime.View) (string, runtime.View) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || v.Tmp == "" || !isTemporary(real) && !isTemporary(path) || firstClosed(filepath.Dir(real), u) != "" {
		return path, v
	}
	v.Show = append(slices.Clip(v.Show), real)
	return real, v
}

// partOf is the part of a temporary directory that path is in: /tmp/a of /tmp/a/b.
func partOf(path string) string {
	for _, dir := range temporaries {
		if rest, ok := strings.CutPrefix(path, dir+"/"); ok {
			first, _, _ := strings.Cut(rest, "/")
			return dir + "/" + first
		}
	}
	return path
}

// covered are the directories and the sockets to be covered so that what v hides does
// not exist, and what it shows can be reached: in the place of a directory that the user
// may not enter comes one with nothing but what is shown in it.
func covered(u *runtime.User, v runtime.View, trees []graft) (dirs, sockets []string, err error) {
	for _, path := range v.Hide {
		real, err := filepath.EvalSymlinks(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, nil, fmt.Errorf("hide %s: %w", path, err)
		}
		st, err := os.Lstat(real)
		if err != nil {
			return nil, nil, fmt.Errorf("hide %s: %w", path, err)
		}
		if !st.IsDir() {
			sockets = append(sockets, real)
			continue
		}
		dirs = append(dirs, cmp.Or(firstClosed(filepath.Dir(real), u), real))
	}
	for _, t := range trees {
		if closed := firstClosed(filepath.Dir(t.path), u); closed != "" {
			dirs = append(dirs, closed)
		}
	}
	slices.Sort(dirs) // a directory comes before what is in it
	outer := dirs[:0]
	for _, d := range dirs {
		if !slices.ContainsFunc(outer, func(o string) bool { return within(d, o) }) {
			outer = append(outer, d)
		}
	}
	return outer, sockets, nil
}

// cloneTree makes a copy of path, with what is mounted below it.
func cloneTree(path string) (graft, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return graft{}, err
	}
	st, err := os.Lstat(real)
	if err != nil {
		return graft{}, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, real, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return graft{}, err
	}
	return graft{path: real, dir: st.IsDir(), fd: fd}, nil
}

// attach puts the copy where its original was.
func (t graft) attach() error {
	dir := t.path
	if !t.dir {
		dir = filepath.Dir(t.path)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if !t.dir {
		f, err := os.OpenFile(t.path, os.O_CREATE|os.O_RDONLY, 0o644)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return unix.MoveMount(t.fd, "", unix.AT_FDCWD, t.path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// detachBelow ends the mounts below directories in the calling thread's mount namespace:
// those of other instances would else be listed in its mountinfo and kept busy by it.
func detachBelow(dirs []string) error {
	info, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return fmt.Errorf("list mounts: %w", err)
	}
	var points []string
	for line := range strings.Lines(string(info)) {
		f := strings.Fields(line)
		if len(f) < 5 || strings.Contains(f[4], `\`) {
			continue // a path with blanks is none of ours; covered it is anyway
		}
		if slices.ContainsFunc(dirs, func(dir string) bool { return f[4] != dir && within(f[4], dir) }) {
			points = append(points, f[4])
		}
	}
	for _, p := range slices.Backward(points) {
		err := unix.Unmount(p, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("let go of %s: %w", p, err)
		}
	}
	return nil
}

// privateDev gives the thread a /dev/shm of its own, and lets the user open devices: by
// nodes of its own, which lie below that.
func privateDev(u *runtime.User, devices []string) error {
	const shm = "/dev/shm"
	if len(devices) > 0 {
		if err := unix.Mount("tmpfs", shm, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k"); err != nil {
			return fmt.Errorf("a place for its devices: %w", err)
		}
		for i, path := range devices {
			if err := ownNode(u, path, filepath.Join(shm, strconv.Itoa(i))); err != nil {
				return fmt.Errorf("device %s: %w", path, err)
			}
		}
	}
	err := unix.Mount("tmpfs", shm, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=1777")
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("its own %s: %w", shm, err)
	}
	return nil
}

// ownNode mounts a node of the same device, which belongs to the user, over path.
func ownNode(u *runtime.User, path, at string) error {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR && st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return nil // a directory of devices, or a file: as the machine has it
	}
	if err := unix.Mknod(at, st.Mode&unix.S_IFMT|0o600, int(st.Rdev)); err != nil { //nolint:gosec // a number of the kernel
		return err
	}
	if err := unix.Lchown(at, int(u.UID), int(u.GID)); err != nil {
		return err
	}
	return unix.Mount(at, path, "", unix.MS_BIND, "")
}

// mountsOf opens the mount namespace of a running process; nil of none.
func mountsOf(p *process) (*os.File, error) {
	if p == nil {
		return nil, nil //nolint:nilnil // see above
	}
	f, err := os.Open("/proc/" + strconv.Itoa(p.pid) + "/ns/mnt")
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, runtime.ErrGone // or it is about to: then it has given its namespaces back
	}
	if err != nil {
		return nil, fmt.Errorf("open its mount namespace: %w", err)
	}
	// The pid may have become another's before it was opened, which the start time tells.
	if !p.holdsPID() {
		return nil, errors.Join(runtime.ErrGone, f.Close())
	}
	return f, nil
}

// join lets the calling thread enter a mount namespace.
func join(mounts *os.File) error {
	err := unix.Unshare(unix.CLONE_FS)
	if err == nil {
		err = unix.Setns(int(mounts.Fd()), unix.CLONE_NEWNS) //nolint:gosec // a descriptor
	}
	if err != nil {
		return fmt.Errorf("enter its mount namespace: %w", err)
	}
	return nil
}

// openNetwork lets every user listen at every port of the calling thread's network
// namespace, which is the instance's own, and ping from it.
func openNetwork() {
	for name, value := range map[string]string{"ip_unprivileged_port_start": "0", "ping_group_range": "0 2147483647"} {
		// Where it is forbidden, programs say that they may not.
		_ = os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0)
	}
}

// firstClosed is the first of the directories on the way to dir, and of dir itself, that
// the user may not enter; "" is none. Access lists are not looked at.
func firstClosed(dir string, u *runtime.User) string {
	for at := 0; at < len(dir); {
		next := strings.IndexByte(dir[at+1:], '/')
		if next < 0 {
			at = len(dir)
		} else {
			at += 1 + next
		}
		var st unix.Stat_t
		if unix.Stat(dir[:at], &st) != nil {
			return ""
		}
		if !u.May(1, st.Mode, st.Uid, st.Gid) {
			return dir[:at]
		}
	}
	return ""
}

// mayExecute says in words why the user may not execute the program at path, which is
// known to be there on the machine.
func mayExecute(path string, u *runtime.User) error {
	const remedy = "move it to a directory that everybody may read, such as /usr/local/bin"
	real, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot execute %s: the instance does not see it, since it has a /tmp of its own and "+
			"nothing of the worker's directory; %s", path, remedy)
	}
	if err != nil {
		return fmt.Errorf("cannot execute %s: %w", path, err)
	}
	if dir := firstClosed(filepath.Dir(real), u); dir != "" {
		return fmt.Errorf("cannot execute %s: the instance runs as user %d, who may not enter %s; %s, or add its "+
			"directory to the PATH of the worker", path, u.UID, dir, remedy)
	}
	var st unix.Stat_t
	if unix.Stat(real, &st) == nil && !u.May(1, st.Mode, st.Uid, st.Gid) {
		return fmt.Errorf("cannot execute %s: the instance runs as user %d, who may not execute it (mode %#o): chmod o+rx it",
			path, u.UID, st.Mode&0o777)
	}
	return nil
}

// give makes the user the owner of what its process has as standard input and output,
// so that it may open it again by /dev/stdout and the like.
func give(u *runtime.User, io stdio) error {
	for _, f := range []*os.File{io.in, io.out, io.err} {
		fd := int(f.Fd()) //nolint:gosec // a descriptor
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("its standard input and output: %w", err)
		}
		kind := st.Mode & unix.S_IFMT
		if kind == unix.S_IFCHR {
			if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
				continue // /dev/null, which is everybody's
			}
		} else if kind != unix.S_IFREG && kind != unix.S_IFIFO {
			continue
		}
		if st.Uid == u.UID {
			continue
		}
		if err := unix.Fchown(fd, int(u.UID), int(u.GID)); err != nil {
			return fmt.Errorf("give its standard input and output to user %d: %w", u.UID, err)
		}
	}
	return nil
}

// within says whether path is dir or below it; both are clean and absolute.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
