package e2e

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOlderVersion lets a program that was built of an older commit, at $VERGE_OLDER, work
// with today's: all of it is of that version first, then one role after the other becomes
// today's, over what the older one has stored, and a cluster goes back. What runs goes on
// through all of it. make test does that with the version before, make older with any.
func TestOlderVersion(t *testing.T) {
	older := os.Getenv("VERGE_OLDER")
	if older == "" {
		t.Skip("$VERGE_OLDER names no program of an older version: make older")
	}
	t.Parallel()
	w := emptyWorld(t, newDir(t))
	w.root = w.newTier("root", "root", "--cluster-dead-after", "30s")
	w.root.path = older
	w.root.start()
	w.root.answers()
	edge := w.addClusterBy("edge", func(c *tier) { c.path = older })
	edge.answers()
	x := w.addWorkerBy("edge", "edge-1", func(x *worker) { x.path = older })
	w.allReady()
	w.root.apply(plain("older", "1", 2, 100))
	pids := w.pids("older")
	replicas := 2
	become := func(what, path string, d *daemon, wait func()) {
		t.Helper()
		d.signal(syscall.SIGTERM)
		d.wait()
		d.path = path
		d.start()
		wait()
		w.allReady()
		// It works: another instance starts, and is stopped again.
		for _, n := range []int{replicas + 1, replicas} {
			w.root.ok("scale", "older.main", "--replicas", fmt.Sprint(n))
		}
		eventually(t, 30*time.Second, what+": the same run as before", func() error {
			if now := w.pids("older"); !maps.Equal(now, pids) {
				return fmt.Errorf("%v, were %v", now, pids)
			}
			return nil
		})
	}
	become("today's cluster, older worker", programs.verge, edge.daemon, edge.answers)
	become("today's root", programs.verge, w.root.daemon, w.root.answers)
	become("today's agent, older engine", programs.verge, x.daemon, func() {})
	r := verge(t, "", "worker", "upgrade", "--data-dir", x.dir, "--binary", programs.verge)
	if r.code != 0 && !strings.Contains(r.err, "its version cannot hand over") {
		t.Errorf("upgrade of an older engine: %+v", r)
	}
	t.Log(r.err)
	become("older cluster, today's worker", older, edge.daemon, edge.answers)
	become("today's cluster again", programs.verge, edge.daemon, edge.answers)
	eventually(t, 20*time.Second, "requests are answered", func() error {
		_, err := fetch(x.gateway, "older.test", "/whoami")
		return err
	})
	if left := strings.Count(x.text()+edge.text()+w.root.text(), "panic"); left > 0 {
		t.Error("something has panicked")
	}
}
