package jobs_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// ends lets all runs end, those of an index with a number in fails so often badly first.
func ends(s *clustertest.Sim, after int, fails map[int]int) {
	for _, f := range s.Workers {
		f.Ends = func(o *wire.Order) (*wire.Exit, int) {
			if i := s.Model.Insts[o.ID]; i != nil && i.Job != nil && i.Job.Failed < fails[o.Job.Index] {
				return &wire.Exit{Code: 3}, after
			}
			return &wire.Exit{}, after
		}
	}
}

func completed(s *clustertest.Sim) (n int) {
	for _, i := range s.Model.Insts {
		if i.Completed() {
			n++
		}
	}
	return n
}

// A job runs as many of its indexes at a time as it may, each until it has ended well.
func TestJobCompletes(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	ends(s, 2, map[int]int{3: 2})
	s.Job(5, nil)
	for range 60 {
		s.Tick(time.Second)
		if n := s.Running("task"); n > 2 {
			t.Fatalf("%d run at a time\n%s", n, s.Dump())
		}
		s.Restart() // another process goes on where this one was
	}
	if n := completed(s); n != 5 {
		t.Fatalf("%d completed\n%s", n, s.Dump())
	}
	r := jobs.Table.Rows(s.Model.DB)["app.task"].Run
	if r.Outcome != wire.JobComplete || r.Completed != 5 || r.Why != "5 of 5 completed" {
		t.Errorf("the run is %+v", r)
	}
	if n := s.Starts(); n != 7 {
		t.Errorf("%d starts, want 5 and 2 retries", n)
	}
	for o := range 5 {
		i := s.Instance(fmt.Sprintf("app.task.%d", o))
		if i.Job.Index != o || s.Model.Orders[i.Worker+"."+i.ID].Job.Index != o {
			t.Errorf("%s has index %d", i.ID, i.Job.Index)
		}
	}
	if l := jobs.NextTimer(s.Model, s.Now); len(l.Rest) != 5 {
		t.Errorf("%d instances rest", len(l.Rest))
	}
}

// An index that fails once more than it may be retried has failed; the others go on, and
// then the job has.
func TestJobRetriesAreBounded(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 0, map[int]int{1: 99})
	s.Job(3, nil)
	s.Ticks(60, time.Second)
	i := s.Instance("app.task.1")
	if i.State != wire.Failed || i.Job.Failed != 3 ||
		i.Reason != "exit code 3; it has failed 3 times, and may be retried 2 times" {
		t.Errorf("it is %s after %d: %s", i.State, i.Job.Failed, i.Reason)
	}
	if r := jobs.Table.Rows(s.Model.DB)["app.task"].Run; r.Outcome != wire.JobFailed || r.Completed != 2 || r.Failed != 1 {
		t.Errorf("the run is %+v", r)
	}
	if n := s.Starts(); n != 5 {
		t.Errorf("%d starts, want 2 that complete and 3 of the one that fails", n)
	}
	// Another run is asked for, and now it ends well.
	ends(s, 0, nil)
	s.MarkRestart("task", -1)
	s.Ticks(30, time.Second)
	rec := jobs.Table.Rows(s.Model.DB)["app.task"]
	if rec.Run.N != 2 || rec.Run.Outcome != wire.JobComplete || len(rec.Past) != 1 ||
		rec.Past[0].Outcome != wire.JobFailed {
		t.Errorf("after another run: %+v\n%s", rec, s.Dump())
	}
}

// The failed index alone is run again when that is asked for.
func TestAnIndexIsRunAgain(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 0, map[int]int{1: 99})
	s.Job(3, nil)
	s.Ticks(60, time.Second)
	n := s.Starts()
	ends(s, 0, nil)
	s.MarkRestart("task", 1)
	s.Ticks(10, time.Second)
	if r := jobs.Table.Rows(s.Model.DB)["app.task"].Run; r.N != 1 || r.Outcome != wire.JobComplete || s.Starts() != n+1 {
		t.Errorf("%+v after %d starts more\n%s", r, s.Starts()-n, s.Dump())
	}
}

// At its deadline what has not completed is ended, and nothing more is started.
func TestJobDeadline(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 6, nil)
	s.Job(5, func(v *api.Service) { v.Job.Deadline = api.Duration(12 * time.Second) })
	s.Ticks(30, time.Second)
	r := jobs.Table.Rows(s.Model.DB)["app.task"].Run
	if r.Outcome != wire.JobFailed || r.Why != "its deadline of 12s has passed with 2 of 5 completed" {
		t.Errorf("the run is %+v\n%s", r, s.Dump())
	}
	if s.Running("task") != 0 || completed(s) != 2 {
		t.Errorf("%d run, %d completed\n%s", s.Running("task"), completed(s), s.Dump())
	}
	for o := range 5 {
		if i := s.Instance(fmt.Sprintf("app.task.%d", o)); i.State != wire.Terminated || !i.Completed() &&
			!strings.Contains(i.Reason+i.Job.Over, "deadline") {
			t.Errorf("%s is %s: %s", i.ID, i.State, i.Reason)
		}
	}
}

// What has ended keeps its order, and with it its logs, for a while.
func TestJobKeepsItsLogs(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 0, map[int]int{0: 99})
	keep := api.Duration(time.Minute)
	s.Job(2, func(v *api.Service) { v.Job.Keep = &keep })
	s.Ticks(20, time.Second)
	if n := len(s.Workers["w1"].Statuses); n != 2 {
		t.Fatalf("the worker has %d, want 2\n%s", n, s.Dump())
	}
	if l := jobs.NextTimer(s.Model, s.Now); l.At.IsZero() || l.At.Sub(s.Now) > time.Minute {
		t.Errorf("it is looked at again at %v", l.At)
	}
	s.Ticks(90, time.Second)
	if n := len(s.Workers["w1"].Statuses); n != 0 || completed(s) != 1 {
		t.Errorf("the worker has %d, %d completed\n%s", n, completed(s), s.Dump())
	}
}

// Another program is another run: what runs of the old one is ended first.
func TestAnotherProgramIsAnotherRun(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	ends(s, 4, nil)
	s.Job(4, nil)
	s.Ticks(8, time.Second)
	s.Job(4, func(v *api.Service) { v.Command = []string{"y"} })
	for range 40 {
		s.Tick(time.Second)
		if n := s.Running("task"); n > 2 {
			t.Fatalf("%d run at a time\n%s", n, s.Dump())
		}
	}
	rec := jobs.Table.Rows(s.Model.DB)["app.task"]
	if rec.Run.N != 2 || rec.Run.Outcome != wire.JobComplete || rec.Past[0].Outcome != wire.JobReplaced ||
		completed(s) != 4 {
		t.Errorf("%+v\n%s", rec, s.Dump())
	}
	// Other terms of the same program are not.
	n := s.Starts()
	s.Job(4, func(v *api.Service) { v.Command, v.Job.Parallelism = []string{"y"}, 3 })
	s.Ticks(5, time.Second)
	if s.Starts() != n || jobs.Table.Rows(s.Model.DB)["app.task"].Run.N != 2 || s.Instance("app.task.0").Revision != 3 {
		t.Errorf("it ran again\n%s", s.Dump())
	}
}

// A suspended job starts nothing; what runs goes on.
func TestASuspendedJobStartsNothing(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	ends(s, 3, nil)
	s.Job(4, nil)
	s.Ticks(2, time.Second)
	s.Job(4, func(v *api.Service) { v.Job.Suspend = true })
	s.Ticks(10, time.Second)
	if completed(s) != 2 || s.Running("task") != 0 || s.Instance("app.task.3").Reason != "its job is suspended" {
		t.Errorf("%d completed\n%s", completed(s), s.Dump())
	}
	s.Job(4, nil)
	s.Ticks(10, time.Second)
	if completed(s) != 4 {
		t.Errorf("%d completed\n%s", completed(s), s.Dump())
	}
}

// A worker that is lost is an attempt that failed. If the index ended well there before
// it was lost sight of, that counts, and what runs in its place ends.
func TestALostIndexIsRunElsewhere(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Job(1, func(v *api.Service) { after := api.Duration(5 * time.Second); v.ReplaceAfter = &after })
	s.Ticks(2, time.Second)
	first := s.Instance("app.task.0").Worker
	s.Workers[first].Linked = false
	s.Ticks(10, time.Second)
	i := s.Instance("app.task.0")
	if i.Worker == first || i.State != wire.Running || i.Job.Failed != 1 {
		t.Fatalf("it is not run elsewhere\n%s", s.Dump())
	}
	// While nobody hears of it, it completes where it was.
	for id, st := range s.Workers[first].Statuses {
		st.Phase, st.Ready, st.LastExit = wire.PhaseExited, false, &wire.Exit{}
		s.Workers[first].Statuses[id] = st
	}
	s.Workers[first].Linked = true
	s.Ticks(3, time.Second)
	if completed(s) != 1 || s.Running("task") != 0 {
		t.Errorf("what it did is lost\n%s", s.Dump())
	}
}

// On a drained worker an index goes on until it has ended.
func TestADrainWaitsForJobs(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	ends(s, 8, nil)
	s.Job(1, nil)
	s.Ticks(3, time.Second)
	s.Cordon(s.Instance("app.task.0").Worker, &wire.Cordon{Drain: true})
	s.Ticks(12, time.Second)
	if completed(s) != 1 || s.Starts() != 1 {
		t.Errorf("%d completed after %d starts\n%s", completed(s), s.Starts(), s.Dump())
	}
}

// Through any trouble no more than may run at a time are started, no index that has
// completed is started again, and in the end all have.
func TestJobsInTrouble(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		fails := map[int]int{rnd.IntN(6): rnd.IntN(3), rnd.IntN(6): rnd.IntN(3)}
		ends(s, 1+rnd.IntN(4), fails)
		retries := 50
		s.Job(6, func(v *api.Service) {
			after := api.Duration(5 * time.Second)
			v.ReplaceAfter, v.Job.Retries = &after, &retries
		})
		done := map[string]bool{}
		for range 60 {
			f := s.Workers[fmt.Sprintf("w%d", 1+rnd.IntN(3))]
			switch rnd.IntN(8) {
			case 0:
				f.Linked = !f.Linked
			case 1:
				f.Alive = !f.Alive
			case 2:
				s.Restart()
			}
			s.Tick(time.Second)
			for id := range done {
				if i := s.Instance(id); !i.Completed() {
					t.Fatalf("seed %d: %s had completed\n%s", seed, id, s.Dump())
				}
			}
			active := 0
			for id, i := range s.Model.Insts {
				if i.Completed() {
					done[id] = true
				} else if state.HasProcess(i) {
					active++
				}
			}
			if active > 2 {
				t.Fatalf("seed %d: %d are on workers\n%s", seed, active, s.Dump())
			}
		}
		for _, f := range s.Workers {
			f.Linked, f.Alive = true, true
		}
		s.Ticks(400, time.Second)
		if completed(s) != 6 {
			t.Fatalf("seed %d: %d completed\n%s", seed, completed(s), s.Dump())
		}
	}
}
