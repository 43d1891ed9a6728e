package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFullDisks fills the disk of each role in turn: what it cannot store it
// refuses with a reason, what runs goes on, and all is well when there is room
// again.
func TestFullDisks(t *testing.T) {
	needMachines(t) // for the mounts
	t.Parallel()    // it waits much more than it computes
	w := emptyWorld(t, newDir(t))
	for _, name := range []string{"root", "edge", "edge-1"} {
		w.ownDisk(name)
	}
	w.startRoot()
	w.addCluster("edge").answers()
	w.addWorker("edge", "edge-1")
	w.allReady()
	w.root.apply(plain("kept", "1", 1, 100))
	pids := w.pids("kept")
	w.run("root", func(t *testing.T) {
		free := fill(t, w.root.dir)
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "5s", w.file("app-", plain("more", "1", 1, 100)))
		if r.code != 1 || !strings.Contains(r.err, "stor") && !strings.Contains(r.err, "space") {
			t.Errorf("an apply that cannot be stored: exit code %d\n%s", r.code, r.err)
		}
		if _, err := w.root.client().Applications.Get(context.Background(), "more"); err == nil {
			t.Error("what was refused is there")
		}
		free()
		w.root.apply(plain("more", "1", 1, 100))
	})
	w.run("cluster", func(t *testing.T) {
		free := fill(t, w.cluster["edge"].dir)
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "4s", w.file("app-", plain("more", "2", 1, 100)))
		wantEqual(t, "exit code of an apply whose cluster cannot store it", r.code, 2)
		status, err := w.cluster["edge"].client().System.Status(context.Background())
		if err != nil || !strings.Contains(strings.Join(status.Problems, "; "), "stored") {
			t.Errorf("its status says %v, %v", status.Problems, err)
		}
		free()
		w.root.holds("more", 40*time.Second)
	})
	w.run("worker", func(t *testing.T) {
		free := fill(t, w.worker["edge-1"].dir)
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "4s", w.file("app-", plain("more", "3", 1, 100)))
		wantEqual(t, "exit code of an apply whose worker cannot store it", r.code, 2)
		free()
		w.root.holds("more", 60*time.Second)
	})
	w.run("an upgrade of the worker", func(t *testing.T) {
		x := w.worker["edge-1"]
		kept := func() error { _, err := fetch(x.gateway, "kept.test", "/whoami"); return err }
		eventually(t, 10*time.Second, "it answers", kept)
		s := openStream(t, x.gateway, "kept.test")
		free := fill(t, x.dir)
		r := verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", programs.verge)
		t.Logf("upgrade: %d %s", r.code, r.err)
		eventually(t, 10*time.Second, "it answers without room", kept)
		free()
		s.unbroken(t)
		s.close()
		if r = verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", programs.verge); r.code != 0 {
			t.Errorf("upgrade with room again: %+v", r)
		}
		eventually(t, 10*time.Second, "it answers", kept)
		w.root.holds("kept", 20*time.Second)
	})
	for id, pid := range w.pids("kept") {
		wantEqual(t, "pid of "+id, pid, pids[id])
	}
}

// fill leaves nothing free on the disk of dir, see ownDisk, until free is called:
// the disk becomes as small as what is on it, which costs no memory.
func fill(t *testing.T, dir string) (free func()) {
	t.Helper()
	resize := func(size string) error { return unix.Mount("", dir, "", unix.MS_REMOUNT, "size="+size) }
	// What is written meanwhile makes it larger than was asked for.
	eventually(t, 10*time.Second, "the disk is full", func() error {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return err
		}
		return resize(fmt.Sprint((st.Blocks - st.Bfree) * uint64(st.Bsize)))
	})
	return func() {
		if err := resize(sizeOfDisk); err != nil {
			t.Error(err)
		}
	}
}
