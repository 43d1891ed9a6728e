package runtimetest

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// fakeEngine starts a process that starts a task of sp, and returns it with the
// task's handle.
func fakeEngine(t *testing.T, o engineOrder) (*exec.Cmd, runtime.Handle) {
	t.Helper()
	dir := t.TempDir()
	o.Handle, o.Exit = filepath.Join(dir, "handle"), filepath.Join(dir, "exit")
	order := filepath.Join(dir, "order")
	if err := writeJSON(order, o); err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append([]string{programVar + "=engine " + order}, passed()...)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
	})
	var h runtime.Handle
	readJSON(t, o.Handle, &h)
	return cmd, h
}

// passed are the variables that processes of a test hand on: of the suite's own.
func passed() []string {
	return append(slices.DeleteFunc(os.Environ(), func(v string) bool {
		return !strings.HasPrefix(v, "VERGE_CONTAINERTEST_") && !strings.HasPrefix(v, "PATH=")
	}), atOnce)
}

// killEngine kills a fake engine and returns when it is gone.
func killEngine(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // says that it was killed
}

func testAdopt(t *testing.T, s Suite) {
	base := t.TempDir()
	sp := s.spec(t, "chatter")
	cmd, h := fakeEngine(t, engineOrder{Suite: s.Name, Base: base, Spec: sp})
	killEngine(t, cmd)

	d := s.driver(t, base)
	task, err := d.Adopt(t.Context(), sp, h)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cleanup(t, task) })
	if task.Handle() != h {
		t.Errorf("handle %+v, want %+v", task.Handle(), h)
	}
	before := len(output(t, sp))
	eventually(t, "the task writes on after its engine's death", func() bool {
		return len(output(t, sp)) > before+20
	})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if e, err := task.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("a living task: %+v, %v", e, err)
	}
	kill(t, task)
	e := wait(t, task)
	if s.contained() { // its shim was there to see it
		if e.Unknown || e.Code != 137 || e.OOM {
			t.Errorf("exit %+v, want that it was killed", e)
		}
	} else if !e.Unknown || e.Code != -1 || e.Signal != "" || e.OOM {
		t.Errorf("exit %+v, want unknown", e)
	}
	cleanup(t, task)
	if _, err := d.Adopt(t.Context(), sp, h); !errors.Is(err, runtime.ErrGone) {
		t.Errorf("adopting it again: %v", err)
	}
}

// testAdoptInPlace: children of an engine that executes its successor are the
// successor's children; their exit codes are not lost, not even of those that
// end during the change.
func testAdoptInPlace(t *testing.T, s Suite) {
	for name, script := range map[string]string{
		"ends later":  "sleep 0.3; exit 7",
		"ends before": "exit 7",
	} {
		t.Run(name, func(t *testing.T) {
			sp := shell(s.spec(t, ""), script)
			o := engineOrder{Suite: s.Name, Base: t.TempDir(), Spec: sp, Exec: true}
			cmd, h := fakeEngine(t, o)
			if err := cmd.Wait(); err != nil {
				t.Fatalf("successor: %v", err)
			}
			var e wire.Exit
			readJSON(t, filepath.Join(filepath.Dir(cmdOrder(cmd)), "exit"), &e)
			if e.Code != 7 || e.Unknown {
				t.Errorf("exit %+v, want code 7", e)
			}
			d := s.driver(t, o.Base)
			if _, err := d.Adopt(t.Context(), sp, h); !errors.Is(err, runtime.ErrGone) {
				t.Errorf("adopting it afterwards: %v", err)
			}
		})
	}
}

// cmdOrder is the path of the order that a fake engine was given.
func cmdOrder(cmd *exec.Cmd) string { return cmd.Env[0][len(programVar+"=engine "):] }

func testAdoptGone(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	sp := s.spec(t, "block")
	task := start(t, d, sp)
	living := task.Handle()

	ended := start(t, d, shell(s.spec(t, ""), "exit 0"))
	wait(t, ended)
	cleanup(t, ended)

	reused, rebooted, nonsense := living, living, living
	reused.Started++
	rebooted.Boot = "another"
	nonsense.PID = 0
	for name, h := range map[string]runtime.Handle{
		"ended": ended.Handle(), "pid reused": reused, "rebooted": rebooted, "no pid": nonsense,
	} {
		h.Cgroup = "" // a wrong handle must not lead to the living task's group
		if task, err := d.Adopt(t.Context(), sp, h); !errors.Is(err, runtime.ErrGone) {
			t.Errorf("%s: %v, %v", name, task, err)
		}
	}
	if err := task.Signal("CONT"); err != nil {
		t.Errorf("the living task suffered: %v", err)
	}
}

// testAdoptLeftovers: the main process has ended while there was no engine, its
// child has not.
func testAdoptLeftovers(t *testing.T, s Suite) {
	if s.contained() {
		t.Skip("with the first process of a namespace all others end")
	}
	base := t.TempDir()
	sp := shell(s.spec(t, ""), "sleep 1000 & echo $!")
	cmd, h := fakeEngine(t, engineOrder{Suite: s.Name, Base: base, Spec: sp})
	d := s.driver(t, base)
	pids := waitOutput(t, sp, 1)
	killEngine(t, cmd)
	if !alive(t, pids[0]) {
		t.Fatal("the child has ended by itself")
	}
	eventually(t, "the task is gone", func() bool {
		task, err := d.Adopt(t.Context(), sp, h)
		if err == nil { // nobody has reaped it yet
			cleanup(t, task)
		}
		return errors.Is(err, runtime.ErrGone)
	})
	checkDead(t, pids)
}
