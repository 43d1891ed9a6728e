package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// updateRolls changes the front's environment while it is being used: at no time
// more than one of its two instances is missing.
func (w *world) updateRolls(t *testing.T) {
	old := w.pids("site")
	f := sendTraffic(t, siteHost, w.worker["edge-1"].gateway, w.worker["edge-2"].gateway)
	stop, watched := make(chan struct{}), make(chan struct{})
	var once sync.Once
	end := func() { once.Do(func() { close(stop) }); <-watched }
	defer end()
	fewest := 2
	go func() {
		defer close(watched)
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		for {
			n := 0
			for _, p := range processesOf(w.dir) {
				if strings.HasPrefix(p.env["VERGE_INSTANCE"], "site.front.") {
					n++
				}
			}
			fewest = min(fewest, n)
			select {
			case <-stop:
				return
			case <-ticker.C:
			}
		}
	}()
	w.root.apply(site("2"))
	end()
	wantEqual(t, "fewest instances at a time", fewest >= 1, true)
	f.noneFailed(t)
	for id, i := range w.root.instances("site") {
		wantEqual(t, "revision of "+id, i.Revision, 2)
	}
	now := w.pids("site")
	wantEqual(t, "pid of the service that did not change", now[job], old[job])
	for _, id := range []string{"site.front.0", "site.front.1"} {
		if now[id] == old[id] || now[id] == 0 {
			t.Errorf("%s was pid %d and is pid %d", id, old[id], now[id])
		}
	}
	for range 4 {
		v := must[who](t)(whoami(w.worker["edge-1"].gateway, siteHost, "/whoami"))
		wantEqual(t, "environment of "+v.Instance, v.Mark, "2")
	}
}

// deleteEndsEverything deletes the application and applies it again.
func (w *world) deleteEndsEverything(t *testing.T) {
	out := w.root.ok("delete", "application/site", "--timeout", "30s")
	if !strings.Contains(out, "deleted") {
		t.Errorf("delete says %q", out)
	}
	wantEqual(t, "processes after it", len(w.pids("site")), 0)
	for _, x := range w.worker {
		eventually(t, 5*time.Second, "the control groups of "+x.name+" are gone", func() error {
			if left, _ := groupsOf(x.dir); len(left) > 0 {
				return fmt.Errorf("there are %s", strings.Join(left, ", "))
			}
			return nil
		})
	}
	if r := verge(t, w.root.contextFile(), "get", "application/site"); r.code == 0 {
		t.Errorf("the application is still there: %s", r.out)
	}
	wantEqual(t, "instances at the root", len(w.root.instances("site")), 0)
	wantEqual(t, "instances at the cluster", len(w.cluster["edge"].instances("site")), 0)
	eventually(t, 5*time.Second, "the gateway knows the host no more", func() error {
		if _, err := fetch(w.worker["edge-1"].gateway, siteHost, "/whoami"); err == nil {
			return fmt.Errorf("it answers")
		}
		return nil
	})
	w.root.apply(site("3"))
	v := must[who](t)(whoami(w.worker["edge-2"].gateway, siteHost, "/whoami"))
	wantEqual(t, "environment after it was applied again", v.Mark, "3")
	if ids := w.pids("site"); len(ids) != 3 {
		t.Errorf("three instances should run, there are %v", slices.Collect(keys(ids)))
	}
}

func keys[K comparable, V any](m map[K]V) func(yield func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}
