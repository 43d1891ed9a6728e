package e2e

import (
	"fmt"
	"maps"
	"net/http"
	"testing"
	"time"
)

// TestClockJumpsWhileScaling sets the clocks of all roles forward and back by an hour
// while a service sleeps, is idle, and runs by its requests: nothing sleeps, wakes, starts,
// ends or goes out of the rotation for that, and what is due by time that passes happens.
func TestClockJumpsWhileScaling(t *testing.T) {
	needOtherClocks(t)
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 2, "edge")
	w.root.apply(`application: jump
services:
  web:
    command: [testprogram]
    replicas: {min: 0, max: 2}
    concurrency: 2
    slo: 1500ms
    idle: 8s
    ports: [{name: http, ingress: {host: jump.test}}]
    readiness: {http: {path: /healthz}}
`)
	x := w.worker["edge-1"]
	jump := func(by time.Duration) {
		t.Helper()
		for _, d := range []*daemon{w.root.daemon, w.cluster["edge"].daemon, w.worker["edge-1"].daemon, w.worker["edge-2"].daemon} {
			setClockOf(t, d.pid(), by)
		}
		for _, x := range w.worker {
			setClockOf(t, enginePID(t, x), by)
		}
	}
	sleeps := func() error {
		if pids := w.pids("jump"); len(pids) != 0 {
			return fmt.Errorf("there run %v", pids)
		}
		return nil
	}
	answers := func() error {
		_, err := whoami(x.gateway, "jump.test", "/whoami")
		return err
	}
	eventually(t, 20*time.Second, "it answers", answers)
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		w.run("asleep, and set to "+by.String(), func(t *testing.T) {
			eventually(t, 40*time.Second, "it sleeps", sleeps)
			jump(by)
			throughout(t, 3*time.Second, "it sleeps on", sleeps)
			if err := answers(); err != nil {
				t.Error("woken:", err)
			}
		})
		w.run("idle, and set to "+by.String(), func(t *testing.T) {
			// Setting six clocks stops the processes for a moment each. On a busy machine that
			// may take as long as the service stays awake without requests.
			var before map[string]int
			for try := 1; ; try++ {
				if err := answers(); err != nil {
					t.Fatal(err)
				}
				begin := time.Now()
				before = w.pids("jump")
				jump(0)
				jump(by)
				if took := time.Since(begin); took < 4*time.Second {
					break
				} else if try == 5 {
					t.Fatalf("setting the clocks took %v, which leaves no time to look", took)
				}
			}
			throughout(t, 3*time.Second, "it goes on", func() error {
				if now := w.pids("jump"); !maps.Equal(now, before) {
					return fmt.Errorf("there run %v, before it were %v", now, before)
				}
				return nil
			})
			eventually(t, 40*time.Second, "it sleeps when it is time", sleeps)
		})
		w.run("asked for, and set to "+by.String(), func(t *testing.T) {
			client := &http.Client{Timeout: requestTimeout}
			defer client.CloseIdleConnections()
			ask := func() error { _, err := fetchBy(client, x.gateway, "jump.test", "/slow?for=50ms"); return err }
			if err := ask(); err != nil {
				t.Fatal(err)
			}
			before := w.pids("jump")
			for _, to := range []time.Duration{-by, by, 0, by} {
				jump(to)
				for range 10 {
					if err := ask(); err != nil {
						t.Errorf("set to %v: %v", to, err)
					}
				}
			}
			if now := w.pids("jump"); !maps.Equal(now, before) {
				t.Errorf("there run %v, before it were %v", now, before)
			}
			jump(0)
		})
	}
	if said := w.scaling("jump.web", "edge"); said.Awake > 1 || said.Trouble != "" {
		t.Errorf("its scaling is %+v", said)
	}
}
