package rollouts_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/roottest"
)

// A restart goes through the clusters one by one, and waits where what was
// started again does not become ready.
func TestARestartGoesFromClusterToCluster(t *testing.T) {
	s := roottest.NewSim(t, "c1", "c2", "c3")
	for _, f := range s.Clusters {
		f.Room = 2
	}
	s.Apply("app", 6, nil)
	s.Ticks(3, time.Second)
	if got := s.Running("app"); got != 6 {
		t.Fatalf("%d run\n%s", got, s.Dump())
	}
	s.Clusters["c2"].Stuck = true
	n := s.Restart("app", -1)
	for range 10 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("app"); ready < 4 {
			t.Fatalf("only %d of 6 answer\n%s", ready, s.Dump())
		}
	}
	if s.Clusters["c1"].Busy != 2 || s.Clusters["c2"].Busy != 2 || s.Clusters["c3"].Busy != 0 {
		t.Fatalf("restarted %d, %d, %d", s.Clusters["c1"].Busy, s.Clusters["c2"].Busy, s.Clusters["c3"].Busy)
	}
	s.Reopen() // and another process knows where it was
	s.Clusters["c2"].Stuck = false
	s.Ticks(10, time.Second)
	for name, f := range s.Clusters {
		if f.Busy != 2 {
			t.Errorf("%s restarted %d, want 2", name, f.Busy)
		}
	}
	for _, c := range s.Model.Clusters {
		for _, r := range c.Seen {
			if r.Restarted != n {
				t.Errorf("%s is at restart %d of %d", r.ID, r.Restarted, n)
			}
		}
	}
	// What is away is not waited for, and does it when it is back.
	s.Clusters["c1"].Linked = false
	s.Tick(time.Second)
	s.Restart("app", -1)
	s.Ticks(6, time.Second)
	if s.Clusters["c3"].Busy != 4 || s.Clusters["c1"].Busy != 2 {
		t.Errorf("c1 restarted %d, c3 %d", s.Clusters["c1"].Busy, s.Clusters["c3"].Busy)
	}
	s.Clusters["c1"].Linked = true
	s.Ticks(4, time.Second)
	if s.Clusters["c1"].Busy != 4 {
		t.Errorf("c1 restarted %d after it came back", s.Clusters["c1"].Busy)
	}
}
