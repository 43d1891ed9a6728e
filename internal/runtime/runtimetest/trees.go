package runtimetest

import (
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/verge-edge/verge/internal/runtime"
)

// alive says whether there is a process that is more than a zombie.
func alive(t testing.TB, pid string) bool {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err != nil || n <= 1 {
		t.Fatalf("%q is no pid", pid)
	}
	if syscall.Kill(n, 0) == syscall.ESRCH {
		return false
	}
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// alive is the same for a pid as the task itself knows it.
func (s Suite) alive(t testing.TB, task runtime.Task, pid string) bool {
	t.Helper()
	if !s.contained() {
		return alive(t, pid)
	}
	inside, err := os.Readlink("/proc/" + strconv.Itoa(task.Handle().PID) + "/ns/pid")
	if err != nil {
		return false // the first process is gone, and all others with it
	}
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		if ns, err := os.Readlink("/proc/" + d.Name() + "/ns/pid"); err != nil || ns != inside {
			continue
		}
		b, err := os.ReadFile("/proc/" + d.Name() + "/status")
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(b)) {
			f := strings.Fields(line)
			if len(f) > 1 && f[0] == "NSpid:" && f[len(f)-1] == pid && alive(t, d.Name()) {
				return true
			}
		}
	}
	return false
}

func (s Suite) checkDead(t *testing.T, task runtime.Task, pids []string) {
	t.Helper()
	for _, pid := range pids {
		if s.alive(t, task, pid) {
			t.Errorf("process %s is left", pid)
		}
	}
}

func checkDead(t *testing.T, pids []string) {
	t.Helper()
	for _, pid := range pids {
		if alive(t, pid) {
			t.Errorf("process %s is left", pid)
		}
	}
}

func testKillTree(t *testing.T, s Suite) {
	d := s.driver(t, t.TempDir())
	sp := s.spec(t, "stubborn 3")
	task := start(t, d, sp)
	pids := waitOutput(t, sp, 4)
	for _, pid := range pids {
		if !s.alive(t, task, pid) {
			t.Fatalf("process %s has ended by itself", pid)
		}
	}
	if err := task.Signal("TERM"); err != nil {
		t.Fatal(err)
	}
	kill(t, task)
	s.checkDead(t, task, pids)
	if e := wait(t, task); e.Signal != "KILL" || e.OOM {
		t.Errorf("exit %+v", e)
	}
	kill(t, task) // once more is no error
}

// testCleanupKills: the main process ends and leaves a child behind.
func testCleanupKills(t *testing.T, s Suite) {
	if s.contained() {
		t.Skip("with the first process of a namespace all others end")
	}
	d := s.driver(t, t.TempDir())
	sp := shell(s.spec(t, ""), "sleep 1000 & echo $!")
	task := start(t, d, sp)
	wait(t, task)
	pids := waitOutput(t, sp, 1)
	if !alive(t, pids[0]) {
		t.Fatal("the child has ended by itself")
	}
	cleanup(t, task)
	checkDead(t, pids)
	cleanup(t, task) // once more is no error
}

// testMany: many tasks at a time cost no threads, and nothing afterwards.
func testMany(t *testing.T, s Suite) {
	const rounds = 2
	n := s.many()
	d := s.driver(t, t.TempDir())
	round := func() {
		var threads int
		tasks := make([]runtime.Task, n)
		before := count(t, "/proc/self/task")
		sp := shell(s.spec(t, ""), "exec sleep 1000")
		for i := range tasks {
			sp.ID = "app.web." + strconv.Itoa(i)
			task, err := d.Start(t.Context(), sp)
			if err != nil {
				t.Fatal(err)
			}
			tasks[i] = task
		}
		threads = count(t, "/proc/self/task") - before
		if threads > max(n/4, 8) {
			t.Errorf("%d tasks cost %d threads", n, threads)
		}
		var wg sync.WaitGroup
		for _, task := range tasks {
			wg.Go(func() {
				if err := task.Signal(s.end()); err != nil {
					t.Error(err)
				}
				if e, err := task.Wait(t.Context()); err != nil || e.Signal != s.end() {
					t.Errorf("exit %+v, %v", e, err)
				}
				cleanup(t, task)
			})
		}
		wg.Wait()
	}
	round() // what is allocated once
	files, goroutines := count(t, "/proc/self/fd"), goruntime.NumGoroutine()
	for range rounds - 1 {
		round()
	}
	eventually(t, "descriptors and goroutines are freed", func() bool {
		return count(t, "/proc/self/fd") <= files && goruntime.NumGoroutine() <= goroutines
	})
	if z := zombies(t); z != 0 {
		t.Errorf("%d zombies are left", z)
	}
}

// count returns how many entries a directory has; 0 where there is no /proc.
func count(t testing.TB, dir string) int {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return len(entries)
}

// zombies counts ended children that nobody has waited for, without taking
// them away from whoever is about to.
func zombies(t testing.TB) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0
	}
	n := 0
	for _, e := range entries {
		b, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(b), ") ")
		if strings.HasPrefix(rest, "Z "+strconv.Itoa(os.Getpid())+" ") {
			n++
		}
	}
	return n
}
