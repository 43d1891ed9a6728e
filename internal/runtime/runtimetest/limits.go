package runtimetest

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/runtime"
)

// limited returns a driver that enforces the limit, or skips the test.
func limited(t *testing.T, s Suite, limit string) runtime.Driver {
	t.Helper()
	d := s.driver(t, t.TempDir())
	if e, ok := d.(enforcer); !ok || !e.Enforces(limit) {
		missing, err := d.Probe()
		t.Skipf("NOT TESTED: limits of %s; this driver says %q, %v", limit, missing, err)
	}
	return d
}

func testUsage(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	task := start(t, d, s.spec(t, "spin 1h"))
	eventually(t, "usage is counted", func() bool {
		u := task.Usage()
		return u.CPU > 50*time.Millisecond && u.Memory > 100<<10 && u.Tasks > 0
	})
	if u := task.Usage(); u.CPU > time.Hour || u.Memory > 1<<30 || u.Tasks > 1000 {
		t.Errorf("usage %+v", u)
	}
	kill(t, task)
	cleanup(t, task)
	if u := task.Usage(); u.Memory > 0 || u.Tasks > 0 {
		t.Errorf("usage after the end %+v", u)
	}
}

func testMemoryLimit(t *testing.T, s Suite) {
	d := limited(t, s, "memory")
	for _, c := range []struct {
		program string
		oom     bool
	}{{"eat 268435456", true}, {"eat 1048576", false}} {
		sp := s.spec(t, c.program)
		sp.MemoryLimit = 96 << 20
		task := start(t, d, sp)
		e := wait(t, task)
		if e.OOM != c.oom || (e.Signal == "KILL") != c.oom {
			t.Errorf("%s with 96 MiB: %+v", c.program, e)
		}
		cleanup(t, task)
	}
	// A shell survives what it has started, and ends with 137.
	sp := s.spec(t, "eat 268435456")
	sp = shell(sp, sp.Command[0]+"; exit $?")
	sp.MemoryLimit = 96 << 20
	if e := wait(t, start(t, d, sp)); !e.OOM {
		t.Errorf("in a shell: %+v", e)
	}
}

func testCPULimit(t *testing.T, s Suite) {
	d := limited(t, s, "cpu")
	sp := s.spec(t, "spin 1s")
	sp.CPULimit = 100
	task := start(t, d, sp)
	wait(t, task)
	// 100 ms, some more for the last period and the kernel's slices.
	if u := task.Usage(); u.CPU > 300*time.Millisecond {
		t.Errorf("used %v of cpu in a second with a limit of 100m", u.CPU)
	}
}

func testBornLimited(t *testing.T, s Suite) {
	d := limited(t, s, "memory")
	sp := shell(s.spec(t, ""), "")
	sp.Command = []string{"cat", "/proc/self/cgroup"}
	for range 5 {
		task := start(t, d, sp)
		wait(t, task)
		sp.Attempt++
		for dir := range strings.SplitSeq(task.Handle().Cgroup, ":") {
			name := dir[strings.LastIndex(dir, "/"):]
			if n := strings.Count(output(t, sp), name+"\n"); n < len(strings.Split(task.Handle().Cgroup, ":")) {
				t.Fatalf("born in\n%swanted %s", output(t, sp), dir)
			}
		}
	}
}
