package overflow_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// spread is a root with clusters of which each has demand for app.web and room for so
// many of it, and does what the root says about them.
type spread struct {
	*roottest.Sim
	max        int
	want, room map[string]int
	away       map[string]bool
	// a cluster was dead: what it had is replaced, so there may be more until it knows
	lost   bool
	shares map[string]*wire.Share // as each fetched it last
}

func newSpread(t *testing.T, spec api.Replicas, room map[string]int, change func(*api.Service)) *spread {
	s := &spread{Sim: roottest.NewSim(t, slices.Sorted(maps.Keys(room))...), max: spec.Max, want: map[string]int{},
		room: room,
		away: map[string]bool{}, shares: map[string]*wire.Share{}}
	s.seconds(1) // what they have room for is known
	s.Apply("app", 1, func(svc *api.Service) {
		svc.Replicas = spec
		if change != nil {
			change(svc)
		}
	})
	s.seconds(2)
	return s
}

func (s *spread) seconds(n int) {
	s.T.Helper()
	for range n {
		s.Now = s.Now.Add(time.Second)
		for _, name := range slices.Sorted(maps.Keys(s.room)) {
			s.act(name)
		}
		s.Pass()
		s.sane()
	}
}

// act is what a cluster does in a second, and its report.
func (s *spread) act(name string) {
	c := s.Model.Clusters[name]
	if c == nil {
		return
	}
	if s.away[name] {
		if !c.Suspect {
			c.Suspect, c.Since = true, s.Now
		}
		return
	}
	sh := s.Model.Shares[name+".app.web"]
	s.shares[name] = sh
	short := wire.ServiceShort{App: "app", Service: "web", Short: s.want[name]}
	c.Seen = map[wire.InstanceID]*wire.Reported{}
	if sh != nil {
		can := min(sh.Max, s.room[name])
		short.Max, short.Extra = sh.Max, sh.Extra
		short.Short = max(0, s.want[name]-can)
		short.Unmet = max(0, sh.Extra-max(0, can-s.want[name]))
		if s.room[name] < sh.Max && short.Short+short.Unmet > 0 {
			short.Full = "no worker has 1Gi"
		}
		n := min(max(s.want[name]+sh.Extra, sh.Min), can)
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To && len(c.Seen) < n; o++ {
				id := state.InstanceID("app", "web", o)
				c.Seen[id] = &wire.Reported{Instance: wire.Instance{
					V: wire.Version, ID: id, App: "app", Service: "web", Ordinal: o, Cluster: name,
					Revision: sh.Revision, State: wire.Running, Conditions: wire.Conditions{Ready: true},
				}, Address: name + ":8474", Peer: "w-1"}
			}
		}
	}
	s.Clusters[name].Seq++
	c.Inbox.Accept(wire.Report{V: wire.Version, To: wire.Rev{Inc: name, N: s.Clusters[name].Seq}})
	free := float64(s.room[name] - len(c.Seen))
	sp := func(x float64) wire.Spread { return wire.Spread{Sum: free * x, Mean: free * x, Max: free * x} }
	c.Aggregate = &wire.Aggregate{V: wire.Version, Workers: 1, Runtimes: []string{"process"},
		FreeCapacity: wire.FreeCapacity{CPU: sp(100), Memory: sp(64 << 20), Disk: sp(1 << 20)}}
	if short.Short+short.Unmet+short.Extra > 0 {
		c.Aggregate.Short = []wire.ServiceShort{short}
	}
	c.Heard, c.EverHeard, c.Connected, c.Suspect, c.Current = s.Now, true, true, false, true
}

// sane: what the clusters may run together, also those that have not heard of the
// newest shares, is never more than the service may have, and nothing has two.
func (s *spread) sane() {
	s.T.Helper()
	sum, has := 0, map[int]string{}
	for name := range s.room {
		sh := s.Model.Shares[name+".app.web"]
		if old := s.shares[name]; old != nil && (sh == nil || old.Max > sh.Max) {
			sh = old
		}
		s.lost = s.lost || s.Model.Dead(s.Model.Clusters[name], s.Now)
		if sh == nil {
			continue
		}
		sum += sh.Max
		for _, sp := range sh.Ordinals {
			for o := sp.From; o < sp.To; o++ {
				if other := has[o]; other != "" {
					s.T.Fatalf("%d is delegated to %s and to %s", o, other, name)
				}
				has[o] = name
			}
		}
	}
	if sum > s.max && !s.lost {
		s.T.Fatalf("clusters may run %d, the service %d\n%s", sum, s.max, s.Dump())
	}
}

func (s *spread) runs() string {
	var out []string
	for name := range s.room {
		if n := len(s.Model.Clusters[name].Seen); n > 0 {
			out = append(out, fmt.Sprintf("%s=%d", name, n))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func (s *spread) must(runs, gives string) {
	s.T.Helper()
	got := ""
	if o := overflow.Table.Rows(s.Model.DB)["app.web"]; o != nil {
		for _, g := range o.Gives {
			got += fmt.Sprintf("%s→%s=%d ", g.From, g.To, g.N)
		}
	}
	if s.runs() != runs || strings.TrimSpace(got) != gives {
		s.T.Fatalf("runs %q, gives %q; want %q, %q\n%s", s.runs(), got, runs, gives, s.Dump())
	}
}

// What a cluster has demand for and no room runs in another, and ends there when the
// demand has been less for a while.
func TestDemandWithoutRoomIsServedElsewhere(t *testing.T) {
	s := newSpread(t, api.Replicas{Min: 1, Max: 6}, map[string]int{"small": 2, "wide": 20}, nil)
	s.must("wide=1", "")
	if !slices.Equal(s.Events, []string{"service/app.web: up to 6 may run in cluster wide, 0 before"}) {
		t.Errorf("told: %q", s.Events)
	}
	s.want["small"] = 5
	s.seconds(6)
	s.must("small=2 wide=3", "small→wide=3")
	if why := overflow.Table.Rows(s.Model.DB)["app.web"].Gives[0].Why; why != "small is full: needs 100m cpu, largest free 0" {
		t.Errorf("why: %q", why)
	}
	if overflow.Lulled(s.Model) {
		t.Error("it waits for time to pass")
	}
	// A moment in which it lacks nothing changes nothing.
	s.want["small"] = 2
	s.seconds(5)
	s.must("small=2 wide=3", "small→wide=3")
	s.want["small"] = 4
	s.seconds(30)
	s.must("small=2 wide=2", "small→wide=2")
	s.want["small"] = 0
	s.seconds(int(overflow.OverFor/time.Second) + 2)
	s.must("wide=1", "")
	if len(s.Disk) == 0 || s.Disk[overflow.Key+"app.web"] != nil {
		t.Error("a record stays")
	}
}

// The rights go where the demand is, where there is room for it.
func TestRightsFollowTheDemand(t *testing.T) {
	s := newSpread(t, api.Replicas{Min: 1, Max: 4}, map[string]int{"small": 3, "wide": 20}, nil)
	s.want["small"] = 3
	s.seconds(6)
	s.must("small=3 wide=1", "")
	// All that there may be run: more demand is served when there is less elsewhere.
	s.want["wide"] = 4
	s.seconds(40)
	s.must("small=3 wide=1", "")
	if _, why := overflow.Gives(s.Model, "app.web", "wide", s.Now); why != "" {
		t.Errorf("unserved: %q", why) // it has room: it waits for rights
	}
	s.want["small"] = 0
	s.seconds(30)
	s.must("wide=4", "")
}

// Restarts of the root and clusters that are cut off change nothing of what runs.
func TestOverflowSurvives(t *testing.T) {
	s := newSpread(t, api.Replicas{Min: 1, Max: 6}, map[string]int{"small": 2, "wide": 20}, nil)
	s.want["small"] = 5
	s.seconds(6)
	s.must("small=2 wide=3", "small→wide=3")
	for _, cut := range [][]string{{"small"}, {"wide"}, {"small", "wide"}} {
		for _, name := range cut {
			s.away[name] = true
		}
		s.seconds(30) // less than until a cluster counts as dead
		s.must("small=2 wide=3", "small→wide=3")
		s.away = map[string]bool{}
		s.seconds(3)
		s.must("small=2 wide=3", "small→wide=3")
	}
	s.Reopen()
	s.Pass()
	if n := s.Model.Shares["wide.app.web"].Extra; n != 3 {
		t.Fatalf("after a restart %d for others", n)
	}
	// It begins in a moment in which nothing is lacking.
	s.want["small"] = 2
	s.seconds(5)
	s.must("small=2 wide=3", "small→wide=3")
	s.want["small"] = 5
	s.seconds(60)
	s.must("small=2 wide=3", "small→wide=3")
	s.want["small"] = 0
	s.seconds(25)
	s.must("wide=1", "")
}

// Who cannot is not asked, and who cannot any more not any longer.
func TestOverflowGoesWhereItMay(t *testing.T) {
	s := newSpread(t, api.Replicas{Min: 1, Max: 9}, map[string]int{"near": 20, "off": 90, "small": 2, "zoo": 20},
		func(v *api.Service) {
			v.AntiAffinity.Cluster = []string{"off"}
		})
	s.want["small"] = 5
	s.seconds(8)
	first := s.runs()
	if !strings.Contains(first, "small=2") || strings.Contains(first, "off") {
		t.Fatal(first)
	}
	o := overflow.Table.Rows(s.Model.DB)["app.web"]
	if len(o.Gives) != 1 || o.Gives[0].N != 3 {
		t.Fatalf("%+v", o)
	}
	// The one that runs them gets full: the rest runs in the other.
	to := o.Gives[0].To
	other := map[string]string{"near": "zoo", "zoo": "near"}[to]
	s.room[to] = 1
	s.seconds(10)
	if got := overflow.Table.Rows(s.Model.DB)["app.web"].Gives; len(got) != 2 || got[0].N+got[1].N != 3 {
		t.Fatalf("%+v\n%s", got, s.Dump())
	}
	if n := len(s.Model.Clusters[other].Seen); n < 2 {
		t.Fatalf("%d run in %s: %s", n, other, s.runs())
	}
	// A cluster that is lost for good serves nobody.
	s.away[to] = true
	s.seconds(100)
	if got := overflow.Table.Rows(s.Model.DB)["app.web"].Gives; len(got) != 1 ||
		got[0] != (rpc.Give{From: "small", To: other, N: 3, Why: got[0].Why, Expected: got[0].Expected}) {
		t.Fatalf("%+v\n%s", got, s.Dump())
	}
}

// A service that is deleted, or does not scale any more, leaves nothing.
func TestOverflowEndsWithItsService(t *testing.T) {
	for name, end := range map[string]func(*spread){
		"deleted": func(s *spread) { s.Delete("app") },
		"fixed":   func(s *spread) { s.Apply("app", 1, nil); s.max = 6 },
	} {
		s := newSpread(t, api.Replicas{Min: 1, Max: 6}, map[string]int{"small": 2, "wide": 20}, nil)
		s.want["small"] = 5
		s.seconds(6)
		end(s)
		s.want["small"] = 0
		s.seconds(5)
		if len(overflow.Table.Rows(s.Model.DB)) > 0 || s.Disk[overflow.Key+"app.web"] != nil {
			t.Errorf("%s: %+v", name, overflow.Table.Rows(s.Model.DB)["app.web"])
		}
	}
}

// Whatever the demand does, with clusters that come and go and restarts of the root:
// no more may run than the service has, and when all is quiet the demand is served as
// far as there is room.
func TestOverflowAtRandom(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		room := map[string]int{}
		for i := range 2 + r.IntN(3) {
			room[string(rune('a'+i))] = 1 + r.IntN(6)
		}
		s := newSpread(t, api.Replicas{Min: r.IntN(2), Max: 2 + r.IntN(8)}, room, nil)
		names := slices.Sorted(maps.Keys(room))
		for range 30 {
			name := names[r.IntN(len(names))]
			switch r.IntN(6) {
			case 0:
				if s.away[name] = !s.away[name]; seed%4 > 0 { // not as long as until it is dead
					s.seconds(1 + r.IntN(40))
					s.away[name] = false
				}
			case 1:
				s.room[name] = 1 + r.IntN(6)
			case 2:
				s.Reopen()
			default:
				s.want[name] = r.IntN(6)
			}
			s.seconds(1 + r.IntN(12))
		}
		s.away = map[string]bool{}
		s.seconds(80)
		want, has, places, before := 0, 0, 0, s.runs()
		for _, name := range names {
			want += s.want[name]
			has += len(s.Model.Clusters[name].Seen)
			places += s.room[name]
		}
		if least := min(want, places, s.max); has < least {
			t.Fatalf("seed %d: %d run of %d wanted, %d may: %s, want %v, room %v\n%s", seed, has, want, s.max,
				s.runs(), s.want, s.room, s.Dump())
		}
		for range 10 {
			s.seconds(20)
			if s.runs() != before {
				t.Fatalf("seed %d: it does not come to rest: %s, then %s", seed, before, s.runs())
			}
		}
	}
}
