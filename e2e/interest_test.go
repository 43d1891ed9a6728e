package e2e

import (
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/orders"
	"github.com/verge-edge/verge/internal/wire"
)

// routeAt is a route as a worker has stored it.
func routeAt(dir, key string) (*wire.Route, error) {
	o, err := orders.At(dir).Load()
	if err != nil {
		return nil, err
	}
	for i := range o.Routes {
		if o.Routes[i].Key() == key {
			return &o.Routes[i], nil
		}
	}
	return nil, fmt.Errorf("there is no route to %s", key)
}

// endpointsAt waits until a worker has the route to a service with so many endpoints;
// below 0: with none, since it does not use it.
func (w *world) endpointsAt(worker, key string, want int) {
	w.t.Helper()
	eventually(w.t, 20*time.Second, fmt.Sprintf("%s has %d endpoints of %s", worker, want, key), func() error {
		r, err := routeAt(w.worker[worker].dir, key)
		if err == nil && (r.Unasked != (want < 0) || len(r.Endpoints) != max(want, 0)) {
			err = fmt.Errorf("it has %+v", r)
		}
		return err
	})
}

// usesAlone: a worker knows where the instances of a service are once it is used there.
// Without its cluster what it knows goes on; what it does not know is refused with the
// reason, and works when the cluster is back.
func (w *world) usesAlone(known string) {
	w.t.Helper()
	const host = "seldom.test"
	w.root.apply(`application: seldom
services:
  front:
    command: [testprogram]
    affinity: {labels: {holds: it}}
    ports: [{name: http, ingress: {host: ` + host + `}}]
    readiness: {http: {path: /healthz}}
`)
	gateway := w.worker["edge-1"].gateway
	w.endpointsAt("edge-1", "seldom.front", -1)
	cluster := w.cluster["edge"]
	cluster.kill()
	for range 5 {
		must[who](w.t)(whoami(gateway, known, "/whoami"))
	}
	if _, err := whoami(gateway, host, "/whoami"); err == nil || !strings.Contains(err.Error(), "503") {
		w.t.Errorf("a service whose instances nobody can tell: %v", err)
	}
	cluster.start()
	cluster.answers()
	eventually(w.t, 30*time.Second, "the service that was asked for is told", func() error {
		_, err := whoami(gateway, host, "/whoami")
		return err
	})
	w.endpointsAt("edge-1", "seldom.front", 1)
}
