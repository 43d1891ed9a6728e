package fleet_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/fleet"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func port(n int) func(*api.Service) {
	return func(v *api.Service) { v.Ports = []api.Port{{Name: "db", Number: n}} }
}

// Where instances share the ports of their machine, none is placed where another has the
// port that its descriptor names, and what is left waits with that reason.
func TestPortsThatAreSharedAreTakenOnce(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.UpdateInfo("w1", func(w *wire.WorkerInfo) { w.Address = "10.0.0.1:8474" })
	s.UpdateInfo("w2", func(w *wire.WorkerInfo) { w.Address = "10.0.0.2:8474" })
	s.Share("one", 1, port(5432))
	s.Ticks(3, time.Second)
	s.Share("two", 2, port(5432))
	s.Share("other", 2, port(5433))
	s.Share("any", 2, func(v *api.Service) { v.Ports = []api.Port{{Name: "http"}} })
	s.Ticks(3, time.Second)
	one, two := s.Placed("one"), s.Placed("two")
	for _, w := range []string{"w1", "w2"} {
		if one[w]+two[w] != 1 {
			t.Errorf("%s has %d and %d instances with the same port", w, one[w], two[w])
		}
	}
	if s.Running("other") != 2 || s.Running("any") != 2 {
		t.Errorf("others: %d and %d run", s.Running("other"), s.Running("any"))
	}
	const why = "2 workers: 2 have a port of the same number (port 5432 of app."
	if i := s.Instance("app.two.1"); i.State != wire.Requested || !strings.HasPrefix(i.Reason, why) ||
		!strings.HasSuffix(i.Reason, "): without the service network the instances of a worker share its ports") {
		t.Errorf("it is %s: %s", i.State, i.Reason)
	}
	s.Share("one", 0, port(5432))
	s.Ticks(30, time.Second)
	if s.Running("two") != 2 {
		t.Errorf("the port is free, and %d of 2 run\n%s", s.Running("two"), s.Dump())
	}
}

func TestPortsInTheServiceNetworkAreNobodyElses(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.UpdateInfo("w1", func(w *wire.WorkerInfo) { w.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay} })
	s.Share("one", 2, port(5432))
	s.Share("two", 2, port(5432))
	s.Ticks(3, time.Second)
	if s.Running("one") != 2 || s.Running("two") != 2 {
		t.Errorf("%d and %d of 2 run\n%s", s.Running("one"), s.Running("two"), s.Dump())
	}
}

// Workers that others reach at a loopback address are on one machine, and share its ports.
func TestPortsOfWorkersOfOneMachine(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	for _, w := range []string{"w1", "w2"} {
		s.UpdateInfo(w, func(w *wire.WorkerInfo) { w.Address = "127.0.0.1:8474" })
	}
	s.Share("one", 1, port(5432))
	s.Share("two", 1, port(5432))
	s.Ticks(3, time.Second)
	if n := s.Running("one") + s.Running("two"); n != 1 {
		t.Errorf("%d run with the same port\n%s", n, s.Dump())
	}
}

// What other clusters of the machine hold counts as well, until they let it go.
func TestPortsThatOtherClustersHold(t *testing.T) {
	var book fleet.PortBook
	edge, fog := clustertest.NewSim(t, "w1"), clustertest.NewSim(t, "w1")
	for _, s := range []*clustertest.Sim{edge, fog} {
		s.UpdateInfo("w1", func(w *wire.WorkerInfo) { w.Address = "127.0.0.1:8474" })
	}
	tell := func() {
		book.Publish("edge", fleet.PortsHeld(edge.Model))
		book.Publish("fog", fleet.PortsHeld(fog.Model))
		fleet.Memory(edge.Model).OtherPorts, fleet.Memory(fog.Model).OtherPorts = book.Others("edge"), book.Others("fog")
	}
	edge.Share("one", 1, port(5432))
	edge.Ticks(3, time.Second)
	tell()
	fog.Share("two", 1, port(5432))
	fog.Share("other", 1, port(5433))
	fog.Ticks(3, time.Second)
	if fog.Running("two") != 0 || fog.Running("other") != 1 ||
		!strings.Contains(fog.Instance("app.two.0").Reason, "app.one in cluster edge") {
		t.Errorf("%d and %d run: %s", fog.Running("two"), fog.Running("other"), fog.Instance("app.two.0").Reason)
	}
	edge.Share("one", 0, port(5432))
	edge.Ticks(30, time.Second)
	tell()
	fog.Ticks(30, time.Second)
	if fog.Running("two") != 1 {
		t.Errorf("the port is free\n%s", fog.Dump())
	}
}

// A plan says that an instance would not start, as the cluster then does.
func TestAPlanSeesPortsThatAreTaken(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Settle()
	with := func(replicas int) []byte {
		return []byte(strings.Replace(string(clustertest.Web(replicas, "a")), "{name: http,", "{name: http, number: 8080,",
			1))
	}
	plan := s.Plan(with(3), 3)
	if got := clustertest.Actions(plan.Instances); got != "0 start, 1 start, 2 wait" {
		t.Errorf("%s", got)
	}
	for _, p := range plan.Instances {
		if p.Action == rpc.PlanWait && !strings.Contains(p.Why, "a port of the same number") {
			t.Errorf("it waits: %s", p.Why)
		}
	}
}
