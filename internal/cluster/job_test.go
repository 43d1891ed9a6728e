// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// job delegates a job of n indexes.
func (s *sim) job(n int, change func(*api.Service)) {
	s.share("task", n, func(v *api.Service) {
		v.Ports, v.Restart.Policy = nil, "never"
		retries, keep := 2, api.Duration(time.Hour)
		v.Job = &api.Job{Completions: n, Parallelism: 2, Retries: &retries, Keep: &keep}
		if change != nil {
			change(v)
		}
	})
}

// ends lets all runs end, those of an index with a number in fails so often badly first.
func (s *sim) ends(after int, fails map[int]int) {
	for _, f := range s.fakes {
		f.ends = func(o *wire.Order) (*wire.Exit, int) {
			if i := s.m.Insts[o.ID]; i != nil && i.Job != nil && i.Job.Failed < fails[o.Job.Index] {
				return &wire.Exit{Code: 3}, after
			}
			return &wire.Exit{}, after
		}
	}
}

func (s *sim) completed() (n int) {
	for _, i := range s.m.Insts {
		if i.Completed() {
			n++
		}
	}
	return n
}

// A job runs as many of its indexes at a time as it may, each until it has ended well.
func TestJobCompletes(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.ends(2, map[int]int{3: 2})
	s.job(5, nil)
	for range 60 {
		s.tick(time.Second)
		if n := s.running("task"); n > 2 {
			t.Fatalf("%d run at a time\n%s", n, s.dump())
		}
		s.restart() // another process goes on where this one was
	}
	if n := s.completed(); n != 5 {
		t.Fatalf("%d completed\n%s", n, s.dump())
	}
	r := s.m.jobs["app.task"].Run
	if r.Outcome != wire.JobComplete || r.Completed != 5 || r.Why != "5 of 5 completed" {
		t.Errorf("the run is %+v", r)
	}
	if n := s.starts(); n != 7 {
		t.Errorf("%d starts, want 5 and 2 retries", n)
	}
	for o := range 5 {
		i := s.inst(fmt.Sprintf("app.task.%d", o))
		if i.Job.Index != o || s.m.Orders[i.Worker+"."+i.ID].Job.Index != o {
			t.Errorf("%s has index %d", i.ID, i.Job.Index)
		}
	}
	if l := s.m.lookJobs(s.now); len(l.rest) != 5 {
		t.Errorf("%d instances rest", len(l.rest))
	}
}

// An index that fails once more than it may be retried has failed; the others go on, and
// then the job has.
func TestJobRetriesAreBounded(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(0, map[int]int{1: 99})
	s.job(3, nil)
	s.ticks(60, time.Second)
	i := s.inst("app.task.1")
	if i.State != wire.Failed || i.Job.Failed != 3 || i.Reason != "exit code 3; it has failed 3 times, and may be retried 2 times" {
		t.Errorf("it is %s after %d: %s", i.State, i.Job.Failed, i.Reason)
	}
	if r := s.m.jobs["app.task"].Run; r.Outcome != wire.JobFailed || r.Completed != 2 || r.Failed != 1 {
		t.Errorf("the run is %+v", r)
	}
	if n := s.starts(); n != 5 {
		t.Errorf("%d starts, want 2 that complete and 3 of the one that fails", n)
	}
	// Another run is asked for, and now it ends well.
	s.ends(0, nil)
	s.again("task", -1)
	s.ticks(30, time.Second)
	rec := s.m.jobs["app.task"]
	if rec.Run.N != 2 || rec.Run.Outcome != wire.JobComplete || len(rec.Past) != 1 || rec.Past[0].Outcome != wire.JobFailed {
		t.Errorf("after another run: %+v\n%s", rec, s.dump())
	}
}

// The failed index alone is run again when that is asked for.
func TestAnIndexIsRunAgain(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(0, map[int]int{1: 99})
	s.job(3, nil)
	s.ticks(60, time.Second)
	n := s.starts()
	s.ends(0, nil)
	s.again("task", 1)
	s.ticks(10, time.Second)
	if r := s.m.jobs["app.task"].Run; r.N != 1 || r.Outcome != wire.JobComplete || s.starts() != n+1 {
		t.Errorf("%+v after %d starts more\n%s", r, s.starts()-n, s.dump())
	}
}

// At its deadline what has not completed is ended, and nothing more is started.
func TestJobDeadline(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(6, nil)
	s.job(5, func(v *api.Service) { v.Job.Deadline = api.Duration(12 * time.Second) })
	s.ticks(30, time.Second)
	r := s.m.jobs["app.task"].Run
	if r.Outcome != wire.JobFailed || r.Why != "its deadline of 12s has passed with 2 of 5 completed" {
		t.Errorf("the run is %+v\n%s", r, s.dump())
	}
	if s.running("task") != 0 || s.completed() != 2 {
		t.Errorf("%d run, %d completed\n%s", s.running("task"), s.completed(), s.dump())
	}
	for o := range 5 {
		if i := s.inst(fmt.Sprintf("app.task.%d", o)); i.State != wire.Terminated || !i.Completed() && !strings.Contains(i.Reason+i.Job.Over, "deadline") {
			t.Errorf("%s is %s: %s", i.ID, i.State, i.Reason)
		}
	}
}

// What has ended keeps its order, and with it its logs, for a while.
func TestJobKeepsItsLogs(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(0, map[int]int{0: 99})
	keep := api.Duration(time.Minute)
	s.job(2, func(v *api.Service) { v.Job.Keep = &keep })
	s.ticks(20, time.Second)
	if n := len(s.fakes["w1"].has); n != 2 {
		t.Fatalf("the worker has %d, want 2\n%s", n, s.dump())
	}
	if l := s.m.lookJobs(s.now); l.at.IsZero() || l.at.Sub(s.now) > time.Minute {
		t.Errorf("it is looked at again at %v", l.at)
	}
	s.ticks(90, time.Second)
	if n := len(s.fakes["w1"].has); n != 0 || s.completed() != 1 {
		t.Errorf("the worker has %d, %d completed\n%s", n, s.completed(), s.dump())
	}
}

// Another program is another run: what runs of the old one is ended first.
func TestAnotherProgramIsAnotherRun(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.ends(4, nil)
	s.job(4, nil)
	s.ticks(8, time.Second)
	s.job(4, func(v *api.Service) { v.Command = []string{"y"} })
	for range 40 {
		s.tick(time.Second)
		if n := s.running("task"); n > 2 {
			t.Fatalf("%d run at a time\n%s", n, s.dump())
		}
	}
	rec := s.m.jobs["app.task"]
	if rec.Run.N != 2 || rec.Run.Outcome != wire.JobComplete || rec.Past[0].Outcome != wire.JobReplaced || s.completed() != 4 {
		t.Errorf("%+v\n%s", rec, s.dump())
	}
	// Other terms of the same program are not.
	n := s.starts()
	s.job(4, func(v *api.Service) { v.Command, v.Job.Parallelism = []string{"y"}, 3 })
	s.ticks(5, time.Second)
	if s.starts() != n || s.m.jobs["app.task"].Run.N != 2 || s.inst("app.task.0").Revision != 3 {
		t.Errorf("it ran again\n%s", s.dump())
	}
}

// A suspended job starts nothing; what runs goes on.
func TestASuspendedJobStartsNothing(t *testing.T) {
	s := newSim(t, "w1")
	s.ends(3, nil)
	s.job(4, nil)
	s.ticks(2, time.Second)
	s.job(4, func(v *api.Service) { v.Job.Suspend = true })
	s.ticks(10, time.Second)
	if s.completed() != 2 || s.running("task") != 0 || s.inst("app.task.3").Reason != "its job is suspended" {
		t.Errorf("%d completed\n%s", s.completed(), s.dump())
	}
	s.job(4, nil)
	s.ticks(10, time.Second)
	if s.completed() != 4 {
		t.Errorf("%d completed\n%s", s.completed(), s.dump())
	}
}

// A worker that is lost is an attempt that failed. If the index ended well there before
// it was lost sight of, that counts, and what runs in its place ends.
func TestALostIndexIsRunElsewhere(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.job(1, func(v *api.Service) { after := api.Duration(5 * time.Second); v.ReplaceAfter = &after })
	s.ticks(2, time.Second)
	first := s.inst("app.task.0").Worker
	s.fakes[first].linked = false
	s.ticks(10, time.Second)
	i := s.inst("app.task.0")
	if i.Worker == first || i.State != wire.Running || i.Job.Failed != 1 {
		t.Fatalf("it is not run elsewhere\n%s", s.dump())
	}
	// While nobody hears of it, it completes where it was.
	for id, st := range s.fakes[first].has {
		st.Phase, st.Ready, st.LastExit = wire.PhaseExited, false, &wire.Exit{}
		s.fakes[first].has[id] = st
	}
	s.fakes[first].linked = true
	s.ticks(3, time.Second)
	if s.completed() != 1 || s.running("task") != 0 {
		t.Errorf("what it did is lost\n%s", s.dump())
	}
}

// On a drained worker an index goes on until it has ended.
func TestADrainWaitsForJobs(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.ends(8, nil)
	s.job(1, nil)
	s.ticks(3, time.Second)
	s.cordon(s.inst("app.task.0").Worker, &wire.Cordon{Drain: true})
	s.ticks(12, time.Second)
	if s.completed() != 1 || s.starts() != 1 {
		t.Errorf("%d completed after %d starts\n%s", s.completed(), s.starts(), s.dump())
	}
}

// Through any trouble no more than may run at a time are started, no index that has
// completed is started again, and in the end all have.
func TestJobsInTrouble(t *testing.T) {
	for seed := range uint64(30) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		s := newSim(t, "w1", "w2", "w3")
		fails := map[int]int{rnd.IntN(6): rnd.IntN(3), rnd.IntN(6): rnd.IntN(3)}
		s.ends(1+rnd.IntN(4), fails)
		retries := 50
		s.job(6, func(v *api.Service) {
			after := api.Duration(5 * time.Second)
			v.ReplaceAfter, v.Job.Retries = &after, &retries
		})
		done := map[string]bool{}
		for range 60 {
			f := s.fakes[fmt.Sprintf("w%d", 1+rnd.IntN(3))]
			switch rnd.IntN(8) {
			case 0:
				f.linked = !f.linked
			case 1:
				f.alive = !f.alive
			case 2:
				s.restart()
			}
			s.tick(time.Second)
			for id := range done {
				if i := s.inst(id); !i.Completed() {
					t.Fatalf("seed %d: %s had completed\n%s", seed, id, s.dump())
				}
			}
			active := 0
			for id, i := range s.m.Insts {
				if i.Completed() {
					done[id] = true
				} else if hasProcess(i) {
					active++
				}
			}
			if active > 2 {
				t.Fatalf("seed %d: %d are on workers\n%s", seed, active, s.dump())
			}
		}
		for _, f := range s.fakes {
			f.linked, f.alive = true, true
		}
		s.ticks(400, time.Second)
		if s.completed() != 6 {
			t.Fatalf("seed %d: %d completed\n%s", seed, s.completed(), s.dump())
		}
	}
}
