package process

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
)

// asUser is a worker's directory with two instances, each of a user of its own: specs that
// run a shell script.
type asUser struct {
	base string
	spec func(name string, uid uint32, script string) runtime.Spec
}

func newAsUser(t *testing.T) asUser {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: users of their own; needs root")
	}
	base := t.TempDir()
	write := func(path, text string, uid int) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o711); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(path, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(base, "identity", "key.pem"), "the worker's key", 0)
	return asUser{base: base, spec: func(name string, uid uint32, script string) runtime.Spec {
		dir := filepath.Join(base, "instances", name)
		work, tmp, log := filepath.Join(dir, "work"), filepath.Join(dir, "tmp"), filepath.Join(dir, "log")
		write(filepath.Join(work, "secret"), "of "+name, int(uid))
		for _, d := range []string{work, tmp} {
			if err := os.MkdirAll(d, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(d, int(uid), int(uid)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.MkdirAll(log, 0o700); err != nil {
			t.Fatal(err)
		}
		return runtime.Spec{
			ID: "app." + name + ".0", Command: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
			Dir: work, LogDir: log, CPUWeight: 100,
			User: &runtime.User{UID: uid, GID: uid}, View: runtime.View{Hide: []string{base}, Show: []string{dir}, Tmp: tmp},
		}
	}}
}

// output of a command beside a task.
func output(t *testing.T, task runtime.Task, script string) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	exit, err := task.Exec(t.Context(), runtime.Exec{
		Command: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}, Stdout: w, Stderr: w,
	})
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64<<10)
	n, _ := r.Read(b) // the end of the file is an empty output
	if exit.Code != 0 {
		t.Errorf("%s: exit %d: %s", script, exit.Code, b[:n])
	}
	return strings.TrimSpace(string(b[:n]))
}

// What a process with a user is and sees, and a command beside it is and sees the same.
func TestUserIsConfined(t *testing.T) {
	const script = `
		echo "id=$(id -u):$(id -g):$(id -G)"
		grep -E '^(CapEff|CapPrm|CapBnd|CapAmb|NoNewPrivs):' /proc/self/status | tr -d ' \t' | tr '\n' ' '; echo
		echo "own=$(cat secret) data=$(ls BASE) instances=$(ls BASE/instances)"
		cat BASE/identity/key.pem 2>/dev/null && echo KEY
		cat BASE/instances/two/work/secret 2>/dev/null && echo SECRET
		ls -d /proc/1 2>/dev/null && echo INIT
		echo written >made && echo t >/tmp/t && echo "tmp=$(ls /tmp | grep -x t) shm=$(ls /dev/shm)"
		echo again >/dev/stdout
		grep -c instances/two /proc/self/mountinfo
		ls /tmp/outside 2>/dev/null && echo OUTSIDE
		true`
	for _, s := range append(suites[:len(suites):len(suites)], spareSuite) {
		t.Run(s.Name, func(t *testing.T) {
			a := newAsUser(t)
			d, err := s.New(a.base)
			if err != nil {
				t.Fatal(err)
			}
			defer d.(*Driver).Close()
			say := strings.ReplaceAll(script, "BASE", a.base)
			two := mustStart(t, d.(*Driver), a.spec("two", 1_900_000_002, "exec sleep 1000"))
			defer two.Kill(context.Background())
			spec := a.spec("one", 1_900_000_001, say+"; exec sleep 1000")
			one := mustStart(t, d.(*Driver), spec)
			defer one.Kill(context.Background())
			want := []string{
				"id=1900000001:1900000001:1900000001",
				"CapPrm:0000000000000000 CapEff:0000000000000000 CapBnd:0000000000000000 CapAmb:0000000000000000 NoNewPrivs:1",
				"own=of one data=instances instances=one", "tmp=t shm=", "again", "0",
			}
			got := output(t, one, say)
			var lines []string
			for l := range strings.Lines(got) {
				lines = append(lines, strings.TrimSpace(l))
			}
			if strings.Join(lines, "\n") != strings.Join(want, "\n") {
				t.Errorf("a command beside it says\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
			}
			made, err := os.Stat(filepath.Join(spec.Dir, "made"))
			if err != nil || made.Sys().(*syscall.Stat_t).Uid != 1_900_000_001 {
				t.Errorf("what it made: %v, %v", made, err)
			}
			// Nothing of the worker's directory is made again in the one of the instance.
			if left, err := filepath.Glob(filepath.Join(spec.View.Tmp, "*", "*")); err != nil || len(left) > 0 {
				t.Errorf("in its /tmp there are %q, %v", left, err)
			}
			if h := one.Handle(); h.User == nil || h.User.UID != 1_900_000_001 {
				t.Errorf("the handle has user %+v", h.User)
			}
			// Who adopts it runs commands as the same.
			later, err := d.Adopt(t.Context(), runtime.Spec{ID: spec.ID, Dir: spec.Dir, LogDir: spec.LogDir}, one.Handle())
			if err != nil {
				t.Fatal(err)
			}
			if got := output(t, later, "id -u"); got != "1900000001" {
				t.Errorf("after it was adopted a command beside it is %s", got)
			}
		})
	}
}

// In a network namespace of its own a user listens at every port; in that of the machine
// at low ones only where it is said so, by that one capability.
func TestUserListensAtLowPorts(t *testing.T) {
	a := newAsUser(t)
	d := testDriver(t, Options{Base: a.base, NoCgroups: true})
	netns := filepath.Join(a.base, "netns")
	if err := os.WriteFile(netns, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := onthread.Do(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", netns, "", unix.MS_BIND, "")
	}); err != nil {
		t.Skipf("NOT TESTED: no network namespace: %v", err)
	}
	defer func() {
		if err := unix.Unmount(netns, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	const script = "grep CapEff /proc/self/status | cut -f2; cat /proc/sys/net/ipv4/ip_unprivileged_port_start"
	own := a.spec("own", 1_900_000_001, "exec sleep 1000")
	own.NetNS = netns
	if got := output(t, mustStart(t, d, own), script); got != "0000000000000000\n0" {
		t.Errorf("in a namespace of its own: %q", got)
	}
	low := a.spec("low", 1_900_000_002, "exec sleep 1000")
	low.User.LowPorts = true
	if got := output(t, mustStart(t, d, low), script); !strings.HasPrefix(got, "0000000000000400\n") {
		t.Errorf("in that of the machine: %q", got)
	}
}

// A program that the user cannot reach is refused in words that say why.
func TestUserCannotReachProgram(t *testing.T) {
	a := newAsUser(t)
	d := testDriver(t, Options{Base: a.base, NoCgroups: true})
	s := a.spec("one", 1_900_000_001, "true")
	s.View.Tmp = ""
	closed, err := os.MkdirTemp("/var/tmp", "closed-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(closed)
	program := filepath.Join(closed, "program")
	if err := errors.Join(os.WriteFile(program, []byte("#!/bin/sh\necho here\n"), 0o755)); err != nil {
		t.Fatal(err)
	}
	s.Command = []string{program}
	if _, err := d.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "user 1900000001, who may not enter "+closed) {
		t.Fatalf("got %v", err)
	}
	// A directory of programs that the operator names does not help, since it is closed
	// itself; one in it does.
	s.View.Programs = []string{closed}
	if _, err := d.Start(t.Context(), s); err == nil {
		t.Error("a directory that is closed to all is open to it")
	}
	bin := filepath.Join(closed, "bin")
	if err := errors.Join(os.Mkdir(bin, 0o755), os.Rename(program, filepath.Join(bin, "program"))); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(bin, "program")
	s.Command, s.View.Programs = []string{program}, []string{bin}
	task := mustStart(t, d, s)
	if exit, err := task.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Errorf("shown: %+v, %v", exit, err)
	}
	if err := os.Chmod(program, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Start(t.Context(), s); err == nil || !strings.Contains(err.Error(), "chmod o+rx") {
		t.Errorf("of mode 0700: %v", err)
	}
}

// A path below which all mounts are is refused: they would be taken away, and with them
// what the process needs.
func TestViewHidesNoRoot(t *testing.T) {
	for _, path := range []string{"", "/", "relative", "/tmp/.."} {
		err := isolate(nil, runtime.View{Hide: []string{path}})
		if err == nil || !strings.Contains(err.Error(), "absolute path") {
			t.Errorf("%q: %v", path, err)
		}
	}
}

// A program can signal whatever its user runs: also what is about to become that user, beside
// it. That costs it the command and nobody else anything: this process goes on forking.
func TestUserCannotHoldUpForks(t *testing.T) {
	a := newAsUser(t)
	d := testDriver(t, Options{Base: a.base})
	task := mustStart(t, d, a.spec("one", 1_900_000_077, `i=0; while [ $((i += 1)) -lt 1000000 ]; do kill -s STOP -- -1 2>/dev/null; done`))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for range 40 {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			_, _ = task.Exec(ctx, runtime.Exec{Command: []string{"/bin/true"}}) // stopped, and ended at its time
			cancel()
			if err := exec.CommandContext(t.Context(), "/bin/true").Run(); err != nil {
				t.Error(err)
			}
		}
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		// Not Fatal: what it has started cannot be ended from here.
		panic("a stopped child holds up all forks of this process")
	}
}

// A command enters the mount namespace of its task as the user, also where the task has made
// itself another one: nothing of that is executed as root.
func TestCommandExecutesNothingOfTaskAsRoot(t *testing.T) {
	a := newAsUser(t)
	d := testDriver(t, Options{Base: a.base, NoCgroups: true})
	spec := a.spec("one", 1_900_000_078, `exec unshare -Urm sh -c '
		printf "#!/bin/sh\nid -u >&2; cat /proc/self/status >&2\n" >tool && chmod 755 tool
		mkdir self && cp tool self/exe && mount --bind . /proc && echo ready >ready; exec sleep 1000'`)
	task := mustStart(t, d, spec)
	tick, deadline := time.NewTicker(10*time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for there := false; !there; {
		select {
		case <-tick.C:
			_, err := os.Stat(filepath.Join(spec.Dir, "ready"))
			there = err == nil
		case <-deadline:
			t.Skip("NOT TESTED: a task with a mount namespace that it made itself; unshare is missing or forbidden")
		}
	}
	if got := output(t, task, "echo me"); got != "me" {
		t.Errorf("a command says %q", got)
	}
}

func TestHidesProcesses(t *testing.T) {
	const before, of = "36 35 0:4 / /proc rw,nosuid shared:5 - proc proc ", "80 36 0:40 / /proc/x rw - proc proc rw,hidepid=2\n"
	for options, want := range map[string]bool{
		"rw": false, "rw,hidepid=2": true, "rw,gid=4,hidepid=invisible": true, "rw,hidepid=1": false, "rw,hidepid=20": false,
	} {
		if got := hidesProcesses("36 35 0:4 / /proc rw - proc proc rw\n" + before + options + "\n" + of); got != want {
			t.Errorf("%s: %v", options, got)
		}
	}
}

// The worker finds that all works which a start needs, before an instance does.
func TestProbeIsolation(t *testing.T) {
	d := testDriver(t, Options{Base: newAsUser(t).base})
	if missing, err := d.ProbeIsolation(); err != nil || missing != "" {
		t.Errorf("%q, %v", missing, err)
	}
	left, err := filepath.Glob(filepath.Join(d.base, "probe-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %q, %v", left, err)
	}
}

// The step that becomes the user needs more memory, and more threads, than some programs are
// allowed: it counts for none of their limits, and the program for all.
func TestUserHasSmallLimits(t *testing.T) {
	for _, s := range append(suites[:len(suites):len(suites)], spareSuite) {
		t.Run(s.Name, func(t *testing.T) {
			a := newAsUser(t)
			d, err := s.New(a.base)
			if err != nil {
				t.Fatal(err)
			}
			defer d.(*Driver).Close()
			spec := a.spec("one", 1_900_000_001, "exec sleep 1000")
			spec.MemoryLimit = 1 << 20
			one := mustStart(t, d.(*Driver), spec)
			defer one.Kill(context.Background())
			groups := one.Handle().Cgroup
			if groups == "" {
				t.Skip("NOT TESTED: no control groups here")
			}
			for dir := range strings.SplitSeq(groups, ":") {
				pids, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
				if err != nil || len(strings.Fields(string(pids))) != 1 {
					t.Errorf("%s has the processes %q, %v", dir, pids, err)
				}
			}
		})
	}
}
