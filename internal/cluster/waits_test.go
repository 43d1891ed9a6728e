package cluster

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// A drain says what it waits for, and taking it back leaves things as they were.
func TestADrainSaysWhatItWaitsFor(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 2, nil)
	s.ticks(4, time.Second)
	for _, f := range s.fakes {
		f.slow = 1 << 30 // what is started is never ready
	}
	s.cordon("w1", &wire.Cordon{Drain: true})
	s.ticks(3, time.Second)
	why := func(state string) string {
		for _, i := range s.m.drainView("w1", s.now).Left {
			if i.State == state {
				return i.Why
			}
		}
		return ""
	}
	if got := why("moving"); got != "not ready there yet: it runs, and its readiness check has not passed" {
		t.Errorf("%q", got)
	}
	for id, st := range s.fakes["w2"].has {
		if !st.Ready {
			st.Why, st.Restarts, st.Phase = "waiting 4s to restart: exited with 3", 2, wire.PhasePending
			s.fakes["w2"].has[id] = st
		}
	}
	s.tick(time.Second)
	if got := why("moving"); got != "not ready there yet: waiting 4s to restart: exited with 3 (started again 2 times)" {
		t.Errorf("%q", got)
	}
	s.ticks(100, time.Second) // however long it takes
	if left := s.m.drainView("w1", s.now).Left; len(left) == 0 || s.m.Insts[left[0].Instance].Worker != "w1" || !s.m.Insts[left[0].Instance].Ready {
		t.Errorf("what runs was ended before another is ready: %+v", left)
	}
	s.cordon("w1", nil)
	s.ticks(5, time.Second)
	for id, i := range s.m.Insts {
		if i.State != wire.Running || !i.Ready || i.Moving != nil || i.Leaving != nil {
			t.Errorf("%s: %+v", id, i)
		}
	}
	if n := s.m.Counted().Restarts; n != 0 {
		t.Errorf("%d restarts", n)
	}
}

// Of what is promised at a site at most one instance of a service is missing because
// of an update, however long each takes to be ready.
func TestAnUpdateTakesOneAtATime(t *testing.T) {
	for _, slow := range []int{0, 1, 3} {
		s := newSim(t, "w1", "w2", "w3")
		s.share("web", 5, nil)
		s.share("db", 2, nil)
		s.ticks(6, time.Second)
		for _, f := range s.fakes {
			f.slow = slow
		}
		other := func(svc *api.Service) { svc.Command = []string{"y"} }
		s.share("web", 5, other)
		s.share("db", 2, other)
		done := false
		for range 80 {
			s.tick(time.Second)
			ready := map[string]int{}
			done = true
			for _, i := range s.m.Insts {
				if i.State == wire.Running && i.Ready {
					ready[i.Service]++
				}
				done = done && i.Ready && i.Revision == s.m.Shares["app."+i.Service].Revision
			}
			if ready["web"] < 4 || ready["db"] < 1 {
				t.Fatalf("slow %d: %v ready\n%s", slow, ready, s.dump())
			}
		}
		if !done || startedAnew(s.m) != 7 || s.m.Counted().Restarts != 0 {
			t.Errorf("slow %d: %d were started anew, %d restarts\n%s", slow, startedAnew(s.m), s.m.Counted().Restarts, s.dump())
		}
	}
}
