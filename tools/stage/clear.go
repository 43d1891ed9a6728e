package stage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/verge-edge/verge/internal/agent/engineclient"
	"github.com/verge-edge/verge/internal/runtime/process"
)

// How long to wait for processes to end, and for the kernel.
const (
	stopWithin = 8 * time.Second
	goneWithin = 10 * time.Second
)

// Clear ends everything that runs on the stage in dir, from the bottom up, and
// removes it. It needs nothing but the folder.
func Clear(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	if !Exists(dir) {
		return fmt.Errorf("%s is not a stage", dir)
	}
	workers, err := filepath.Glob(filepath.Join(dir, "workers", "*"))
	if err != nil {
		return err
	}
	// First the agents, so that none starts an engine again.
	if err := end(daemons(filepath.Join(dir, "workers"), "worker")); err != nil {
		return err
	}
	var all sync.WaitGroup
	for _, w := range workers {
		all.Go(func() { stopEngine(w) })
	}
	all.Wait()
	errs := []error{
		end(daemons(filepath.Join(dir, "workers"), "engine")),
		killInstances(dir),
		end(daemons(filepath.Join(dir, "clusters"), "cluster")),
		end(daemons(dir, "root")),
	}
	for _, w := range workers {
		errs = append(errs, removeGroups(w))
	}
	return errors.Join(append(errs, os.RemoveAll(dir))...)
}

// stopEngine asks the engine of a worker to stop its instances, by their own
// rules, and to end. One that does not is killed by the caller.
func stopEngine(worker string) {
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	hands := engineclient.NewRemote(worker)
	defer hands.Close()
	if err := hands.Shutdown(ctx); err != nil {
		return // there is none: it was killed
	}
	for ctx.Err() == nil {
		if pids, err := daemons(worker, "engine"); err != nil || len(pids) == 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// removeGroups removes the control groups of an engine that was killed.
func removeGroups(worker string) error {
	d := process.New(process.Options{Base: worker})
	ctx, cancel := context.WithTimeout(context.Background(), goneWithin)
	defer cancel()
	return errors.Join(d.Sweep(ctx, func(string) bool { return false }), d.Close())
}

func killInstances(dir string) error {
	pids, err := instances(dir)
	for _, pid := range pids {
		killPID(pid)
	}
	return errors.Join(err, waitGone(pids))
}

// end asks processes to end and kills those that do not.
func end(pids []int, err error) error {
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended
	}
	if waitFor(pids, stopWithin) == nil {
		return err
	}
	for _, pid := range pids {
		killPID(pid)
	}
	return errors.Join(err, waitGone(pids))
}

func killPID(pid int) {
	_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
}

func waitGone(pids []int) error { return waitFor(pids, goneWithin) }

func waitFor(pids []int, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				return fmt.Errorf("process %d does not end", pid)
			}
			time.Sleep(time.Millisecond)
		}
	}
	return nil
}

// alive says whether a process runs. One that ended but was not waited for yet
// does not: it holds nothing but its number. While other threads of a dying
// process are left it still has its sockets, although its first thread ended.
func alive(pid int) bool {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	b, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return false
	}
	// pid (name) state …; the name may hold anything.
	_, rest, _ := strings.Cut(string(b[bytes.LastIndexByte(b, ')')+1:]), " ")
	if !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X") {
		return true
	}
	threads, err := os.ReadDir(filepath.Join(dir, "task"))
	return err == nil && len(threads) > 1
}

// daemons are the processes of a role whose data directory is dir or below it.
func daemons(dir, role string) ([]int, error) {
	return find("cmdline", func(fields []string) bool {
		if len(fields) < 4 || fields[1] != role {
			return false
		}
		for i, f := range fields[:len(fields)-1] {
			if f == "--data-dir" && within(fields[i+1], dir) {
				return true
			}
		}
		return false
	})
}

// instances are the processes of instances of workers at or below dir. Verge
// gives each of them a home in its worker's data directory.
func instances(dir string) ([]int, error) {
	return find("environ", func(fields []string) bool {
		home := false
		engine := false
		for _, f := range fields {
			name, value, _ := strings.Cut(f, "=")
			home = home || name == "HOME" && within(value, dir)
			engine = engine || name == "VERGE_ENGINE"
		}
		return home && engine
	})
}

func within(path, dir string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// find returns the processes of which a file of zero-terminated fields in /proc
// fits. Those of others, which may not be looked at, are not ours.
func find(file string, fits func(fields []string) bool) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("looking for processes: %w", err)
	}
	var out []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		b, err := os.ReadFile(filepath.Join("/proc", e.Name(), file))
		if err == nil && fits(strings.Split(string(b), "\x00")) && alive(pid) {
			out = append(out, pid)
		}
	}
	return out, nil
}
