// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"testing"
	"time"
)

// Clusters whose aggregates are wrong: one says that it has room and gives everything
// back, one says what it had long ago, one says that it has less than it has given away
// already. Everything runs where there is room, nothing twice, and who gave something
// back is not asked again all the time.
func TestAggregatesThatAreWrong(t *testing.T) {
	s := newSim(t, "boasts", "honest", "stale")
	s.fakes["boasts"].room, s.fakes["boasts"].boasts = 0, 50
	s.fakes["honest"].room = 4
	s.fakes["stale"].room, s.fakes["stale"].boasts = 10, -9
	s.apply("app", 12, nil)
	offers, had := 0, 0
	for range 600 {
		s.tick(time.Second)
		if s.running("app") > 12 {
			t.Fatalf("%d run\n%s", s.running("app"), s.dump())
		}
		n := 0
		if sh := s.m.shares["boasts.app.web"]; sh != nil {
			n = sh.Max
		}
		if n > had {
			offers++
		}
		had = n
	}
	// Ten minutes: after 10 s, 20, 40, 80, 160, 300.
	if offers == 0 || offers > 10 {
		t.Errorf("who only boasts was offered something %d times\n%s", offers, s.dump())
	}
	if in := s.in("app"); in["boasts"] > 0 && s.running("app") == 12 {
		t.Errorf("it has %d\n%s", in["boasts"], s.dump())
	}
	before := s.running("app")
	// What it says is true again: all run at the latest when it is asked the next time.
	s.fakes["boasts"].room, s.fakes["boasts"].boasts = 10, 0
	s.fakes["stale"].boasts = 0
	s.ticks(400, time.Second)
	if s.running("app") != 12 {
		t.Errorf("%d run, it were %d\n%s", s.running("app"), before, s.dump())
	}
}
