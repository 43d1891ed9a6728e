package moving_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// A drain says what it waits for, and taking it back leaves things as they were.
func TestADrainSaysWhatItWaitsFor(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 2, nil)
	s.Ticks(4, time.Second)
	for _, f := range s.Workers {
		f.Slow = 1 << 30 // what is started is never ready
	}
	s.Cordon("w1", &wire.Cordon{Drain: true})
	s.Ticks(3, time.Second)
	why := func(state string) string {
		for _, i := range workers.DrainView(s.Model, "w1", s.Now).Left {
			if i.State == state {
				return i.Why
			}
		}
		return ""
	}
	if got := why("moving"); got != "not ready there yet: it runs, and its readiness check has not passed" {
		t.Errorf("%q", got)
	}
	for id, st := range s.Workers["w2"].Statuses {
		if !st.Ready {
			st.Why, st.Restarts, st.Phase = "waiting 4s to restart: exited with 3", 2, wire.PhasePending
			s.Workers["w2"].Statuses[id] = st
		}
	}
	s.Tick(time.Second)
	if got := why("moving"); got != "not ready there yet: waiting 4s to restart: exited with 3 (started again 2 times)" {
		t.Errorf("%q", got)
	}
	s.Ticks(100, time.Second) // however long it takes
	if left := workers.DrainView(s.Model, "w1", s.Now).Left; len(left) == 0 ||
		s.Model.Insts[left[0].Instance].Worker != "w1" ||
		!s.Model.Insts[left[0].Instance].Ready {
		t.Errorf("what runs was ended before another is ready: %+v", left)
	}
	s.Cordon("w1", nil)
	s.Ticks(5, time.Second)
	for id, i := range s.Model.Insts {
		if i.State != wire.Running || !i.Ready || i.Moving != nil || i.Leaving != nil {
			t.Errorf("%s: %+v", id, i)
		}
	}
	if n := s.Model.Counted().Restarts; n != 0 {
		t.Errorf("%d restarts", n)
	}
}
