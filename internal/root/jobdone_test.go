// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that was restored from a backup, and asks, is told what of its jobs has completed
// there, once, also by a root that is started again; what it does not ask for is not said.
func TestAClusterThatForgotIsToldWhatHasCompleted(t *testing.T) {
	s := newSim(t, "a")
	s.task(5, 2, nil)
	s.ticks(3, time.Second)
	s.fakes["a"].idle = true // two of them go on and on
	s.ticks(2, time.Second)
	v := s.jobView()
	if v.Completed == 0 || v.Completed == 5 {
		t.Fatalf("%+v\n%s", v, s.dump())
	}
	said := func() *wire.JobDone { return s.m.shares["a.app.web"].Done }
	if said() != nil {
		t.Fatalf("it is told %+v without asking", said())
	}
	ask := func(restored time.Time) {
		s.m.clusters["a"].takeFor(t, &wire.JobReport{App: "app", Service: "web", Restored: restored})
		s.ticks(3, time.Second)
	}
	count := func(d *wire.JobDone) (n int) {
		for _, sp := range d.Ordinals {
			n += sp.To - sp.From
		}
		return n
	}
	at := s.now.UTC()
	ask(at)
	first := said()
	if first == nil || !first.Restored.Equal(at) || count(first) != v.Completed || first.Program != s.m.apps["app"].Spec.Services["web"].ProgramID() {
		t.Fatalf("%d have completed, it is told %+v", v.Completed, first)
	}
	for range 3 {
		s.restart()
		s.ticks(2, time.Second)
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
	s.again("app", -1)
	s.ticks(2, time.Second)
	ask(at.Add(2 * time.Minute))
	if d := said(); count(d) != 0 || d.Restarted == 0 {
		t.Errorf("of another run it is told %+v", d)
	}
	ask(time.Time{})
	if d := said(); d != nil {
		t.Errorf("it does not ask any more, and is told %+v", d)
	}
	s.task(5, 2, func(v *api.Service) { v.Cron = &api.Cron{Schedule: "0 0 * * *"} })
	ask(at)
	if d := said(); d != nil {
		t.Errorf("of a schedule it is told %+v", d)
	}
}
