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

func port(n int) func(*api.Service) {
	return func(v *api.Service) { v.Ports = []api.Port{{Name: "db", Number: n}} }
}

// Where instances share the ports of their machine, none is placed where another has the
// port that its descriptor names, and what is left waits with that reason.
func TestPortsThatAreSharedAreTakenOnce(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.know("w1", func(w *wire.WorkerInfo) { w.Address = "10.0.0.1:8474" })
	s.know("w2", func(w *wire.WorkerInfo) { w.Address = "10.0.0.2:8474" })
	s.share("one", 1, port(5432))
	s.ticks(3, time.Second)
	s.share("two", 2, port(5432))
	s.share("other", 2, port(5433))
	s.share("any", 2, func(v *api.Service) { v.Ports = []api.Port{{Name: "http"}} })
	s.ticks(3, time.Second)
	one, two := s.on("one"), s.on("two")
	for _, w := range []string{"w1", "w2"} {
		if one[w]+two[w] != 1 {
			t.Errorf("%s has %d and %d instances with the same port", w, one[w], two[w])
		}
	}
	if s.running("other") != 2 || s.running("any") != 2 {
		t.Errorf("others: %d and %d run", s.running("other"), s.running("any"))
	}
	const why = "2 workers: 2 have a port of the same number (port 5432 of app."
	if i := s.inst("app.two.1"); i.State != wire.Requested || !strings.HasPrefix(i.Reason, why) || !strings.HasSuffix(i.Reason, "): without the service network the instances of a worker share its ports") {
		t.Errorf("it is %s: %s", i.State, i.Reason)
	}
	s.share("one", 0, port(5432))
	s.ticks(30, time.Second)
	if s.running("two") != 2 {
		t.Errorf("the port is free, and %d of 2 run\n%s", s.running("two"), s.dump())
	}
}

func TestPortsInTheServiceNetworkAreNobodyElses(t *testing.T) {
	s := newSim(t, "w1")
	s.know("w1", func(w *wire.WorkerInfo) { w.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay} })
	s.share("one", 2, port(5432))
	s.share("two", 2, port(5432))
	s.ticks(3, time.Second)
	if s.running("one") != 2 || s.running("two") != 2 {
		t.Errorf("%d and %d of 2 run\n%s", s.running("one"), s.running("two"), s.dump())
	}
}

// Workers that others reach at a loopback address are on one machine, and share its ports.
func TestPortsOfWorkersOfOneMachine(t *testing.T) {
	s := newSim(t, "w1", "w2")
	for _, w := range []string{"w1", "w2"} {
		s.know(w, func(w *wire.WorkerInfo) { w.Address = "127.0.0.1:8474" })
	}
	s.share("one", 1, port(5432))
	s.share("two", 1, port(5432))
	s.ticks(3, time.Second)
	if n := s.running("one") + s.running("two"); n != 1 {
		t.Errorf("%d run with the same port\n%s", n, s.dump())
	}
}

// What other clusters of the machine hold counts as well, until they let it go.
func TestPortsThatOtherClustersHold(t *testing.T) {
	var book PortBook
	edge, fog := newSim(t, "w1"), newSim(t, "w1")
	for _, s := range []*sim{edge, fog} {
		s.know("w1", func(w *wire.WorkerInfo) { w.Address = "127.0.0.1:8474" })
	}
	tell := func() {
		book.publish("edge", edge.m.portsHeld())
		book.publish("fog", fog.m.portsHeld())
		edge.m.otherPorts, fog.m.otherPorts = book.others("edge"), book.others("fog")
	}
	edge.share("one", 1, port(5432))
	edge.ticks(3, time.Second)
	tell()
	fog.share("two", 1, port(5432))
	fog.share("other", 1, port(5433))
	fog.ticks(3, time.Second)
	if fog.running("two") != 0 || fog.running("other") != 1 || !strings.Contains(fog.inst("app.two.0").Reason, "app.one in cluster edge") {
		t.Errorf("%d and %d run: %s", fog.running("two"), fog.running("other"), fog.inst("app.two.0").Reason)
	}
	edge.share("one", 0, port(5432))
	edge.ticks(30, time.Second)
	tell()
	fog.ticks(30, time.Second)
	if fog.running("two") != 1 {
		t.Errorf("the port is free\n%s", fog.dump())
	}
}

// A plan says that an instance would not start, as the cluster then does.
func TestAPlanSeesPortsThatAreTaken(t *testing.T) {
	s := newSite(t)
	s.settle()
	with := func(replicas int) []byte {
		return []byte(strings.Replace(string(web(replicas, "a")), "{name: http,", "{name: http, number: 8080,", 1))
	}
	plan := s.ask(with(3), 3)
	if got := actions(plan.Instances); got != "0 start, 1 start, 2 wait" {
		t.Errorf("%s", got)
	}
	for _, p := range plan.Instances {
		if p.Action == wire.PlanWait && !strings.Contains(p.Why, "a port of the same number") {
			t.Errorf("it waits: %s", p.Why)
		}
	}
}
