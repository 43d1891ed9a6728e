package placement_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/sla"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/recovery"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// users are how many requests a second enter at each cluster, for the only service of an
// application.
type users struct {
	*roottest.Sim
	at map[string]float64
	// where the workers of clusters are; nil: nobody says.
	where map[string]api.Point
}

func newUsers(t *testing.T, replicas int, clusters ...string) *users {
	return newUsersOf(t, replicas, func(*api.Service) {}, clusters...)
}

func newUsersOf(t *testing.T, replicas int, change func(*api.Service), clusters ...string) *users {
	u := &users{Sim: roottest.NewSim(t, clusters...), at: map[string]float64{}}
	for _, f := range u.Clusters {
		f.Room = 10
	}
	u.Tick(time.Second)
	u.Apply("app", replicas, func(s *api.Service) {
		s.Scheduler = api.NearestDemand
		change(s)
	})
	u.Ticks(3, time.Second)
	return u
}

// live lets time pass with requests. Never do fewer answer than are wanted, and never do
// more than one more run.
func (u *users) live(d time.Duration, replicas int) {
	u.T.Helper()
	for range int(d / time.Second) {
		u.Now = u.Now.Add(time.Second)
		for name, f := range u.Clusters {
			f.Act(u.Sim, name)
			if p, ok := u.where[name]; ok {
				u.Model.Clusters[name].Aggregate.Disc = &wire.Disc{Center: p, RadiusKm: 1, Workers: 1}
			}
			if rate := u.at[name]; rate > 0 {
				u.Model.Clusters[name].Aggregate.Entering = []wire.Entering{{App: "app", Service: "web", Rate: rate}}
			}
		}
		u.Pass()
		u.Model.Settled = !recovery.Holding(u.Model, u.Now)
		u.Check()
		if ready, _ := u.Endpoints("app"); ready < replicas || u.Running("app") > replicas+2 {
			u.T.Fatalf("%d answer, %d run\n%s", ready, u.Running("app"), u.Dump())
		}
	}
}

func TestReplicasFollowDemandToOtherClusters(t *testing.T) {
	u := newUsers(t, 2, "edge", "fog")
	u.at["edge"] = 10
	u.live(12*time.Minute, 2)
	if got := u.RunningIn("app"); got["edge"] != 2 {
		t.Fatalf("%v\n%s", got, u.Dump())
	}
	u.at = map[string]float64{"fog": 10}
	u.live(placement.LeadFor/2, 2)
	if got := u.RunningIn("app"); got["fog"] != 0 {
		t.Errorf("at once: %v", got)
	}
	u.live(placement.LeadFor+10*time.Second, 2)
	if got := u.RunningIn("app"); got["fog"] != 1 || got["edge"] != 1 {
		t.Errorf("the first has not followed: %v\n%s", got, u.Dump())
	}
	u.live(2*sla.Rest, 2)
	if got := u.RunningIn("app"); got["fog"] != 2 {
		t.Errorf("%v", got)
	}
}

// Where both have requests each has its part, and nothing moves to and fro.
func TestReplicasAreDividedByDemand(t *testing.T) {
	u := newUsers(t, 4, "edge", "fog")
	u.at["edge"], u.at["fog"] = 30, 10
	u.live(30*time.Minute, 4)
	got := u.RunningIn("app")
	if got["edge"] < 2 || got["fog"] < 1 {
		t.Errorf("%v\n%s", got, u.Dump())
	}
	events := len(u.Events)
	u.live(30*time.Minute, 4)
	if len(u.Events) != events {
		t.Errorf("something moved: %q", u.Events[events:])
	}
}

// Who has no room gets none, and demand that goes to and fro is not run after.
func TestDemandThatCannotBeFollowed(t *testing.T) {
	u := newUsers(t, 1, "edge", "fog")
	on := "edge"
	if u.RunningIn("app")["fog"] > 0 {
		on = "fog"
	}
	other := map[string]string{"edge": "fog", "fog": "edge"}[on]
	u.Clusters[other].Room = 0
	u.at[other] = 10
	u.live(10*time.Minute, 1)
	if got := u.RunningIn("app"); got[on] != 1 {
		t.Fatalf("%v", got)
	}
	u.Clusters[other].Room = 10
	moves, last := 0, on
	for n := range 60 {
		u.at = map[string]float64{[]string{on, other}[n%2]: 10}
		u.live(40*time.Second, 1)
		for name, k := range u.RunningIn("app") {
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
		if got := u.RunningIn("app"); got["edge"] != 1 {
			t.Fatalf("%v", got)
		}
		u.at = map[string]float64{"fog": 10}
		told := len(u.Events)
		u.live(12*time.Minute, 1)
		if got := u.RunningIn("app"); got["fog"] == 1 != follows || !follows && len(u.Events) != told {
			t.Errorf("within %s: %v, %q", max, got, u.Events[told:])
		}
	}
}
