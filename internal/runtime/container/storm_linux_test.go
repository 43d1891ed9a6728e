package container

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/runtime/container/containertest"
)

// Containerd dies while thirty containers are being started, at different steps: each
// start succeeds or is to be made again, and of those that failed nothing is left, also no
// shim that was begun for them.
func TestContainerdDiesWhileStarting(t *testing.T) {
	const many = 30
	for _, at := range []struct {
		step string
		nth  int32
	}{{"snapshot", 1}, {"container", 4}, {"task", 15}} {
		t.Run(fmt.Sprintf("%s %d", at.step, at.nth), func(t *testing.T) {
			d, c := bench(t, containertest.Config{})
			var seen atomic.Int32
			died := make(chan struct{})
			d.step = func(step string) {
				if step == at.step && seen.Add(1) == at.nth {
					c.Kill()
					close(died)
				}
			}
			tasks := make([]runtime.Task, many)
			var wg sync.WaitGroup
			for n := range many {
				wg.Go(func() {
					s := specOf(t, testImage, "sleep", "100000")
					s.ID = fmt.Sprintf("app%d.web.%d", n%3, n)
					var err error
					if tasks[n], err = d.Start(t.Context(), s); err != nil && !errors.Is(err, runtime.ErrAway) {
						t.Errorf("%s: %v is nothing to be tried again", s.ID, err)
					}
				})
			}
			<-died
			wg.Wait()
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			running := 0
			for n, task := range tasks {
				if task == nil {
					continue
				}
				running++
				if _, err := os.Stat(fmt.Sprintf("/proc/%d", task.Handle().PID)); err != nil {
					t.Errorf("%d was started, and is gone: %v", n, err)
				}
				end(t, task)
			}
			t.Logf("%d of %d were started", running, many)
			empty(t, c)
			noGroups(t, d)
		})
	}
}

// Somebody kills runc while it starts containers, as the kernel does where memory runs
// out: a start that fails says so and leaves nothing, and what was started runs.
func TestRuncKilledWhileStarting(t *testing.T) {
	const many, abreast = 24, 4
	d, c := bench(t, containertest.Config{})
	stop, killed := make(chan struct{}), make(chan int)
	go func() {
		n := 0
		defer func() { killed <- n }()
		for seen := map[int]bool{}; ; {
			select {
			case <-stop:
				return
			default:
			}
			for _, pid := range runcs(t, c) {
				if !seen[pid] && len(seen)%3 == 0 && unix.Kill(pid, unix.SIGKILL) == nil {
					n++
				}
				seen[pid] = true
			}
		}
	}()
	tasks := make([]runtime.Task, many)
	var failed, told atomic.Int32
	var wg sync.WaitGroup
	for first := range abreast {
		wg.Go(func() {
			for n := first; n < many; n += abreast {
				s := specOf(t, testImage, "sleep", "100000")
				s.ID = fmt.Sprintf("app%d.web.%d", n%3, n)
				var err error
				if tasks[n], err = d.Start(t.Context(), s); err != nil {
					failed.Add(1)
					if strings.Contains(err.Error(), "runc was killed") {
						told.Add(1)
					} else {
						t.Log(err)
					}
				}
			}
		})
	}
	wg.Wait()
	close(stop)
	if n := <-killed; n == 0 || failed.Load() == 0 || told.Load() == 0 {
		t.Errorf("%d were killed, %d starts failed, of which %d say why", n, failed.Load(), told.Load())
	}
	for n, task := range tasks {
		if task == nil {
			continue
		}
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", task.Handle().PID)); err != nil {
			t.Errorf("%d was started, and is gone: %v", n, err)
		}
		end(t, task)
	}
	empty(t, c)
	noGroups(t, d)
}

// noGroups checks that no control group of a container is left, in any hierarchy.
func noGroups(t *testing.T, d *Driver) {
	t.Helper()
	var left []string
	told := 0
	eventually(t, "no control group is left", func() bool {
		left = nil
		for _, top := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/*"} {
			found, err := filepath.Glob(top + d.groups.Inner("app*"))
			if err != nil {
				t.Fatal(err)
			}
			left = append(left, found...)
		}
		if len(left) != told {
			t.Log(left)
		}
		told = len(left)
		return told == 0
	})
}

// runcs are the processes of runc that shims of a containerd have begun.
func runcs(t *testing.T, c *containertest.Containerd) (out []int) {
	shims, err := c.Shims()
	if err != nil {
		t.Error(err)
	}
	for _, shim := range shims {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", shim))
		if err != nil {
			t.Error(err)
		}
		for _, thread := range threads {
			children, err := os.ReadFile(thread) //nolint:gosec // in /proc
			if err != nil {
				continue // it has ended
			}
			for _, child := range strings.Fields(string(children)) {
				name, err := os.ReadFile("/proc/" + child + "/comm")
				if pid, perr := strconv.Atoi(child); err == nil && perr == nil && string(name) == "runc\n" {
					out = append(out, pid)
				}
			}
		}
	}
	return out
}

// Who kills the shim of ten containers ends these and no others; their end is told, and
// they can be started again at once.
func TestShimOfTenKilled(t *testing.T) {
	d, c := bench(t, containertest.Config{})
	start := func(app string, n int) runtime.Task {
		t.Helper()
		s := specOf(t, testImage, "sleep", "100000")
		s.ID = fmt.Sprintf("%s.web.%d", app, n)
		task, err := d.Start(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		return task
	}
	beside := start("bank", 0)
	others, err := c.Shims()
	if err != nil || len(others) != 1 {
		t.Fatal(others, err)
	}
	var tasks []runtime.Task
	for n := range shareMost {
		tasks = append(tasks, start("shop", n))
	}
	shims, err := c.Shims()
	if err != nil || len(shims) != 2 {
		t.Fatal(shims, err)
	}
	for _, pid := range shims {
		if pid != others[0] {
			if err := unix.Kill(pid, unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wg sync.WaitGroup
	again := make([]runtime.Task, len(tasks))
	for n, task := range tasks {
		wg.Go(func() {
			if e, err := task.Wait(t.Context()); err != nil || !e.Unknown || !strings.Contains(e.Why, "its shim was killed") {
				t.Errorf("%d: %+v, %v", n, e, err)
			}
			if err := task.Cleanup(); err != nil {
				t.Errorf("%d: %v", n, err)
			}
			again[n] = start("shop", n)
		})
	}
	wg.Wait()
	for _, task := range append(again, beside) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d", task.Handle().PID)); err != nil {
			t.Errorf("it does not run: %v", err)
		}
		end(t, task)
	}
	empty(t, c)
}
