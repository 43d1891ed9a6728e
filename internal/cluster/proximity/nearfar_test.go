package proximity_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/wire"
)

var (
	munich   = api.Point{48.14, 11.58}
	augsburg = api.Point{48.37, 10.90} // 57 km from Munich
	berlin   = api.Point{52.52, 13.40} // 504 km from Munich
)

// newSpreadSim has a worker at Augsburg and one at Berlin.
func newSpreadSim(t *testing.T) (*clustertest.Sim, *clustertest.Network) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w1")
	s.UpdateInfo("w0", func(i *wire.WorkerInfo) { i.Location = &augsburg })
	s.UpdateInfo("w1", func(i *wire.WorkerInfo) { i.Location = &berlin })
	return s, e
}

// elsewhere says that db has an instance in the cluster munich, which is there.
func elsewhere(s *clustertest.Sim, at api.Point, km float64, more func(*wire.Where)) {
	w := wire.Where{Disc: &wire.Disc{Center: at, RadiusKm: km}}
	if more != nil {
		more(&w)
	}
	s.Model.Far["app.db"] = &wire.Route{
		V: wire.Version, App: "app", Service: "db", Where: map[string]wire.Where{"munich": w},
		Endpoints: []wire.Endpoint{{Instance: "app.db.0", Cluster: "munich", Worker: "w-1", Address: "192.0.2.1:8474"}},
	}
}

func within(km float64, to string) func(*api.Service) {
	return func(a *api.Service) {
		a.Latency = append(a.Latency, api.Latency{To: to, Distance: api.Distance(km * 1000)})
	}
}

// A service whose instances are in another cluster is anywhere where that cluster is.
func TestDistanceToAServiceOfAnotherCluster(t *testing.T) {
	s, e := newSpreadSim(t)
	elsewhere(s, munich, 30, nil)
	s.Share("api", 1, within(100, "db"))
	e.Run(3, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w0" || i.State != wire.Running {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
	// The workers are not told where clusters are, nor of what has no ports.
	if r := s.Model.Routes["app.db"]; r != nil {
		t.Errorf("workers are told %+v", r)
	}
	s.Model.Far["app.db"].Ports = []api.Port{{Name: "http", Protocol: "http"}}
	e.Run(1, time.Second)
	if r := s.Model.Routes["app.db"]; r == nil || len(r.Endpoints) != 1 || r.Where != nil {
		t.Errorf("workers are told %+v", r)
	}

	wide, e := newSpreadSim(t)
	elsewhere(wide, munich, 80, nil)
	wide.Share("api", 1, within(100, "db"))
	e.Run(3, time.Second)
	i := wide.Instance("app.api.0")
	if want := "2 workers: 2 are not known to be within 100km of db"; i.State != wire.Requested ||
		!strings.Contains(i.Reason, want) {
		t.Errorf("%s on %q: %q, want %q", i.State, i.Worker, i.Reason, want)
	}
	elsewhere(wide, munich, 40, nil) // now it is known better
	e.Run(3, time.Second)
	if i := wide.Instance("app.api.0"); i.Worker != "w0" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
}

// An agreement with a service of another cluster is violated where it cannot be kept, not
// where it may be kept.
func TestAnAgreementWithAServiceOfAnotherCluster(t *testing.T) {
	s, e := newSpreadSim(t)
	elsewhere(s, munich, 30, nil)
	s.Share("api", 1, func(a *api.Service) {
		within(100, "db")(a)
		clustertest.Rigid(1)(a)
	})
	e.Run(10, time.Second)
	elsewhere(s, munich, 80, nil)
	e.Run(120, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w0" || s.Moves(i.ID) != 0 || s.Model.Ups[i.ID].SLAViolation != "" {
		t.Errorf("on %q after %d moves: %q", i.Worker, s.Moves(i.ID), s.Model.Ups[i.ID].SLAViolation)
	}
	elsewhere(s, berlin, 30, nil)
	e.Run(30, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w1" || s.Moves(i.ID) != 1 {
		t.Errorf("on %q after %d moves: %q", i.Worker, s.Moves(i.ID), i.Reason)
	}
}

// By coordinates a service of another cluster is near only where both can be compared.
func TestCoordinatesOfAnotherCluster(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	elsewhere(s, munich, 30, func(w *wire.Where) {
		w.Around = &wire.Around{Center: wire.Coordinate{Error: 0.1}, Radius: api.Duration(10 * time.Millisecond)}
	})
	s.Share("api", 1, clustertest.NearTo("db", 100*time.Millisecond))
	e.Run(15, time.Second) // nobody reaches the worker of db
	if i := s.Instance("app.api.0"); i.State != wire.Requested ||
		!strings.Contains(i.Reason, "are not known to be within 100ms of db") {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
	e.RTT[[2]string{"w5", "w-1"}] = 20 * time.Millisecond // as w5 does
	e.Run(90, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w5" && i.Worker != "w0" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
}
