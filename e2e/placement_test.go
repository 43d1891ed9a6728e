package e2e

import (
	"fmt"
	"strings"
	"testing"
)

// TestPlacement: what nodes say about themselves decides where instances run, and
// a descriptor that asks for something else moves only what has to.
func TestPlacement(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	w.addCluster("edge", "--label", "site=shop", "--operator", "ACME Ltd.", "--location", "48,11")
	w.addCluster("fog")
	w.cluster["edge"].answers()
	w.cluster["fog"].answers()
	w.addWorker("edge", "edge-1", "--label", "disk=hdd", "--location", "48.137,11.575")
	w.addWorker("edge", "edge-2", "--label", "disk=ssd", "--location", "48.2,11.6")
	w.addWorker("fog", "fog-1", "--label", "disk=ssd", "--location", "52.52,13.4")
	w.allReady()

	app := func(rules string) string {
		return "application: places\nservices:\n  web:\n    command: [testprogram]\n    replicas: 2\n    ports: [{name: http}]\n    " +
			strings.ReplaceAll(rules, "\n", "\n    ") + "\n"
	}
	// at lists where the instances run, and the pid of each there.
	at := func() (where string, pids map[string]int) {
		count := map[string]int{}
		for _, i := range w.root.instances("places") {
			count[strings.TrimPrefix(i.Worker, i.Cluster+"/")]++
		}
		return fmt.Sprint(count), w.pids("places")
	}

	w.root.apply(app("affinity: {cluster: [edge]}\nanti_affinity: {service: [web]}"))
	where, before := at()
	wantEqual(t, "one on each worker of the edge", where, "map[edge-1:1 edge-2:1]")

	w.root.apply(app("affinity: {labels: {site: shop, disk: ssd}}"))
	where, now := at()
	wantEqual(t, "on the worker with both labels, one of the cluster", where, "map[edge-2:2]")
	stayed := 0
	for id, pid := range now {
		if before[id] == pid {
			stayed++
		}
	}
	wantEqual(t, "processes that had to move and did not restart", stayed, 1)

	w.root.apply(app("location: {latitude: 52.5, longitude: 13.4, radius: 30km}"))
	where, _ = at()
	wantEqual(t, "within 30 km of a point", where, "map[fog-1:2]")

	w.root.apply(app("affinity: {polygon: [[47, 10], [47, 13], [50, 13], [50, 10]], cluster: [edge]}\nanti_affinity: {labels: {disk: hdd}}"))
	where, _ = at()
	wantEqual(t, "in an area, without a label", where, "map[edge-2:2]")

	r := verge(t, w.root.contextFile(), "apply", "--timeout", "3s", w.file("app-", app("affinity: {labels: {disk: tape}}")))
	if r.code != 2 || !strings.Contains(r.out+r.err, "label disk=tape") {
		t.Errorf("a label that nobody has: exit code %d\n%s%s", r.code, r.out, r.err)
	}
	if text := w.root.ok("describe", "cluster/edge"); !strings.Contains(text, "ACME Ltd.") || !strings.Contains(text, "site=shop (2)") || !strings.Contains(text, "Workers stand") {
		t.Errorf("the root shows of the cluster\n%s", text)
	}
	if text := w.root.ok("get", "workers", "-o", "wide"); !strings.Contains(text, "48.137,11.575") {
		t.Errorf("workers\n%s", text)
	}
}
