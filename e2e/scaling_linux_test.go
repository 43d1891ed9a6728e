package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

const sleeperHost = "sleeper.test"

// sleeper is a service that costs nothing as long as nobody asks.
const sleeper = `application: sleeper
services:
  web:
    command: [testprogram]
    replicas: {min: 0, max: 3}
    concurrency: 2
    slo: 700ms
    idle: 1s
    ports:
      - name: http
        ingress: {host: ` + sleeperHost + `}
    readiness:
      http: {path: /healthz}
`

// TestFromZeroAndBack deploys a service that runs only while it is asked for.
func TestFromZeroAndBack(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	w.root.apply(sleeper)
	w.run("sleeps until it is asked", w.wakesAndSleeps)
	w.run("wakes without orchestrators", w.wakesAlone)
	w.run("follows the requests", w.followsRequests)
}

func (w *world) asleep() error {
	if pids := w.pids("sleeper"); len(pids) != 0 {
		return fmt.Errorf("there run %v", pids)
	}
	return nil
}

// wakesAndSleeps asks at both workers: one of them has the instance.
func (w *world) wakesAndSleeps(t *testing.T) {
	throughout(t, time.Second, "nothing runs", w.asleep)
	if text := w.root.ok("get", "instances"); !strings.Contains(text, "asleep") {
		t.Errorf("get instances says\n%s", text)
	}
	for _, x := range []string{"edge-1", "edge-2"} {
		// The first one waits until the routes are there, not for the instance.
		eventually(t, 10*time.Second, x+" wakes it", func() error {
			_, err := whoami(w.worker[x].gateway, sleeperHost, "/whoami")
			return err
		})
		wantEqual(t, "instances that run", len(w.pids("sleeper")), 1)
		eventually(t, 20*time.Second, "it sleeps again", w.asleep)
	}
}

// wakesAlone asks while nobody but the worker's engine is there.
func (w *world) wakesAlone(t *testing.T) {
	eventually(t, 20*time.Second, "it sleeps", w.asleep)
	w.root.kill()
	w.cluster["edge"].kill()
	for _, x := range w.worker {
		x.kill() // the agent; the engine goes on
	}
	for name, x := range w.worker {
		if _, err := whoami(x.gateway, sleeperHost, "/whoami"); err != nil {
			t.Errorf("asked at %s: %v", name, err)
		}
	}
	eventually(t, 20*time.Second, "it sleeps again", w.asleep)
	w.root.start()
	w.cluster["edge"].start()
	for _, x := range w.worker {
		x.start()
	}
	w.root.answers()
	w.cluster["edge"].answers()
	w.allReady()
}

// followsRequests sends more than one instance can answer in time, and sees others
// come; that is said with its reasons.
func (w *world) followsRequests(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	client := &http.Client{Timeout: requestTimeout}
	defer client.CloseIdleConnections()
	for range 6 {
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = fetchBy(client, w.worker["edge-1"].gateway, sleeperHost, "/slow?for=400ms") // refusals are part of it
			}
		})
	}
	eventually(t, 40*time.Second, "more of them run", func() error {
		if pids := w.pids("sleeper"); len(pids) < 2 {
			return fmt.Errorf("there run %v", pids)
		}
		return nil
	})
	var said []rpc.ScaleReport
	if err := json.Unmarshal([]byte(w.root.ok("explain", "scale", "sleeper.web", "-o", "json")), &said); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || said[0].Awake < 2 || said[0].Last == nil {
		t.Errorf("explain scale says %+v", said)
	}
}

const crowdedHost = "crowded.test"

// crowded is a service of which a cluster has room for two.
const crowded = `application: crowded
services:
  web:
    command: [testprogram]
    replicas: {min: 0, max: 6}
    resources: {memory: 100Mi}
    concurrency: 2
    slo: 1500ms
    idle: 3s
    ports:
      - name: http
        ingress: {host: ` + crowdedHost + `}
    readiness:
      http: {path: /healthz}
`

// TestOverflow loads a cluster beyond its room: instances come up in another one,
// answer there, and go when the load has ended.
func TestOverflow(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 0, "small", "wide")
	w.addWorker("small", "small-1", "--memory", "256Mi")
	w.addWorker("wide", "wide-1")
	w.allReady()
	w.root.apply(crowded)

	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	client := &http.Client{Timeout: requestTimeout}
	defer client.CloseIdleConnections()
	var mu sync.Mutex
	answered := map[string]int{} // by cluster, since it was emptied
	for range 14 {
		wg.Go(func() {
			for ctx.Err() == nil {
				text, err := fetchBy(client, w.worker["small-1"].gateway, crowdedHost, "/slow?for=500ms") // refusals are part of it
				var v who
				if err == nil && json.Unmarshal([]byte(text), &v) == nil {
					mu.Lock()
					answered[v.Cluster]++
					mu.Unlock()
				}
			}
		})
	}
	eventually(t, 90*time.Second, "the other cluster helps out", func() error {
		small, wide := w.scaling("crowded.web", "small"), w.scaling("crowded.web", "wide")
		if small.Awake < 2 || wide.Awake < 1 || wide.Extra < 1 || len(small.Gives) != 1 || len(wide.Gives) != 1 || small.Gives[0] != wide.Gives[0] {
			return fmt.Errorf("small %+v, wide %+v", small, wide)
		}
		return nil
	})
	mu.Lock()
	clear(answered)
	mu.Unlock()
	eventually(t, 20*time.Second, "both answer", func() error {
		mu.Lock()
		defer mu.Unlock()
		if answered["small"] < 5 || answered["wide"] < 5 {
			return fmt.Errorf("answered %v", answered)
		}
		return nil
	})
	if text := w.root.ok("explain", "scale", "crowded.web"); !strings.Contains(text, "of this demand run in cluster wide, because small ") || !strings.Contains(text, "of the demand of cluster small, because small ") {
		t.Errorf("explain scale says\n%s", text)
	}
	cancel()
	wg.Wait()
	eventually(t, 120*time.Second, "nothing runs any more", func() error {
		if pids := w.pids("crowded"); len(pids) > 0 {
			return fmt.Errorf("there run %v", pids)
		}
		if r := w.scaling("crowded.web", "wide"); r.Extra > 0 || len(r.Gives) > 0 {
			return fmt.Errorf("wide %+v", r)
		}
		return nil
	})
}

// scaling is what a cluster says of a service; empty where it says nothing.
func (w *world) scaling(service, cluster string) rpc.ScaleReport {
	w.t.Helper()
	var said []rpc.ScaleReport
	if err := json.Unmarshal([]byte(w.root.ok("explain", "scale", service, "-o", "json")), &said); err != nil {
		w.t.Fatal(err)
	}
	for _, r := range said {
		if r.Cluster == cluster {
			return r
		}
	}
	return rpc.ScaleReport{}
}
