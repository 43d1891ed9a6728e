package placement_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/wire"
)

func TestACordonedWorkerTakesNothingNew(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	s.Cordon("w1", &wire.Cordon{At: s.Now})
	if a := report.Aggregate(s.Model, wire.Rev{}, nil); a.Workers != 1 || a.Cordoned != 1 || a.Capacity.CPU != 1000 ||
		a.CPU.Sum != 900 {
		t.Errorf("the root is told %+v", a)
	}
	s.Share("web", 6, nil)
	s.Ticks(3, time.Second)
	if a, b := len(s.Workers["w1"].Statuses), len(s.Workers["w2"].Statuses); a != 1 || b != 5 {
		t.Fatalf("%d on the cordoned worker, %d on the other\n%s", a, b, s.Dump())
	}
	// What runs there is updated there, also by another process.
	s.Restart()
	s.Tick(time.Second)
	s.MarkRestart("web", -1)
	s.Ticks(10, time.Second)
	for o := range 6 {
		if i := s.Instance(fmt.Sprintf("app.web.%d", o)); i.Incarnation != 2 || !i.Ready {
			t.Errorf("%s: incarnation %d", i.ID, i.Incarnation)
		}
	}
	// What fails there for good goes elsewhere.
	s.Workers["w1"].Broken["web"] = "exit"
	s.MarkRestart("web", -1)
	s.Ticks(10, time.Second)
	if n := len(s.Workers["w2"].Statuses); n != 6 {
		t.Errorf("%d on the other worker\n%s", n, s.Dump())
	}
	s.Cordon("w2", &wire.Cordon{At: s.Now})
	if a := report.Aggregate(s.Model, wire.Rev{}, nil); a.Workers != 0 || a.Cordoned != 2 {
		t.Errorf("the root is told %+v", a)
	}
}
