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
	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

var ssd = map[string]string{"disk": "ssd"}

func TestAShareIsFulfilled(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 4, nil)
	s.ticks(3, time.Second)
	if n := s.running("web"); n != 4 {
		t.Fatalf("%d run, want 4\n%s", n, s.dump())
	}
	if a, b := len(s.fakes["w1"].has), len(s.fakes["w2"].has); a != 2 || b != 2 {
		t.Errorf("%d and %d on the two workers, want an even spread", a, b)
	}
	if ready, suspect := s.endpoints("web"); ready != 4 || suspect != 0 {
		t.Errorf("%d ready and %d suspect endpoints, want 4 and 0", ready, suspect)
	}
	i := s.inst("app.web.0")
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

func TestALostWorkerIsReplacedAfterItsTimeAndNotBefore(t *testing.T) {
	s := newSim(t, "w1", "w2")
	after := api.Duration(20 * time.Second)
	s.share("web", 2, func(v *api.Service) { v.ReplaceAfter = &after })
	s.ticks(3, time.Second)
	s.fakes["w1"].alive = false
	s.tick(time.Second)
	if ready, suspect := s.endpoints("web"); ready != 1 || suspect != 1 {
		t.Fatalf("after the loss: %d ready, %d suspect endpoints, want 1 and 1", ready, suspect)
	}
	s.ticks(18, time.Second)
	if n := s.running("web"); n != 1 {
		t.Fatalf("replaced before replace_after: %d run\n%s", n, s.dump())
	}
	s.ticks(5, time.Second)
	if n := s.running("web"); n != 2 {
		t.Fatalf("%d run after replace_after, want 2\n%s", n, s.dump())
	}
	if ready, suspect := s.endpoints("web"); ready != 2 || suspect != 0 {
		t.Errorf("%d ready, %d suspect endpoints, want 2 and 0", ready, suspect)
	}
}

// A worker that nobody hears may answer requests all the same. As long as nothing
// runs in the place of what it had, routers may try it.
func TestALostPlacementServesUntilItIsReplaced(t *testing.T) {
	s := newSim(t, "w1")
	zero := api.Duration(0)
	s.share("web", 1, func(v *api.Service) { v.ReplaceAfter = &zero })
	s.ticks(3, time.Second)
	s.fakes["w1"].linked = false
	s.ticks(40, time.Second)
	if ready, suspect := s.endpoints("web"); ready != 0 || suspect != 1 {
		t.Errorf("nobody can replace it: %d ready, %d suspect endpoints, want 0 and 1", ready, suspect)
	}
	if up := s.m.Ups["app.web.0"]; up.Address != "w1:8474" || up.State == wire.Running {
		t.Errorf("the root is told %+v", up)
	}
	s.addWorker("w2")
	s.ticks(3, time.Second)
	if ready, suspect := s.endpoints("web"); ready != 1 || suspect != 0 {
		t.Errorf("it is replaced: %d ready, %d suspect endpoints, want 1 and 0", ready, suspect)
	}
}

// The only worker is away for longer than replace_after, and its instance goes on
// there: what is back is kept as it was, and nothing is started again.
func TestTheOnlyWorkerComesBackWithWhatItRan(t *testing.T) {
	s := newSim(t, "w1")
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	s.fakes["w1"].linked = false
	s.ticks(120, time.Second)
	up := s.m.Ups["app.web.0"]
	if up.State != wire.Requested || !up.Retained {
		t.Errorf("the root is told %+v", up)
	}
	s.fakes["w1"].linked = true
	s.ticks(3, time.Second)
	if i := s.inst("app.web.0"); i.State != wire.Running || !i.Ready || i.Incarnation != 1 || s.fakes["w1"].starts != 2 || s.m.Ups[i.ID].Retained {
		t.Errorf("%d starts, want those from before\n%s", s.fakes["w1"].starts, s.dump())
	}
}

func TestWhoStaysOnReturn(t *testing.T) {
	for _, tc := range []struct{ onReturn, stays string }{{"original", "w1"}, {"replacement", "w2"}} {
		t.Run(tc.onReturn, func(t *testing.T) {
			s := newSim(t, "w1")
			zero := api.Duration(0)
			s.share("web", 1, func(v *api.Service) { v.ReplaceAfter, v.OnReturn = &zero, tc.onReturn })
			s.ticks(3, time.Second)
			s.addWorker("w2")
			s.tick(time.Second)
			s.fakes["w1"].linked = false // cut off, and it goes on running
			s.ticks(4, time.Second)
			if n := s.running("web"); n != 2 {
				t.Fatalf("while cut off %d run, want the original and its replacement\n%s", n, s.dump())
			}
			s.fakes["w1"].linked = true
			s.ticks(4, time.Second)
			if n := s.running("web"); n != 1 {
				t.Fatalf("%d run after the return, want 1\n%s", n, s.dump())
			}
			i := s.inst("app.web.0")
			if i.Worker != tc.stays || i.State != wire.Running || !i.Ready || i.Shadow != nil {
				t.Fatalf("stays on %s in state %s, want %s\n%s", i.Worker, i.State, tc.stays, s.dump())
			}
			if n := s.fakes["w1"].starts; n != 1 {
				t.Errorf("the original was started %d times, want 1", n)
			}
		})
	}
}

func TestAShortAbsenceChangesNothing(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	s.fakes["w1"].linked = false
	s.ticks(10, time.Second)
	s.fakes["w1"].linked = true
	s.ticks(3, time.Second)
	if a, b := s.fakes["w1"].starts, s.fakes["w2"].starts; a != 1 || b != 1 {
		t.Errorf("%d and %d starts, want one each", a, b)
	}
	if ready, suspect := s.endpoints("web"); ready != 2 || suspect != 0 {
		t.Errorf("%d ready, %d suspect, want 2 and 0", ready, suspect)
	}
}

func TestFailingForGoodMovesOn(t *testing.T) {
	for _, how := range []string{"exit", "refuse"} {
		t.Run(how, func(t *testing.T) {
			s := newSim(t, "w1", "w2")
			s.fakes["w1"].broken["web"] = how
			s.share("web", 2, func(v *api.Service) { v.Spread = "none" })
			s.ticks(6, time.Second)
			if n := len(s.fakes["w2"].has); n != 2 || s.running("web") != 2 {
				t.Fatalf("%d run on the sound worker, want 2\n%s", n, s.dump())
			}
		})
	}
}

func TestWhatNobodyCanTakeGoesBackWithItsReason(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.tick(time.Second)
	s.share("big", 1, func(v *api.Service) { v.Resources.Memory = 4 << 30 })
	s.ticks(3, time.Second)
	i := s.inst("app.big.0")
	if i.State != wire.Requested || !strings.Contains(i.Reason, "memory") {
		t.Fatalf("%s: %q, want Requested for lack of memory", i.State, i.Reason)
	}
	if up := s.m.Ups["app.big.0"]; up == nil || up.State != wire.Requested {
		t.Errorf("the root is told %+v", up)
	}
	// The root is away; there is room again, and the site heals by itself.
	s.m.Workers["w2"].Info.Capacity.Memory = 8 << 30
	s.ticks(3, time.Second)
	if i := s.inst("app.big.0"); i.State != wire.Running || i.Worker != "w2" {
		t.Errorf("%s on %q, want Running on w2", i.State, i.Worker)
	}
}

func TestEndsAreGraceful(t *testing.T) {
	s := newSim(t, "w1")
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	s.unshare("web")
	s.tick(0)
	if ready, _ := s.endpoints("web"); ready != 0 {
		t.Errorf("%d endpoints while draining, want none", ready)
	}
	if o := s.m.Orders["w1.app.web.0"]; o == nil || !o.Stop {
		t.Fatalf("order %+v, want a stop", o)
	}
	s.ticks(4, time.Second)
	if len(s.m.Insts)+len(s.m.Orders)+len(s.m.Ups) > 0 || len(s.fakes["w1"].has) > 0 {
		t.Errorf("something is left: %s %v", s.dump(), s.m.Orders)
	}
}

func TestAnUpdateRollsOneAtATime(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 3, nil)
	s.ticks(3, time.Second)
	s.share("web", 3, func(v *api.Service) { v.Env = map[string]string{"A": "2"} })
	for range 12 {
		s.tick(time.Second)
		if ready, _ := s.endpoints("web"); ready < 2 {
			t.Fatalf("only %d of 3 answer during the update\n%s", ready, s.dump())
		}
	}
	for o := range 3 {
		if i := s.inst(fmt.Sprintf("app.web.%d", o)); i.Revision != 2 || i.Incarnation != 2 || !i.Ready {
			t.Errorf("%s: revision %d incarnation %d ready %v", i.ID, i.Revision, i.Incarnation, i.Ready)
		}
	}
	starts := s.fakes["w1"].starts + s.fakes["w2"].starts
	// What does not concern the program restarts nothing.
	s.share("web", 3, func(v *api.Service) { v.Env, v.OnReturn = map[string]string{"A": "2"}, "newest" })
	s.ticks(6, time.Second)
	if now := s.fakes["w1"].starts + s.fakes["w2"].starts; now != starts {
		t.Errorf("%d restarts for a change that needs none", now-starts)
	}
	i := s.inst("app.web.0")
	if o := s.m.Orders[i.Worker+".app.web.0"]; i.Revision != 3 || o.Revision != 3 || o.Spec.OnReturn != "newest" {
		t.Errorf("revision %d, ordered %d, want 3 and the new terms", i.Revision, o.Revision)
	}
}

func TestARestartedClusterChangesNothing(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 3, nil)
	s.ticks(3, time.Second)
	before := len(s.disk)
	for _, f := range s.fakes {
		f.linked = false // they take a while to come back
	}
	s.restart()
	s.ticks(10, time.Second)
	for _, f := range s.fakes {
		f.linked = true
	}
	s.ticks(3, time.Second)
	if a, b := s.fakes["w1"].starts, s.fakes["w2"].starts; a+b != 3 {
		t.Errorf("%d starts, want the 3 from before the restart", a+b)
	}
	if ready, _ := s.endpoints("web"); ready != 3 || len(s.disk) != before {
		t.Errorf("%d endpoints, %d keys, want 3 and %d", ready, len(s.disk), before)
	}
}

func TestNothingLeavesAClosedCluster(t *testing.T) {
	s := newSim(t, "w-secret")
	s.m.Details = false
	s.m.Peer = func(string) string { return "opaque" }
	s.share("web", 1, nil)
	s.ticks(3, time.Second)
	up := s.disk[state.KeyUp+"app.web.0"]
	// The data address is the one thing that routers of others need.
	if text := strings.ReplaceAll(string(up), `"address":"w-secret:8474"`, ""); strings.Contains(text, "w-secret") {
		t.Errorf("the root is told the worker's name: %s", up)
	}
}

// No route leads to a worker whose key was revoked, also where nobody takes the place
// of what it ran.
func TestNobodyIsSentToWhoIsRevoked(t *testing.T) {
	s := newSim(t, "w1")
	s.share("web", 1, nil)
	s.ticks(3, time.Second)
	if ready, _ := s.endpoints("web"); ready != 1 {
		t.Fatalf("%d endpoints", ready)
	}
	s.m.Workers["w1"].Revoked = s.now
	s.fakes["w1"].linked = false
	s.ticks(1, time.Second)
	if r := s.m.Routes["app.web"]; r == nil || len(r.Endpoints) != 0 {
		t.Errorf("the route is %+v", r)
	}
	if up := string(s.disk[state.KeyUp+"app.web.0"]); strings.Contains(up, "w1:8474") {
		t.Errorf("the root is told %s", up)
	}
}

// Whatever happens, in whatever order: what must hold holds after every pass,
// and once all is well again everything that is wanted runs exactly once.
func TestAnyTroubleEndsWell(t *testing.T) {
	for seed := range uint64(40) {
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newSim(t, "w1", "w2", "w3")
		var shared clonetest.Records
		names := []string{"w1", "w2", "w3"}
		for _, w := range names[1:] {
			s.know(w, func(w *wire.WorkerInfo) { w.Labels = ssd })
		}
		services := map[string]int{}
		for range 120 {
			w := s.fakes[names[rng.IntN(3)]]
			svc := []string{"a", "b"}[rng.IntN(2)]
			switch rng.IntN(10) {
			case 9:
				s.again(svc, rng.IntN(5)-1)
			case 0:
				w.alive = false
			case 1, 2:
				w.alive, w.linked = true, true
			case 3:
				w.linked = false
			case 4:
				services[svc] = rng.IntN(5)
				after := api.Duration(rng.IntN(10)) * api.Duration(time.Second)
				keep := []string{"original", "replacement", "newest"}[rng.IntN(3)]
				rev := fmt.Sprint(rng.IntN(2))
				labels := []map[string]string{nil, ssd}[rng.IntN(2)]
				need := []api.CPU{100, 100, 220}[rng.IntN(3)]
				s.share(svc, services[svc], func(v *api.Service) {
					v.Resources.CPU = need
					v.ReplaceAfter, v.OnReturn, v.Env, v.Affinity.Labels = &after, keep, map[string]string{"R": rev}, labels
				})
			case 5:
				s.unshare(svc)
				services[svc] = 0
			case 6:
				w.broken[svc] = []string{"", "exit", "refuse"}[rng.IntN(3)]
			case 7:
				s.restart()
			}
			s.tick(time.Duration(rng.IntN(4000)) * time.Millisecond)
			if seed < 4 { // more costs too much
				for _, what := range shared.Check(s.m, immutable) {
					t.Fatalf("seed %d: what a plan shares %s", seed, what)
				}
			}
		}
		for _, f := range s.fakes {
			f.alive, f.linked, f.broken = true, true, map[string]string{}
		}
		s.resume()
		s.ticks(200, time.Second)
		for _, i := range s.m.Insts {
			if n := restartOf(s.m.Shares[i.App+"."+i.Service], i.Ordinal).N; i.Restarted < n {
				t.Fatalf("seed %d: %s is at restart %d of %d\n%s", seed, i.ID, i.Restarted, n, s.dump())
			}
		}
		for svc, n := range services {
			if got := s.running(svc); got != n {
				t.Fatalf("seed %d: %d of service %s run, want %d\n%s", seed, got, svc, n, s.dump())
			}
			if ready, suspect := s.endpoints(svc); ready != n || suspect != 0 {
				t.Fatalf("seed %d: service %s has %d ready and %d suspect endpoints, want %d\n%s", seed, svc, ready, suspect, n, s.dump())
			}
			for o := range n {
				if i := s.inst(fmt.Sprintf("app.%s.%d", svc, o)); s.m.Shares["app."+svc].Spec.Affinity.Labels != nil && i.Worker == "w1" {
					t.Fatalf("seed %d: %s is on a worker that it may not be on\n%s", seed, i.ID, s.dump())
				}
			}
		}
	}
}

func TestAnAnnouncedRestartGetsMoreTime(t *testing.T) {
	s := newSim(t, "w1", "w2")
	after := api.Duration(3 * time.Second)
	s.share("web", 2, func(v *api.Service) { v.ReplaceAfter = &after })
	s.ticks(3, time.Second)
	s.m.Workers["w1"].Leaving = true
	s.fakes["w1"].linked = false
	s.ticks(60, time.Second)
	if n := s.fakes["w2"].starts; n != 1 {
		t.Fatalf("replaced within a minute of an announced restart\n%s", s.dump())
	}
	s.ticks(6, time.Second)
	if n := s.fakes["w2"].starts; n != 2 {
		t.Errorf("not replaced after the announced time\n%s", s.dump())
	}
}
