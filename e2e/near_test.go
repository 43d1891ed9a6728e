package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// An instance that must be near a service is placed where that was measured, and
// explain says who was too far. One worker is 120 ms away from all others, since what is
// sent to its address takes so long.
func TestPlacedNearAService(t *testing.T) {
	w := newWorld(t, 1, "edge")
	data := freeAddr(t)
	w.addWorker("edge", "far", "--data", data, "--advertise", longLine(t, data, 60*time.Millisecond), "--label", "at=far", "--location", "48.14,11.58")
	w.allReady()
	descriptor := `application: near
services:
  api:
    command: [testprogram]
    scheduler: ldp
    latency: [{to: web, max: 50ms}]
  web:
    command: [testprogram]
    affinity: {labels: {at: far}}
  there:
    command: [testprogram]
    latency: [{to: "48.37,10.90", distance: 100km, max: 5ms}]
`
	// A plan measures what nobody has measured yet, and so does not have to wait.
	eventually(t, 20*time.Second, "it is planned, when the root knows of the worker", func() error {
		r := verge(t, w.root.contextFile(), "plan", w.file("app-", descriptor))
		if planned := r.out; r.code != 0 || strings.Count(planned, "edge/far ") != 3 || strings.Contains(planned, "edge-1") {
			return fmt.Errorf("exit code %d:\n%s", r.code, planned)
		}
		return nil
	})
	w.root.apply(descriptor)
	if own := ownAddress(); own != "" { // users who are on this machine are near all its workers
		w.root.apply(strings.ReplaceAll(`application: users
services:
  api:
    command: [testprogram]
    latency: [{to: OWN, max: 1s}]
`, "OWN", own))
		if said := w.root.ok("explain", "users.api.0"); !strings.Contains(said, "near "+own+" (1s)") {
			t.Error(said)
		}
	}
	for id, i := range w.root.instances("near") {
		if i.Worker != "far" {
			t.Errorf("%s is on %s", id, i.Worker)
		}
	}
	said := w.root.ok("explain", "near.api.0")
	for _, want := range []string{"near web (50ms)", "removed      1 by latency, for example edge-1: is not within 50ms of web: 12", "latency_ms 0"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
}

// What a service reads says where it runs: the cluster that owns the object, whatever room
// others have; and what is there only since it was read counts as well.
func TestPlacedNearItsData(t *testing.T) {
	t.Parallel()
	w := newRoot(t)
	for _, name := range []string{"edge", "fog"} {
		w.addCluster(name)
		w.cluster[name].answers()
	}
	w.addWorker("edge", "edge-1")
	w.addWorker("fog", "fog-1")
	w.addWorker("fog", "fog-2")
	w.allReady()
	descriptor := func(app, object string) string {
		return strings.NewReplacer("APP", app, "OBJECT", object).Replace(`application: APP
services:
  web:
    command: [testprogram]
    replicas: 3
    data: [OBJECT]
`)
	}
	in := func(app, name string) error {
		r := verge(t, w.root.contextFile(), "plan", w.file("app-", descriptor(app, name)))
		if n := strings.Count(r.out, "cluster edge") + strings.Count(r.out, " edge"); r.code != 0 || n < 3 || strings.Contains(r.out, " fog") {
			return fmt.Errorf("exit code %d:\n%s", r.code, r.out+r.err)
		}
		return nil
	}
	client := w.root.client()
	eventually(t, 20*time.Second, "the root knows what the workers of both clusters run", func() error {
		list, err := client.Clusters.List(t.Context())
		for _, c := range list {
			if a := c.Aggregate; err == nil && (a == nil || !slices.Contains(a.Runtimes, "process")) {
				err = fmt.Errorf("nothing is known of %s", c.Name)
			}
		}
		return err
	})
	w.cluster["edge"].ok("object", "put", "models/cats", w.file("cats-", "miaow"))
	eventually(t, 20*time.Second, "it is planned in the cluster that has the object, when the root knows", func() error { return in("near", "models/cats") })
	w.root.apply(descriptor("near", "models/cats"))
	for id, i := range w.root.instances("near") {
		wantEqual(t, "cluster of "+id, i.Cluster, "edge")
	}
	said := w.root.ok("explain", "near.web.0")
	for _, want := range []string{"objects models/cats", "objects 1", "objects 0"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
	w.root.ok("object", "put", "models/dogs", w.file("dogs-", "woof"))
	w.cluster["edge"].ok("object", "get", "models/dogs", filepath.Join(t.TempDir(), "copy"))
	eventually(t, 20*time.Second, "it is planned where the copy is", func() error { return in("copied", "models/dogs") })
}

// An instance that has come to be too far from what it must be near moves to where it is
// near, and explain and the events say why. Its worker is 10 ms away from that of the
// service at first, and then 200 ms.
func TestAnAgreementMovesAnInstance(t *testing.T) {
	w := newWorld(t, 1, "edge")
	data := freeAddr(t)
	var each atomic.Int64
	each.Store(int64(5 * time.Millisecond))
	w.addWorker("edge", "far", "--data", data, "--advertise", elasticLine(t, data, &each), "--label", "at=far")
	w.allReady()
	w.root.apply(`application: near
services:
  web:
    command: [testprogram]
    affinity: {labels: {at: far}}
`)
	w.cluster["edge"].ok("cordon", "worker/far")
	w.root.apply(`application: near
services:
  web:
    command: [testprogram]
    affinity: {labels: {at: far}}
  api:
    command: [testprogram]
    latency: [{to: web, max: 100ms}]
    rigidness: 1
`)
	wantEqual(t, "worker", w.root.instances("near")["near.api.0"].Worker, "edge-1")
	w.cluster["edge"].ok("uncordon", "worker/far")
	each.Store(int64(100 * time.Millisecond))
	eventually(t, 60*time.Second, "it moves to the worker of the service", func() error {
		i := w.root.instances("near")["near.api.0"]
		return errors.Join(differs("worker", i.Worker, "far"), differs("ready", i.Ready, true))
	})
	said := w.root.ok("describe", "instance/near.api.0")
	if want := "moved to another worker: 1 of the last"; !strings.Contains(said, want) {
		t.Errorf("%q is missing in\n%s", want, said)
	}
}

// A replica follows its requests: they come in at a worker that is far from where it runs,
// and after a while it runs there, while every request is answered.
func TestDemandIsFollowed(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge")
	data := freeAddr(t)
	far := w.addWorker("edge", "far", "--data", data, "--advertise", longLine(t, data, 60*time.Millisecond))
	w.allReady()
	w.cluster["edge"].ok("cordon", "worker/far")
	w.root.apply(`application: near
services:
  web:
    command: [testprogram]
    scheduler: nearest-demand
    readiness: {http: {path: /healthz}}
    ports: [{name: http, ingress: {host: near.test}}]
`)
	wantEqual(t, "worker", w.root.instances("near")["near.web.0"].Worker, "edge-1")
	w.cluster["edge"].ok("uncordon", "worker/far")
	eventually(t, 20*time.Second, "the gateway of far answers", func() error {
		_, err := whoami(far.gateway, "near.test", "/whoami")
		return err
	})
	asked(t, far.gateway, "near.test", "it runs where its requests are", func() error {
		i := w.root.instances("near")["near.web.0"]
		return errors.Join(differs("worker", i.Worker, "far"), differs("ready", i.Ready, true))
	})
	for what, want := range map[string]string{"describe": "moved to another worker: requests come from elsewhere now: expected ", "explain": "a second: "} {
		if said := w.root.ok(what, "instance/near.web.0"); !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
}

// A replica follows its requests to another cluster as well.
func TestDemandIsFollowedToAnotherCluster(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 1, "edge", "fog")
	w.root.apply(`application: near
services:
  web:
    command: [testprogram]
    scheduler: nearest-demand
    readiness: {http: {path: /healthz}}
    ports: [{name: http, ingress: {host: near.test}}]
`)
	first := "edge"
	for _, i := range w.root.instances("near") {
		first = i.Cluster
	}
	other := map[string]string{"edge": "fog", "fog": "edge"}[first]
	gateway := w.worker[other+"-1"].gateway
	eventually(t, 20*time.Second, "the other cluster's gateway answers", func() error {
		_, err := whoami(gateway, "near.test", "/whoami")
		return err
	})
	asked(t, gateway, "near.test", "it runs in the cluster where its requests are, and nowhere else", func() error {
		all := w.root.instances("near")
		for _, i := range all {
			if i.Cluster != other || !i.Ready || len(all) != 1 {
				return fmt.Errorf("%d, one of them in %s, ready %v", len(all), i.Cluster, i.Ready)
			}
		}
		return nil
	})
}

// asked asks through a gateway all the while until something is so. Each request is
// answered.
func asked(t *testing.T, gateway, host, what string, is func() error) {
	t.Helper()
	load := startLoad(t, []string{gateway}, func(gateway string, _ int) (*http.Request, string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gateway+"/whoami", nil)
		if err == nil {
			r.Host = host
		}
		return r, "", err
	})
	eventually(t, 3*time.Minute, what, is)
	failed, sent := 0, load.stop()
	for _, s := range sent {
		if s.err != nil {
			failed++
			t.Errorf("a request failed: %v", s.err)
		}
	}
	t.Logf("%d of %d requests failed", failed, len(sent))
}

// ownAddress is an address of this machine that is not the loopback's, "" if there is
// none.
func ownAddress() string {
	all, _ := net.InterfaceAddrs() // none is none
	for _, a := range all {
		n, ok := a.(*net.IPNet)
		if ok && netip.MustParsePrefix("10.77.0.0/16").Contains(netip.MustParseAddr(n.IP.String())) {
			continue // of machines that other tests make, and which end with them
		}
		if ok && n.IP.To4() != nil && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			return n.IP.String()
		}
	}
	return ""
}

// A service may have to be near one in another cluster, of which its own knows no more
// than where that cluster is.
func TestNearAServiceOfAnotherCluster(t *testing.T) {
	t.Parallel() // it waits much more than it computes
	w := newWorld(t, 0, "edge", "fog")
	w.addWorker("edge", "augsburg", "--location", "48.37,10.90")
	w.addWorker("edge", "berlin", "--location", "52.52,13.40")
	w.addWorker("fog", "munich", "--location", "48.14,11.58")
	w.allReady()
	w.root.apply(`application: near
services:
  db:
    command: [testprogram]
    affinity: {cluster: [fog]}
  api:
    command: [testprogram]
    affinity: {cluster: [edge]}
    latency: [{to: db, distance: 100km}]
`)
	wantEqual(t, "worker", w.root.instances("near")["near.api.0"].Worker, "augsburg")
	said := w.root.ok("explain", "near.api.0")
	for _, want := range []string{"near db (100km)", "removed      1 by distance, for example berlin: is not within 100km of db: up to 5"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is missing in\n%s", want, said)
		}
	}
}
