package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// TestNoMoreInodes takes from each role in turn all inodes of its disk, which has room for
// bytes. What it cannot store it refuses and says why, what runs goes on, and all is well
// when there are inodes again.
func TestNoMoreInodes(t *testing.T) {
	needMachines(t) // for the mounts
	t.Parallel()    // it waits much more than it computes
	w := emptyWorld(t, newDir(t))
	for _, name := range []string{"root", "edge", "edge-1"} {
		w.ownDisk(name)
	}
	w.startRoot()
	w.addCluster("edge").answers()
	w.addWorker("edge", "edge-1")
	w.exhausted(t, "inode", func(t *testing.T, name string) func() { return fillInodes(t, w.dirOf(name)) })
}

// TestNoMoreDescriptors does the same with the file descriptors of the processes of each role.
func TestNoMoreDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	w.exhausted(t, "open files", func(t *testing.T, name string) func() {
		var frees []func()
		for _, p := range processesOf(w.dirOf(name)) {
			if p.env["VERGE_INSTANCE"] == "" {
				frees = append(frees, fillDescriptors(t, p.pid))
			}
		}
		if len(frees) == 0 {
			t.Fatalf("no process of %s", name)
		}
		return func() {
			for _, free := range frees {
				free()
			}
		}
	})
}

// exhausted has each role run out of something, by take, which returns what gives it back.
// Whoever has run out of it says what.
func (w *world) exhausted(t *testing.T, what string, take func(t *testing.T, name string) (free func())) {
	w.allReady()
	w.root.apply(plain("kept", "1", 2, 100))
	x, edge, ctx := w.worker["edge-1"], w.cluster["edge"], context.Background()
	eventually(t, 10*time.Second, "it answers", func() error { _, err := fetch(x.gateway, "kept.test", "/whoami"); return err })
	pids := w.pids("kept")
	s := openStream(t, x.gateway, "kept.test")
	// Of each tier: something that it takes, whether that is there, and what it takes later.
	for _, role := range []struct {
		tier  *tier
		write func(name string) error
		names func() ([]string, error)
	}{
		{w.root, func(name string) error {
			_, err := w.root.client().Namespaces.Create(ctx, apiv1.NamespaceRequest{Name: name})
			return err
		}, func() (out []string, err error) {
			list, err := w.root.client().Namespaces.List(ctx)
			for _, v := range list {
				out = append(out, v.Name)
			}
			return out, err
		}},
		{edge, func(name string) error {
			_, err := edge.client().Users.Create(ctx, apiv1.UserRequest{Name: name, Roles: wire.Roles{Admin: true}})
			return err
		}, func() (out []string, err error) {
			list, err := edge.client().Users.List(ctx)
			for _, v := range list {
				out = append(out, v.Name)
			}
			return out, err
		}},
	} {
		w.run(role.tier.name, func(t *testing.T) {
			if err := role.write("before"); err != nil {
				t.Fatal(err)
			}
			free := take(t, role.tier.name)
			if err := role.write("refused"); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("a write does not fail for a lack of %s: %v", what, err)
			}
			status, err := role.tier.client().System.Status(ctx)
			if said := strings.Join(status.Problems, "; "); err != nil || !strings.Contains(said, "stored") || !strings.Contains(said, what) {
				t.Errorf("its status says %q, %v", said, err)
			}
			if names, err := role.names(); err != nil || !slices.Contains(names, "before") || slices.Contains(names, "refused") {
				t.Errorf("it has %q, %v", names, err)
			}
			s.unbroken(t)
			free()
			eventually(t, 20*time.Second, "it takes writes again", func() error { return role.write("after") })
			role.tier.kill()
			role.tier.start()
			role.tier.answers()
			if names, err := role.names(); err != nil || !slices.Contains(names, "before") || slices.Contains(names, "refused") || !slices.Contains(names, "after") {
				t.Errorf("after a restart it has %q, %v", names, err)
			}
			w.allReady()
			w.root.apply(plain("at-"+role.tier.name, "1", 1, 100))
		})
	}
	w.run("worker", func(t *testing.T) {
		free := take(t, x.short)
		file := w.file("app-", plain("more", "1", 1, 100))
		r := verge(t, w.root.contextFile(), "apply", "--timeout", "4s", file)
		wantEqual(t, "exit code of an apply whose worker cannot start it", r.code, 2)
		eventually(t, 20*time.Second, "it is said why it does not start", func() error {
			text := w.root.ok("status") + edge.ok("status") + edge.ok("describe", "worker/edge/"+x.short)
			if !strings.Contains(text, what) {
				return fmt.Errorf("%s\napply said %s", text, r.err)
			}
			return nil
		})
		s.unbroken(t)
		free()
		w.root.holds("more", 60*time.Second)
		_, err := fetch(x.gateway, "more.test", "/whoami")
		if err != nil {
			t.Error(err)
		}
	})
	s.unbroken(t)
	s.close()
	for id, pid := range w.pids("kept") {
		wantEqual(t, "pid of "+id, pid, pids[id])
	}
}

// fillInodes leaves no inode free on the disk of dir, see ownDisk, until free is called.
func fillInodes(t *testing.T, dir string) (free func()) {
	t.Helper()
	set := func(n uint64) error { return unix.Mount("", dir, "", unix.MS_REMOUNT, fmt.Sprint("nr_inodes=", n)) }
	stat := func() (st unix.Statfs_t, err error) { err = unix.Statfs(dir, &st); return st, err }
	before := must[unix.Statfs_t](t)(stat())
	eventually(t, 10*time.Second, "no inode is free", func() error {
		st, err := stat()
		if err != nil || st.Ffree == 0 {
			return err
		}
		// What is made meanwhile needs more than is asked for.
		if err := set(st.Files - st.Ffree); err != nil {
			return err
		}
		return errors.New("some are free")
	})
	return func() {
		if err := set(before.Files); err != nil {
			t.Error(err)
		}
	}
}

// fillDescriptors leaves no descriptor free to a process, until free is called.
func fillDescriptors(t *testing.T, pid int) (free func()) {
	t.Helper()
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		t.Fatal(err)
	}
	lowest := func() (n uint64) {
		for {
			if _, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "fd", strconv.FormatUint(n, 10))); err != nil {
				return n
			}
			n++
		}
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: lowest(), Max: before.Max}, nil); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
			t.Error(err)
		}
	}
}
