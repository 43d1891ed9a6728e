package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

func TestAShareIsFulfilled(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 4, nil)
	s.Ticks(3, time.Second)
	if n := s.Running("web"); n != 4 {
		t.Fatalf("%d run, want 4\n%s", n, s.Dump())
	}
	if a, b := len(s.Workers["w1"].Statuses), len(s.Workers["w2"].Statuses); a != 2 || b != 2 {
		t.Errorf("%d and %d on the two workers, want an even spread", a, b)
	}
	if ready, suspect := s.Endpoints("web"); ready != 4 || suspect != 0 {
		t.Errorf("%d ready and %d suspect endpoints, want 4 and 0", ready, suspect)
	}
	i := s.Instance("app.web.0")
	var path []string
	for _, h := range i.History {
		path = append(path, string(h.To))
	}
	if got := strings.Join(path, " "); got != "ClusterScheduled WorkerScheduled Running" {
		t.Errorf("history %s", got)
	}
	if i.Incarnation != 1 {
		t.Errorf("incarnation %d, want 1", i.Incarnation)
	}
}

func TestWhatNobodyCanTakeGoesBackWithItsReason(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Tick(time.Second)
	s.Share("big", 1, func(v *api.Service) { v.Resources.Memory = 4 << 30 })
	s.Ticks(3, time.Second)
	i := s.Instance("app.big.0")
	if i.State != wire.Requested || !strings.Contains(i.Reason, "memory") {
		t.Fatalf("%s: %q, want Requested for lack of memory", i.State, i.Reason)
	}
	if up := s.Model.Ups["app.big.0"]; up == nil || up.State != wire.Requested {
		t.Errorf("the root is told %+v", up)
	}
	// The root is away; there is room again, and the site heals by itself.
	s.Model.Workers["w2"].Info.Capacity.Memory = 8 << 30
	s.Ticks(3, time.Second)
	if i := s.Instance("app.big.0"); i.State != wire.Running || i.Worker != "w2" {
		t.Errorf("%s on %q, want Running on w2", i.State, i.Worker)
	}
}

func TestARestartedClusterChangesNothing(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 3, nil)
	s.Ticks(3, time.Second)
	before := len(s.Disk)
	for _, f := range s.Workers {
		f.Linked = false // they take a while to come back
	}
	s.Restart()
	s.Ticks(10, time.Second)
	for _, f := range s.Workers {
		f.Linked = true
	}
	s.Ticks(3, time.Second)
	if a, b := s.Workers["w1"].Starts, s.Workers["w2"].Starts; a+b != 3 {
		t.Errorf("%d starts, want the 3 from before the restart", a+b)
	}
	if ready, _ := s.Endpoints("web"); ready != 3 || len(s.Disk) != before {
		t.Errorf("%d endpoints, %d keys, want 3 and %d", ready, len(s.Disk), before)
	}
}

func TestNothingLeavesAClosedCluster(t *testing.T) {
	s := clustertest.NewSim(t, "w-secret")
	s.Model.Details = false
	s.Model.Peer = func(string) string { return "opaque" }
	s.Share("web", 1, nil)
	s.Ticks(3, time.Second)
	up := s.Disk[state.KeyUp+"app.web.0"]
	// The data address is the one thing that routers of others need.
	if text := strings.ReplaceAll(string(up), `"address":"w-secret:8474"`, ""); strings.Contains(text, "w-secret") {
		t.Errorf("the root is told the worker's name: %s", up)
	}
}

// No route leads to a worker whose key was revoked, also where nobody takes the place
// of what it ran.
func TestNobodyIsSentToWhoIsRevoked(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Share("web", 1, nil)
	s.Ticks(3, time.Second)
	if ready, _ := s.Endpoints("web"); ready != 1 {
		t.Fatalf("%d endpoints", ready)
	}
	s.Model.Workers["w1"].Revoked = s.Now
	s.Workers["w1"].Linked = false
	s.Ticks(1, time.Second)
	if r := s.Model.Routes["app.web"]; r == nil || len(r.Endpoints) != 0 {
		t.Errorf("the route is %+v", r)
	}
	if up := string(s.Disk[state.KeyUp+"app.web.0"]); strings.Contains(up, "w1:8474") {
		t.Errorf("the root is told %s", up)
	}
}

// Whatever happens, in whatever order: what must hold holds after every pass,
// and once all is well again everything that is wanted runs exactly once.
func TestAnyTroubleEndsWell(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		var shared clonetest.Records
		names := []string{"w1", "w2", "w3"}
		for _, w := range names[1:] {
			s.UpdateInfo(w, func(w *wire.WorkerInfo) { w.Labels = clustertest.SSD })
		}
		services := map[string]int{}
		for range 120 {
			w := s.Workers[names[rng.IntN(3)]]
			svc := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(10) {
			case 9:
				s.MarkRestart(svc, rng.IntN(5)-1)
			case 0:
				w.Alive = false
			case 1, 2:
				w.Alive, w.Linked = true, true
			case 3:
				w.Linked = false
			case 4:
				services[svc] = rng.IntN(5)
				after := api.Duration(rng.IntN(10)) * api.Duration(time.Second)
				keep := []string{"original", "replacement", "newest"}[rng.IntN(3)]
				rev := fmt.Sprint(rng.IntN(2))
				labels := []map[string]string{nil, clustertest.SSD}[rng.IntN(2)]
				need := []api.CPU{100, 100, 220}[rng.IntN(3)]
				s.Share(svc, services[svc], func(v *api.Service) {
					v.Resources.CPU = need
					v.ReplaceAfter, v.OnReturn, v.Env, v.Affinity.Labels = &after, keep, map[string]string{"R": rev},
						labels
				})
			case 5:
				s.Unshare(svc)
				services[svc] = 0
			case 6:
				w.Broken[svc] = []string{"", "exit", "refuse"}[rng.IntN(3)]
			case 7:
				s.Restart()
			}
			s.Tick(time.Duration(rng.IntN(4000)) * time.Millisecond)
			if seed < 4 { // more costs too much
				for _, what := range shared.Check(s.Model, clustertest.Immutable) {
					t.Fatalf("seed %d: what a plan shares %s", seed, what)
				}
			}
		}
		for _, f := range s.Workers {
			f.Alive, f.Linked, f.Broken = true, true, map[string]string{}
		}
		s.Resume()
		s.Ticks(200, time.Second)
		for _, i := range s.Model.Insts {
			if n := state.RestartOf(s.Model.Shares[i.App+"."+i.Service], i.Ordinal).N; i.Restarted < n {
				t.Fatalf("seed %d: %s is at restart %d of %d\n%s", seed, i.ID, i.Restarted, n, s.Dump())
			}
		}
		for svc, n := range services {
			if got := s.Running(svc); got != n {
				t.Fatalf("seed %d: %d of service %s run, want %d\n%s", seed, got, svc, n, s.Dump())
			}
			if ready, suspect := s.Endpoints(svc); ready != n || suspect != 0 {
				t.Fatalf("seed %d: service %s has %d ready and %d suspect endpoints, want %d\n%s", seed, svc, ready,
					suspect, n, s.Dump())
			}
			for o := range n {
				if i := s.Instance(fmt.Sprintf("app.%s.%d", svc,
					o)); s.Model.Shares["app."+svc].Spec.Affinity.Labels != nil && i.Worker == "w1" {
					t.Fatalf("seed %d: %s is on a worker that it may not be on\n%s", seed, i.ID, s.Dump())
				}
			}
		}
	}
}
