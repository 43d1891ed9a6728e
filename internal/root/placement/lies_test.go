package placement_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/roottest"
)

// Clusters whose aggregates are wrong: one says that it has room and gives everything
// back, one says what it had long ago, one says that it has less than it has given away
// already. Everything runs where there is room, nothing twice, and who gave something
// back is not asked again all the time.
func TestAggregatesThatAreWrong(t *testing.T) {
	s := roottest.NewSim(t, "boasts", "honest", "stale")
	s.Clusters["boasts"].Room, s.Clusters["boasts"].ClaimedRoom = 0, 50
	s.Clusters["honest"].Room = 4
	s.Clusters["stale"].Room, s.Clusters["stale"].ClaimedRoom = 10, -9
	s.Apply("app", 12, nil)
	offers, had := 0, 0
	for range 600 {
		s.Tick(time.Second)
		if s.Running("app") > 12 {
			t.Fatalf("%d run\n%s", s.Running("app"), s.Dump())
		}
		n := 0
		if sh := s.Model.Shares["boasts.app.web"]; sh != nil {
			n = sh.Max
		}
		if n > had {
			offers++
		}
		had = n
	}
	// Ten minutes: after 10 s, 20, 40, 80, 160, 300.
	if offers == 0 || offers > 10 {
		t.Errorf("who only boasts was offered something %d times\n%s", offers, s.Dump())
	}
	if in := s.RunningIn("app"); in["boasts"] > 0 && s.Running("app") == 12 {
		t.Errorf("it has %d\n%s", in["boasts"], s.Dump())
	}
	before := s.Running("app")
	// What it says is true again: all run at the latest when it is asked the next time.
	s.Clusters["boasts"].Room, s.Clusters["boasts"].ClaimedRoom = 10, 0
	s.Clusters["stale"].ClaimedRoom = 0
	s.Ticks(400, time.Second)
	if s.Running("app") != 12 {
		t.Errorf("%d run, it were %d\n%s", s.Running("app"), before, s.Dump())
	}
}
