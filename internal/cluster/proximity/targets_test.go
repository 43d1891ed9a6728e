package proximity_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestAnInstanceIsPlacedNearUsers(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5", "w20", "w25")
	e.Users["users.example.org"] = "w21"
	s.Share("api", 1, func(a *api.Service) {
		clustertest.NearTo("users.example.org", 3*time.Millisecond)(a)
		clustertest.Rigid(0)(a) // what runs is not measured
	})
	e.Run(3, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w20" {
		t.Errorf("on %q: %q", i.Worker, i.Reason)
	}
	// It is measured again in minutes, not all the time.
	before := e.Pinged
	e.Run(60, time.Second)
	if n := e.Pinged - before; n > 4 {
		t.Errorf("measured %d times in a minute", n)
	}
}

// In a large cluster some workers find the place of the users, and those nearest to it
// measure it: what they say decides.
func TestUsersAreFoundBySomeWorkers(t *testing.T) {
	var names []string
	for n := range 100 {
		names = append(names, fmt.Sprintf("w%d", n))
	}
	s, e := clustertest.NewSimWithNetwork(t, names...)
	e.Users["192.0.2.7"] = "w40"
	s.Share("api", 1, clustertest.NearTo("192.0.2.7", 4*time.Millisecond))
	e.Run(14, time.Second)
	i := s.Instance("app.api.0")
	if i.Worker == "" || clustertest.Apart(i.Worker, "w40") > 5*time.Millisecond {
		t.Errorf("on %q: %q", i.Worker, i.Reason)
	}
	if e.Pinged > 60 {
		t.Errorf("%d measurements", e.Pinged)
	}
}

// Users who answer nobody: nothing is placed blindly, and the reason says what was tried.
func TestUsersWhoAnswerNobody(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	s.Share("api", 1, clustertest.NearTo("192.0.2.7", 3*time.Millisecond))
	e.Run(14, time.Second)
	i := s.Instance("app.api.0")
	if i.State != wire.Requested || !strings.Contains(i.Reason,
		"not known to be within 3ms of 192.0.2.7 (no worker could measure it, for example w0: nobody there)") {
		t.Errorf("%s: %q", i.State, i.Reason)
	}
	e.Users["192.0.2.7"] = "w4" // it heals when they answer
	e.Run(90, time.Second)
	if i := s.Instance("app.api.0"); i.Worker != "w5" {
		t.Errorf("on %q: %q", i.Worker, i.Reason)
	}
}

// Whatever a worker answers, nobody but what it measured is believed.
func TestWrongAnswersAboutUsers(t *testing.T) {
	s, e := clustertest.NewSimWithNetwork(t, "w0", "w5")
	e.Users["192.0.2.7"] = "w4"
	s.Share("api", 1, clustertest.NearTo("192.0.2.7", 3*time.Millisecond))
	s.Tick(time.Second)
	list, _ := proximity.Survey(s.Model, nil, s.Now)
	for _, q := range list {
		for _, r := range []rpc.Measured{
			{}, {Targets: make([]rpc.MeasuredRTT, 5)},
			{Own: wire.Coordinate{Height: -1}, Targets: []rpc.MeasuredRTT{{RTT: -5}},
				Peers: make([]rpc.MeasuredRTT, len(q.Ask.Peers))},
			{Targets: []rpc.MeasuredRTT{{RTT: api.Duration(time.Hour)}},
				Peers: make([]rpc.MeasuredRTT, len(q.Ask.Peers))},
			{Targets: []rpc.MeasuredRTT{{Why: strings.Repeat("x", 1e6)}},
				Peers: make([]rpc.MeasuredRTT, len(q.Ask.Peers))},
		} {
			proximity.LearnNear(s.Model, q, r, nil, s.Now)
		}
		if a := proximity.Memory(s.Model).Near.Aims["192.0.2.7"].By[q.Worker]; a.RTT != 0 || len(a.Why) > 300 {
			t.Errorf("%+v", a)
		}
		if s.Model.Workers[q.Worker].Coord != nil && !s.Model.Workers[q.Worker].Coord.Valid() {
			t.Error("an impossible coordinate was taken")
		}
	}
}
