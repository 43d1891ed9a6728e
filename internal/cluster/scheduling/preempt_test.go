package scheduling_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/localedit"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/scheduling"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

func TestHigherPriorityDisplaces(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.SetCPU(1000)
	s.Share("low", 4, clustertest.Rank(0, 500))
	s.Ticks(4, time.Second)
	if n := s.Answering("low"); n != 4 {
		t.Fatalf("%d of low\n%s", n, s.Dump())
	}
	// An equal displaces nobody.
	s.Share("equal", 1, clustertest.Rank(0, 500))
	s.Ticks(4, time.Second)
	if i := s.Instance("app.equal.0"); i.State != wire.Requested || s.Answering("low") != 4 {
		t.Fatalf("equal is %s\n%s", i.State, s.Dump())
	}
	s.Unshare("equal")
	s.Share("high", 2, clustertest.Rank(5, 500))
	s.Ticks(8, time.Second)
	if s.Answering("high") != 2 || s.Answering("low") != 2 {
		t.Fatalf("%d of high, %d of low\n%s", s.Answering("high"), s.Answering("low"), s.Dump())
	}
	waiting := 0
	for _, i := range s.Model.Insts {
		if i.Service != "low" || i.State != wire.Requested {
			continue
		}
		waiting++
		said := false
		for _, h := range i.History {
			said = said || strings.Contains(h.Why, "displaced by app.high.") &&
				strings.Contains(h.Why, "which has priority 5")
		}
		if !said {
			t.Errorf("%s does not say what displaced it: %+v", i.ID, i.History)
		}
	}
	if waiting != 2 {
		t.Errorf("%d wait\n%s", waiting, s.Dump())
	}
	// It is at rest: nobody displaces back.
	starts := s.Starts()
	s.Ticks(30, time.Second)
	if s.Starts() != starts || s.Answering("high") != 2 || s.Answering("low") != 2 {
		t.Errorf("%d starts, it were %d\n%s", s.Starts(), starts, s.Dump())
	}
	// What waits comes back when there is room.
	s.Unshare("high")
	s.Ticks(8, time.Second)
	if s.Answering("low") != 4 {
		t.Errorf("%d of low after high went\n%s", s.Answering("low"), s.Dump())
	}
}

// The root is told how much one worker could have free for each priority, and so does not
// ask for what only several together could make room for.
func TestTheRootIsToldHowMuchRoomOneWorkerCanMake(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.SetCPU(1000)
	s.Share("low", 3, clustertest.Rank(0, 300)) // two on one of them, one on the other
	s.Ticks(4, time.Second)
	s.Share("mid", 2, clustertest.Rank(5, 400))
	s.Ticks(4, time.Second)
	s.Share("top", 1, clustertest.Rank(9, 300))
	for key, given := range s.Model.FromRoot {
		next := *given
		next.Standing = wire.Standing{MaxPriority: 100}
		s.Model.FromRoot[key] = &next
	}
	reconcile.Effect(s.Model)
	s.Ticks(4, time.Second)
	if s.Answering("low") != 3 || s.Answering("mid") != 2 || s.Answering("top") != 1 {
		t.Fatalf("not all run\n%s", s.Dump())
	}
	told := report.Aggregate(s.Model, wire.Rev{}, nil).Lower
	if len(told) != 3 || told[0].Used.CPU != 900 || told[0].Room.CPU != 600 || told[1].Room.CPU != 1000 ||
		told[2].Room.CPU != 1000 {
		t.Errorf("%+v\n%s", told, s.Dump())
	}
}

// Where a plugin decides, by the service's wish or the cluster's, priority alone ends
// nobody: it knows what will do.
func TestAPluginsInstancesDisplaceNobody(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.Share("low", 2, clustertest.Rank(0, 500))
	s.Ticks(4, time.Second)
	s.Share("high", 1, func(v *api.Service) {
		clustertest.Rank(5, 500)(v)
		v.Scheduler = ""
	})
	for scheduler, displaces := range map[string]bool{"": true, place.Spread: true,
		state.PluginDefault + "sage": false} {
		s.Model.Scheduler = scheduler
		tx := s.Model.Begin()
		tx.Now = s.Now
		high := wire.Instance{V: wire.Version, ID: "app.high.0", App: "app", Service: "high",
			State: wire.ClusterScheduled}
		if got := scheduling.Preempt(tx, high, s.Model.Shares["app.high"], place.Decision{}, nil, s.Now); got != displaces {
			t.Errorf("with the default %q: %v", scheduler, got)
		}
	}
}

// What is pinned by a volume makes room for nobody, and a card goes to who ranks higher.
func TestWhoIsDisplaced(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.SetDevices("w1", "gpu")
	s.Share("data", 1, func(v *api.Service) {
		v.Resources.CPU, v.Volumes = 500, []api.Volume{{Path: "d", Name: "d"}}
	})
	s.Share("cheap", 1, func(v *api.Service) { v.Resources.CPU, v.Priority = 100, 1 })
	s.Share("learn", 1, func(v *api.Service) { v.Resources.VGPUs, v.Priority = 1000, 2 })
	s.Ticks(4, time.Second)
	s.Share("infer", 1, func(v *api.Service) { v.Resources.VGPUs, v.Priority = 500, 3 })
	s.Ticks(6, time.Second)
	if s.Answering("infer") != 1 || s.Answering("learn") != 0 || s.Answering("cheap") != 1 {
		t.Errorf("the card is not infer's\n%s", s.Dump())
	}
	// Nor does it help to rank higher than what is another's.
	s.Share("team", 1, clustertest.Rank(9, 450))
	team := *s.Model.FromRoot["app.team"]
	s.Unshare("team")
	team.App, team.Namespace = "other", "team-b"
	s.Model.FromRoot["other.team"] = &team
	reconcile.Effect(s.Model)
	s.Ticks(6, time.Second)
	if i := s.Instance("other.team.0"); i.State != wire.Requested || s.Answering("cheap") != 1 ||
		s.Answering("infer") != 1 {
		t.Errorf("team is %s\n%s", i.State, s.Dump())
	}
	delete(s.Model.FromRoot, "other.team")
	reconcile.Effect(s.Model)
	s.Share("big", 1, clustertest.Rank(9, 800))
	s.Ticks(6, time.Second)
	if i := s.Instance("app.big.0"); i.State != wire.Requested || s.Answering("data") != 1 || s.Answering("cheap") != 1 ||
		s.Answering("infer") != 1 {
		t.Errorf("big is %s\n%s", i.State, s.Dump())
	}
}

// A priority counts against other namespaces as far as the operator allows: up to that
// alone, and not at all where he says nothing.
func TestPriorityOverOtherNamespaces(t *testing.T) {
	for _, c := range []struct {
		what               string
		priority, most     int // of the one who asks
		others, othersMost int
		displaces          bool
	}{
		{"without leave", 900, 0, 0, 0, false},
		{"with leave", 5, 10, 0, 0, true},
		{"with leave, over what counts at home alone", 1, 10, 900, 0, true},
		{"no further than that", 900, 3, 5, 5, false},
		{"over what has less", 900, 6, 5, 5, true},
		{"an equal", 5, 10, 5, 10, false},
	} {
		s := clustertest.NewSim(t, "w1", "w2")
		s.SetCPU(1000)
		s.Share("low", 4, clustertest.Rank(c.others, 500))
		s.Namespace("low", "theirs", wire.Standing{MaxPriority: c.othersMost})
		s.Ticks(4, time.Second)
		s.Share("ask", 2, clustertest.Rank(c.priority, 500))
		s.Namespace("ask", "ours", wire.Standing{MaxPriority: c.most})
		s.Ticks(8, time.Second)
		want := 0
		if c.displaces {
			want = 2
		}
		if s.Answering("ask") != want || s.Answering("low") != 4-want {
			t.Errorf("%s: %d of ask, %d of low\n%s", c.what, s.Answering("ask"), s.Answering("low"), s.Dump())
		}
		// Of another namespace nobody learns more than that there is one.
		for id, i := range s.Model.Insts {
			for _, h := range i.History {
				if i.Service == "low" && strings.Contains(h.Why, "app.ask") || i.Service == "ask" &&
					strings.Contains(h.Why, "app.low") {
					t.Errorf("%s: %s says %q", c.what, id, h.Why)
				}
				if want > 0 && i.Service == "low" && i.State == wire.Requested && h.To == wire.Failed &&
					!strings.HasPrefix(h.Why, "displaced by an instance of another namespace") {
					t.Errorf("%s: %s does not say what displaced it: %q", c.what, id, h.Why)
				}
			}
		}
		starts := s.Starts()
		s.Ticks(30, time.Second)
		if s.Starts() != starts {
			t.Errorf("%s: %d starts, it were %d\n%s", c.what, s.Starts(), starts, s.Dump())
		}
	}
}

// What only a site says of a namespace lets it displace nobody elsewhere: the standing is
// the root's. Where the root has said it, it counts for what the site adds too.
func TestStandingIsTheRoots(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.Share("low", 2, clustertest.Rank(0, 500))
	s.Namespace("low", "theirs", wire.Standing{})
	s.Ticks(4, time.Second)
	here := &localedit.Change{V: wire.Version, Namespace: "ours", App: "site", Service: "ask", Replicas: 1, Number: 1,
		Spec: &api.Service{
			Runtime: "process", Command: []string{"x"}, Resources: api.Resources{CPU: 500}, Priority: 1000,
			Spread: "soft", Scheduler: "rom", Policy: api.Policy{Name: api.PolicyRoundRobin},
		}}
	localedit.Table.Rows(s.Model.DB)["site.ask"] = here
	s.Store(localedit.Key+"site.ask", here)
	reconcile.Effect(s.Model)
	s.Ticks(8, time.Second)
	if n := s.Answering("low"); n != 2 {
		t.Fatalf("%d of low: a site's word displaced them\n%s", n, s.Dump())
	}
	s.Share("other", 0, nil)
	s.Namespace("other", "ours", wire.Standing{MaxPriority: 1})
	s.Ticks(8, time.Second)
	if n := s.Answering("low"); n != 1 {
		t.Errorf("%d of low, though the root lets it\n%s", n, s.Dump())
	}
}

// The room that one has made is his: others of his rank that wait too, and come first by
// name, do not take it.
func TestNobodyTakesWhatAnotherMadeRoomFor(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.Share("own", 2, clustertest.Rank(0, 500))
	s.Namespace("own", "ours", wire.Standing{})
	s.Ticks(4, time.Second)
	s.Share("aaa", 3, clustertest.Rank(0, 500))
	s.Namespace("aaa", "theirs", wire.Standing{})
	s.Ticks(4, time.Second)
	s.Share("zzz", 1, clustertest.Rank(7, 500))
	s.Namespace("zzz", "ours", wire.Standing{})
	s.Ticks(10, time.Second)
	if s.Answering("zzz") != 1 || s.Answering("own") != 1 || s.Answering("aaa") != 0 {
		t.Errorf("%d of zzz, %d of own, %d of aaa\n%s", s.Answering("zzz"), s.Answering("own"), s.Answering("aaa"),
			s.Dump())
	}
}

// Whatever comes and goes: nothing is overcommitted (check), and when nothing changes
// any more everything is at rest, with nobody waiting while one of a lower priority
// that could make room for it runs.
func TestPrioritiesComeToRest(t *testing.T) {
	for seed := range uint64(15) {
		s := clustertest.NewSim(t, "w1", "w2", "w3")
		s.SetCPU(1000)
		r := rand.New(rand.NewPCG(seed, 11))
		for range 25 {
			svc := string(rune('a' + r.IntN(5)))
			switch r.IntN(6) {
			case 0:
				s.Unshare(svc)
			case 1:
				s.Restart()
			case 2:
				f := s.Workers[fmt.Sprint("w", 1+r.IntN(3))]
				f.Linked = !f.Linked
			default:
				s.Share(svc, 1+r.IntN(4), func(v *api.Service) {
					clustertest.Rank(r.IntN(4), int64(100+100*r.IntN(6)))(v)
					v.Scheduler = []string{"rom", "drf"}[r.IntN(2)]
				})
				k := int(svc[0]) % 3 // an application cannot change its namespace
				s.Namespace(svc, string(rune('x'+k)), wire.Standing{MaxPriority: k, Weight: k})
			}
			s.Ticks(1+r.IntN(8), 2*time.Second)
		}
		for _, f := range s.Workers {
			f.Linked = true
		}
		s.Ticks(90, 2*time.Second)
		starts := s.Starts()
		s.Ticks(60, 2*time.Second)
		if s.Starts() != starts {
			t.Fatalf("seed %d: it does not come to rest: %d starts, then %d\n%s", seed, starts, s.Starts(), s.Dump())
		}
	}
}

// Nobody is ended for an instance that could not be there all the same, because it is too
// far from what it must be near.
func TestNoRoomIsMadeTooFarAway(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.Share("low", 2, clustertest.Rank(0, 500))
	s.Ticks(4, time.Second)
	s.Share("high", 1, func(v *api.Service) {
		clustertest.Rank(5, 500)(v)
		v.Latency = []api.Latency{{To: "48.1,11.5", Distance: 1000}} // w1 does not say where it is
	})
	s.Ticks(30, time.Second)
	if n := s.Answering("low"); n != 2 || s.Answering("high") != 0 {
		t.Errorf("%d of low\n%s", n, s.Dump())
	}
}

// BenchmarkPreempt is a pass in which 1,000 instances displace as many others of 10,000,
// on 1,000 workers without room.
func BenchmarkPreempt(b *testing.B) {
	var names []string
	for n := range 1000 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s := clustertest.NewSim(b, names...)
	for k := range 10 {
		s.Share(fmt.Sprintf("low%d", k), 1000, clustertest.Rank(k%3, 100))
	}
	s.Now = s.Now.Add(time.Second)
	for name, f := range s.Workers {
		f.Act(s, name)
	}
	t := reconcile.Step(s.Model, s.Now)
	t.Done()
	s.Share("high", 1000, clustertest.Rank(5, 100))
	b.ReportAllocs()
	for b.Loop() {
		t := reconcile.Step(s.Model, s.Now)
		if n := displacedIn(t); n != 1000 {
			b.Fatalf("%d are displaced", n)
		}
	}
}

// displacedIn counts the instances that a pass displaces.
func displacedIn(t *state.Tx) (n int) {
	for _, i := range t.Insts {
		if i != nil && i.Leaving != nil {
			n++
		}
	}
	return n
}
