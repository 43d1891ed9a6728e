package rollingupdate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/wire"
)

func TestARestartRollsOneAtATime(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 3, nil)
	s.Ticks(3, time.Second)
	where := map[string]string{}
	for id, i := range s.Model.Insts {
		where[id] = i.Worker
	}
	n := s.MarkRestart("web", -1)
	for range 12 {
		s.Tick(time.Second)
		if ready, _ := s.Endpoints("web"); ready < 2 {
			t.Fatalf("only %d of 3 answer during the restart\n%s", ready, s.Dump())
		}
	}
	for o := range 3 {
		i := s.Instance(fmt.Sprintf("app.web.%d", o))
		if i.Restarted != n || i.Incarnation != 2 || !i.Ready || i.Worker != where[i.ID] {
			t.Errorf("%s: restarted %d incarnation %d ready %v on %s", i.ID, i.Restarted, i.Incarnation, i.Ready,
				i.Worker)
		}
		if h := i.History[len(i.History)-2]; h.To != wire.WorkerScheduled || h.Why != "restarted by admin: a test" {
			t.Errorf("%s: history %+v", i.ID, h)
		}
	}
	// It is a level, not an edge: nothing happens twice, not in a new process, and
	// not to instances that come later.
	s.Restart()
	s.Share("web", 4, nil)
	s.Ticks(6, time.Second)
	if got := s.Starts(); got != 7 {
		t.Errorf("%d starts, want 3, 3 again and 1 more\n%s", got, s.Dump())
	}
}

func TestOneInstanceIsRestarted(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 3, nil)
	s.Ticks(3, time.Second)
	s.MarkRestart("web", 1)
	s.Ticks(5, time.Second)
	for o, want := range []int{1, 2, 1} {
		if i := s.Instance(fmt.Sprintf("app.web.%d", o)); i.Incarnation != want || !i.Ready {
			t.Errorf("%s: incarnation %d, want %d", i.ID, i.Incarnation, want)
		}
	}
}

// What is cut off is started again when it is back, whether it had been replaced
// meanwhile or not.
func TestARestartWaitsForTheWorker(t *testing.T) {
	for _, away := range []int{5, 60} {
		s := clustertest.NewSim(t, "w1", "w2")
		s.Share("web", 2, nil)
		s.Ticks(3, time.Second)
		s.Workers["w1"].Linked = false
		s.Tick(time.Second)
		n := s.MarkRestart("web", -1)
		s.Ticks(away, time.Second)
		if got := s.Workers["w2"].Starts; away < 20 && got != 1 {
			t.Errorf("away %d s: a sibling was restarted while the other was unreachable\n%s", away, s.Dump())
		}
		s.Workers["w1"].Linked = true
		s.Ticks(8, time.Second)
		for _, i := range s.Model.Insts {
			if i.Restarted != n || !i.Ready {
				t.Errorf("away %d s: %s restarted %d, ready %v", away, i.ID, i.Restarted, i.Ready)
			}
		}
		if got := s.Running("web"); got != 2 {
			t.Errorf("away %d s: %d run\n%s", away, got, s.Dump())
		}
	}
}

// A service that is not to be restarted runs again when its program changes, or
// when somebody asks for it; not for any other change.
func TestWhatEndedRunsAgainForAReason(t *testing.T) {
	for _, how := range []string{"exit", "complete"} {
		t.Run(how, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1", "w2")
			never := func(more func(*api.Service)) func(*api.Service) {
				return func(v *api.Service) {
					v.Restart.Policy = "never"
					if more != nil {
						more(v)
					}
				}
			}
			program := func(v *api.Service) { v.Env = map[string]string{"A": "2"} }
			for _, f := range s.Workers {
				f.Broken["job"] = how
			}
			want := 0
			after := func(what string, n int) {
				t.Helper()
				s.Ticks(5, time.Second)
				if want += n; s.Starts() != want {
					t.Fatalf("%s: %d starts, want %d\n%s", what, s.Starts(), want, s.Dump())
				}
				if i := s.Instance("app.job.0"); i.Revision != s.Model.Shares["app.job"].Revision {
					t.Errorf("%s: revision %d of %d", what, i.Revision, s.Model.Shares["app.job"].Revision)
				}
			}
			s.Share("job", 1, never(nil))
			after("at first", 1)
			s.Restart()
			after("another process", 0)
			s.Share("job", 1, never(func(v *api.Service) { v.OnReturn = "newest" }))
			after("other terms", 0)
			s.Share("job", 1, never(program))
			after("another program", 1)
			s.MarkRestart("job", -1)
			after("asked for", 1)
			s.Restart()
			after("another process", 0)
			if why := s.Instance("app.job.0").History; how == "complete" &&
				!strings.Contains(why[1].Why, "restarted by admin") {
				t.Errorf("history %+v", why)
			}
			// There is no room for the new program at first.
			s.Share("job", 1, never(func(v *api.Service) { v.Resources.Memory = 2 << 30 }))
			after("no room", 0)
			s.Model.Workers["w2"].Info.Capacity.Memory = 4 << 30
			after("room", 1)
		})
	}
}
