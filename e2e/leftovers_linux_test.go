package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// endInOrder deletes what was applied, ends every node as an operator would, and
// looks for anything that is left: processes, control groups, mounts, sockets,
// ports, and files of instances.
func (w *world) endInOrder(t *testing.T, apps ...string) {
	t.Helper()
	w.t = t
	for _, app := range apps {
		w.root.ok("delete", "application/"+app, "--timeout", "2m")
	}
	if left := instancesIn(w.dir); len(left) > 0 {
		t.Errorf("instances run on after they were deleted: %s", describe(left))
	}
	// Their files go when their cluster has told the worker that it knows of the end.
	eventually(t, time.Minute, "no files of instances are left", w.noFiles)
	var all sync.WaitGroup
	for _, x := range w.worker {
		all.Go(func() { w.endWorker(t, x) })
	}
	all.Wait()
	for _, x := range w.cluster {
		all.Go(func() { w.endDaemon(t, x.daemon) })
	}
	all.Wait()
	w.endDaemon(t, w.root.daemon)
	w.nothingLeft(t)
}

// noFiles is an error where a worker has files of instances.
func (w *world) noFiles() error {
	for _, x := range w.worker {
		switch left, err := os.ReadDir(filepath.Join(x.dir, "instances")); {
		case err != nil:
			return fmt.Errorf("files of instances of %s: %w", x.name, err)
		case len(left) > 0:
			return fmt.Errorf("files of instances of %s are left: %v", x.name, left)
		}
	}
	return nil
}

func instancesIn(dir string) []process {
	return slices.DeleteFunc(processesOf(dir), func(p process) bool { return p.env["VERGE_INSTANCE"] == "" })
}

// endWorker ends an agent and then its engine. It may be called from any
// goroutine.
func (w *world) endWorker(t *testing.T, x *worker) {
	w.endDaemon(t, x.daemon)
	var r result
	err := x.in.do(func() error {
		r = verge(t, "", "worker", "stop", "--data-dir", x.dir)
		return nil
	})
	if err != nil || r.code != 0 {
		t.Errorf("verge worker stop of %s: %v, exit code %d\n%s", x.name, err, r.code, r.err)
	}
}

func (w *world) endDaemon(t *testing.T, d *daemon) {
	if err := syscall.Kill(d.pid(), syscall.SIGTERM); err != nil {
		t.Errorf("ending %s: %v", d.name, err)
		return
	}
	select {
	case <-d.done:
		if code := d.cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("%s ended with exit code %d", d.name, code)
		}
	case <-time.After(2 * time.Minute):
		t.Errorf("%s does not end", d.name)
	}
}

// nothingLeft looks for what should be gone when all nodes have ended.
func (w *world) nothingLeft(t *testing.T) {
	t.Helper()
	// An engine has let go of everything a moment before it is gone.
	if err := await(slack*2*time.Second, func() error {
		if left := processesOf(w.dir); len(left) > 0 {
			return errors.New(describe(left))
		}
		return nil
	}); err != nil {
		t.Errorf("processes are left: %v", err)
	}
	for _, x := range w.worker {
		if groups, parents := groupsOf(x.dir); len(groups)+len(parents) > 0 {
			t.Errorf("control groups of %s are left: %v %v", x.name, groups, parents)
		}
	}
	if err := w.noFiles(); err != nil {
		t.Error(err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if n := bytes.Count(mounts, []byte(" "+w.dir+"/")); err != nil || n != w.disks {
		t.Errorf("%d mounts are left, %d of them disks, %v", n, w.disks, err)
	}
	err = filepath.WalkDir(w.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type()&(fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			t.Errorf("a socket is left: %s", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	for name := range w.spots {
		m := w.machine(name)
		if open := m.listening(t); len(open) > 0 {
			t.Errorf("ports of the machine %s are still open: %v", m.name, open)
		}
	}
}

// listening are the TCP ports of a machine that are open.
func (m *machine) listening(t *testing.T) (out []string) {
	t.Helper()
	for _, file := range []string{"/proc/thread-self/net/tcp", "/proc/thread-self/net/tcp6"} {
		var b []byte
		err := m.do(func() (err error) { b, err = os.ReadFile(file); return err })
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			// sl local_address rem_address st …; 0A is LISTEN
			if f := strings.Fields(line); len(f) > 3 && f[3] == "0A" {
				_, port, _ := strings.Cut(f[1], ":")
				var n int
				if _, err := fmt.Sscanf(port, "%x", &n); err != nil {
					t.Fatal(err)
				}
				out = append(out, fmt.Sprint(n))
			}
		}
	}
	return out
}
