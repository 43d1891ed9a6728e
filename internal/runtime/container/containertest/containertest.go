// Package containertest starts a containerd for a test and builds images for it.
// Nothing is downloaded: an image is made of programs of this machine.
package containertest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	imagename "github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// AddressVar is the variable in which the processes of a test find its containerd.
const AddressVar = "VERGE_CONTAINERTEST_ADDRESS"

// timeout of what ought to happen soon, on a slow and busy machine.
const timeout = 30 * time.Second

// Containerd is one of the test's own.
type Containerd struct {
	Address string
	dir     string
	small   bool // its files are on a file system of its own, which is small
	apart   bool // it has mounts of its own
	cmd     *exec.Cmd
	ended   chan struct{}
}

// Install makes sure that containerd, runc and a static busybox are there: as root
// they are installed, where that is not possible the error says what is missing.
func Install() error {
	if goruntime.GOOS != "linux" || os.Geteuid() != 0 {
		return errors.New("containers need root on Linux")
	}
	if len(missing()) == 0 {
		return nil
	}
	// Tests of many packages run at a time, and apt lets one of them read its lists.
	lock, err := os.OpenFile(filepath.Join(os.TempDir(), "verge-apt.lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() //nolint:errcheck // and with that the lock is given up
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("wait for others that install: %w", err)
	}
	packages := missing()
	if len(packages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	install := []string{"install", "-y", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120", "-o",
		"Acquire::Retries=3"}
	for _, args := range [][]string{{"update"}, append(install, packages...)} {
		cmd := exec.CommandContext(ctx, "apt-get", args...) //nolint:gosec // names from above
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("install %s: %w: %.500s", strings.Join(packages, ", "), err, out)
		}
	}
	return nil
}

// missing are the packages that have what is not there.
func missing() []string {
	var packages []string
	for program, pkg := range map[string]string{"containerd": "containerd", "runc": "runc", "busybox": "busybox-static"} {
		if _, err := exec.LookPath(program); err != nil {
			packages = append(packages, pkg)
		}
	}
	slices.Sort(packages)
	return packages
}

// New starts a containerd with directories of its own.
func New() (*Containerd, error) { return newOn(0, false) }

// newOn is New with all its files on a file system of so many bytes; 0: on the disk.
// apart gives it mounts of its own.
func newOn(bytes int64, apart bool) (*Containerd, error) {
	dir, err := os.MkdirTemp("", "verge-ctd") // short: sockets have at most 108 bytes
	if err != nil {
		return nil, err
	}
	c := &Containerd{Address: filepath.Join(dir, "c.sock"), dir: dir, small: bytes > 0, apart: apart}
	if c.small {
		if err := os.Mkdir(filepath.Join(dir, "root"), 0o700); err != nil {
			return nil, err
		}
		if err := unix.Mount("tmpfs", filepath.Join(dir, "root"), "tmpfs", 0, fmt.Sprintf("size=%d", bytes)); err != nil {
			return nil, fmt.Errorf("a small file system: %w", err)
		}
	}
	// In memory, as /run is on the machines that containerd is installed on. On ext4 a third
	// of the processor time of a hundred starts goes into looking for numbers of new files
	// among those of files that were just removed.
	state := filepath.Join(dir, "state")
	if err := os.Mkdir(state, 0o711); err != nil { //nolint:gosec // as containerd does: a container's user passes through
		return nil, err
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=256m,mode=711"); err != nil {
		return nil, fmt.Errorf("a file system in memory: %w", err)
	}
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = %q
[plugins."io.containerd.internal.v1.opt"]
  path = %q
`, filepath.Join(dir, "root"), state, c.Address, filepath.Join(dir, "opt"))
	if err := os.WriteFile(filepath.Join(dir, "config.toml"), []byte(config), 0o600); err != nil {
		return nil, err
	}
	return c, c.Start()
}

// Start starts it (again) and returns when it listens.
func (c *Containerd) Start() error {
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()                                                                  //nolint:errcheck // the process has its own
	cmd := exec.Command("containerd", "--config", filepath.Join(c.dir, "config.toml")) //nolint:noctx // Stop ends it
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if c.apart {
		cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // Stop waits for that
	}()
	c.cmd, c.ended = cmd, ended
	for end := time.Now().Add(timeout); ; time.Sleep(10 * time.Millisecond) {
		check := exec.Command("ctr", "--address", c.Address, "version") //nolint:gosec,noctx // it answers at once or not
		if check.Run() == nil {
			return nil
		}
		if time.Now().After(end) {
			b, _ := os.ReadFile(filepath.Join(c.dir, "log"))
			return fmt.Errorf("containerd does not answer: %s", b[max(0, len(b)-2000):])
		}
	}
}

// Kill ends containerd as a crash does. What it runs goes on.
func (c *Containerd) Kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.ended
}

// Resize changes how many bytes there are for a containerd of NeedSmall.
func (c *Containerd) Resize(bytes int64) error {
	return unix.Mount("tmpfs", filepath.Join(c.dir, "root"), "tmpfs", unix.MS_REMOUNT, fmt.Sprintf("size=%d", bytes))
}

// Wedge stops it, so that it accepts connections and answers nothing, until resume.
func (c *Containerd) Wedge() (resume func(), err error) {
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return nil, err
	}
	return func() { _ = c.cmd.Process.Signal(syscall.SIGCONT) }, nil // it may have ended
}

// Ctr runs ctr, containerd's own tool, in Verge's namespace and returns what it
// says.
func (c *Containerd) Ctr(args ...string) (string, error) {
	out, err := exec.Command("ctr",
		append([]string{"--address", c.Address, "--namespace", "verge"},
			args...)...).CombinedOutput() //nolint:gosec,noctx // of tests
	return string(out), err
}

// Left says what is left of containers: their records, snapshots that are no
// layers, leases, and shims.
func (c *Containerd) Left() (string, error) {
	var left []string
	for what, args := range map[string][]string{
		"container": {"containers", "ls", "-q"}, "task": {"tasks", "ls", "-q"}, "lease": {"leases", "ls", "-q"},
	} {
		out, err := c.Ctr(args...)
		if err != nil {
			return "", fmt.Errorf("%s: %w", out, err)
		}
		for _, l := range strings.Fields(out) {
			left = append(left, what+" "+l)
		}
	}
	out, err := c.Ctr("snapshots", "ls")
	if err != nil {
		return "", fmt.Errorf("%s: %w", out, err)
	}
	for line := range strings.Lines(out) {
		if f := strings.Fields(line); len(f) > 0 && f[len(f)-1] == "Active" {
			left = append(left, "snapshot "+f[0])
		}
	}
	shims, err := c.Shims()
	for _, pid := range shims {
		left = append(left, fmt.Sprintf("shim %d", pid))
	}
	slices.Sort(left) // of maps
	return strings.Join(left, ", "), err
}

// Shims are the processes that stand between this containerd and its containers.
func (c *Containerd) Shims() ([]int, error) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var out []int
	for _, d := range dirs {
		b, err := os.ReadFile(filepath.Join("/proc", d.Name(), "cmdline"))
		var pid int
		if _, perr := fmt.Sscan(d.Name(), &pid); err != nil || perr != nil {
			continue
		}
		if strings.Contains(string(b), "containerd-shim") && bytes.Contains(b, []byte(c.Address+"\x00")) {
			out = append(out, pid)
		}
	}
	return out, nil
}

// PID of its process.
func (c *Containerd) PID() int { return c.cmd.Process.Pid }

// CPU is the processor time of this containerd, of its shims that are there, of the
// programs that they ran which have ended, and of the containers' first processes: what
// those used before they became the program of the container was runc's.
func (c *Containerd) CPU() (sum time.Duration, err error) {
	shims, err := c.Shims()
	if err != nil {
		return 0, err
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return 0, err
	}
	for _, d := range dirs {
		var pid, parent int
		if _, err := fmt.Sscan(d.Name(), &pid); err != nil {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", d.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		if _, err := fmt.Sscan(fields[1], &parent); err != nil {
			return 0, fmt.Errorf("parent of process %d: %w", pid, err)
		}
		if pid != c.PID() && !slices.Contains(shims, pid) && !slices.Contains(shims, parent) {
			continue
		}
		const first, ticksASecond = 11, 100 // utime, stime, cutime, cstime
		for _, f := range fields[first : first+4] {
			var ticks int64
			if _, err := fmt.Sscan(f, &ticks); err != nil {
				return 0, fmt.Errorf("times of process %d: %w", pid, err)
			}
			sum += time.Duration(ticks) * time.Second / ticksASecond
		}
	}
	return sum, nil
}

// Close ends everything and removes it.
func (c *Containerd) Close() error {
	tasks, _ := c.Ctr("tasks", "ls", "-q")
	for _, id := range strings.Fields(tasks) {
		_, _ = c.Ctr("tasks", "kill", "-s", "KILL", id) // it may have ended
		_, _ = c.Ctr("tasks", "rm", "-f", id)
	}
	_ = c.cmd.Process.Signal(syscall.SIGCONT) // it may have ended
	_ = c.cmd.Process.Signal(syscall.SIGTERM)
	<-c.ended
	shims, err := c.Shims()
	for _, pid := range shims {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	err = errors.Join(err, unix.Unmount(filepath.Join(c.dir, "state"), unix.MNT_DETACH))
	if c.small {
		err = errors.Join(err, unix.Unmount(filepath.Join(c.dir, "root"), unix.MNT_DETACH))
	}
	return errors.Join(err, os.RemoveAll(c.dir))
}

// Need starts a containerd for a test, or skips it saying what is missing. Where
// VERGE_CI_NO_SKIP is set it fails instead.
func Need(t testing.TB) *Containerd {
	t.Helper()
	return need(t, 0, false)
}

// NeedApart is Need with mounts that this process does not see.
func NeedApart(t testing.TB) *Containerd {
	t.Helper()
	return need(t, 0, true)
}

// NeedSmall is Need with so many bytes for all its files; 0: as many as there are.
func NeedSmall(t testing.TB, bytes int64) *Containerd {
	t.Helper()
	return need(t, bytes, false)
}

func need(t testing.TB, bytes int64, apart bool) *Containerd {
	t.Helper()
	err := Install()
	if err == nil {
		var c *Containerd
		if c, err = newOn(bytes, apart); err == nil {
			t.Cleanup(func() {
				if err := c.Close(); err != nil {
					t.Error(err)
				}
			})
			return c
		}
	}
	if os.Getenv("VERGE_CI_NO_SKIP") != "" {
		t.Fatal(err)
	}
	t.Skipf("NOT TESTED: %v", err)
	return nil
}

// Config of an image.
type Config struct {
	Entrypoint, Cmd, Env []string
	User, WorkingDir     string
	// Volumes are the directories that it says its program writes to.
	Volumes []string
	// Architecture is this machine's where it is empty.
	Architecture string
}

// Build makes an image with a busybox at /bin and the given programs of this
// machine at their own paths, with the libraries that they need.
func Build(config Config, programs ...string) (v1.Image, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, dir := range []string{"bin/", "etc/", "tmp/", "proc/", "sys/", "dev/"} {
		mode := int64(0o755)
		if dir == "tmp/" {
			mode = 0o1777
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: mode}); err != nil {
			return nil, err
		}
	}
	// In one order: the same image has the same digest.
	for _, f := range [][2]string{
		{"etc/passwd", "root:x:0:0:root:/root:/bin/sh\nweb:x:1000:1000:web:/tmp:/bin/sh\n"},
		{"etc/group", "root:x:0:\nweb:x:1000:\n"},
	} {
		if err := addFile(w, f[0], []byte(f[1]), 0o644); err != nil {
			return nil, err
		}
	}
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(busybox) //nolint:gosec // of this machine
	if err != nil {
		return nil, err
	}
	if err := addFile(w, "bin/busybox", content, 0o755); err != nil {
		return nil, err
	}
	applets, err := exec.Command(busybox, "--list").Output() //nolint:noctx,gosec // it ends at once
	if err != nil {
		return nil, err
	}
	for _, a := range strings.Fields(string(applets)) {
		if a == "busybox" {
			continue
		}
		if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeSymlink, Name: "bin/" + a, Linkname: "busybox", Mode: 0o777}); err != nil {
			return nil, err
		}
	}
	added := map[string]bool{}
	for _, p := range programs {
		if err := addProgram(w, p, added); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	// Kept, and hardly compressed: its digest, its size and its content are each asked for,
	// and under the race detector to compress a program takes seconds.
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes())), nil },
		tarball.WithCompressedCaching, tarball.WithCompressionLevel(gzip.NoCompression))
	if err != nil {
		return nil, err
	}
	image, err := mutate.AppendLayers(empty.Image, layer)
	if err != nil {
		return nil, err
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture = "linux", goruntime.GOARCH
	if config.Architecture != "" {
		file.Architecture = config.Architecture
	}
	file.Config = v1.Config{Entrypoint: config.Entrypoint, Cmd: config.Cmd, Env: config.Env, User: config.User,
		WorkingDir: config.WorkingDir}
	if len(config.Volumes) > 0 {
		file.Config.Volumes = map[string]struct{}{}
	}
	for _, v := range config.Volumes {
		file.Config.Volumes[v] = struct{}{}
	}
	return mutate.ConfigFile(image, file)
}

func addFile(w *tar.Writer, name string, content []byte, mode int64) error {
	if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
		return err
	}
	_, err := w.Write(content)
	return err
}

// addProgram adds a program with its loader and libraries.
func addProgram(w *tar.Writer, path string, added map[string]bool) error {
	if added[path] {
		return nil
	}
	added[path] = true
	content, err := os.ReadFile(path) //nolint:gosec // of this machine
	if err != nil {
		return err
	}
	if err := addFile(w, strings.TrimPrefix(path, "/"), content, 0o755); err != nil {
		return err
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return nil //nolint:nilerr // a script
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			b, err := io.ReadAll(io.LimitReader(p.Open(), 4096))
			if err != nil {
				return err
			}
			if err := addProgram(w, strings.TrimRight(string(b), "\x00"), added); err != nil {
				return err
			}
		}
	}
	libs, err := f.ImportedLibraries()
	if err != nil {
		return nil //nolint:nilerr // without any
	}
	for _, lib := range libs {
		found := false
		for _, pattern := range []string{"/lib/*-linux-gnu*/", "/usr/lib/*-linux-gnu*/", "/lib64/", "/lib/"} {
			if at, _ := filepath.Glob(pattern + lib); len(at) > 0 {
				found = true
				if err := addProgram(w, at[0], added); err != nil {
					return err
				}
				break
			}
		}
		if !found {
			return fmt.Errorf("library %s of %s is not found", lib, path)
		}
	}
	return nil
}

// Save writes an image as an archive that `verge image load` reads.
func Save(path, name string, image v1.Image) error {
	tag, err := imagename.NewTag(name)
	if err != nil {
		return err
	}
	return tarball.WriteToFile(path, tag, image)
}
