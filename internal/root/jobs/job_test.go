package jobs_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/job"
	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

// task applies a job.
func task(s *roottest.Sim, completions, parallelism int, change func(*api.Service)) {
	s.Apply("app", completions, func(v *api.Service) {
		v.Ports, v.Restart.Policy = nil, "never"
		v.Job = &api.Job{Completions: completions, Parallelism: parallelism}
		if change != nil {
			change(v)
		}
	})
}

// did are the indexes that were completed, of all clusters, in order.
func did(s *roottest.Sim) (out []int) {
	for _, f := range s.Clusters {
		for _, d := range f.Completed {
			_, x, _ := strings.Cut(d, "/")
			n, _ := strconv.Atoi(x)
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out
}

func jobView(s *roottest.Sim) apiv1.JobView {
	v, _ := jobs.View(s.Model, s.Model.Apps["app"], "web", s.Model.Begin().Of("app", "web"))
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
	s := roottest.NewSim(t, "a", "b")
	s.Clusters["a"].Room, s.Clusters["b"].Room = 30, 10
	task(s, 40, 4, nil)
	for range 80 {
		s.Tick(time.Second)
		if n := s.Running("app"); n > 4 {
			t.Fatalf("%d run at a time\n%s", n, s.Dump())
		}
		total := 0
		for _, sh := range s.Model.Shares {
			total += job.Parallel(sh)
		}
		if total > 4 {
			t.Fatalf("%d may run at a time in all clusters", total)
		}
	}
	if got := did(s); !slices.Equal(got, count(40)) {
		t.Fatalf("it did %v\n%s", got, s.Dump())
	}
	if a, b := len(s.Clusters["a"].Completed), len(s.Clusters["b"].Completed); a == 0 || b == 0 {
		t.Errorf("%d and %d were divided", a, b)
	}
	v := status.Service(s.Model, s.Model.Apps["app"], "web")
	if v.Job.Outcome != wire.JobComplete || v.Message != "" {
		t.Errorf("it is %+v, %s", v.Job, v.Message)
	}
	// Nothing of that is lost with the process, or with a cluster that is removed.
	s.Reopen()
	if v := jobView(s); v.Completed != 40 {
		t.Errorf("after a restart %+v", v)
	}
	delete(s.Model.Clusters, "a")
	delete(s.Disk, state.KeyCluster+"a")
	delete(s.Clusters, "a")
	s.Ticks(5, time.Second)
	if v := jobView(s); v.Completed != 40 || len(did(s)) >= 40 {
		t.Errorf("without the cluster %+v, %v\n%s", v, did(s), s.Dump())
	}
}

// What a lost cluster had is run elsewhere, but not what it had completed.
func TestIndexesOfALostCluster(t *testing.T) {
	s := roottest.NewSim(t, "a", "b")
	task(s, 10, 10, nil)
	s.Tick(time.Second) // delegated
	s.Tick(time.Second) // begun
	s.Clusters["a"].HoldsJobs = true
	s.Ticks(3, time.Second)
	before := jobView(s)
	if before.Completed == 0 || before.Active == 0 {
		t.Fatalf("%+v\n%s", before, s.Dump())
	}
	s.Clusters["a"].Linked = false
	s.Ticks(120, time.Second)
	if v := jobView(s); v.Completed != 10 {
		t.Fatalf("%+v\n%s", v, s.Dump())
	}
	if got := did(s); !slices.Equal(got, count(10)) {
		t.Fatalf("it did %v\n%s", got, s.Dump())
	}
	// It is back, and what it still runs is not needed.
	s.Clusters["a"].Linked = true
	s.Ticks(5, time.Second)
	if v := jobView(s); v.Completed != 10 || s.Running("app") != 0 {
		t.Errorf("%+v, %d run\n%s", v, s.Running("app"), s.Dump())
	}
}

// Another program, and a restart, are another run; fewer completions end what is too much.
func TestAJobRunsAgain(t *testing.T) {
	s := roottest.NewSim(t, "a", "b")
	task(s, 4, 4, nil)
	s.Ticks(6, time.Second)
	task(s, 4, 2, nil) // other terms
	s.Ticks(6, time.Second)
	if got := did(s); len(got) != 4 {
		t.Fatalf("it did %v", got)
	}
	s.Restart("app", -1)
	s.Ticks(10, time.Second)
	if got := did(s); len(got) != 8 {
		t.Fatalf("after a restart it did %v\n%s", got, s.Dump())
	}
	s.Restart("app", 2)
	s.Ticks(10, time.Second)
	if got := did(s); len(got) != 9 {
		t.Fatalf("after a restart of one it did %v\n%s", got, s.Dump())
	}
	task(s, 3, 2, func(v *api.Service) { v.Command = []string{"y"} })
	s.Ticks(10, time.Second)
	if v := jobView(s); len(did(s)) != 12 || v.Completions != 3 || v.Outcome != wire.JobComplete {
		t.Errorf("%+v, it did %v\n%s", v, did(s), s.Dump())
	}
}

// A cluster that has no room gives the index back, and another one runs it.
func TestAnIndexIsGivenBack(t *testing.T) {
	s := roottest.NewSim(t, "a", "b")
	s.Clusters["a"].Room, s.Clusters["a"].ClaimedRoom = 0, 20
	task(s, 6, 2, nil)
	s.Ticks(60, time.Second)
	if v := jobView(s); v.Outcome != wire.JobComplete || len(s.Clusters["a"].Completed) != 0 {
		t.Errorf("%+v\n%s", v, s.Dump())
	}
}
