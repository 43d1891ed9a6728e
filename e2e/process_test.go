package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// daemon is one process of the binary that can be killed and started again.
type daemon struct {
	w    *world
	name string
	path string // of the binary
	args []string
	log  string // file of its standard error and output
	in   spot
	// before is called just before the process starts, what it returns just after.
	before func(*exec.Cmd) (after func() error)

	mu   sync.Mutex
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has ended
}

// start starts the process; it must not be running.
func (d *daemon) start() {
	d.w.t.Helper()
	out, err := os.OpenFile(d.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.w.t.Fatal(err)
	}
	defer func() { _ = out.Close() }() // the process has its own descriptor
	cmd := exec.Command(d.path, d.args...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Env = environment()
	// Its own group, so that what ends the test's does not end it by chance.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := d.in.do(func() error {
		after := func() error { return nil }
		if d.before != nil {
			after = d.before(cmd)
		}
		return errors.Join(cmd.Start(), after())
	}); err != nil {
		d.w.t.Fatalf("starting %s: %v", d.name, err)
	}
	done := make(chan struct{})
	d.mu.Lock()
	d.cmd, d.done = cmd, done
	d.mu.Unlock()
	go func() {
		_ = cmd.Wait() // how it ended is in ProcessState
		close(done)
	}()
}

// environment of the processes: nothing of the caller's but its programs.
func environment(more ...string) []string {
	return append([]string{
		"PATH=" + programs.dir + ":" + os.Getenv("PATH"), "HOME=/nonexistent", "TMPDIR=" + os.TempDir(),
	}, more...)
}

func (d *daemon) pid() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cmd.Process.Pid
}

func (d *daemon) signal(s syscall.Signal) {
	d.w.t.Helper()
	if err := syscall.Kill(d.pid(), s); err != nil {
		d.w.t.Fatalf("signal %v to %s: %v", s, d.name, err)
	}
}

// kill is SIGKILL; the process is gone when it returns.
func (d *daemon) kill() {
	d.w.t.Helper()
	d.signal(syscall.SIGKILL)
	d.wait()
}

// wait returns the exit code, -1 for a signal.
func (d *daemon) wait() int {
	d.w.t.Helper()
	select {
	case <-d.done:
	case <-time.After(2 * time.Minute):
		d.w.t.Fatalf("%s does not end", d.name)
	}
	return d.cmd.ProcessState.ExitCode()
}

// running says whether the process was started and has not ended.
func (d *daemon) running() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cmd == nil {
		return false
	}
	select {
	case <-d.done:
		return false
	default:
		return true
	}
}

// text is all that the process has written.
func (d *daemon) text() string {
	b, err := os.ReadFile(d.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.w.t.Error(err)
	}
	return string(b)
}

// process is one that carries the mark of a directory, see processesOf.
type process struct {
	pid  int
	args []string
	env  map[string]string
}

// procBuffers are for what /proc says of a process.
var procBuffers = sync.Pool{New: func() any { return new([2][128 << 10]byte) }}

// processesOf finds all processes whose command line or environment names dir or
// something in it: daemons by --data-dir, instances by HOME.
func processesOf(dir string) []process {
	var out []process
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return nil
	}
	buf, _ := procBuffers.Get().(*[2][128 << 10]byte)
	defer procBuffers.Put(buf)
	for _, d := range dirs {
		pid, err := strconv.Atoi(filepath.Base(d))
		if err != nil || pid == os.Getpid() {
			continue
		}
		args := readAtOnce(filepath.Join(d, "cmdline"), buf[0][:])
		if len(args) == 0 {
			continue // a thread of the kernel, or gone
		}
		env := readAtOnce(filepath.Join(d, "environ"), buf[1][:])
		if !names(args, dir) && !names(env, dir) {
			continue
		}
		p := process{pid: pid, args: strings.Split(strings.TrimRight(string(args), "\x00"), "\x00"), env: map[string]string{}}
		for v := range strings.SplitSeq(string(env), "\x00") {
			name, value, _ := strings.Cut(v, "=")
			p.env[name] = value
		}
		out = append(out, p)
	}
	return out
}

// readAtOnce is what a file of /proc says, none if its process is gone. A second read of it
// would find nothing where the process has ended since the first, and look like its end.
// An os.File would ask the kernel for twice as much, and this is most of what waiting costs.
func readAtOnce(path string, buf []byte) []byte {
	fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	n, _ := syscall.Read(fd, buf)
	_ = syscall.Close(fd) // it was only read
	return buf[:max(n, 0)]
}

// names says whether text has dir as a whole path or as the beginning of one.
func names(text []byte, dir string) bool {
	for rest := text; ; {
		i := bytes.Index(rest, []byte(dir))
		if i < 0 {
			return false
		}
		rest = rest[i+len(dir):]
		if len(rest) == 0 || rest[0] == '/' || rest[0] == 0 || rest[0] == ':' {
			return true
		}
	}
}

// killAll ends every process of dir and returns when there is none. Daemons are
// killed first, since they start others.
func killAll(t *testing.T, dir string) {
	t.Helper()
	eventually(t, 20*time.Second, "all processes of "+dir+" are gone", func() error {
		found := processesOf(dir)
		slices.SortStableFunc(found, func(a, b process) int { return rank(a) - rank(b) })
		for _, p := range found {
			// It may have ended by itself just now.
			_ = syscall.Kill(p.pid, syscall.SIGKILL)
		}
		if len(found) > 0 {
			return errors.New(describe(found))
		}
		return nil
	})
}

// rank orders agents before engines before instances.
func rank(p process) int {
	switch {
	case slices.Contains(p.args, "engine"):
		return 1
	case p.env["VERGE_INSTANCE"] != "":
		return 2
	}
	return 0
}

func describe(list []process) string {
	var all []string
	for _, p := range list {
		all = append(all, strconv.Itoa(p.pid)+" "+strings.Join(p.args, " "))
	}
	return strings.Join(all, "; ")
}
