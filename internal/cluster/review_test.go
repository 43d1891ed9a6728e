package cluster

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// The only worker is away for longer than replace_after, and so is the root: on
// its return what it still runs must count again without anybody's help.
func TestTheOnlyWorkerReturnsWhileTheRootIsAway(t *testing.T) {
	for _, onReturn := range []string{"original", "replacement"} {
		t.Run(onReturn, func(t *testing.T) {
			s := newSim(t, "w1")
			after := api.Duration(5 * time.Second)
			s.share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.OnReturn = &after, onReturn })
			s.ticks(3, time.Second)
			s.fakes["w1"].linked = false
			s.ticks(40, time.Second)
			if i := s.inst("app.web.0"); i.State != wire.Requested {
				t.Fatalf("%s, want it given back while nobody can take it", i.State)
			}
			s.fakes["w1"].linked = true
			s.ticks(5, time.Second)
			i := s.inst("app.web.0")
			if i.State != wire.Running || i.Worker != "w1" || i.Shadow != nil {
				t.Fatalf("after the return:\n%s", s.dump())
			}
			if ready, _ := s.endpoints("web"); ready != 1 {
				t.Errorf("%d endpoints, want 1", ready)
			}
			if n := s.fakes["w1"].starts; n != 1 {
				t.Errorf("it was started %d times, want 1: it never ended", n)
			}
		})
	}
}
