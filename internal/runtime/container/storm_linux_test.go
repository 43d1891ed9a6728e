package container

import (
	"errors"
	"fmt"
	"os"
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
		})
	}
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
