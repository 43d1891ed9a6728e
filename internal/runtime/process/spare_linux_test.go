package process

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/onthread"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/runtime/runtimetest"
)

// spareSuite is of tasks that come from spares, where there is one: see mustStart.
var spareSuite = runtimetest.Suite{Name: "spare", New: func(base string) (runtime.Driver, error) {
	d := New(Options{Base: base})
	d.Expect("app.expected.0", true)
	return d, nil
}}

// spareOf waits for the spare of a driver of which a start is expected; 0 where none is.
func spareOf(t testing.TB, d *Driver) int {
	t.Helper()
	pid := 0
	eventually(t, "a spare is made", func() bool {
		d.spares.mu.Lock()
		defer d.spares.mu.Unlock()
		if d.spares.ready != nil {
			pid = d.spares.ready.pid
		}
		return pid > 0 || len(d.spares.expected) == 0
	})
	return pid
}

// eventually waits for something.
func eventually(t testing.TB, what string, is func() bool) {
	t.Helper()
	tick, end := time.NewTicker(time.Millisecond), time.After(10*time.Second)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("not in time: %s", what)
		}
	}
}

// gone waits for the end of a process, which leaves no zombie.
func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, "the end of process "+strconv.Itoa(pid), func() bool { return syscall.Kill(pid, 0) != nil })
}

// said is what a task has written by its end.
func said(t *testing.T, s runtime.Spec, task runtime.Task) string {
	t.Helper()
	if exit, err := task.Wait(t.Context()); err != nil || exit.Code != 0 {
		t.Fatalf("%+v, %v", exit, err)
	}
	log, err := logfile.Read(s.LogDir, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(log.Data)
}

// A task that comes from a spare is what one that was forked is: it differs in nothing that it
// can see of itself.
func TestSpareBecomesTheTask(t *testing.T) {
	const script = `
		env | sort | grep -v '^_='; pwd; umask; ulimit -n; id
		cat /proc/self/oom_score_adj; grep -E '^(Sig|Cap|NoNew|Seccomp|Threads)' /proc/self/status
		[ $(ps -o sid= -p $$) = $$ ] && echo leads
		ls -l /proc/self/fd | grep -c pipe; ls /proc/self/fd | wc -l
		cat /proc/self/cgroup | grep -c app.one; readlink /proc/self/ns/net`
	a := newAsUser(t)
	d := testDriver(t, Options{Base: a.base})
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
	defer func() { _ = unix.Unmount(netns, unix.MNT_DETACH) }()
	for _, in := range []string{"", netns} {
		texts := map[bool]string{}
		for _, expected := range []bool{false, true} {
			d.Expect("app.one.0", expected)
			pid := spareOf(t, d)
			s := a.spec("one", 1_900_000_001, script)
			s.NetNS, s.LogDir = in, t.TempDir()
			s.Env = append(s.Env, "GODEBUG=inittrace=1", "EMPTY=", "LINES=a\nb")
			task, err := d.Start(t.Context(), s)
			if err != nil {
				t.Fatal(err)
			}
			if got := task.Handle().PID; expected != (got == pid) {
				t.Errorf("expected %t: it is process %d, the spare was %d", expected, got, pid)
			}
			texts[expected] = said(t, s, task)
			if err := task.Cleanup(); err != nil {
				t.Fatal(err)
			}
		}
		if texts[true] != texts[false] || !strings.Contains(texts[true], "leads") {
			t.Errorf("in the network %q: from a spare\n%s\nforked\n%s", in, texts[true], texts[false])
		}
	}
}

// Where nobody is expected any more there is no spare, and none after the driver is closed.
func TestSpareGoesWithItsReason(t *testing.T) {
	a := newAsUser(t)
	d := New(Options{Base: a.base})
	d.Expect("app.one.0", true)
	d.Expect("app.two.0", true)
	pid := spareOf(t, d)
	d.Expect("app.one.0", false)
	if spareOf(t, d) != pid {
		t.Error("it is gone although one is expected")
	}
	d.Expect("app.two.0", false)
	gone(t, pid)
	d.Expect("app.one.0", true)
	d.Expect("app.one.0", false) // before it is made
	d.Expect("app.one.0", true)
	pid = spareOf(t, d)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	gone(t, pid)
	d.Expect("app.one.0", true)
	if d.spares.ready != nil || d.spares.timer != nil {
		t.Error("there is one after the end of the driver")
	}
}

// An engine that is killed leaves no spare.
func TestSpareEndsWithItsEngine(t *testing.T) {
	newAsUser(t)
	s, err := newSpare()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.sock.Close(); err != nil { // as the kernel does
		t.Fatal(err)
	}
	s.reap()
	if err := syscall.Kill(s.pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("it is still there: %v", err)
	}
}

// What a spare cannot do is done without it, and nothing of it is left.
func TestWithoutASpare(t *testing.T) {
	a := newAsUser(t)
	d := testDriver(t, Options{Base: a.base})
	d.Expect("app.one.0", true)
	for name, prepare := range map[string]func(pid int, s *runtime.Spec){
		"killed": func(pid int, _ *runtime.Spec) { _ = syscall.Kill(pid, syscall.SIGKILL) },
		"large":  func(_ int, s *runtime.Spec) { s.Env = append(s.Env, "LARGE="+strings.Repeat("x", 100<<10)) },
	} {
		pid := spareOf(t, d)
		s := a.spec("one", 1_900_000_001, "echo it runs")
		s.LogDir = t.TempDir()
		prepare(pid, &s)
		if name == "killed" { // until the kernel has closed its end
			eventually(t, "it is killed", func() bool {
				st, err := readStat(pid)
				return err != nil || st.gone()
			})
		}
		task, err := d.Start(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if task.Handle().PID == pid {
			t.Errorf("%s: it is the spare", name)
		}
		if got := said(t, s, task); got != "it runs\n" {
			t.Errorf("%s: it says %q", name, got)
		}
		if err := task.Cleanup(); err != nil {
			t.Fatal(err)
		}
		gone(t, pid)
	}
}

// A program that cannot be executed is the same error, whoever tries it, and nothing is left.
func TestSpareSaysWhatIsWrong(t *testing.T) {
	a := newAsUser(t)
	d := testDriver(t, Options{Base: a.base})
	texts := map[bool]string{}
	for _, expected := range []bool{false, true} {
		d.Expect("app.one.0", expected)
		pid := spareOf(t, d)
		s := a.spec("one", 1_900_000_001, "")
		program := filepath.Join(s.Dir, "program")
		if err := os.WriteFile(program, []byte("no program"), 0o755); err != nil {
			t.Fatal(err)
		}
		s.Command, s.LogDir = []string{program}, t.TempDir()
		_, err := d.Start(t.Context(), s)
		if err == nil {
			t.Fatal("it runs")
		}
		texts[expected] = err.Error()
		if expected {
			gone(t, pid)
		}
	}
	if texts[true] != texts[false] {
		t.Errorf("from a spare: %s; forked: %s", texts[true], texts[false])
	}
	left, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range left {
		b, err := os.ReadFile(f)
		st, _ := strconv.Atoi(strings.Split(f, "/")[2])
		if err == nil && strings.HasPrefix(string(b), "verge-setpriv\x00spare") && parentOf(t, st) == os.Getpid() &&
			st != spareOf(t, d) {
			t.Errorf("process %d is left", st)
		}
	}
}

func parentOf(t *testing.T, pid int) int {
	t.Helper()
	st, err := readStat(pid)
	if err != nil {
		return 0
	}
	return st.ppid
}
