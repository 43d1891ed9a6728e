package runtimetest

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/logfile"
	"github.com/verge-edge/verge/internal/wire"
)

// timeout of everything that ought to happen soon, on a slow and busy machine.
const timeout = 30 * time.Second

// Suite tests one way of making a driver.
type Suite struct {
	// Name tells suites of one test binary apart.
	Name string
	// New makes a driver; drivers with the same base are successive or concurrent
	// engines of one data directory. If it is an io.Closer it is closed.
	New func(base string) (runtime.Driver, error)
	// Contain, if it is not nil, makes a container of a spec: its main process is
	// the first of a PID namespace, its directories and /bin/sh are where they are on
	// the machine. What differs then is said where it does.
	Contain func(s *runtime.Spec)
}

// contained says that the tasks of the suite are containers.
func (s Suite) contained() bool { return s.Contain != nil }

// many is how many tasks there are at a time where there are many.
func (s Suite) many() int {
	if s.contained() {
		return 8 // each has a helper process
	}
	return 100
}

// end is a signal that ends a program which does not handle it: the first process
// of a namespace ignores all others.
func (s Suite) end() string {
	if s.contained() {
		return "KILL"
	}
	return "TERM"
}

// enforcer is a driver that knows which limits it enforces.
type enforcer interface{ Enforces(limit string) bool }

// Main is the TestMain of a driver's test package. In a process that a test
// started it is the program that the test wanted, else it runs the tests.
func Main(m *testing.M, suites ...Suite) {
	if p := os.Getenv(programVar); p != "" {
		os.Exit(runProgram(strings.Fields(p), suites))
	}
	os.Exit(m.Run())
}

// Run runs the suite. Its tests count processes, descriptors and goroutines and
// therefore do not run in parallel.
func (s Suite) Run(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Suite)
	}{
		{"exit codes", testExitCodes},
		{"wait from many goroutines", testWaitMany},
		{"environment", testEnvironment},
		{"start errors", testStartErrors},
		{"signals", testSignals},
		{"output keeps its order", testOutputOrder},
		{"one output ends before the other", testOutputEnds},
		{"logs over rotation", testRotation},
		{"a flood of output", testFlood},
		{"kill a stubborn tree", testKillTree},
		{"cleanup kills what is left", testCleanupKills},
		{"adopt after the engine was killed", testAdopt},
		{"adopt after the engine executed its successor", testAdoptInPlace},
		{"adopt what is gone", testAdoptGone},
		{"what a gone task left is killed", testAdoptLeftovers},
		{"a command beside a task", testExec},
		{"what a dead engine ran beside a task", testExecLeftovers},
		{"a terminal beside a task", testExecTerminal},
		{"the size of a terminal", testTerminalSize},
		{"a command ends with its task", testExecEnds},
		{"many tasks", testMany},
		{"usage", testUsage},
		{"memory limit", testMemoryLimit},
		{"cpu limit", testCPULimit},
		{"limits hold from the first instruction", testBornLimited},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, s) })
	}
}

// driver makes a driver of base that is closed with the test.
func (s Suite) driver(t testing.TB, base string) runtime.Driver {
	t.Helper()
	d, err := s.New(base)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := d.(io.Closer); ok {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	return d
}

// spec of a task that runs one of the suite's programs, in directories of its
// own.
func (s Suite) spec(t testing.TB, program string) runtime.Spec {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	sp := runtime.Spec{
		ID:        "app.web.0",
		Command:   []string{self},
		Env:       []string{"PATH=/usr/bin:/bin", programVar + "=" + program, atOnce},
		Dir:       t.TempDir(),
		LogDir:    t.TempDir(),
		CPUWeight: 100,
	}
	if s.contained() {
		s.Contain(&sp)
	}
	return sp
}

// shell makes s run a script instead.
func shell(s runtime.Spec, script string) runtime.Spec {
	s.Command = []string{"/bin/sh", "-c", script}
	return s
}

// start starts a task that is cleaned up with the test.
func start(t testing.TB, d runtime.Driver, s runtime.Spec) runtime.Task {
	t.Helper()
	task, err := d.Start(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cleanup(t, task) })
	return task
}

// cleanup cleans a task up and checks that its control group is gone.
func cleanup(t testing.TB, task runtime.Task) {
	t.Helper()
	if err := task.Cleanup(); err != nil {
		t.Errorf("cleanup: %v", err)
	}
	for dir := range strings.SplitSeq(task.Handle().Cgroup, ":") {
		if dir == "" {
			continue
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("control group %s is left: %v", dir, err)
		}
	}
}

// wait returns the task's exit.
func wait(t testing.TB, task runtime.Task) wire.Exit {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	e, err := task.Wait(ctx)
	if err != nil {
		t.Fatalf("wait: %v", err)
	}
	return e
}

func kill(t testing.TB, task runtime.Task) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if err := task.Kill(ctx); err != nil {
		t.Fatalf("kill: %v", err)
	}
}

// eventually waits for a condition that real processes bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", timeout, what)
		}
	}
}

// output reads the whole log of a task.
func output(t testing.TB, s runtime.Spec) string {
	t.Helper()
	var b strings.Builder
	for offset := int64(0); ; {
		c, err := logfile.Read(s.LogDir, offset, 0)
		if err != nil {
			t.Fatal(err)
		}
		if c.Lost != 0 {
			t.Fatalf("%d bytes lost at %d", c.Lost, offset)
		}
		if len(c.Data) == 0 {
			return b.String()
		}
		b.Write(c.Data)
		offset = c.Next
	}
}

// waitOutput waits until the log of a running task contains n whole lines and
// returns them.
func waitOutput(t testing.TB, s runtime.Spec, n int) []string {
	t.Helper()
	var lines []string
	eventually(t, "the program's output", func() bool {
		lines = strings.Split(output(t, s), "\n")
		return len(lines) > n
	})
	return lines[:n]
}

// readJSON reads what a program wrote to a file of its own, once it is there.
func readJSON(t testing.TB, path string, v any) {
	t.Helper()
	eventually(t, path, func() bool {
		b, err := os.ReadFile(path)
		return err == nil && json.Unmarshal(b, v) == nil
	})
}
