package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	busyHost     = "busy.test"
	replaceAfter = 3 * time.Second
)

// TestOutagesUnderTraffic kills one part after the other while requests come in
// at gateways of two clusters.
func TestOutagesUnderTraffic(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 3, "edge")
	w.addCluster("fog").answers()
	w.addWorker("fog", "fog-1")
	w.allReady()
	w.root.apply(busy("1"))
	for _, x := range []string{"edge-1", "fog-1"} {
		eventually(t, 5*time.Second, x+" routes to it", func() error {
			_, err := fetch(w.worker[x].gateway, busyHost, "/whoami")
			return err
		})
	}
	w.run("root", func(t *testing.T) { w.tierDies(t, w.root, "2") })
	w.run("cluster", func(t *testing.T) { w.tierDies(t, w.cluster["edge"], "3") })
	w.run("worker", w.workerDies)
}

func busy(mark string) string {
	return fmt.Sprintf(`application: busy
services:
  front:
    command: [testprogram]
    env: {MARK: %q}
    replicas: 3
    replace_after: %s
    affinity: {cluster: [edge]}
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
`, mark, replaceAfter, busyHost)
}

// tierDies kills an orchestrator for a while; an apply works once it is back.
func (w *world) tierDies(t *testing.T, x *tier, mark string) {
	pids := w.pids("busy")
	wantEqual(t, "instances", len(pids), 3)
	f := sendTraffic(t, busyHost, w.worker["edge-1"].gateway, w.worker["fog-1"].gateway)
	same := func() error {
		if now := w.pids("busy"); !maps.Equal(now, pids) {
			return fmt.Errorf("pids were %v, are %v", pids, now)
		}
		return nil
	}
	x.kill()
	throughout(t, 2*time.Second, "the instances run on without it", same)
	x.start()
	x.answers()
	w.allReady()
	w.root.holds("busy", 15*time.Second)
	throughout(t, time.Second, "the instances run on with it", same)
	f.noneFailed(t)
	f = sendTraffic(t, busyHost, w.worker["edge-1"].gateway, w.worker["fog-1"].gateway)
	w.root.apply(busy(mark))
	v := must[who](t)(whoami(w.worker["edge-2"].gateway, busyHost, "/whoami"))
	wantEqual(t, "environment after the apply", v.Mark, mark)
	f.noneFailed(t)
}

// workerDies kills a whole worker with its instances and lets it come back when
// they have been replaced.
func (w *world) workerDies(t *testing.T) {
	x := w.worker["edge-3"]
	lost := slices.Collect(maps.Keys(runningIn(t, x.dir)))
	if len(lost) == 0 {
		t.Fatal("no instance runs on the worker")
	}
	f := sendTraffic(t, busyHost, w.worker["edge-1"].gateway, w.worker["fog-1"].gateway)
	eventually(t, 5*time.Second, "requests come in", func() error {
		if good, _ := f.count(); good < 50 {
			return fmt.Errorf("%d so far", good)
		}
		return nil
	})
	begin := time.Now()
	killAll(t, x.dir)
	killed := time.Now()
	x.wait()
	throughout(t, replaceAfter-time.Since(begin)-200*time.Millisecond, "nothing is replaced too early", func() error {
		return differs("instances", len(w.pids("busy")), 3-len(lost))
	})
	eventually(t, 15*time.Second, "it is replaced", func() error { return differs("instances", len(w.pids("busy")), 3) })
	t.Logf("replaced %s after the worker was killed", time.Since(begin).Round(time.Millisecond))
	w.root.holds("busy", 10*time.Second)
	good, failed := f.stop()
	t.Logf("%d requests answered, %d failed", good, len(failed))
	for _, e := range failed {
		if e.begun.After(killed) {
			t.Errorf("a request that began %s after the worker was dead failed: %v", e.begun.Sub(killed).Round(time.Millisecond), e.err)
		}
	}
	if len(failed) > 4 {
		t.Errorf("%d requests failed, two at a time were sent", len(failed))
	}

	f = sendTraffic(t, busyHost, w.worker["edge-1"].gateway, w.worker["fog-1"].gateway)
	const answers = "ready: the cluster answers"
	before := strings.Count(x.text(), answers)
	x.start()
	w.allReady()
	// Its engine goes on with what it was told before, until the agent has fetched what is wanted now.
	eventually(t, 20*time.Second, "the worker knows what it is to run", func() error {
		return differs("times that it has", strings.Count(x.text(), answers), before+1)
	})
	once := func() error {
		if found := instancesOf(w, "busy"); len(found) != 3 {
			return fmt.Errorf("%d processes instead of 3: %s", len(found), describe(found))
		}
		return nil
	}
	eventually(t, 20*time.Second, "exactly the wanted instances run", once)
	w.root.holds("busy", 10*time.Second)
	throughout(t, 2*time.Second, "none runs twice", once)
	f.noneFailed(t)
	wantEqual(t, "instances that the root knows", len(w.root.instances("busy")), 3)
}

// instancesOf lists the processes of an application, those of the same instance
// too: unlike in pids, here that may be so for a moment.
func instancesOf(w *world, app string) (out []process) {
	for _, p := range processesOf(w.dir) {
		if p.env["VERGE_APP"] == app && p.env["VERGE_INSTANCE"] != "" {
			out = append(out, p)
		}
	}
	return out
}
