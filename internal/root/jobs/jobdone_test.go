package jobs_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that was restored from a backup, and asks, is told what of its jobs has completed
// there, once, also by a root that is started again; what it does not ask for is not said.
func TestAClusterThatForgotIsToldWhatHasCompleted(t *testing.T) {
	s := roottest.NewSim(t, "a")
	task(s, 5, 2, nil)
	s.Ticks(3, time.Second)
	s.Clusters["a"].HoldsJobs = true // two of them go on and on
	s.Ticks(2, time.Second)
	v := jobView(s)
	if v.Completed == 0 || v.Completed == 5 {
		t.Fatalf("%+v\n%s", v, s.Dump())
	}
	said := func() *wire.JobDone { return s.Model.Shares["a.app.web"].Done }
	if said() != nil {
		t.Fatalf("it is told %+v without asking", said())
	}
	ask := func(restored time.Time) {
		takeFor(s.Model.Clusters["a"], t, &wire.JobReport{App: "app", Service: "web", Restored: restored})
		s.Ticks(3, time.Second)
	}
	count := func(d *wire.JobDone) (n int) {
		for _, sp := range d.Ordinals {
			n += sp.To - sp.From
		}
		return n
	}
	at := s.Now.UTC()
	ask(at)
	first := said()
	if first == nil || !first.Restored.Equal(at) || count(first) != v.Completed ||
		first.Program != s.Model.Apps["app"].Spec.Services["web"].ProgramID() {
		t.Fatalf("%d have completed, it is told %+v", v.Completed, first)
	}
	for range 3 {
		s.Reopen()
		s.Ticks(2, time.Second)
		if d := said(); d == nil || !d.Restored.Equal(at) || count(d) != v.Completed {
			t.Fatalf("after a restart it is told %+v", d)
		}
	}
	// It is restored once more before it has heard that.
	ask(at.Add(time.Minute))
	if d := said(); !d.Restored.Equal(at.Add(time.Minute)) {
		t.Errorf("it is told %+v", d)
	}
	// Of another run nothing has completed.
	s.Restart("app", -1)
	s.Ticks(2, time.Second)
	ask(at.Add(2 * time.Minute))
	if d := said(); count(d) != 0 || d.Restarted == 0 {
		t.Errorf("of another run it is told %+v", d)
	}
	ask(time.Time{})
	if d := said(); d != nil {
		t.Errorf("it does not ask any more, and is told %+v", d)
	}
	task(s, 5, 2, func(v *api.Service) { v.Cron = &api.Cron{Schedule: "0 0 * * *"} })
	ask(at)
	if d := said(); d != nil {
		t.Errorf("of a schedule it is told %+v", d)
	}
}
