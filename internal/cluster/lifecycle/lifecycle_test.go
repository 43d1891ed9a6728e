package lifecycle_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestALostWorkerIsReplacedAfterItsTimeAndNotBefore(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	after := api.Duration(20 * time.Second)
	s.Share("web", 2, func(v *api.Service) { v.ReplaceAfter = &after })
	s.Ticks(3, time.Second)
	s.Workers["w1"].Alive = false
	s.Tick(time.Second)
	if ready, suspect := s.Endpoints("web"); ready != 1 || suspect != 1 {
		t.Fatalf("after the loss: %d ready, %d suspect endpoints, want 1 and 1", ready, suspect)
	}
	s.Ticks(18, time.Second)
	if n := s.Running("web"); n != 1 {
		t.Fatalf("replaced before replace_after: %d run\n%s", n, s.Dump())
	}
	s.Ticks(5, time.Second)
	if n := s.Running("web"); n != 2 {
		t.Fatalf("%d run after replace_after, want 2\n%s", n, s.Dump())
	}
	if ready, suspect := s.Endpoints("web"); ready != 2 || suspect != 0 {
		t.Errorf("%d ready, %d suspect endpoints, want 2 and 0", ready, suspect)
	}
}

// A worker that nobody hears may answer requests all the same. As long as nothing
// runs in the place of what it had, routers may try it.
func TestALostPlacementServesUntilItIsReplaced(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	zero := api.Duration(0)
	s.Share("web", 1, func(v *api.Service) { v.ReplaceAfter = &zero })
	s.Ticks(3, time.Second)
	s.Workers["w1"].Linked = false
	s.Ticks(40, time.Second)
	if ready, suspect := s.Endpoints("web"); ready != 0 || suspect != 1 {
		t.Errorf("nobody can replace it: %d ready, %d suspect endpoints, want 0 and 1", ready, suspect)
	}
	if up := s.Model.Ups["app.web.0"]; up.Address != "w1:8474" || up.State == wire.Running {
		t.Errorf("the root is told %+v", up)
	}
	s.AddWorker("w2")
	s.Ticks(3, time.Second)
	if ready, suspect := s.Endpoints("web"); ready != 1 || suspect != 0 {
		t.Errorf("it is replaced: %d ready, %d suspect endpoints, want 1 and 0", ready, suspect)
	}
}

// The only worker is away for longer than replace_after, and its instance goes on
// there: what is back is kept as it was, and nothing is started again.
func TestTheOnlyWorkerComesBackWithWhatItRan(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	s.Workers["w1"].Linked = false
	s.Ticks(120, time.Second)
	up := s.Model.Ups["app.web.0"]
	if up.State != wire.Requested || !up.Retained {
		t.Errorf("the root is told %+v", up)
	}
	s.Workers["w1"].Linked = true
	s.Ticks(3, time.Second)
	if i := s.Instance("app.web.0"); i.State != wire.Running || !i.Ready || i.Incarnation != 1 ||
		s.Workers["w1"].Starts != 2 || s.Model.Ups[i.ID].Retained {
		t.Errorf("%d starts, want those from before\n%s", s.Workers["w1"].Starts, s.Dump())
	}
}

func TestWhoStaysOnReturn(t *testing.T) {
	for _, tc := range []struct{ onReturn, stays string }{{"original", "w1"}, {"replacement", "w2"}} {
		t.Run(tc.onReturn, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1")
			zero := api.Duration(0)
			s.Share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.OnReturn = &zero, tc.onReturn })
			s.Ticks(3, time.Second)
			s.AddWorker("w2")
			s.Tick(time.Second)
			s.Workers["w1"].Linked = false // cut off, and it goes on running
			s.Ticks(4, time.Second)
			if n := s.Running("web"); n != 2 {
				t.Fatalf("while cut off %d run, want the original and its replacement\n%s", n, s.Dump())
			}
			s.Workers["w1"].Linked = true
			s.Ticks(4, time.Second)
			if n := s.Running("web"); n != 1 {
				t.Fatalf("%d run after the return, want 1\n%s", n, s.Dump())
			}
			i := s.Instance("app.web.0")
			if i.Worker != tc.stays || i.State != wire.Running || !i.Ready || i.Shadow != nil {
				t.Fatalf("stays on %s in state %s, want %s\n%s", i.Worker, i.State, tc.stays, s.Dump())
			}
			if n := s.Workers["w1"].Starts; n != 1 {
				t.Errorf("the original was started %d times, want 1", n)
			}
		})
	}
}

func TestAShortAbsenceChangesNothing(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	s.Workers["w1"].Linked = false
	s.Ticks(10, time.Second)
	s.Workers["w1"].Linked = true
	s.Ticks(3, time.Second)
	if a, b := s.Workers["w1"].Starts, s.Workers["w2"].Starts; a != 1 || b != 1 {
		t.Errorf("%d and %d starts, want one each", a, b)
	}
	if ready, suspect := s.Endpoints("web"); ready != 2 || suspect != 0 {
		t.Errorf("%d ready, %d suspect, want 2 and 0", ready, suspect)
	}
}

func TestFailingForGoodMovesOn(t *testing.T) {
	for _, how := range []string{"exit", "refuse"} {
		t.Run(how, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1", "w2")
			s.Workers["w1"].Broken["web"] = how
			s.Share("web", 2, func(v *api.Service) { v.Spread = "none" })
			s.Ticks(6, time.Second)
			if n := len(s.Workers["w2"].Statuses); n != 2 || s.Running("web") != 2 {
				t.Fatalf("%d run on the sound worker, want 2\n%s", n, s.Dump())
			}
		})
	}
}

func TestEndsAreGraceful(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	s.Unshare("web")
	s.Tick(0)
	if ready, _ := s.Endpoints("web"); ready != 0 {
		t.Errorf("%d endpoints while draining, want none", ready)
	}
	if o := s.Model.Orders["w1.app.web.0"]; o == nil || !o.Stop {
		t.Fatalf("order %+v, want a stop", o)
	}
	s.Ticks(4, time.Second)
	if len(s.Model.Insts)+len(s.Model.Orders)+len(s.Model.Ups) > 0 || len(s.Workers["w1"].Statuses) > 0 {
		t.Errorf("something is left: %s %v", s.Dump(), s.Model.Orders)
	}
}

func TestAnAnnouncedRestartGetsMoreTime(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	after := api.Duration(3 * time.Second)
	s.Share("web", 2, func(v *api.Service) { v.ReplaceAfter = &after })
	s.Ticks(3, time.Second)
	s.Model.Workers["w1"].Leaving = true
	s.Workers["w1"].Linked = false
	s.Ticks(60, time.Second)
	if n := s.Workers["w2"].Starts; n != 1 {
		t.Fatalf("replaced within a minute of an announced restart\n%s", s.Dump())
	}
	s.Ticks(6, time.Second)
	if n := s.Workers["w2"].Starts; n != 2 {
		t.Errorf("not replaced after the announced time\n%s", s.Dump())
	}
}

// The only worker is away for longer than replace_after, and so is the root: on
// its return what it still runs must count again without anybody's help.
func TestTheOnlyWorkerReturnsWhileTheRootIsAway(t *testing.T) {
	for _, onReturn := range []string{"original", "replacement"} {
		t.Run(onReturn, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1")
			after := api.Duration(5 * time.Second)
			s.Share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.OnReturn = &after, onReturn })
			s.Ticks(3, time.Second)
			s.Workers["w1"].Linked = false
			s.Ticks(40, time.Second)
			if i := s.Instance("app.web.0"); i.State != wire.Requested {
				t.Fatalf("%s, want it given back while nobody can take it", i.State)
			}
			s.Workers["w1"].Linked = true
			s.Ticks(5, time.Second)
			i := s.Instance("app.web.0")
			if i.State != wire.Running || i.Worker != "w1" || i.Shadow != nil {
				t.Fatalf("after the return:\n%s", s.Dump())
			}
			if ready, _ := s.Endpoints("web"); ready != 1 {
				t.Errorf("%d endpoints, want 1", ready)
			}
			if n := s.Workers["w1"].Starts; n != 1 {
				t.Errorf("it was started %d times, want 1: it never ended", n)
			}
		})
	}
}
