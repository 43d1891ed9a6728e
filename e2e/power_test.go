package e2e

import (
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"
)

// powerCut kills every process of all tiers at once, and lets the workers come
// back alone.
func (w *world) powerCut(t *testing.T) {
	for _, p := range processesOf(w.dir) {
		// Some end by the death of others.
		_ = syscall.Kill(p.pid, syscall.SIGKILL)
	}
	killAll(t, w.dir)
	for _, x := range w.worker {
		x.wait()
	}
	for _, x := range w.worker {
		x.start()
	}
	begin := time.Now()
	for _, x := range w.worker {
		eventually(t, 20*time.Second, "the front answers at "+x.name, func() error {
			_, err := fetch(x.gateway, siteHost, "/whoami")
			return err
		})
	}
	t.Logf("the front answered %s after the workers were started", time.Since(begin).Round(time.Millisecond))
	// The job is on one of the workers; the fronts of both must reach it. Each is asked itself: a
	// gateway need not use both.
	eventually(t, 15*time.Second, "the fronts of both workers reach the job", func() error {
		fronts := 0
		for id, r := range runningIn(t, w.dir) {
			if id == job {
				continue
			}
			text, err := fetch("127.0.0.1:"+r.port, siteHost, "/call?service=JOB")
			if err != nil {
				return fmt.Errorf("%s: %w", id, err)
			}
			v := decode[struct{ Answer who }](t, text)
			wantEqual(t, "who answers", v.Answer.Instance, job)
			fronts++
		}
		return differs("fronts that reach the job", fronts, 2)
	})
	if w.root.running() || w.cluster["edge"].running() {
		t.Fatal("an orchestrator runs: nothing was tested")
	}
	eventually(t, 10*time.Second, "all instances run", func() error { return differs("instances", len(w.pids("site")), 3) })
	pids := w.pids("site")
	w.cluster["edge"].start()
	w.root.start()
	w.cluster["edge"].answers()
	w.root.answers()
	w.allReady()
	w.root.holds("site", 20*time.Second)
	throughout(t, 3*time.Second, "nothing is restarted", func() error {
		if now := w.pids("site"); !maps.Equal(now, pids) {
			return fmt.Errorf("pids were %v, are %v", pids, now)
		}
		return nil
	})
	w.root.holds("site", time.Second)
}
