// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/wire"
)

// task applies a job.
func (s *sim) task(completions, parallelism int, change func(*api.Service)) {
	s.apply("app", completions, func(v *api.Service) {
		v.Ports, v.Restart.Policy = nil, "never"
		v.Job = &api.Job{Completions: completions, Parallelism: parallelism}
		if change != nil {
			change(v)
		}
	})
}

// did are the indexes that were completed, of all clusters, in order.
func (s *sim) did() (out []int) {
	for _, f := range s.fakes {
		for _, d := range f.did {
			_, x, _ := strings.Cut(d, "/")
			n, _ := strconv.Atoi(x)
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func (s *sim) jobView() wire.JobView {
	v, _ := s.m.jobView(s.m.apps["app"], "web", s.m.begin().of("app", "web"))
	return v
}

func count(n int) (out []int) {
	for k := range n {
		out = append(out, k)
	}
	return out
}

// A job is divided by what clusters can take, no more run at a time than are allowed,
// and each index runs once.
func TestAJobIsDivided(t *testing.T) {
	s := newSim(t, "a", "b")
	s.fakes["a"].room, s.fakes["b"].room = 30, 10
	s.task(40, 4, nil)
	for range 80 {
		s.tick(time.Second)
		if n := s.running("app"); n > 4 {
			t.Fatalf("%d run at a time\n%s", n, s.dump())
		}
		total := 0
		for _, sh := range s.m.shares {
			total += job.Parallel(sh)
		}
		if total > 4 {
			t.Fatalf("%d may run at a time in all clusters", total)
		}
	}
	if got := s.did(); !slices.Equal(got, count(40)) {
		t.Fatalf("it did %v\n%s", got, s.dump())
	}
	if a, b := len(s.fakes["a"].did), len(s.fakes["b"].did); a == 0 || b == 0 {
		t.Errorf("%d and %d were divided", a, b)
	}
	v := s.m.serviceView(s.m.apps["app"], "web")
	if v.Job.Outcome != wire.JobComplete || v.Message != "" {
		t.Errorf("it is %+v, %s", v.Job, v.Message)
	}
	// Nothing of that is lost with the process, or with a cluster that is removed.
	s.restart()
	if v := s.jobView(); v.Completed != 40 {
		t.Errorf("after a restart %+v", v)
	}
	delete(s.m.clusters, "a")
	delete(s.disk, keyCluster+"a")
	delete(s.fakes, "a")
	s.ticks(5, time.Second)
	if v := s.jobView(); v.Completed != 40 || len(s.did()) >= 40 {
		t.Errorf("without the cluster %+v, %v\n%s", v, s.did(), s.dump())
	}
}

// What a lost cluster had is run elsewhere, but not what it had completed.
func TestIndexesOfALostCluster(t *testing.T) {
	s := newSim(t, "a", "b")
	s.task(10, 10, nil)
	s.tick(time.Second) // delegated
	s.tick(time.Second) // begun
	s.fakes["a"].idle = true
	s.ticks(3, time.Second)
	before := s.jobView()
	if before.Completed == 0 || before.Active == 0 {
		t.Fatalf("%+v\n%s", before, s.dump())
	}
	s.fakes["a"].linked = false
	s.ticks(120, time.Second)
	if v := s.jobView(); v.Completed != 10 {
		t.Fatalf("%+v\n%s", v, s.dump())
	}
	if got := s.did(); !slices.Equal(got, count(10)) {
		t.Fatalf("it did %v\n%s", got, s.dump())
	}
	// It is back, and what it still runs is not needed.
	s.fakes["a"].linked = true
	s.ticks(5, time.Second)
	if v := s.jobView(); v.Completed != 10 || s.running("app") != 0 {
		t.Errorf("%+v, %d run\n%s", v, s.running("app"), s.dump())
	}
}

// Another program, and a restart, are another run; fewer completions end what is too much.
func TestAJobRunsAgain(t *testing.T) {
	s := newSim(t, "a", "b")
	s.task(4, 4, nil)
	s.ticks(6, time.Second)
	s.task(4, 2, nil) // other terms
	s.ticks(6, time.Second)
	if got := s.did(); len(got) != 4 {
		t.Fatalf("it did %v", got)
	}
	s.again("app", -1)
	s.ticks(10, time.Second)
	if got := s.did(); len(got) != 8 {
		t.Fatalf("after a restart it did %v\n%s", got, s.dump())
	}
	s.again("app", 2)
	s.ticks(10, time.Second)
	if got := s.did(); len(got) != 9 {
		t.Fatalf("after a restart of one it did %v\n%s", got, s.dump())
	}
	s.task(3, 2, func(v *api.Service) { v.Command = []string{"y"} })
	s.ticks(10, time.Second)
	if v := s.jobView(); len(s.did()) != 12 || v.Completions != 3 || v.Outcome != wire.JobComplete {
		t.Errorf("%+v, it did %v\n%s", v, s.did(), s.dump())
	}
}

// A cluster that has no room gives the index back, and another one runs it.
func TestAnIndexIsGivenBack(t *testing.T) {
	s := newSim(t, "a", "b")
	s.fakes["a"].room, s.fakes["a"].boasts = 0, 20
	s.task(6, 2, nil)
	s.ticks(60, time.Second)
	if v := s.jobView(); v.Outcome != wire.JobComplete || len(s.fakes["a"].did) != 0 {
		t.Errorf("%+v\n%s", v, s.dump())
	}
}
