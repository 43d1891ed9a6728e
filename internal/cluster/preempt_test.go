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
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

func rank(priority int, n int64) func(*api.Service) {
	return func(v *api.Service) { v.Priority, v.Resources.CPU = priority, api.CPU(n) }
}

func TestHigherPriorityDisplaces(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.full(1000)
	s.share("low", 4, rank(0, 500))
	s.ticks(4, time.Second)
	if n := s.answering("low"); n != 4 {
		t.Fatalf("%d of low\n%s", n, s.dump())
	}
	// An equal displaces nobody.
	s.share("equal", 1, rank(0, 500))
	s.ticks(4, time.Second)
	if i := s.inst("app.equal.0"); i.State != wire.Requested || s.answering("low") != 4 {
		t.Fatalf("equal is %s\n%s", i.State, s.dump())
	}
	s.unshare("equal")
	s.share("high", 2, rank(5, 500))
	s.ticks(8, time.Second)
	if s.answering("high") != 2 || s.answering("low") != 2 {
		t.Fatalf("%d of high, %d of low\n%s", s.answering("high"), s.answering("low"), s.dump())
	}
	waiting := 0
	for _, i := range s.m.Insts {
		if i.Service != "low" || i.State != wire.Requested {
			continue
		}
		waiting++
		said := false
		for _, h := range i.History {
			said = said || strings.Contains(h.Why, "displaced by app.high.") && strings.Contains(h.Why, "which has priority 5")
		}
		if !said {
			t.Errorf("%s does not say what displaced it: %+v", i.ID, i.History)
		}
	}
	if waiting != 2 {
		t.Errorf("%d wait\n%s", waiting, s.dump())
	}
	// It is at rest: nobody displaces back.
	starts := s.starts()
	s.ticks(30, time.Second)
	if s.starts() != starts || s.answering("high") != 2 || s.answering("low") != 2 {
		t.Errorf("%d starts, it were %d\n%s", s.starts(), starts, s.dump())
	}
	// What waits comes back when there is room.
	s.unshare("high")
	s.ticks(8, time.Second)
	if s.answering("low") != 4 {
		t.Errorf("%d of low after high went\n%s", s.answering("low"), s.dump())
	}
}

// The root is told how much one worker could have free for each priority, and so does not
// ask for what only several together could make room for.
func TestTheRootIsToldHowMuchRoomOneWorkerCanMake(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.full(1000)
	s.share("low", 3, rank(0, 300)) // two on one of them, one on the other
	s.ticks(4, time.Second)
	s.share("mid", 2, rank(5, 400))
	s.ticks(4, time.Second)
	s.share("top", 1, rank(9, 300))
	for key, given := range s.m.Given {
		next := *given
		next.Standing = wire.Standing{MaxPriority: 100}
		s.m.Given[key] = &next
	}
	s.m.effect()
	s.ticks(4, time.Second)
	if s.answering("low") != 3 || s.answering("mid") != 2 || s.answering("top") != 1 {
		t.Fatalf("not all run\n%s", s.dump())
	}
	told := s.m.aggregate(wire.Rev{}, nil).Lower
	if len(told) != 3 || told[0].Used.CPU != 900 || told[0].Room.CPU != 600 || told[1].Room.CPU != 1000 || told[2].Room.CPU != 1000 {
		t.Errorf("%+v\n%s", told, s.dump())
	}
}

// Where a plugin decides, by the service's wish or the cluster's, priority alone ends
// nobody: it knows what will do.
func TestAPluginsInstancesDisplaceNobody(t *testing.T) {
	s := newSim(t, "w1")
	s.full(1000)
	s.share("low", 2, rank(0, 500))
	s.ticks(4, time.Second)
	s.share("high", 1, func(v *api.Service) {
		rank(5, 500)(v)
		v.Scheduler = ""
	})
	for scheduler, displaces := range map[string]bool{"": true, place.Spread: true, pluginDefault + "sage": false} {
		s.m.byDefault = scheduler
		tx := s.m.begin()
		tx.Now = s.now
		high := wire.Instance{V: wire.Version, ID: "app.high.0", App: "app", Service: "high", State: wire.ClusterScheduled}
		if got := tx.preempt(high, s.m.Shares["app.high"], place.Decision{}, nil, s.now); got != displaces {
			t.Errorf("with the default %q: %v", scheduler, got)
		}
	}
}

// What is pinned by a volume makes room for nobody, and a card goes to who ranks higher.
func TestWhoIsDisplaced(t *testing.T) {
	s := newSim(t, "w1")
	s.full(1000)
	s.equip("w1", "gpu")
	s.share("data", 1, func(v *api.Service) {
		v.Resources.CPU, v.Volumes = 500, []api.Volume{{Path: "d", Name: "d"}}
	})
	s.share("cheap", 1, func(v *api.Service) { v.Resources.CPU, v.Priority = 100, 1 })
	s.share("learn", 1, func(v *api.Service) { v.Resources.VGPUs, v.Priority = 1000, 2 })
	s.ticks(4, time.Second)
	s.share("infer", 1, func(v *api.Service) { v.Resources.VGPUs, v.Priority = 500, 3 })
	s.ticks(6, time.Second)
	if s.answering("infer") != 1 || s.answering("learn") != 0 || s.answering("cheap") != 1 {
		t.Errorf("the card is not infer's\n%s", s.dump())
	}
	// Nor does it help to rank higher than what is another's.
	s.share("team", 1, rank(9, 450))
	team := *s.m.Given["app.team"]
	s.unshare("team")
	team.App, team.Namespace = "other", "team-b"
	s.m.Given["other.team"] = &team
	s.m.effect()
	s.ticks(6, time.Second)
	if i := s.inst("other.team.0"); i.State != wire.Requested || s.answering("cheap") != 1 || s.answering("infer") != 1 {
		t.Errorf("team is %s\n%s", i.State, s.dump())
	}
	delete(s.m.Given, "other.team")
	s.m.effect()
	s.share("big", 1, rank(9, 800))
	s.ticks(6, time.Second)
	if i := s.inst("app.big.0"); i.State != wire.Requested || s.answering("data") != 1 || s.answering("cheap") != 1 || s.answering("infer") != 1 {
		t.Errorf("big is %s\n%s", i.State, s.dump())
	}
}

// of puts a service into a namespace with a standing, as the root would.
func (s *sim) of(svc, namespace string, standing wire.Standing) {
	next := *s.m.Given["app."+svc]
	next.Namespace, next.Standing = namespace, standing
	next.AppNumber = 1000 + uint32(namespace[0]) // each namespace has another application of that name
	s.m.Given["app."+svc] = &next
	s.m.effect()
	s.store(state.KeyShare+"app."+svc, &next)
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
		s := newSim(t, "w1", "w2")
		s.full(1000)
		s.share("low", 4, rank(c.others, 500))
		s.of("low", "theirs", wire.Standing{MaxPriority: c.othersMost})
		s.ticks(4, time.Second)
		s.share("ask", 2, rank(c.priority, 500))
		s.of("ask", "ours", wire.Standing{MaxPriority: c.most})
		s.ticks(8, time.Second)
		want := 0
		if c.displaces {
			want = 2
		}
		if s.answering("ask") != want || s.answering("low") != 4-want {
			t.Errorf("%s: %d of ask, %d of low\n%s", c.what, s.answering("ask"), s.answering("low"), s.dump())
		}
		// Of another namespace nobody learns more than that there is one.
		for id, i := range s.m.Insts {
			for _, h := range i.History {
				if i.Service == "low" && strings.Contains(h.Why, "app.ask") || i.Service == "ask" && strings.Contains(h.Why, "app.low") {
					t.Errorf("%s: %s says %q", c.what, id, h.Why)
				}
				if want > 0 && i.Service == "low" && i.State == wire.Requested && h.To == wire.Failed && !strings.HasPrefix(h.Why, "displaced by an instance of another namespace") {
					t.Errorf("%s: %s does not say what displaced it: %q", c.what, id, h.Why)
				}
			}
		}
		starts := s.starts()
		s.ticks(30, time.Second)
		if s.starts() != starts {
			t.Errorf("%s: %d starts, it were %d\n%s", c.what, s.starts(), starts, s.dump())
		}
	}
}

// What only a site says of a namespace lets it displace nobody elsewhere: the standing is
// the root's. Where the root has said it, it counts for what the site adds too.
func TestStandingIsTheRoots(t *testing.T) {
	s := newSim(t, "w1")
	s.full(1000)
	s.share("low", 2, rank(0, 500))
	s.of("low", "theirs", wire.Standing{})
	s.ticks(4, time.Second)
	here := &local{V: wire.Version, Namespace: "ours", App: "site", Service: "ask", Replicas: 1, Number: 1, Spec: &api.Service{
		Runtime: "process", Command: []string{"x"}, Resources: api.Resources{CPU: 500}, Priority: 1000, Spread: "soft", Scheduler: "rom", Policy: api.Policy{Name: api.PolicyRoundRobin},
	}}
	s.m.locals["site.ask"] = here
	s.store(keyLocal+"site.ask", here)
	s.m.effect()
	s.ticks(8, time.Second)
	if n := s.answering("low"); n != 2 {
		t.Fatalf("%d of low: a site's word displaced them\n%s", n, s.dump())
	}
	s.share("other", 0, nil)
	s.of("other", "ours", wire.Standing{MaxPriority: 1})
	s.ticks(8, time.Second)
	if n := s.answering("low"); n != 1 {
		t.Errorf("%d of low, though the root lets it\n%s", n, s.dump())
	}
}

// The room that one has made is his: others of his rank that wait too, and come first by
// name, do not take it.
func TestNobodyTakesWhatAnotherMadeRoomFor(t *testing.T) {
	s := newSim(t, "w1")
	s.full(1000)
	s.share("own", 2, rank(0, 500))
	s.of("own", "ours", wire.Standing{})
	s.ticks(4, time.Second)
	s.share("aaa", 3, rank(0, 500))
	s.of("aaa", "theirs", wire.Standing{})
	s.ticks(4, time.Second)
	s.share("zzz", 1, rank(7, 500))
	s.of("zzz", "ours", wire.Standing{})
	s.ticks(10, time.Second)
	if s.answering("zzz") != 1 || s.answering("own") != 1 || s.answering("aaa") != 0 {
		t.Errorf("%d of zzz, %d of own, %d of aaa\n%s", s.answering("zzz"), s.answering("own"), s.answering("aaa"), s.dump())
	}
}

// Whatever comes and goes: nothing is overcommitted (check), and when nothing changes
// any more everything is at rest, with nobody waiting while one of a lower priority
// that could make room for it runs.
func TestPrioritiesComeToRest(t *testing.T) {
	for seed := range uint64(15) {
		s := newSim(t, "w1", "w2", "w3")
		s.full(1000)
		r := rand.New(rand.NewPCG(seed, 11))
		for range 25 {
			svc := string(rune('a' + r.IntN(5)))
			switch r.IntN(6) {
			case 0:
				s.unshare(svc)
			case 1:
				s.restart()
			case 2:
				f := s.fakes[fmt.Sprint("w", 1+r.IntN(3))]
				f.linked = !f.linked
			default:
				s.share(svc, 1+r.IntN(4), func(v *api.Service) {
					rank(r.IntN(4), int64(100+100*r.IntN(6)))(v)
					v.Scheduler = []string{"rom", "drf"}[r.IntN(2)]
				})
				k := int(svc[0]) % 3 // an application cannot change its namespace
				s.of(svc, string(rune('x'+k)), wire.Standing{MaxPriority: k, Weight: k})
			}
			s.ticks(1+r.IntN(8), 2*time.Second)
		}
		for _, f := range s.fakes {
			f.linked = true
		}
		s.ticks(90, 2*time.Second)
		starts := s.starts()
		s.ticks(60, 2*time.Second)
		if s.starts() != starts {
			t.Fatalf("seed %d: it does not come to rest: %d starts, then %d\n%s", seed, starts, s.starts(), s.dump())
		}
	}
}

// Nobody is ended for an instance that could not be there all the same, because it is too
// far from what it must be near.
func TestNoRoomIsMadeTooFarAway(t *testing.T) {
	s := newSim(t, "w1")
	s.full(1000)
	s.share("low", 2, rank(0, 500))
	s.ticks(4, time.Second)
	s.share("high", 1, func(v *api.Service) {
		rank(5, 500)(v)
		v.Latency = []api.Latency{{To: "48.1,11.5", Distance: 1000}} // w1 does not say where it is
	})
	s.ticks(30, time.Second)
	if n := s.answering("low"); n != 2 || s.answering("high") != 0 {
		t.Errorf("%d of low\n%s", n, s.dump())
	}
}

// BenchmarkPreempt is a pass in which 1,000 instances displace as many others of 10,000,
// on 1,000 workers without room.
func BenchmarkPreempt(b *testing.B) {
	var names []string
	for n := range 1000 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s := newSim(b, names...)
	for k := range 10 {
		s.share(fmt.Sprintf("low%d", k), 1000, rank(k%3, 100))
	}
	s.now = s.now.Add(time.Second)
	for name, f := range s.fakes {
		f.act(s, name)
	}
	t := s.m.step(s.now)
	t.Done()
	s.share("high", 1000, rank(5, 100))
	b.ReportAllocs()
	for b.Loop() {
		t := s.m.step(s.now)
		if n := displacedIn(t); n != 1000 {
			b.Fatalf("%d are displaced", n)
		}
	}
}

// displacedIn counts the instances that a pass displaces.
func displacedIn(t *tx) (n int) {
	for _, i := range t.Insts {
		if i != nil && i.Leaving != nil {
			n++
		}
	}
	return n
}
