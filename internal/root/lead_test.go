// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package root

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/wire"
)

// users are how many requests a second enter at each cluster, for the only service of an
// application.
type users struct {
	*sim
	at map[string]float64
	// where the workers of clusters are; nil: nobody says.
	where map[string]api.Point
}

func newUsers(t *testing.T, replicas int, clusters ...string) *users {
	return newUsersOf(t, replicas, func(*api.Service) {}, clusters...)
}

func newUsersOf(t *testing.T, replicas int, change func(*api.Service), clusters ...string) *users {
	u := &users{sim: newSim(t, clusters...), at: map[string]float64{}}
	for _, f := range u.fakes {
		f.room = 10
	}
	u.tick(time.Second)
	u.apply("app", replicas, func(s *api.Service) {
		s.Scheduler = api.NearestDemand
		change(s)
	})
	u.ticks(3, time.Second)
	return u
}

// live lets time pass with requests. Never do fewer answer than are wanted, and never do
// more than one more run.
func (u *users) live(d time.Duration, replicas int) {
	u.t.Helper()
	for range int(d / time.Second) {
		u.now = u.now.Add(time.Second)
		for name, f := range u.fakes {
			f.act(u.sim, name)
			if p, ok := u.where[name]; ok {
				u.m.clusters[name].agg.Disc = &wire.Disc{Center: p, RadiusKm: 1, Workers: 1}
			}
			if rate := u.at[name]; rate > 0 {
				u.m.clusters[name].agg.Entering = []wire.Entering{{App: "app", Service: "web", Rate: rate}}
			}
		}
		u.pass()
		u.m.recovery.settled = !u.m.holding(u.now)
		u.check()
		if ready, _ := u.endpoints("app"); ready < replicas || u.running("app") > replicas+2 {
			u.t.Fatalf("%d answer, %d run\n%s", ready, u.running("app"), u.dump())
		}
	}
}

func TestReplicasFollowDemandToOtherClusters(t *testing.T) {
	u := newUsers(t, 2, "edge", "fog")
	u.at["edge"] = 10
	u.live(12*time.Minute, 2)
	if got := u.in("app"); got["edge"] != 2 {
		t.Fatalf("%v\n%s", got, u.dump())
	}
	u.at = map[string]float64{"fog": 10}
	u.live(leadFor/2, 2)
	if got := u.in("app"); got["fog"] != 0 {
		t.Errorf("at once: %v", got)
	}
	u.live(leadFor+10*time.Second, 2)
	if got := u.in("app"); got["fog"] != 1 || got["edge"] != 1 {
		t.Errorf("the first has not followed: %v\n%s", got, u.dump())
	}
	u.live(2*sla.Rest, 2)
	if got := u.in("app"); got["fog"] != 2 {
		t.Errorf("%v", got)
	}
}

// Where both have requests each has its part, and nothing moves to and fro.
func TestReplicasAreDividedByDemand(t *testing.T) {
	u := newUsers(t, 4, "edge", "fog")
	u.at["edge"], u.at["fog"] = 30, 10
	u.live(30*time.Minute, 4)
	got := u.in("app")
	if got["edge"] < 2 || got["fog"] < 1 {
		t.Errorf("%v\n%s", got, u.dump())
	}
	events := len(u.told)
	u.live(30*time.Minute, 4)
	if len(u.told) != events {
		t.Errorf("something moved: %q", u.told[events:])
	}
}

// Who has no room gets none, and demand that goes to and fro is not run after.
func TestDemandThatCannotBeFollowed(t *testing.T) {
	u := newUsers(t, 1, "edge", "fog")
	on := "edge"
	if u.in("app")["fog"] > 0 {
		on = "fog"
	}
	other := map[string]string{"edge": "fog", "fog": "edge"}[on]
	u.fakes[other].room = 0
	u.at[other] = 10
	u.live(10*time.Minute, 1)
	if got := u.in("app"); got[on] != 1 {
		t.Fatalf("%v", got)
	}
	u.fakes[other].room = 10
	moves, last := 0, on
	for n := range 60 {
		u.at = map[string]float64{[]string{on, other}[n%2]: 10}
		u.live(40*time.Second, 1)
		for name, k := range u.in("app") {
			if k == 1 && name != last {
				moves, last = moves+1, name
			}
		}
	}
	if moves > 9 {
		t.Errorf("%d moves in 40 minutes", moves)
	}
}

// Demand moves no replica to where its agreement cannot be kept.
func TestDemandIsNotFollowedTooFar(t *testing.T) {
	for max, follows := range map[api.Distance]bool{100_000: false, 1_000_000: true} {
		u := newUsersOf(t, 1, func(s *api.Service) {
			s.Latency = []api.Latency{{To: "48.1,11.6", Distance: max}}
		}, "edge", "fog")
		u.where = map[string]api.Point{"edge": {48.1, 11.6}, "fog": {52.5, 13.4}}
		u.at["edge"] = 10
		u.live(12*time.Minute, 0)
		if got := u.in("app"); got["edge"] != 1 {
			t.Fatalf("%v", got)
		}
		u.at = map[string]float64{"fog": 10}
		told := len(u.told)
		u.live(12*time.Minute, 1)
		if got := u.in("app"); got["fog"] == 1 != follows || !follows && len(u.told) != told {
			t.Errorf("within %s: %v, %q", max, got, u.told[told:])
		}
	}
}
