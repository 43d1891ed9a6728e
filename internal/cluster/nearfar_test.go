// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

var (
	munich   = api.Point{48.14, 11.58}
	augsburg = api.Point{48.37, 10.90} // 57 km from Munich
	berlin   = api.Point{52.52, 13.40} // 504 km from Munich
)

// newSpreadSim has a worker at Augsburg and one at Berlin.
func newSpreadSim(t *testing.T) (*sim, *earth) {
	s, e := newNearSim(t, "w0", "w1")
	s.know("w0", func(i *wire.WorkerInfo) { i.Location = &augsburg })
	s.know("w1", func(i *wire.WorkerInfo) { i.Location = &berlin })
	return s, e
}

// elsewhere says that db has an instance in the cluster munich, which is there.
func (s *sim) elsewhere(at api.Point, km float64, more func(*wire.Where)) {
	w := wire.Where{Disc: &wire.Disc{Center: at, RadiusKm: km}}
	if more != nil {
		more(&w)
	}
	s.m.Far["app.db"] = &wire.Route{
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
	s.elsewhere(munich, 30, nil)
	s.share("api", 1, within(100, "db"))
	e.live(3, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w0" || i.State != wire.Running {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
	// The workers are not told where clusters are, nor of what has no ports.
	if r := s.m.Routes["app.db"]; r != nil {
		t.Errorf("workers are told %+v", r)
	}
	s.m.Far["app.db"].Ports = []api.Port{{Name: "http", Protocol: "http"}}
	e.live(1, time.Second)
	if r := s.m.Routes["app.db"]; r == nil || len(r.Endpoints) != 1 || r.Where != nil {
		t.Errorf("workers are told %+v", r)
	}

	wide, e := newSpreadSim(t)
	wide.elsewhere(munich, 80, nil)
	wide.share("api", 1, within(100, "db"))
	e.live(3, time.Second)
	i := wide.inst("app.api.0")
	if want := "2 workers: 2 are not known to be within 100km of db"; i.State != wire.Requested || !strings.Contains(i.Reason, want) {
		t.Errorf("%s on %q: %q, want %q", i.State, i.Worker, i.Reason, want)
	}
	wide.elsewhere(munich, 40, nil) // now it is known better
	e.live(3, time.Second)
	if i := wide.inst("app.api.0"); i.Worker != "w0" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
}

// An agreement with a service of another cluster is violated where it cannot be kept, not
// where it may be kept.
func TestAnAgreementWithAServiceOfAnotherCluster(t *testing.T) {
	s, e := newSpreadSim(t)
	s.elsewhere(munich, 30, nil)
	s.share("api", 1, func(a *api.Service) {
		within(100, "db")(a)
		rigid(1)(a)
	})
	e.live(10, time.Second)
	s.elsewhere(munich, 80, nil)
	e.live(120, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w0" || s.moved(i.ID) != 0 || s.m.Ups[i.ID].SLAViolation != "" {
		t.Errorf("on %q after %d moves: %q", i.Worker, s.moved(i.ID), s.m.Ups[i.ID].SLAViolation)
	}
	s.elsewhere(berlin, 30, nil)
	e.live(30, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w1" || s.moved(i.ID) != 1 {
		t.Errorf("on %q after %d moves: %q", i.Worker, s.moved(i.ID), i.Reason)
	}
}

// By coordinates a service of another cluster is near only where both can be compared.
func TestCoordinatesOfAnotherCluster(t *testing.T) {
	s, e := newNearSim(t, "w0", "w5")
	s.elsewhere(munich, 30, func(w *wire.Where) {
		w.Around = &wire.Around{Center: wire.Coordinate{Error: 0.1}, Radius: api.Duration(10 * time.Millisecond)}
	})
	s.share("api", 1, nearTo("db", 100*time.Millisecond))
	e.live(15, time.Second) // nobody reaches the worker of db
	if i := s.inst("app.api.0"); i.State != wire.Requested || !strings.Contains(i.Reason, "are not known to be within 100ms of db") {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
	e.rtt[[2]string{"w5", "w-1"}] = 20 * time.Millisecond // as w5 does
	e.live(90, time.Second)
	if i := s.inst("app.api.0"); i.Worker != "w5" && i.Worker != "w0" {
		t.Errorf("%s on %q: %q", i.State, i.Worker, i.Reason)
	}
}
