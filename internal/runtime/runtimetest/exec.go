package runtimetest

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// beside runs a shell script beside a task and returns what it wrote.
func beside(ctx context.Context, t testing.TB, task runtime.Task, script string) (string, wire.Exit, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		b, _ := io.ReadAll(r)
		_ = r.Close() // read only
		read <- string(b)
	}()
	e, err := task.Exec(ctx, runtime.Exec{
		Command: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "WORD=hello"}, Stdout: w, Stderr: w,
	})
	_ = w.Close() // nothing of ours was written
	return <-read, e, err
}

func testExec(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	sp := s.spec(t, "block")
	task := start(t, d, sp)
	waitOutput(t, sp, 1)
	dir, err := filepath.EvalSymlinks(sp.Dir)
	if err != nil {
		t.Fatal(err)
	}

	for script, want := range map[string]struct {
		out  string
		exit wire.Exit
	}{
		`echo $WORD; pwd; echo error >&2; exit 3`: {"hello\n" + dir + "\nerror\n", wire.Exit{Code: 3}},
		`cat; kill -TERM $$`:                      {"", wire.Exit{Code: 143, Signal: "TERM"}},
		`env | grep -c -v -e ^PATH= -e ^HOME= -e ^VERGE_RUNTIMETEST -e ^WORD= -e ^GORACE= -e ^PWD= -e ^SHLVL= -e ^_= -e ^OLDPWD=; true`: {"0\n", wire.Exit{}},
	} {
		out, e, err := beside(t.Context(), t, task, script)
		e.At = time.Time{}
		if s.contained() { // the order is kept within each of its outputs
			out, want.out = sorted(out), sorted(want.out)
		}
		if err != nil || out != want.out || e != want.exit {
			t.Errorf("%s: %q, %+v, %v; want %q, %+v", script, out, e, err, want.out, want.exit)
		}
	}
	if _, err := task.Exec(t.Context(), runtime.Exec{Command: []string{"no-such-command"}, Env: []string{"PATH=/bin"}}); err == nil || !strings.Contains(err.Error(), "command not found") {
		t.Errorf("a command that does not exist: %v", err)
	}
	// It counts as the task's own.
	out, _, err := beside(t.Context(), t, task, "cat /proc/self/cgroup 2>/dev/null")
	if err != nil {
		t.Fatal(err)
	}
	if name := filepath.Base(task.Handle().Cgroup); task.Handle().Cgroup != "" {
		if n := strings.Count(out, "/"+name); n != strings.Count(task.Handle().Cgroup, ":")+1 && !(s.contained() && n > strings.Count(task.Handle().Cgroup, ":")) {
			t.Errorf("in %d groups of %s:\n%s", n, task.Handle().Cgroup, out)
		}
	}

	// What it leaves behind ends with it.
	out, e, err := beside(t.Context(), t, task, "sleep 1000 & echo $!")
	if err != nil || e.Code != 0 {
		t.Fatalf("%+v, %v", e, err)
	}
	s.checkDead(t, task, strings.Fields(out))

	// So does all of it when nobody wants to wait any more.
	pids := filepath.Join(sp.Dir, "pids")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		eventually(t, "the command runs", func() bool {
			b, _ := os.ReadFile(pids)
			return strings.Count(string(b), "\n") == 3
		})
		cancel()
	}()
	script := "trap '' TERM; echo $$ >>pids; sleep 1000 & echo $! >>pids; setsid sh -c 'echo $$ >>pids; sleep 1000' & wait"
	if _, _, err := beside(ctx, t, task, script); !errors.Is(err, context.Canceled) {
		t.Errorf("a command that was broken off: %v", err)
	}
	b, err := os.ReadFile(pids)
	if err != nil {
		t.Fatal(err)
	}
	s.checkDead(t, task, strings.Fields(string(b)))

	select {
	case <-waitAside(t, task):
		t.Fatal("the task ended with a command beside it")
	default:
	}
	files, goroutines := count(t, "/proc/self/fd"), goruntime.NumGoroutine()
	for range 20 {
		if _, e, err := beside(t.Context(), t, task, "exit 0"); err != nil || e.Code != 0 {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	eventually(t, "descriptors and goroutines are freed", func() bool {
		return count(t, "/proc/self/fd") <= files && goruntime.NumGoroutine() <= goroutines
	})
	if z := zombies(t); z != 0 {
		t.Errorf("%d zombies are left", z)
	}
	kill(t, task)
	if _, _, err := beside(t.Context(), t, task, "true"); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("beside what has ended: %v", err)
	}
}

// sorted sorts lines.
func sorted(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// waitAside is closed when the task ends.
func waitAside(t testing.TB, task runtime.Task) <-chan struct{} {
	t.Helper()
	ended := make(chan struct{})
	go func() {
		if _, err := task.Wait(t.Context()); err == nil {
			close(ended)
		}
	}()
	return ended
}

// testExecLeftovers: commands beside a task end at the latest when another
// engine takes the task up.
func testExecLeftovers(t *testing.T, s Suite) {
	base := t.TempDir()
	sp := s.spec(t, "block")
	cmd, h := fakeEngine(t, engineOrder{Suite: s.Name, Base: base, Spec: sp, Beside: []string{"/bin/sh", "-c", "echo $$ >pid; exec sleep 1000"}})
	var pid int
	readJSON(t, filepath.Join(sp.Dir, "pid"), &pid)
	killEngine(t, cmd)
	b, err := os.ReadFile(filepath.Join(sp.Dir, "pid"))
	if err != nil {
		t.Fatal(err)
	}
	task, err := s.driver(t, base).Adopt(t.Context(), sp, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cleanup(t, task) })
	if h.Cgroup == "" {
		p, err := os.FindProcess(pid)
		if err := errors.Join(err, p.Kill()); err != nil {
			t.Error(err)
		}
		t.Skip("NOT TESTED: without control groups the engine looks for them")
	}
	s.checkDead(t, task, strings.Fields(string(b)))
	select {
	case <-waitAside(t, task):
		t.Error("the task ended")
	default:
	}
	kill(t, task)
}
