package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

const operatedHost = "operated.test"

// TestOperating does to a running application what its people do, while requests
// come in at gateways of two clusters.
func TestOperating(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	w.addCluster("fog").answers()
	w.addWorker("fog", "fog-1")
	w.allReady()
	w.root.apply(operated(3, "edge"))
	for _, x := range []string{"edge-1", "fog-1"} {
		eventually(t, 5*time.Second, x+" routes to it", func() error {
			_, err := fetch(w.worker[x].gateway, operatedHost, "/whoami")
			return err
		})
	}
	w.run("scale", w.scaleUpAndDown)
	w.run("restart", w.restartRolls)
	w.run("cordon", w.cordonTakesNothingNew)
	w.run("drain a worker", w.drainWorker)
	w.run("drain a cluster", w.drainCluster)
}

func operated(replicas int, clusters ...string) string {
	return fmt.Sprintf(`application: operated
services:
  front:
    command: [testprogram]
    replicas: %d # of the file
    affinity: {cluster: [%s]}
    ports:
      - name: http
        ingress: {host: %s}
    readiness:
      http: {path: /healthz}
`, replicas, strings.Join(clusters, ", "), operatedHost)
}

// traffic to the application, at a gateway of each cluster.
func (w *world) operatedTraffic(t *testing.T) *traffic {
	t.Helper()
	return sendTraffic(t, operatedHost, w.worker["edge-1"].gateway, w.worker["fog-1"].gateway)
}

// scaleUpAndDown changes the number by command: what runs goes on, the descriptor
// says the new number, and the next file wins and says so.
func (w *world) scaleUpAndDown(t *testing.T) {
	f := w.operatedTraffic(t)
	old := w.pids("operated")
	w.root.ok("scale", "operated.front", "--replicas", "5")
	up := w.pids("operated")
	wantEqual(t, "instances after scaling up", len(up), 5)
	out := w.root.ok("scale", "service/operated.front", "--replicas", "2")
	if !strings.Contains(out, "ready: 2/2") {
		t.Errorf("scale says %q", out)
	}
	down := w.pids("operated")
	wantEqual(t, "instances after scaling down", len(down), 2)
	for id, pid := range down {
		wantEqual(t, "pid of "+id, pid, old[id])
	}
	if text := w.root.ok("get", "application/operated", "-o", "yaml"); !strings.Contains(text, "replicas: 2 # of the file") {
		t.Errorf("the descriptor is\n%s", text)
	}
	r := verge(t, w.root.contextFile(), "apply", w.file("app-", operated(3, "edge")))
	if r.code != 0 || !strings.Contains(r.err, "services.front.replicas: 2, set by verge scale") {
		t.Errorf("apply: %d\n%s%s", r.code, r.out, r.err)
	}
	f.noneFailed(t)
}

// restartRolls starts all instances again, each once, and then one of them.
func (w *world) restartRolls(t *testing.T) {
	f := w.operatedTraffic(t)
	old := w.pids("operated")
	out := w.root.ok("restart", "operated.front", "--reason", "a test")
	if !strings.Contains(out, "3 instances restarted") {
		t.Errorf("restart says %q", out)
	}
	now, views := w.pids("operated"), w.root.instances("operated")
	wantEqual(t, "instances", len(now), 3)
	for id, pid := range now {
		if pid == old[id] {
			t.Errorf("%s was not started again", id)
		}
		var why []string
		for _, h := range views[id].History {
			why = append(why, h.Why)
		}
		if text := strings.Join(why, "; "); !strings.Contains(text, "restarted by ") || !strings.Contains(text, ": a test") {
			t.Errorf("history of %s: %s", id, text)
		}
	}
	w.root.ok("restart", "instance/operated.front.1")
	one := w.pids("operated")
	for id, pid := range one {
		wantEqual(t, "pid of "+id+" is another", pid != now[id], id == "operated.front.1")
	}
	f.noneFailed(t)
	// A cluster that is away does it when it is back, and the command says so.
	w.cluster["edge"].kill()
	r := verge(t, w.root.contextFile(), "restart", "operated", "--timeout", "2s")
	if r.code != 2 || !strings.Contains(r.err, "has not restarted yet") {
		t.Errorf("restart of what is away: %d\n%s%s", r.code, r.out, r.err)
	}
	w.cluster["edge"].start()
	eventually(t, 30*time.Second, "it was restarted", func() error {
		for id, pid := range w.pids("operated") {
			if pid == one[id] {
				return fmt.Errorf("%s is still pid %d", id, pid)
			}
		}
		return nil
	})
	w.root.holds("operated", 15*time.Second)
}

// cordonTakesNothingNew takes a worker and then a cluster out of use.
func (w *world) cordonTakesNothingNew(t *testing.T) {
	edge := w.cluster["edge"]
	edge.ok("cordon", "worker/edge-1", "--reason", "a new disk")
	old := w.pids("operated")
	w.root.ok("scale", "operated.front", "--replicas", "5")
	for id, i := range w.root.instances("operated") {
		if old[id] == 0 && i.Worker != "edge-2" {
			t.Errorf("%s is on %s", id, i.Worker)
		}
	}
	for id, pid := range w.pids("operated") {
		if old[id] != 0 {
			wantEqual(t, "pid of "+id, pid, old[id])
		}
	}
	if out := edge.ok("describe", "worker/edge-1"); !strings.Contains(out, "takes nothing new") || !strings.Contains(out, ": a new disk") {
		t.Errorf("describe says\n%s", out)
	}
	// It outlives its cluster's orchestrator.
	edge.kill()
	edge.start()
	edge.answers()
	if out := edge.ok("get", "workers"); !strings.Contains(out, ",cordoned") {
		t.Errorf("get workers says\n%s", out)
	}
	// The root passes it on, as the cluster shares its details.
	w.root.ok("uncordon", "worker/edge/edge-1")
	if out := edge.ok("events"); !strings.Contains(out, "by root/") {
		t.Errorf("events of the cluster do not say who asked the root:\n%s", out)
	}
	// The same of a cluster, at the root: the application may run nowhere else.
	w.root.ok("cordon", "cluster/edge")
	r := verge(t, w.root.contextFile(), "scale", "operated.front", "--replicas", "6", "--timeout", "2s")
	if r.code != 2 || !strings.Contains(r.err, "cordoned") {
		t.Errorf("scale: %d\n%s%s", r.code, r.out, r.err)
	}
	w.root.ok("uncordon", "cluster/edge")
	w.root.holds("operated", 15*time.Second)
	wantEqual(t, "instances", len(w.pids("operated")), 6)
	w.root.apply(operated(3, "edge"))
}

// fewest watches how many instances of the application run at least at any time,
// until it is called: an instance that moves counts once.
func (w *world) fewest(t *testing.T) func() int {
	t.Helper()
	stop, watched := make(chan struct{}), make(chan int, 1)
	count := func() int {
		ids := map[string]bool{}
		for _, p := range processesOf(w.dir) {
			if id := p.env["VERGE_INSTANCE"]; strings.HasPrefix(id, "operated.") {
				ids[id] = true
			}
		}
		return len(ids)
	}
	go func() {
		ticker := time.NewTicker(pollEvery)
		defer ticker.Stop()
		n := count()
		for {
			select {
			case <-stop:
				watched <- n
				return
			case <-ticker.C:
				n = min(n, count())
			}
		}
	}()
	return sync.OnceValue(func() int { close(stop); return <-watched })
}

// onWorker are the instances that run on a worker.
func (w *world) onWorker(name string) (ids []string) {
	for id, r := range runningIn(w.t, w.worker[name].dir) {
		if strings.HasPrefix(id, "operated.") && r.pid > 0 {
			ids = append(ids, id)
		}
	}
	return ids
}

// drainWorker empties a worker: nothing is missing at any time, no request fails,
// what cannot go stays and is named, and the end of it changes nothing more.
func (w *world) drainWorker(t *testing.T) {
	edge := w.cluster["edge"]
	home := "edge-1"
	if len(w.onWorker(home)) == 0 {
		home = "edge-2"
	}
	other := map[string]string{"edge-1": "edge-2", "edge-2": "edge-1"}[home]
	moved := w.onWorker(home)
	before := w.root.instances("operated")
	f := w.operatedTraffic(t)
	fewest := w.fewest(t)
	defer fewest()
	out := edge.ok("drain", "worker/"+home, "--reason", "a new disk", "--timeout", "50s")
	if !strings.Contains(out, "drained: ") {
		t.Errorf("drain says %q", out)
	}
	wantEqual(t, "instances at the fewest", fewest(), 3)
	f.noneFailed(t)
	wantEqual(t, "instances on the drained worker", len(w.onWorker(home)), 0)
	for id, i := range w.root.instances("operated") {
		wantEqual(t, "worker of "+id, i.Worker, other)
		step := 0
		if slices.Contains(moved, id) {
			step = 1
		}
		wantEqual(t, "incarnation of "+id, i.Incarnation, before[id].Incarnation+step)
	}
	// There is nowhere else to go to from the other one.
	r := verge(t, edge.contextFile(), "drain", "worker/"+other)
	if r.code != 2 || !strings.Contains(r.err, "3 instances cannot move now") || !strings.Contains(r.err, "2 are cordoned") {
		t.Errorf("drain of the last one: %d\n%s%s", r.code, r.out, r.err)
	}
	edge.ok("uncordon", "worker/"+other)
	pids := w.pids("operated")
	edge.ok("uncordon", "worker/"+home)
	throughout(t, time.Second, "nothing moves any more", func() error {
		for id, pid := range w.pids("operated") {
			if pid != pids[id] {
				return fmt.Errorf("%s was pid %d and is %d", id, pids[id], pid)
			}
		}
		return nil
	})
	// An orchestrator that is killed in the middle goes on with it.
	f = w.operatedTraffic(t)
	fewest = w.fewest(t)
	edge.ok("drain", "worker/"+other, "--no-wait")
	edge.kill()
	edge.start()
	eventually(t, 45*time.Second, "it is empty", func() error {
		return differs("instances on the drained worker", len(w.onWorker(other)), 0)
	})
	wantEqual(t, "instances at the fewest", fewest(), 3)
	f.noneFailed(t)
	edge.answers()
	edge.ok("uncordon", "worker/"+other)
}

// drainCluster empties a cluster into another.
func (w *world) drainCluster(t *testing.T) {
	w.root.holds("operated", 15*time.Second)
	w.root.apply(operated(2, "edge", "fog"))
	old := w.root.instances("operated")
	f := w.operatedTraffic(t)
	out := w.root.ok("drain", "cluster/edge", "--timeout", "50s")
	if !strings.Contains(out, "drained: ") {
		t.Errorf("drain says %q", out)
	}
	f.noneFailed(t)
	now := w.root.instances("operated")
	wantEqual(t, "instances", len(now), 2)
	for id, i := range now {
		wantEqual(t, "cluster of "+id, i.Cluster, "fog")
		if _, ok := old[i.Replaces]; !ok && old[id].Cluster != "fog" {
			t.Errorf("%s replaces %q", id, i.Replaces)
		}
	}
	for _, x := range []string{"edge-1", "edge-2"} {
		wantEqual(t, "instances on "+x, len(w.onWorker(x)), 0)
	}
	w.root.ok("uncordon", "cluster/edge")
	w.root.holds("operated", 15*time.Second)
}
