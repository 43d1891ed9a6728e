package e2e

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
)

// copyOf copies the data directory of a role while it works, as a snapshot of its machine
// would have it.
func (w *world) copyOf(dir string) string {
	w.t.Helper()
	copied := filepath.Join(w.dir, filepath.Base(dir)+".copy")
	var err error
	for range 20 { // a file may go while it is copied
		if err = os.RemoveAll(copied); err != nil {
			break
		}
		if err = copyTree(copied, dir); err == nil {
			return copied
		}
	}
	w.t.Fatal(err)
	return ""
}

// copyTree copies files with their modes, and leaves out sockets.
func copyTree(to, from string) error {
	return filepath.WalkDir(from, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, p)
		if err != nil {
			return err
		}
		at := filepath.Join(to, rel)
		switch {
		case d.IsDir():
			return os.MkdirAll(at, 0o700)
		case d.Type()&os.ModeSymlink != 0:
			target, err := os.Readlink(p)
			if err != nil {
				return err
			}
			return os.Symlink(target, at)
		case !d.Type().IsRegular():
			return nil
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return os.WriteFile(at, b, info.Mode().Perm())
	})
}

// putBack puts a copy in place of the directory.
func (w *world) putBack(dir, copied string) {
	w.t.Helper()
	if err := os.Rename(dir, dir+".newer"); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Rename(copied, dir); err != nil {
		w.t.Fatal(err)
	}
}

// recovering waits until a tier recovers for the sake of who has seen a later state, or did.
func (x *tier) recovering(by string) {
	x.w.t.Helper()
	eventually(x.w.t, 20*time.Second, x.name+" says that it is an older copy", func() error {
		if text := x.ok("events"); !slices.ContainsFunc(strings.Split(text, "\n"), func(l string) bool {
			return strings.Contains(l, by) && strings.Contains(l, "has seen a later state")
		}) {
			return fmt.Errorf("events are\n%s", text)
		}
		return nil
	})
}

// TestAnOlderCopyOfTheRoot kills a root under traffic and starts it on a copy of its own
// directory that was made earlier. Its cluster has seen what was acknowledged since.
func TestAnOlderCopyOfTheRoot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge")
	w.root.apply(shopOf(2, "1"))
	w.root.apply(plain("gone", "old", 1, 100))
	copied := w.copyOf(w.root.dir)

	w.root.apply(shopOf(4, "2"))
	w.root.apply(kioskOf(2))
	w.root.ok("delete", "application/gone", "--timeout", "30s")
	pids, counts := everything(w), incarnations(w.cluster["edge"])
	wantEqual(t, "instances", len(pids), 6)
	gates := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	f, g := sendTraffic(t, shopHost, gates...), sendTraffic(t, kiosk, gates...)
	w.root.kill()
	w.putBack(w.root.dir, copied)
	w.root.start()
	w.root.answers()
	w.root.recovering("cluster edge")
	w.allReady()
	w.root.holds("kiosk", 20*time.Second)
	w.root.holds("shop", 20*time.Second)
	throughout(t, 5*time.Second, "nothing is touched", func() error {
		if now := everything(w); !maps.Equal(now, pids) {
			return fmt.Errorf("processes were %v, are %v", pids, now)
		}
		return differs("processes of what was deleted", len(w.pids("gone")), 0)
	})
	f.noneFailed(t)
	g.noneFailed(t)
	if now := incarnations(w.cluster["edge"]); !maps.Equal(now, counts) {
		t.Errorf("incarnations were %v, are %v", counts, now)
	}
	wantEqual(t, "revision of shop", must[apiv1.AppView](t)(w.root.client().Applications.Get(context.Background(), "shop")).Revision, 2)
	if text := w.root.ok("recovery"); !strings.Contains(text, "older copy") || !strings.Contains(text, "kiosk") {
		t.Errorf("recovery says\n%s", text)
	}
	if text := w.root.ok("status"); !strings.Contains(text, "application gone: main: not started") {
		t.Errorf("status says\n%s", text)
	}

	t.Log("what was deleted begins when somebody asks for it, and all goes on")
	w.root.apply(plain("gone", "old", 1, 100))
	w.root.apply(shopOf(2, "3"))
	w.root.ok("recovery", "finish")
	w.root.kill()
	w.root.start()
	w.root.answers()
	w.allReady()
	w.root.holds("shop", 20*time.Second)
	if v := must[apiv1.RecoveryView](t)(w.root.client().System.Recovery(context.Background())); !v.Restored.IsZero() {
		t.Errorf("it recovers after a restart: %+v", v)
	}
}

// TestAnOlderCopyOfACluster does the same with the orchestrator of a site, and then while the
// root is started again, too, and has forgotten what it had heard: the workers alone know
// that they have seen more.
func TestAnOlderCopyOfACluster(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge")
	site := w.cluster["edge"]
	gates := []string{w.worker["edge-1"].gateway, w.worker["edge-2"].gateway}
	w.root.apply(shopOf(2, "1"))
	round := func(apps int, by string, rootToo bool, change func()) {
		t.Helper()
		copied := w.copyOf(site.dir)
		change()
		pids, counts := everything(w), incarnations(site)
		wantEqual(t, "instances", len(pids), apps)
		f := sendTraffic(t, shopHost, gates...)
		site.kill()
		if rootToo {
			w.root.kill()
		}
		w.putBack(site.dir, copied)
		site.start()
		if rootToo {
			w.root.start()
			w.root.answers()
		}
		site.answers()
		site.recovering(by)
		eventually(t, 40*time.Second, "the recovery has ended", func() error {
			v, err := site.client().System.Recovery(context.Background())
			if err == nil && !v.Restored.IsZero() {
				err = fmt.Errorf("%+v", v)
			}
			return err
		})
		w.allReady()
		w.root.holds("shop", 20*time.Second)
		w.root.holds("kiosk", 20*time.Second)
		throughout(t, 5*time.Second, "nothing is touched", func() error {
			if now := everything(w); !maps.Equal(now, pids) {
				return fmt.Errorf("processes were %v, are %v", pids, now)
			}
			return nil
		})
		f.noneFailed(t)
		if now := incarnations(site); !maps.Equal(now, counts) {
			t.Errorf("incarnations were %v, are %v", counts, now)
		}
		if v := must[apiv1.RecoveryView](t)(w.root.client().System.Recovery(context.Background())); !v.Restored.IsZero() {
			t.Errorf("the root recovers: %+v", v)
		}
		if err := os.RemoveAll(site.dir + ".newer"); err != nil {
			t.Fatal(err)
		}
	}
	round(6, "the root", false, func() {
		w.root.apply(shopOf(4, "1"))
		w.root.apply(kioskOf(2))
	})
	round(8, "worker ", true, func() {
		w.root.apply(shopOf(5, "1"))
		w.root.apply(kioskOf(3))
	})
}

// TestAnOlderCopyOfAWorker puts a worker back to an earlier state, with all that it runs
// still there: it fetches what it is to do, and in the end each instance runs once.
func TestAnOlderCopyOfAWorker(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, "edge")
	w.root.apply(shopOf(2, "1"))
	x := w.worker["edge-1"]
	copied := w.copyOf(x.dir)
	w.root.apply(shopOf(4, "2"))
	w.root.apply(kioskOf(4))
	x.endBoth()
	w.putBack(x.dir, copied)
	x.start()
	w.allReady()
	w.root.holds("shop", 60*time.Second)
	w.root.holds("kiosk", 60*time.Second)
	want := map[string]int{"shop": 4, "kiosk": 4}
	eventually(t, 60*time.Second, "each instance runs once", func() error {
		for app, n := range want {
			var ids []string
			for _, p := range processesOf(w.dir) {
				if id := p.env["VERGE_INSTANCE"]; strings.HasPrefix(id, app+".") {
					ids = append(ids, id)
				}
			}
			slices.Sort(ids)
			if once := slices.Compact(slices.Clone(ids)); len(once) != n || len(ids) != n {
				return fmt.Errorf("of %s run %v", app, ids)
			}
		}
		return nil
	})
	gates := []string{x.gateway, w.worker["edge-2"].gateway}
	f, g := sendTraffic(t, shopHost, gates...), sendTraffic(t, kiosk, gates...)
	throughout(t, 5*time.Second, "all hold", func() error {
		for app := range want {
			v, err := w.root.client().Applications.Get(context.Background(), app)
			if err == nil && !v.Holds {
				err = fmt.Errorf("%s: %s", app, v.Message)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	f.noneFailed(t)
	g.noneFailed(t)
	who := must[who](t)(whoami(x.gateway, shopHost, "/whoami"))
	wantEqual(t, "mark", who.Mark, "2")
}

// TestTwoRootsOnCopiesOfOneDirectory lets a cluster be told by two roots with the same keys in
// turn: it is said, and nothing that runs ends.
func TestTwoRootsOnCopiesOfOneDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, "edge")
	site := w.cluster["edge"]
	w.root.apply(shopOf(2, "1"))
	twin := w.newTier("root", "twin")
	if err := os.Rename(w.copyOf(w.root.dir), twin.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(twin.dir, "context.yaml")); err != nil {
		t.Fatal(err)
	}
	twin.start()
	defer twin.kill()
	eventually(t, 15*time.Second, "the twin has written its context", func() error {
		_, err := os.Stat(twin.contextFile())
		return err
	})
	w.root.apply(kioskOf(2))
	pids := everything(w)
	wantEqual(t, "instances", len(pids), 4)
	f := sendTraffic(t, shopHost, w.worker["edge-1"].gateway)
	args := slices.Clone(site.args)
	goTo := func(x *tier) {
		t.Helper()
		site.kill()
		site.args = append(slices.Clone(args), "--root", x.link)
		site.start()
		site.answers()
		eventually(t, 20*time.Second, x.name+" has asked the cluster what it holds", func() error {
			v, err := x.client().System.Recovery(context.Background())
			if err == nil && (v.Restored.IsZero() || v.Holding || len(v.Peers) != 1 || v.Peers[0].Asked.IsZero()) {
				err = fmt.Errorf("%+v", v)
			}
			return err
		})
		x.holds("shop", 20*time.Second)
		x.holds("kiosk", 20*time.Second)
		if now := everything(w); !maps.Equal(now, pids) {
			t.Fatalf("processes were %v, are %v", pids, now)
		}
	}
	goTo(twin)
	goTo(w.root)
	if text := w.root.ok("status"); !strings.Contains(text, "stop one of the two") {
		t.Errorf("status says\n%s", text)
	}
	goTo(twin)
	if text := twin.ok("status"); !strings.Contains(text, "stop one of the two") {
		t.Errorf("status of the twin says\n%s", text)
	}
	throughout(t, 3*time.Second, "nothing is touched", func() error {
		if now := everything(w); !maps.Equal(now, pids) {
			return fmt.Errorf("processes were %v, are %v", pids, now)
		}
		return nil
	})
	f.noneFailed(t)
}
