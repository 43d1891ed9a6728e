package rollingupdate_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAnUpdateRollsOneAtATime(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 3, nil)
	s.Ticks(3, time.Second)
	s.Share("web", 3, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	for range 12 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("web"); ready < 2 {
			t.Fatalf("only %d of 3 answer during the update\n%s", ready, s.Dump())
		}
	}
	for o := range 3 {
		if i := s.Instance(fmt.Sprintf("app.web.%d", o)); i.Revision != 2 || i.Incarnation != 2 || !i.Ready {
			t.Errorf("%s: revision %d incarnation %d ready %v", i.ID, i.Revision, i.Incarnation, i.Ready)
		}
	}
	starts := s.Workers["w1"].Starts + s.Workers["w2"].Starts
	// What does not concern the program restarts nothing.
	s.Share("web", 3, func(v *api.Service) { v.Env, v.OnReturn = map[string]string{"A": "2"}, "newest" })
	s.Ticks(6, time.Second)
	if now := s.Workers["w1"].Starts + s.Workers["w2"].Starts; now != starts {
		t.Errorf("%d restarts for a change that needs none", now-starts)
	}
	i := s.Instance("app.web.0")
	if o := s.Model.Orders[i.Worker+".app.web.0"]; i.Revision != 3 || o.Revision != 3 || o.Spec.OnReturn != "newest" {
		t.Errorf("revision %d, ordered %d, want 3 and the new terms", i.Revision, o.Revision)
	}
}

// Of what is promised at a site at most one instance of a service is missing because
// of an update, however long each takes to be ready.
func TestAnUpdateTakesOneAtATime(t *testing.T) {
	for _, slow := range []int{0, 1, 3} {
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		s.Share("web", 5, nil)
		s.Share("db", 2, nil)
		s.Ticks(6, time.Second)
		for _, f := range s.Workers {
			f.Slow = slow
		}
		other := func(svc *api.Service) { svc.Command = []string{"y"} }
		s.Share("web", 5, other)
		s.Share("db", 2, other)
		done := false
		for range 80 {
			s.Tick(time.Second)
			ready := map[string]int{}
			done = true
			for _, i := range s.Model.Insts {
				if i.State == wire.Running && i.Ready {
					ready[i.Service]++
				}
				done = done && i.Ready && i.Revision == s.Model.Shares["app."+i.Service].Revision
			}
			if ready["web"] < 4 || ready["db"] < 1 {
				t.Fatalf("slow %d: %v ready\n%s", slow, ready, s.Dump())
			}
		}
		if !done || clustertest.Restarts(s.Model) != 7 || s.Model.Counted().Restarts != 0 {
			t.Errorf("slow %d: %d were started anew, %d restarts\n%s", slow, clustertest.Restarts(s.Model),
				s.Model.Counted().Restarts,
				s.Dump())
		}
	}
}
