package e2e

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

// gated runs on both workers, and is asked by requests.
const gated = `application: site
services:
  front:
    command: [testprogram]
    replicas: 2
    anti_affinity: {service: [front]}
    ports: [{name: http, ingress: {host: ` + siteHost + `}}]
    readiness: {http: {path: /healthz}}
`

// faulty is what a router does with one of five answers that an instance of its worker has
// given. Its checks find nothing: they do not go through the router.
var faulty = []change{
	{"internal/proxy/fastpath/fastpath.go", "\tf.place.Outcome(ctx, x.Response.Status, err)\n",
		"\tif faultyAnswers.Add(1)%5 == 0 && err == nil {\n\t\terr = errors.New(\"this version breaks one of five\")\n\t}\n\tf.place.Outcome(ctx, x.Response.Status, err)\n"},
	{"internal/proxy/fastpath/fastpath.go", "// Conn is the other driver", "var faultyAnswers atomic.Int64\n\n// Conn is the other driver"},
}

// TestUpgradeToWhatBreaksRequests brings workers a version that starts, finds everything
// again, and then breaks a part of what it passes on. The first worker that has it goes
// back, and no other gets it.
func TestUpgradeToWhatBreaksRequests(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 0, "edge")
	for _, name := range []string{"edge-1", "edge-2"} {
		w.addWorker("edge", name, "--upgrades", "any")
	}
	w.allReady()
	w.root.apply(gated)
	edge, pids, was := w.cluster["edge"], w.pids("site"), w.agentVersions()
	for _, x := range w.worker {
		eventually(t, 10*time.Second, x.name+" routes to it", func() error {
			_, err := fetch(x.gateway, siteHost, "/whoami")
			return err
		})
	}
	bad := programOfVersion(t, "v9.9.10", faulty)
	reads := sendTraffic(t, siteHost, w.worker["edge-1"].gateway, w.worker["edge-2"].gateway)
	posts := sendPosts(t, siteHost, w.worker["edge-1"].gateway)

	// Nothing would end the watch but what goes wrong.
	r := verge(t, edge.contextFile(), "upgrade", "start", "--binary", bad, "--soak", "30m", "--timeout", "2m")
	if r.code != 2 || !strings.Contains(r.err, "the upgrade is halted") || !strings.Contains(r.err, "of the requests to site.front here ") {
		t.Errorf("a version that breaks requests: %+v", r)
	}
	t.Log(r.out, r.err)
	eventually(t, 60*time.Second, "all are as before", func() error {
		if now := w.agentVersions(); !maps.Equal(now, was) {
			return fmt.Errorf("they are %v, were %v", now, was)
		}
		if out := verge(t, edge.contextFile(), "upgrade", "status").out; !strings.Contains(out, "it has gone back") {
			return fmt.Errorf("the status is\n%s", out)
		}
		return nil
	})
	good, failed := posts.count()
	t.Logf("of %d requests that nobody repeats %d failed before it had gone back", good+failed, failed)
	if failed == 0 {
		t.Error("the version broke no request, so that nothing was tried")
	}
	reads.stop()
	posts.stop()
	w.undisturbed(t, w.worker["edge-1"], func() { w.root.holds("site", 20*time.Second) })
	if now := w.pids("site"); !maps.Equal(now, pids) {
		t.Errorf("processes of instances were %v, are %v", pids, now)
	}
	// A sound version is not taken for one, and nobody has to do away with the first.
	w.undisturbed(t, w.worker["edge-1"], func() {
		t.Log(edge.ok("upgrade", "start", "--binary", w.nextProgram(), "--soak", "10s", "--timeout", "3m"))
	})
	wantEqual(t, "versions", fmt.Sprint(w.agentVersions()), fmt.Sprint(map[string]string{"edge-1": nextVersion, "edge-2": nextVersion}))
}
