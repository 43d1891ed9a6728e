// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// forget restores a backup in a cluster whose workers have forgotten what has ended, while
// the root has the shares, and lets it hear them.
func (s *sim) forget(disk map[string][]byte) {
	s.t.Helper()
	given := maps.Clone(s.m.Given)
	s.restored(disk)
	for _, f := range s.fakes {
		for id, st := range f.has {
			if st.Phase != wire.PhaseRunning {
				delete(f.has, id)
			}
		}
	}
	s.ticks(5, time.Second)
	s.hear(given)
	s.ticks(20, time.Second)
}

// done lets the root answer with what has completed.
func (s *sim) done(change func(*wire.JobDone)) {
	s.t.Helper()
	asked := s.m.upJobs["app.task"]
	if asked == nil || asked.Restored.IsZero() {
		s.t.Fatalf("it does not ask: %+v\n%s", asked, s.dump())
	}
	s.regiven(func(sh *wire.Share) {
		sh.Done = &wire.JobDone{Restored: asked.Restored, Program: sh.Spec.ProgramID()}
		if sh.Restart != nil {
			sh.Done.Restarted = sh.Restart.N
		}
		if change != nil {
			change(sh.Done)
		}
	})
}

func ordinalsTo(n int) func(*wire.JobDone) {
	return func(d *wire.JobDone) { d.Ordinals = []wire.Span{{From: 0, To: n}} }
}

// A job that was applied after the backup that its cluster was restored from does not run
// what has completed, as far as the root knows that.
func TestAJobOfARestoredClusterRunsNothingTwice(t *testing.T) {
	for known, want := range map[int]int{0: 3, 2: 1, 3: 0} {
		s := newSim(t, "w1", "w2")
		s.ends(2, nil)
		s.tick(time.Second)
		disk := maps.Clone(s.disk)
		s.job(3, nil)
		s.ticks(30, time.Second)
		starts := s.starts()
		if s.completed() != 3 {
			t.Fatal(s.dump())
		}
		s.forget(disk)
		if v := s.m.serviceView(s.m.Shares["app.task"]); s.starts() != starts || !strings.Contains(v.Message, "asks the root") {
			t.Fatalf("%d were started before the root has answered; %q\n%s", s.starts()-starts, v.Message, s.dump())
		}
		s.done(ordinalsTo(known))
		s.ticks(60, time.Second)
		if n := s.starts() - starts; n != want || s.completed() != 3 || s.record().Run.Outcome != wire.JobComplete {
			t.Errorf("the root knows of %d: %d were started, %+v\n%s", known, n, s.record(), s.dump())
		}
		if r := s.record(); !r.Held.IsZero() || !s.m.upJobs["app.task"].Restored.IsZero() {
			t.Errorf("it still asks: %+v", r)
		}
		s.restart()
		s.ticks(5, time.Second)
		if !s.record().Held.IsZero() {
			t.Error("it asks again")
		}
		// Another run of it, which is asked for now, runs all of it.
		s.regiven(func(sh *wire.Share) { sh.Done = nil })
		s.again("task", -1)
		s.ticks(60, time.Second)
		if n := s.starts() - starts - want; n != 3 {
			t.Errorf("%d were started for another run\n%s", n, s.dump())
		}
	}
}

// One that went on when the backup was made, and completed then, is not run again; what runs
// now goes on.
func TestAJobThatWentOnAtTheBackup(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.ends(10, nil)
	s.job(6, nil)
	s.ticks(5, time.Second)
	disk := maps.Clone(s.disk)
	s.ticks(13, time.Second)
	done, starts := s.completed(), s.starts()
	if done < 2 || done > 4 {
		t.Fatalf("%d have completed\n%s", done, s.dump())
	}
	s.forget(disk)
	s.done(ordinalsTo(done))
	s.ticks(90, time.Second)
	if n := s.starts() - starts; n > 6-done || s.completed() != 6 {
		t.Errorf("%d had completed, %d were started then\n%s", done, n, s.dump())
	}
}

// A run that the answer is not about is run: of another program, or asked for later.
func TestAnAnswerAboutAnotherRun(t *testing.T) {
	for what, change := range map[string]func(*sim, *wire.JobDone){
		"program": func(_ *sim, d *wire.JobDone) { d.Program = "another" },
		"asked for": func(s *sim, _ *wire.JobDone) {
			s.m.Given["app.task"].Restart = &wire.Restart{N: 7}
		},
	} {
		s := newSim(t, "w1", "w2")
		s.ends(2, nil)
		s.tick(time.Second)
		disk := maps.Clone(s.disk)
		s.job(3, nil)
		s.ticks(30, time.Second)
		starts := s.starts()
		s.forget(disk)
		s.done(func(d *wire.JobDone) { ordinalsTo(3)(d); change(s, d) })
		if what == "asked for" {
			s.regiven(func(sh *wire.Share) { sh.Restart = &wire.Restart{N: 7} })
		}
		s.ticks(60, time.Second)
		if n := s.starts() - starts; n != 3 {
			t.Errorf("%s: %d were started\n%s", what, n, s.dump())
		}
	}
}

// A root that does not answer, as one of a version before, holds a job up for a minute.
func TestAJobWithoutAnAnswer(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.ends(2, nil)
	s.tick(time.Second)
	disk := maps.Clone(s.disk)
	s.job(3, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	s.ticks(30, time.Second)
	starts := s.starts()
	s.forget(disk)
	s.ticks(100, time.Second)
	if n := s.starts() - starts; n != 3 || s.completed() != 3 {
		t.Errorf("%d were started\n%s", n, s.dump())
	}
}
