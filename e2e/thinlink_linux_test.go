package e2e

import (
	"context"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/lab"
)

const thinFile = `
seed: 13
links: {default: {latency: 10ms}}
hosts:
  root: {role: root}
  edge: {role: cluster, flags: [--interval, 2s]}
  w-1:  {role: worker, cluster: edge, flags: [--network, loopback]}
`

const thinApp = `application: thin
services:
  one:
    command: [sh, -c, "head -c 20000000 /dev/urandom > big; exec testprogram"]
    resources: {memory: 512Mi}
    ports: [{name: http}]
    readiness: {http: {path: /healthz}}
`

// TestSessionsLeaveRoomForHeartbeats fills the line of a worker, of 1 Mbit/s, by all that
// people may have carried over it, in both directions at the same time. What its cluster
// must hear of it to know that it is there comes through all the while.
func TestSessionsLeaveRoomForHeartbeats(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	s := terrainOf(t, "thin", thinFile)
	s.apply("thin", thinApp)
	rate, buffer := api.Bitrate(1_000_000), api.Bytes(256<<10)
	if _, err := s.Set("w-1", "edge", lab.LinkSpec{Rate: &rate, Buffer: &buffer}, false); err != nil {
		t.Fatal(err)
	}
	dir := newDir(t)
	client := must[*client.Client](t)(s.Client("edge"))
	as := []string{"--context", s.Dir("edge") + "/context.yaml"}
	start := func(args ...string) {
		t.Helper()
		if _, err := s.Start("edge", programs.verge, append(args, as...)...); err != nil {
			t.Fatal(err)
		}
	}
	start("port-forward", "thin.one.0", "18080:http")
	at := "127.0.0.1:18080"
	eventually(t, 20*time.Second, "the port is forwarded", func() error {
		_, err := s.fetch("edge", at, "", "/healthz", 5*time.Second)
		return err
	})
	s.output("edge", "sh", "-c", "head -c 20000000 /dev/urandom > "+filepath.Join(dir, "up"))
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var mu sync.Mutex
	carried := int64(0)
	for range 2 { // two downloads through one forward
		all.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+at+"/file?name=big", nil)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := (&http.Client{Transport: s.transport("edge")}).Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = resp.Body.Close() }() // read only
			b := make([]byte, 32<<10)
			for {
				n, err := resp.Body.Read(b)
				mu.Lock()
				carried += int64(n)
				mu.Unlock()
				if err != nil {
					if ctx.Err() == nil {
						t.Errorf("a forwarded connection ended: %v", err)
					}
					return
				}
			}
		})
	}
	start("cp", "thin.one.0:big", filepath.Join(dir, "down"))
	start("cp", filepath.Join(dir, "up"), "thin.one.0:up")

	oldest := time.Duration(0)
	begun := time.Now()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ; time.Since(begun) < 40*time.Second; <-tick.C {
		list, err := client.Workers.List(t.Context())
		if err != nil || len(list) != 1 {
			t.Fatalf("%d workers, %v", len(list), err)
		}
		oldest = max(oldest, time.Duration(list[0].AgeSeconds*float64(time.Second)))
		if list[0].Status != "ready" {
			t.Errorf("after %s the worker is %s, and %.1f s old", time.Since(begun).Round(time.Millisecond), list[0].Status, list[0].AgeSeconds)
		}

	}
	mu.Lock()
	if carried < 200_000 {
		t.Errorf("%d bytes came through the forward, so that the line was not filled", carried)
	}
	t.Logf("the oldest that was known of it was %s; %d bytes came through the forward", oldest.Round(10*time.Millisecond), carried)
	mu.Unlock()
}
