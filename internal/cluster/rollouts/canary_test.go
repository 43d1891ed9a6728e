package rollouts_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/jobs"
	"github.com/verge-edge/verge/internal/cluster/rollouts"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// answer lets each instance of a service answer n requests, of which failed of those that run
// a program fail, as their workers would say.
func answer(s *clustertest.Sim, svc string, n uint64, failed map[string]uint64) {
	by := map[string][]wire.InstanceAnswers{}
	for id, i := range s.Model.Insts {
		if o := s.Model.Orders[i.Worker+"."+id]; i.Service == svc && i.State == wire.Running && i.Ready && o != nil {
			by[i.Worker] = append(by[i.Worker],
				wire.InstanceAnswers{Instance: id, Answered: n, Failed: failed[o.Spec.Command[0]]})
		}
	}
	for w, list := range by {
		rollouts.Answered(s.Model, w, list, autoscale.Epoch, s.Now)
	}
}

// tried are the instances of which the routers know that they are tried, and their share.
func tried(s *clustertest.Sim, svc string) (n int, share api.Percent) {
	for _, e := range s.Model.Routes["app."+svc].Endpoints {
		if e.Trial {
			n, share = n+1, e.TrialShare
		}
	}
	return n, share
}

func canary(steps ...api.CanaryStep) func(*api.Service) {
	return func(v *api.Service) { v.Rollout.Canary = steps }
}

func step(share api.Percent, lasts time.Duration) api.CanaryStep {
	d := api.Duration(lasts)
	return api.CanaryStep{Share: share, For: &d}
}

// A revision is tried on its steps before anything that was promised is touched; what it is
// given never more than its instances can take, also where the cluster's process is another
// one in the middle.
func TestACanaryGoesStepByStep(t *testing.T) {
	for seed := range uint64(10) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		s.Share("web", 8, nil)
		s.Ticks(4, time.Second)
		s.Share("web", 8, clustertest.Program("y", canary(step(500, 20*time.Second), step(2500, 20*time.Second),
			step(5000, 20*time.Second))))
		seen := map[api.Percent]int{}
		for tick := 0; ; tick++ {
			s.Tick(time.Second)
			answer(s, "web", 20, nil)
			if rng.IntN(8) == 0 {
				s.Restart()
				s.Tick(0)
			}
			n, share := tried(s, "web")
			if ready, _ := s.Endpoints("web"); ready < 8 {
				t.Fatalf("seed %d: %d answer\n%s", seed, ready, s.Dump())
			}
			if n > 0 {
				if seen[share]++; s.Programs("web")["x"] != 8 || int(share)*8 > n*10000 {
					t.Fatalf("seed %d: %d instances get %s, and %v run\n%s", seed, n, share, s.Programs("web"),
						s.Dump())
				}
			}
			if phase, why := rolloutPhase(s, "web"); phase == wire.RolloutDone {
				break
			} else if tick > 300 || phase == wire.RolloutFailed {
				t.Fatalf("seed %d: it is %s: %s\n%s", seed, phase, why, s.Dump())
			}
		}
		s.Ticks(3, time.Second)
		for _, share := range []api.Percent{500, 2500, 5000} {
			if seen[share] < 20 {
				t.Errorf("seed %d: %s of the requests for %d s: %v", seed, share, seen[share], seen)
			}
		}
		if got := s.Programs("web"); got["y"] != 8 || len(got) != 1 || s.Running("web") != 8 {
			t.Fatalf("seed %d: %v run\n%s", seed, got, s.Dump())
		}
		if n, _ := tried(s, "web"); n != 0 {
			t.Errorf("seed %d: %d are tried still", seed, n)
		}
	}
}

// One that fails gets nothing any more at once, what was promised is untouched, and an undo
// leaves nothing of it; a view says what was measured.
func TestACanaryThatFailsGetsNothing(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 4, nil)
	s.Ticks(4, time.Second)
	s.Share("web", 4, clustertest.Program("y", canary(step(1000, time.Hour))))
	for range 20 {
		s.Tick(time.Second)
		answer(s, "web", 10, nil)
	}
	if n, share := tried(s, "web"); n != 1 || share != 1000 {
		t.Fatalf("%d are tried with %s\n%s", n, share, s.Dump())
	}
	if v := rollouts.UpTable.Rows(s.Model.DB)["app.web"]; v.Step != 1 || v.Steps != 1 || v.Share != 1000 ||
		v.New == nil || v.New.Requests == 0 || v.New.Failed != 0 || v.Old == nil || v.Old.Requests == 0 ||
		!strings.HasPrefix(v.Why, "step 1 of 1: 10% of the requests go to the new revision until ") {
		t.Errorf("it is seen as %+v", v)
	}
	for range 20 {
		answer(s, "web", 10, map[string]uint64{"y": 5})
	}
	s.Tick(time.Second)
	if n, share := tried(s, "web"); n != 1 || share != 0 {
		t.Fatalf("%d are tried with %s after it failed\n%s", n, share, s.Dump())
	}
	phase, why := rolloutPhase(s, "web")
	if v := rollouts.UpTable.Rows(s.Model.DB)["app.web"]; phase != wire.RolloutFailed ||
		!strings.HasPrefix(why, "of the requests to the new revision ") || v.New.Failed == 0 ||
		s.Programs("web")["x"] != 4 {
		t.Fatalf("it is %s: %s, %+v", phase, why, v)
	}
	s.Ticks(30, time.Second)
	if got := s.Programs("web"); got["x"] != 4 || got["y"] != 1 {
		t.Fatalf("%v answer", got)
	}
	starts := s.Starts()
	s.Share("web", 4, canary(step(1000, time.Hour))) // undo
	s.Ticks(5, time.Second)
	if phase, _ := rolloutPhase(s, "web"); phase != wire.RolloutDone || s.Running("web") != 4 ||
		s.Programs("web")["x"] != 4 || s.Starts() != starts {
		t.Fatalf("after an undo it is %s, %d starts\n%s", phase, s.Starts()-starts, s.Dump())
	}
	if n, _ := tried(s, "web"); n != 0 {
		t.Errorf("%d are tried still", n)
	}
}

// Errors stop any rollout over HTTP, unless as many were there before or nobody wants that;
// a worker is believed about its own instances only.
func TestErrorsStopARollout(t *testing.T) {
	for name, c := range map[string]struct {
		failed map[string]uint64
		change func(*api.Service)
		stops  bool
	}{
		"none":    {nil, nil, false},
		"the new": {map[string]uint64{"y": 5}, nil, true},
		"both":    {map[string]uint64{"x": 5, "y": 5}, nil, false},
		"the old": {map[string]uint64{"x": 5}, nil, false},
		"unwatched": {map[string]uint64{"y": 10},
			func(v *api.Service) { all := api.AllPercent; v.Rollout.MaxErrors = &all }, false},
	} {
		s := clustertest.NewSim(t, "w1", "w2")
		s.Share("web", 3, nil)
		s.Ticks(4, time.Second)
		s.Share("web", 3, clustertest.Program("y", func(v *api.Service) {
			d := api.Duration(20 * time.Second)
			v.Rollout.MinReady = &d
			if c.change != nil {
				c.change(v)
			}
		}))
		for range 120 {
			s.Tick(time.Second)
			answer(s, "web", 10, c.failed)
			for id, i := range s.Model.Insts {
				other := map[string]string{"w1": "w2", "w2": "w1"}[i.Worker]
				rollouts.Answered(s.Model, other, []wire.InstanceAnswers{{Instance: id, Answered: 1000, Failed: 1000}},
					autoscale.Epoch, s.Now)
			}
		}
		phase, why := rolloutPhase(s, "web")
		if want := map[bool]string{false: wire.RolloutDone, true: wire.RolloutFailed}[c.stops]; phase != want {
			t.Errorf("%s: it is %s: %s", name, phase, why)
		}
		if c.stops && s.Programs("web")["x"] != 3 {
			t.Errorf("%s: %v answer", name, s.Programs("web"))
		}
		if c.stops && !s.Model.Routes["app.web"].Requests.Counted {
			t.Errorf("%s: nobody counts", name)
		}
	}
}

// The first answers of a new revision count, also where they come sooner than a report is
// long: there may be no others for minutes.
func TestTheFirstAnswersCount(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 3, nil)
	s.Ticks(4, time.Second)
	s.Share("web", 3, clustertest.Program("y", canary(step(2000, time.Hour))))
	for n := 0; n == 0; n, _ = tried(s, "web") {
		s.Tick(autoscale.Epoch / 10)
	}
	answer(s, "web", 5, map[string]uint64{"y": 5})
	s.Ticks(2, time.Second)
	if phase, why := rolloutPhase(s, "web"); phase != wire.RolloutFailed {
		t.Errorf("it is %s: %s", phase, why)
	}
}

// Another version, another number, workers that come and go, errors and restarts in the
// middle of a canary: as many as promised answer wherever nothing took them away, and it ends
// with what was asked for last.
func TestACanaryInAnyTrouble(t *testing.T) {
	for seed := range uint64(15) {
		rng := rand.New(rand.NewPCG(seed, 6))
		names := []string{"w1", "w2", "w3"}
		s := clustertest.NewSim(t, names...)
		n, cmd := 3, "x"
		s.Share("web", n, nil)
		s.Ticks(4, time.Second)
		for range 60 {
			f := s.Workers[names[rng.IntN(3)]]
			switch rng.IntN(9) {
			case 0, 1:
				n, cmd = 1+rng.IntN(6), string(rune('a'+rng.IntN(3)))
				s.Share("web", n, clustertest.Program(cmd,
					canary(step(api.Percent(1+rng.IntN(4000)), time.Duration(1+rng.IntN(5))*time.Second),
						step(5000, time.Second))))
			case 2:
				f.Alive = !f.Alive
			case 3:
				f.Linked = !f.Linked
			case 4:
				f.Slow = rng.IntN(5)
			case 5:
				f.Broken["web"] = []string{"", "exit", "refuse"}[rng.IntN(3)]
			case 6:
				s.Restart()
			case 7:
				answer(s, "web", 50, map[string]uint64{cmd: uint64(rng.IntN(50))})
			case 8:
				pause(s, "web", rng.IntN(2) == 0)
			}
			s.Tick(time.Duration(rng.IntN(4000)) * time.Millisecond)
			if n, share := tried(s, "web"); n == 0 && share != 0 {
				t.Fatalf("seed %d: nobody gets %s", seed, share)
			}
		}
		if wrong := endTrouble(s, 150*time.Second, n, cmd); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}

// One record that cannot be written does not keep the others from being, and is told once.
func TestOneDamagedRecordStopsNoOther(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	for _, svc := range []string{"one", "two"} {
		s.Share(svc, 2, nil)
	}
	s.Ticks(3, time.Second)
	t0 := time.Date(12026, 1, 1, 0, 0, 0, 0, time.UTC) // JSON has no such year
	bad := *s.Instance("app.one.0")
	bad.Since = t0
	x := s.Model.Begin()
	x.Now = s.Now
	x.Put(bad)
	good := *s.Instance("app.two.0")
	good.Reason = "changed"
	x.Put(good)
	jobs.Table.Changes(x.Rows)["app.one"] = &jobs.Record{App: "app", Service: "one", Run: wire.JobRun{Began: t0}}
	jobs.Table.Changes(x.Rows)["app.two"] = &jobs.Record{App: "app", Service: "two"}
	rollouts.Table.Changes(x.Rows)["app.one"] = &rollouts.Record{App: "app", Service: "one", Began: t0}
	groups, err := x.Encode()
	if err == nil || !strings.Contains(err.Error(), "app.one") || strings.Contains(err.Error(), "app.two") {
		t.Fatalf("it is told %v", err)
	}
	keys := ""
	for _, g := range groups {
		for _, op := range g {
			keys += op.Key + " "
		}
	}
	if strings.Contains(keys, "app.one") || !strings.Contains(keys, state.KeyInstance+"app.two.0") ||
		!strings.Contains(keys, jobs.Key+"app.two") {
		t.Errorf("written are %s", keys)
	}
	x.Done()
	if s.Instance("app.one.0").Since.Equal(t0) || jobs.Table.Rows(s.Model.DB)["app.one"] != nil ||
		rollouts.Table.Rows(s.Model.DB)["app.one"] != nil || s.Instance("app.two.0").Reason != "changed" {
		t.Error("what is in memory is not what is stored")
	}
	if fmt.Sprint(s.Model.Insts["app.one.1"].State) != string(wire.Running) {
		t.Error("another instance has changed")
	}
}
