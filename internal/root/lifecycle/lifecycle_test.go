package lifecycle_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/status"
)

func TestADeadClusterIsReplacedAndSettledOnReturn(t *testing.T) {
	for _, onReturn := range []string{"original", "replacement"} {
		t.Run(onReturn, func(t *testing.T) {
			s := roottest.NewSim(t, "edge", "fog")
			s.Apply("app", 2, func(v *api.Service) { v.OnReturn, v.Spread = onReturn, "none" })
			s.Ticks(3, time.Second)
			home := s.Model.Insts["app.web.0"].Cluster
			s.Clusters[home].Linked = false
			s.Ticks(50, time.Second)
			if n := s.Running("app"); n != 2 {
				t.Fatalf("%d run before cluster-dead-after, want the 2 of before\n%s", n, s.Dump())
			}
			if ready, suspect := s.Endpoints("app"); ready != 0 || suspect != 2 {
				t.Errorf("%d ready, %d suspect endpoints, want 0 and 2", ready, suspect)
			}
			s.Ticks(20, time.Second)
			if n := s.Running("app"); n != 4 {
				t.Fatalf("%d run, want 2 cut off and 2 replacements\n%s", n, s.Dump())
			}
			if ready, suspect := s.Endpoints("app"); ready != 2 || suspect != 0 {
				t.Errorf("%d ready, %d suspect endpoints, want 2 and 0", ready, suspect)
			}
			if i := s.Model.Insts["app.web.2"]; i == nil || i.Replaces != "app.web.0" {
				t.Errorf("the replacement is %+v", i)
			}
			s.Clusters[home].Linked = true
			s.Ticks(5, time.Second)
			if n := s.Running("app"); n != 2 {
				t.Fatalf("%d run after the return, want 2\n%s", n, s.Dump())
			}
			if stay := len(s.Clusters[home].Running); (onReturn == "original") != (stay == 2) {
				t.Errorf("%d stay where they were\n%s", stay, s.Dump())
			}
			if v := status.Application(s.Model, s.Model.Apps["app"]); !v.Holds {
				t.Errorf("does not hold: %s", v.Message)
			}
		})
	}
}

// What only a dead cluster may run may be running there all the same: nothing else
// answers, so routers may try it.
func TestADeadClusterServesWhatNobodyReplaced(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("app", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.Ticks(3, time.Second)
	s.Clusters["edge"].Linked = false
	s.Ticks(200, time.Second)
	if ready, suspect := s.Endpoints("app"); ready != 0 || suspect != 2 {
		t.Errorf("%d ready, %d suspect endpoints, want 0 and 2\n%s", ready, suspect, s.Dump())
	}
}

func TestDeletingWaitsForTheClusters(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Apply("app", 2, nil)
	s.Ticks(3, time.Second)
	s.Clusters["edge"].Linked = false
	s.Delete("app")
	s.Ticks(3, time.Second)
	if s.Model.Apps["app"] == nil {
		t.Fatal("the application is gone while its cluster still runs it")
	}
	s.Clusters["edge"].Linked = true
	s.Ticks(4, time.Second)
	if s.Model.Apps["app"] != nil || s.Running("app") != 0 ||
		len(s.Model.Insts)+len(s.Model.Shares)+len(s.Model.Routes) > 0 {
		t.Errorf("something is left\n%s", s.Dump())
	}
}
