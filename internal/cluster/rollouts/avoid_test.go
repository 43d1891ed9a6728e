package rollouts_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/views"
)

// What failed on a worker was one program. The next one is tried there at once, and what is
// said of it names nothing of the one before.
func TestAnotherProgramIsNotAvoided(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]int{"a rollout": 1, "a first revision": 0} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1")
			if first > 0 {
				s.Share("web", first, clustertest.Program("mine:1", nil))
				s.Ticks(4, time.Second)
			}
			s.Workers["w1"].Broken["web"] = "exit"
			s.Share("web", 1, clustertest.Program("mine:2", nil))
			s.Ticks(6, time.Second)
			failed := 0
			for _, i := range s.Model.Insts {
				if len(i.Avoid) > 0 {
					failed++
				}
			}
			if failed == 0 {
				t.Fatalf("nothing failed\n%s", s.Dump())
			}
			delete(s.Workers["w1"].Broken, "web")
			s.Events = nil
			s.Share("web", 1, clustertest.Program("mine:4", nil))
			s.Ticks(5, time.Second)
			if n := s.Programs("web"); n["mine:4"] == 0 {
				t.Errorf("it waits: %v\n%s", n, s.Dump())
			}
			for _, e := range s.Events {
				if strings.Contains(e, "avoid") || strings.Contains(e, "exited with 7") {
					t.Errorf("what is said: %s", e)
				}
			}
			for _, i := range s.Model.Insts {
				if strings.Contains(i.Reason, "exited with 7") || i.LastExit != nil {
					t.Errorf("%s: %q, %+v", i.ID, i.Reason, i.LastExit)
				}
			}
			if views.ServiceView(s.Model, s.Model.Shares["app.web"]).Ready != 1 {
				t.Errorf("%+v", views.ServiceView(s.Model, s.Model.Shares["app.web"]))
			}
		})
	}
}
