package e2e

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

const rolledHost = "rolled.test"

// rolled is an application of three instances in one cluster.
func rolled(mark, command, more string) string {
	return fmt.Sprintf(`application: rolled
services:
  front:
    command: [%s]
    env: {MARK: %q}
    replicas: 3
    affinity: {cluster: [edge]}
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
%s`, command, mark, rolledHost, more)
}

// TestRollout brings a service that is being used to other versions: one that is sound,
// one that ends at once, one that never answers; and back.
func TestRollout(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	w.addCluster("fog").answers()
	w.addWorker("fog", "fog-1")
	w.allReady()
	w.root.apply(rolled("1", "testprogram", ""))
	for _, x := range []string{"edge-1", "fog-1"} {
		eventually(t, 5*time.Second, x+" routes to it", func() error {
			_, err := fetch(w.worker[x].gateway, rolledHost, "/whoami")
			return err
		})
	}
	w.run("a sound version", w.rollsSoundly)
	w.run("a version that ends", w.badVersionStops)
	w.run("a version that hangs is undone", w.hangingVersionIsUndone)
	w.run("a version that fails is tried on a share", w.failsOnAShare)
	w.run("the root is away", w.rollsWithoutTheRoot)
}

// neverFewer watches how many are ready until stop is called, which says the fewest and
// the most at a time.
func (w *world) neverFewer(from *tier) (stop func() (fewest, most int)) {
	c, ctx := from.client(), w.t.Context()
	end, done := make(chan struct{}), make(chan struct{})
	fewest, most := 1<<30, 0
	go func() {
		defer close(done)
		for {
			list, err := c.Instances.List(ctx, "rolled", "front")
			if err == nil {
				n := 0
				for _, i := range list {
					if i.Ready && !i.Draining {
						n++
					}
				}
				fewest, most = min(fewest, n), max(most, n)
			}
			select {
			case <-end:
				return
			case <-time.After(pollEvery):
			}
		}
	}()
	var once sync.Once
	return func() (int, int) {
		once.Do(func() { close(end) })
		<-done
		return fewest, most
	}
}

func (w *world) rolledTraffic(t *testing.T) *traffic {
	t.Helper()
	return sendTraffic(t, rolledHost, w.worker["edge-1"].gateway, w.worker["fog-1"].gateway)
}

func (w *world) marks(t *testing.T, want string) {
	t.Helper()
	for range 6 {
		v := must[who](t)(whoami(w.worker["fog-1"].gateway, rolledHost, "/whoami"))
		wantEqual(t, "mark of "+v.Instance, v.Mark, want)
	}
}

func (w *world) rollsSoundly(t *testing.T) {
	f, watched := w.rolledTraffic(t), w.neverFewer(w.cluster["edge"])
	defer watched()
	w.root.apply(rolled("2", "testprogram", ""))
	fewest, most := watched()
	f.noneFailed(t)
	if fewest < 3 || most > 4 {
		t.Errorf("between %d and %d were ready, 3 are promised and 1 more may be", fewest, most)
	}
	w.marks(t, "2")
	if out := w.root.ok("rollout", "status", "rolled", "--wait", "--timeout", "30s"); !strings.Contains(out, "done") {
		t.Errorf("status:\n%s", out)
	}
	if out := w.root.ok("rollout", "history", "rolled"); !strings.Contains(out, "2 (current)") || !strings.Contains(out, "front: env.MARK") {
		t.Errorf("history:\n%s", out)
	}
}

func (w *world) badVersionStops(t *testing.T) {
	f, watched := w.rolledTraffic(t), w.neverFewer(w.cluster["edge"])
	defer watched()
	file := w.file("app-", rolled("3", "sh, -c, exit 7", ""))
	if r := verge(t, w.root.contextFile(), "diff", file); r.code != 1 || !strings.Contains(r.out, "rolled.front.command") {
		t.Errorf("diff: code %d\n%s%s", r.code, r.out, r.err)
	}
	r := verge(t, w.root.contextFile(), "apply", file, "--timeout", "60s")
	if r.code != 2 || !strings.Contains(r.err, "its rollout has stopped") || !strings.Contains(r.err, "exit code 7, gave up here after 5 restarts") {
		t.Errorf("apply: code %d\n%s%s", r.code, r.out, r.err)
	}
	if r := verge(t, w.root.contextFile(), "rollout", "status", "rolled/front"); r.code != 2 || !strings.Contains(r.out, "failed") {
		t.Errorf("status: code %d\n%s%s", r.code, r.out, r.err)
	}
	if out := w.root.ok("status"); !strings.Contains(out, "rollout failed") {
		t.Errorf("verge status says nothing of it:\n%s", out)
	}
	w.marks(t, "2")
	w.root.ok("rollout", "undo", "rolled", "--timeout", "60s")
	fewest, _ := watched()
	f.noneFailed(t)
	wantEqual(t, "fewest that were ready", fewest, 3)
	w.marks(t, "2")
	if r := verge(t, w.root.contextFile(), "diff", w.file("app-", rolled("2", "testprogram", ""))); r.code != 0 || r.out != "" {
		t.Errorf("diff after an undo: code %d\n%s%s", r.code, r.out, r.err)
	}
}

func (w *world) hangingVersionIsUndone(t *testing.T) {
	f, watched := w.rolledTraffic(t), w.neverFewer(w.cluster["edge"])
	defer watched()
	w.root.apply(rolled("2", "testprogram", "    rollout: {on_failure: rollback, progress_deadline: 5s}\n"))
	hangs := rolled("4", "sleep, '1000'", "    rollout: {on_failure: rollback, progress_deadline: 5s}\n")
	verge(t, w.root.contextFile(), "apply", w.file("app-", hangs), "--no-wait")
	eventually(t, 60*time.Second, "it is brought back", func() error {
		if out := w.root.ok("rollout", "history", "rolled"); !strings.Contains(out, "its rollout failed") {
			return fmt.Errorf("%s", out)
		}
		if r := verge(t, w.root.contextFile(), "rollout", "status", "rolled"); r.code != 0 {
			return fmt.Errorf("%s", r.out)
		}
		return nil
	})
	fewest, _ := watched()
	f.noneFailed(t)
	wantEqual(t, "fewest that were ready", fewest, 3)
	w.marks(t, "2")
}

// failsOnAShare: a version that becomes ready and answers with errors is given its share of
// the requests, also of those of another cluster, and none any more when that is known.
func (w *world) failsOnAShare(t *testing.T) {
	watched := w.neverFewer(w.cluster["edge"])
	defer watched()
	source := strings.Replace(rolled("6", "testprogram", "    rollout: {canary: [{share: 20%, for: 1h}]}\n"), "env: {", `env: {BREAKS: "yes", `, 1)
	verge(t, w.root.contextFile(), "apply", w.file("app-", source), "--no-wait")
	asked, failed := 0, 0
	ask := func() {
		asked++
		if _, err := fetch(w.worker["fog-1"].gateway, rolledHost, "/whoami"); err != nil {
			failed++
		}
	}
	var status result
	eventually(t, 60*time.Second, "it has failed", func() error {
		for range 10 {
			ask()
		}
		if status = verge(t, w.root.contextFile(), "rollout", "status", "rolled"); !strings.Contains(status.out, "failed (") {
			return fmt.Errorf("%s%s", status.out, status.err)
		}
		return nil
	})
	if failed < 5 || failed > asked/4+3 { // fewer than a fifth, where the router leaves it alone
		t.Errorf("%d of %d requests came to the new version, its share is 20%%", failed, asked)
	}
	for _, word := range []string{"SHARE", "0% (1/1)", "of the requests to the new revision", "+1"} {
		if !strings.Contains(status.out, word) {
			t.Errorf("status does not say %q:\n%s", word, status.out)
		}
	}
	eventually(t, 20*time.Second, "nobody gets to it any more", func() error {
		asked, failed = 0, 0
		for range 40 {
			ask()
		}
		if failed > 0 {
			return fmt.Errorf("%d of %d", failed, asked)
		}
		return nil
	})
	// Of the cluster: it tells the root the others, too, when it next does. Where the new
	// version fails with its first answers, its step has not even begun.
	if out := w.cluster["edge"].ok("events"); !strings.Contains(out, "requests go back to revision") {
		t.Errorf("no event tells of it:\n%s", out)
	}
	w.root.ok("rollout", "undo", "rolled", "--timeout", "60s")
	fewest, most := watched()
	if fewest < 3 || most > 4 {
		t.Errorf("between %d and %d were ready", fewest, most)
	}
	w.marks(t, "2")
}

// rollsWithoutTheRoot: the cluster carries out what it was told, in a process of its own
// that is another one in the middle.
func (w *world) rollsWithoutTheRoot(t *testing.T) {
	f, watched := w.rolledTraffic(t), w.neverFewer(w.cluster["edge"])
	defer watched()
	file := w.file("app-", rolled("5", "testprogram", "    rollout: {min_ready: 3s}\n"))
	verge(t, w.root.contextFile(), "apply", file, "--no-wait")
	eventually(t, 20*time.Second, "it has begun", func() error {
		v, err := w.cluster["edge"].client().Rollouts.Get(t.Context(), "rolled")
		if err != nil || len(v.Services) != 1 || v.Services[0].Phase != "rolling" {
			return fmt.Errorf("%+v %w", v, errors.Join(err, errors.New("not yet")))
		}
		return nil
	})
	w.root.kill()
	w.cluster["edge"].kill()
	w.cluster["edge"].start()
	eventually(t, 60*time.Second, "it is done", func() error {
		v, err := w.cluster["edge"].client().Rollouts.Get(t.Context(), "rolled")
		if err != nil || v.Services[0].Phase != "done" {
			return fmt.Errorf("%+v %w", v, errors.Join(err, errors.New("not yet")))
		}
		return nil
	})
	w.root.start()
	eventually(t, 30*time.Second, "the root knows", func() error {
		if r := verge(t, w.root.contextFile(), "rollout", "status", "rolled"); r.code != 0 {
			return fmt.Errorf("%s%s", r.out, r.err)
		}
		return nil
	})
	fewest, most := watched()
	f.noneFailed(t)
	if fewest < 3 || most > 4 {
		t.Errorf("between %d and %d were ready", fewest, most)
	}
	w.marks(t, "5")
}

// TestRolloutTooSlow: a version that answers, but later than the objective, stops, and the
// one before goes on answering.
func TestRolloutTooSlow(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	paced := func(pace string) string {
		return fmt.Sprintf(`application: rolled
services:
  front:
    command: [testprogram]
    env: {PACE_EDGE_1: %s}
    replicas: 2
    slo: 150ms
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
`, pace, rolledHost)
	}
	w.root.apply(paced("5ms"))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(20 * time.Millisecond):
				}
				_, _ = fetch(w.worker["edge-1"].gateway, rolledHost, "/paced") // how long it takes is what is looked at
			}
		})
	}
	defer wg.Wait()
	defer close(done)
	r := verge(t, w.root.contextFile(), "apply", w.file("app-", paced("600ms")), "--timeout", "90s")
	if r.code != 2 || !strings.Contains(r.err, "its rollout has stopped") || !strings.Contains(r.err, "the objective (slo) is 150ms") {
		t.Fatalf("apply: code %d\n%s%s", r.code, r.out, r.err)
	}
	for id, i := range w.cluster["edge"].instances("rolled") {
		if i.Ordinal < wire.SurgeOrdinals && (i.Revision != 1 || !i.Ready) {
			t.Errorf("%s: revision %d, ready %v", id, i.Revision, i.Ready)
		}
	}
	w.root.ok("rollout", "undo", "rolled", "--timeout", "60s")
}
