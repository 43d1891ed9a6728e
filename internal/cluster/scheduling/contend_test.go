package scheduling_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// placed counts the instances of a service that have a worker.
func placed(s *clustertest.Sim, svc string) (n int) {
	for _, k := range s.Placed(svc) {
		n += k
	}
	return n
}

// Services that contend by drf share what is scarce, whichever was there first by
// name, and what runs already counts; with rom the first takes it all.
func TestContendingServicesShare(t *testing.T) {
	wants := func(scheduler string) func(*api.Service) {
		return func(v *api.Service) { v.Scheduler, v.Resources = scheduler, api.Resources{CPU: 100} }
	}
	for scheduler, want := range map[string][2]int{"rom": {16, 4}, "drf": {10, 10}, "drf-worstfit": {10, 10},
		"drf-bestfit": {10, 10}, "drf-tightest": {10, 10}} {
		s := clustertest.NewSim(t, "w1", "w2")
		s.Share("a", 16, wants(scheduler))
		s.Share("b", 16, wants(scheduler))
		s.Ticks(3, time.Second)
		if a, b := placed(s, "a"), placed(s, "b"); a != want[0] || b != want[1] {
			t.Errorf("%s: %d and %d of 20 places, want %v", scheduler, a, b, want)
		}
	}
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("a", 6, wants("drf"))
	s.Ticks(3, time.Second)
	s.Share("a", 20, wants("drf"))
	s.Share("b", 20, wants("drf"))
	s.Ticks(3, time.Second)
	if a, b := placed(s, "a"), placed(s, "b"); a != 10 || b != 10 {
		t.Errorf("6 of a were there: %d and %d", a, b)
	}
}

// Namespaces share by their weights, whatever priorities their services have at home; and
// an explanation says whose turn it was.
func TestNamespacesShareByWeight(t *testing.T) {
	wants := func(priority int) func(*api.Service) {
		return func(v *api.Service) {
			v.Scheduler, v.Priority, v.Resources = "drf", priority, api.Resources{CPU: 100}
		}
	}
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("a", 20, wants(900))
	s.Namespace("a", "one", wire.Standing{})
	s.Share("b", 20, wants(0))
	s.Namespace("b", "three", wire.Standing{Weight: 3})
	s.Ticks(3, time.Second)
	if a, b := placed(s, "a"), placed(s, "b"); a != 5 || b != 15 {
		t.Fatalf("%d of a, %d of b, want 5 and 15", a, b)
	}
	var rec place.Record
	if err := json.Unmarshal(s.Disk[state.KeyWhy+"app.b.14"], &rec); err != nil {
		t.Fatal(err)
	}
	turn := rec.Decision.Request.Turn
	if turn == nil || turn.Group != "three" || turn.Weight != 3 || turn.Share < 0.65 || turn.Share > 0.75 ||
		turn.Of != "cpu" || turn.Groups != 2 {
		t.Errorf("its turn was %+v", turn)
	}
	again, err := place.Replay(rec.Decision)
	if err != nil || again.Chosen != rec.Decision.Chosen {
		t.Errorf("%v, %v", again.Chosen, err)
	}
	// Who counts for others goes first, whatever is due to whom.
	s = clustertest.NewSim(t, "w1", "w2")
	s.Share("a", 20, wants(1))
	s.Namespace("a", "one", wire.Standing{MaxPriority: 1})
	s.Share("b", 20, wants(0))
	s.Namespace("b", "three", wire.Standing{Weight: 3})
	s.Ticks(3, time.Second)
	if a, b := placed(s, "a"), placed(s, "b"); a != 20 || b != 0 {
		t.Errorf("%d of a, %d of b, want 20 and 0", a, b)
	}
}

// The scheduler of a cluster counts for services that name none.
func TestSchedulerOfTheCluster(t *testing.T) {
	for _, tc := range []struct{ own, cluster, want string }{
		{"", "", "rom"}, {"", "spread", "spread"}, {"drf-tightest", "spread", "drf-tightest"},
		{"rom", "spread", "rom"}, {"", "nonsense", ""},
	} {
		s := clustertest.NewSim(t, "w1", "w2")
		s.Model.Scheduler = tc.cluster
		s.Share("web", 1, func(v *api.Service) { v.Scheduler = tc.own })
		for _, w := range s.Model.Workers {
			w.EverHeard = true
		}
		why := reconcile.Step(s.Model, s.Now).Whys["app.web.0"]
		switch {
		case why == nil:
			t.Errorf("%+v: no decision", tc)
		case tc.want == "" && !strings.Contains(why.Decision.Reason, `no scheduler "nonsense"`):
			t.Errorf("%+v: %s", tc, why.Decision.Reason)
		case tc.want != "" && (why.Decision.Request.Scheduler != tc.want || why.Decision.Chosen == ""):
			t.Errorf("%+v: %+v", tc, why.Decision)
		}
	}
}
