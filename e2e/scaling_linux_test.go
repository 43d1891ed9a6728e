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

	"github.com/verge-edge/verge/internal/wire"
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
	var said []wire.ScaleReport
	if err := json.Unmarshal([]byte(w.root.ok("explain", "scale", "sleeper.web", "-o", "json")), &said); err != nil {
		t.Fatal(err)
	}
	if len(said) != 1 || said[0].Awake < 2 || said[0].Last == nil {
		t.Errorf("explain scale says %+v", said)
	}
}
