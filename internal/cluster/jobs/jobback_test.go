package jobs_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

// forget restores a backup in a cluster whose workers have forgotten what has ended, while
// the root has the shares, and lets it hear them.
func forget(s *clustertest.Sim, disk map[string][]byte) {
	s.T.Helper()
	given := maps.Clone(s.Model.FromRoot)
	s.RestoreFrom(disk)
	for _, f := range s.Workers {
		for id, st := range f.Statuses {
			if st.Phase != wire.PhaseRunning {
				delete(f.Statuses, id)
			}
		}
	}
	s.Ticks(5, time.Second)
	s.HearRoot(given)
	s.Ticks(20, time.Second)
}

// answerDone lets the root answer with what has completed.
func answerDone(s *clustertest.Sim, change func(*wire.JobDone)) {
	s.T.Helper()
	asked := jobs.UpTable.Rows(s.Model.DB)["app.task"]
	if asked == nil || asked.Restored.IsZero() {
		s.T.Fatalf("it does not ask: %+v\n%s", asked, s.Dump())
	}
	regiven(s, func(sh *wire.Share) {
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
		s := clustertest.NewSim(t, "w1", "w2")
		ends(s, 2, nil)
		s.Tick(time.Second)
		disk := maps.Clone(s.Disk)
		s.Job(3, nil)
		s.Ticks(30, time.Second)
		starts := s.Starts()
		if completed(s) != 3 {
			t.Fatal(s.Dump())
		}
		forget(s, disk)
		if v := views.ServiceView(s.Model, s.Model.Shares["app.task"]); s.Starts() != starts ||
			!strings.Contains(v.Message, "asks the root") {
			t.Fatalf("%d were started before the root has answered; %q\n%s", s.Starts()-starts, v.Message, s.Dump())
		}
		answerDone(s, ordinalsTo(known))
		s.Ticks(60, time.Second)
		if n := s.Starts() - starts; n != want || completed(s) != 3 || record(s).Run.Outcome != wire.JobComplete {
			t.Errorf("the root knows of %d: %d were started, %+v\n%s", known, n, record(s), s.Dump())
		}
		if r := record(s); !r.Held.IsZero() || !jobs.UpTable.Rows(s.Model.DB)["app.task"].Restored.IsZero() {
			t.Errorf("it still asks: %+v", r)
		}
		s.Restart()
		s.Ticks(5, time.Second)
		if !record(s).Held.IsZero() {
			t.Error("it asks again")
		}
		// Another run of it, which is asked for now, runs all of it.
		regiven(s, func(sh *wire.Share) { sh.Done = nil })
		s.MarkRestart("task", -1)
		s.Ticks(60, time.Second)
		if n := s.Starts() - starts - want; n != 3 {
			t.Errorf("%d were started for another run\n%s", n, s.Dump())
		}
	}
}

// One that went on when the backup was made, and completed then, is not run again; what runs
// now goes on.
func TestAJobThatWentOnAtTheBackup(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	ends(s, 10, nil)
	s.Job(6, nil)
	s.Ticks(5, time.Second)
	disk := maps.Clone(s.Disk)
	s.Ticks(13, time.Second)
	done, starts := completed(s), s.Starts()
	if done < 2 || done > 4 {
		t.Fatalf("%d have completed\n%s", done, s.Dump())
	}
	forget(s, disk)
	answerDone(s, ordinalsTo(done))
	s.Ticks(90, time.Second)
	if n := s.Starts() - starts; n > 6-done || completed(s) != 6 {
		t.Errorf("%d had completed, %d were started then\n%s", done, n, s.Dump())
	}
}

// A run that the answer is not about is run: of another program, or asked for later.
func TestAnAnswerAboutAnotherRun(t *testing.T) {
	for what, change := range map[string]func(*clustertest.Sim, *wire.JobDone){
		"program": func(_ *clustertest.Sim, d *wire.JobDone) { d.Program = "another" },
		"asked for": func(s *clustertest.Sim, _ *wire.JobDone) {
			s.Model.FromRoot["app.task"].Restart = &wire.Restart{N: 7}
		},
	} {
		s := clustertest.NewSim(t, "w1", "w2")
		ends(s, 2, nil)
		s.Tick(time.Second)
		disk := maps.Clone(s.Disk)
		s.Job(3, nil)
		s.Ticks(30, time.Second)
		starts := s.Starts()
		forget(s, disk)
		answerDone(s, func(d *wire.JobDone) { ordinalsTo(3)(d); change(s, d) })
		if what == "asked for" {
			regiven(s, func(sh *wire.Share) { sh.Restart = &wire.Restart{N: 7} })
		}
		s.Ticks(60, time.Second)
		if n := s.Starts() - starts; n != 3 {
			t.Errorf("%s: %d were started\n%s", what, n, s.Dump())
		}
	}
}

// A root that does not answer, as one of a version before, holds a job up for a minute.
func TestAJobWithoutAnAnswer(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	ends(s, 2, nil)
	s.Tick(time.Second)
	disk := maps.Clone(s.Disk)
	s.Job(3, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	s.Ticks(30, time.Second)
	starts := s.Starts()
	forget(s, disk)
	s.Ticks(100, time.Second)
	if n := s.Starts() - starts; n != 3 || completed(s) != 3 {
		t.Errorf("%d were started\n%s", n, s.Dump())
	}
}
