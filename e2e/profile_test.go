package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire/rpc"
)

// uneven is a service that is four times as fast on edge-1 as on edge-2.
const uneven = `application: pace
services:
  web:
    command: [testprogram]
    env: {PACE_EDGE_1: 20ms, PACE_EDGE_2: 80ms%s}
    replicas: 2
    concurrency: 4
    policy: %s
    readiness:
      http: {path: /healthz}
    ports: [{name: http, ingress: {host: pace.example}}]
`

// TestProfile measures what two workers of unequal speed do with a service. Requests
// are shared by it from then on: what is written in the study is what happens.
func TestProfile(t *testing.T) {
	w := newWorld(t, 2, "edge")
	w.root.apply(fmt.Sprintf(uneven, "", "weighted"))
	w.root.ok("wait", "service/pace.web", "--timeout", "30s")

	// Without a profile processors count, of which both have as many.
	w.sharesOf(t, 40, 0.5)
	if r := decode[rpc.ProfileReport](t, w.root.ok("profile", "pace.web", "--show", "-o", "json")); r.Stored || len(r.Nodes) != 0 {
		t.Errorf("nothing was measured, and %+v is stored", r)
	}

	// What fails is not kept, nor is what is only tried.
	r := verge(t, w.root.contextFile(), "profile", "pace.web", "--path", "/nowhere", "--for", "2s")
	if r.code == 0 || !strings.Contains(r.err, "answered 404") || !strings.Contains(r.err, "nothing was stored") {
		t.Errorf("a path that is not there: %+v", r)
	}
	tried := decode[rpc.ProfileReport](t, w.root.ok("profile", "pace.web", "--path", "/paced", "--for", "1s", "--dry-run", "-o", "json"))
	wantEqual(t, "kept after a dry run", tried.Stored, false)
	w.sharesOf(t, 40, 0.5)

	got := decode[rpc.ProfileReport](t, w.root.ok("profile", "pace.web", "--path", "/paced", "--for", "3s", "-o", "json"))
	if !got.Stored || len(got.Nodes) != 2 {
		t.Fatalf("%+v", got)
	}
	rate := map[string]float64{}
	for _, n := range got.Nodes {
		if n.Worker == "" || n.Instances != 1 || n.Requests == 0 || n.Errors != 0 || n.From != rpc.WeightProfile || n.P50 <= 0 || n.P99 < n.P50 || n.Concurrency != 4 {
			t.Errorf("%+v", n)
		}
		rate[n.Worker] = n.Rate
	}
	// 4 at a time of 20 ms each, and of 80 ms; a busy machine makes both slower.
	if ratio := rate["edge-1"] / rate["edge-2"]; ratio < 2.5 || ratio > 5 {
		t.Errorf("edge-1 does %.1f/s and edge-2 %.1f/s", rate["edge-1"], rate["edge-2"])
	}
	share := rate["edge-1"] / (rate["edge-1"] + rate["edge-2"])
	w.sharesOf(t, 200, share)
	if out := w.root.ok("explain", "route", "pace.web", "--from", "edge/edge-1"); !strings.Contains(out, "as it was measured") || !strings.Contains(out, "weight 256.0") {
		t.Errorf("explain route says\n%s", out)
	}
	if out := w.root.ok("audit", "--limit", "20"); !strings.Contains(out, "start-profile") || !strings.Contains(out, "keep-profile") {
		t.Errorf("the audit log has\n%s", out)
	}

	// It outlives the orchestrator, and is used though another program runs by now.
	edge := w.cluster["edge"]
	edge.kill()
	edge.start()
	edge.answers()
	w.root.apply(fmt.Sprintf(uneven, ", NEW: program", "billiard"))
	w.root.ok("wait", "service/pace.web", "--timeout", "30s")
	eventually(t, 30*time.Second, "the profile is old", func() error {
		shown := decode[rpc.ProfileReport](t, edge.ok("profile", "pace.web", "--show", "-o", "json"))
		if len(shown.Nodes) != 2 || !shown.Nodes[0].Old || shown.Nodes[0].From != rpc.WeightOld || shown.Nodes[0].Rate != rate[shown.Nodes[0].Worker] {
			return fmt.Errorf("%+v", shown)
		}
		return nil
	})
	w.sharesOf(t, 200, share)

	// Who breaks off leaves what is stored alone.
	goes := w.root.goesOn("profile", "pace.web", "--path", "/paced", "--for", "60s")
	goes.says(t, "is kept busy")
	if r := verge(t, w.root.contextFile(), "profile", "pace.web", "--for", "1s"); r.code == 0 || !strings.Contains(r.err, "it is being profiled already") {
		t.Errorf("a second one: %+v", r)
	}
	if err := goes.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = goes.cmd.Wait() // its exit code is looked at
	wantEqual(t, "exit code after Ctrl-C", goes.cmd.ProcessState.ExitCode(), 1)
	w.sharesOf(t, 200, share)

	w.root.ok("profile", "pace.web", "--forget")
	w.sharesOf(t, 40, 0.5)
}

// sharesOf asks through the gateway of edge-1 until so many requests in a row were
// shared as is wanted: a new weight is there a moment after it is stored.
func (w *world) sharesOf(t *testing.T, n int, want float64) {
	t.Helper()
	eventually(t, 30*time.Second, fmt.Sprintf("%.3f of the requests go to edge-1", want), func() error {
		here := 0
		for range n {
			req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+w.worker["edge-1"].gateway+"/whoami", http.NoBody))
			req.Host = "pace.example"
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				return err
			}
			var who struct{ Worker string }
			err = json.NewDecoder(resp.Body).Decode(&who)
			_ = resp.Body.Close()
			if err != nil || resp.StatusCode != http.StatusOK {
				return fmt.Errorf("%s: %w", resp.Status, err)
			}
			if who.Worker == "edge-1" {
				here++
			}
		}
		if got := float64(here) / float64(n); math.Abs(got-want) > 0.03 {
			return fmt.Errorf("%d of %d went to edge-1, which is %.3f and not %.3f", here, n, got, want)
		}
		return nil
	})
}
