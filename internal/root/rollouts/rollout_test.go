package rollouts_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/rollouts"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/wire"
)

func command(cmd string) func(*api.Service) {
	return func(v *api.Service) { v.Command = []string{cmd} }
}

// programs that clusters have been given, by cluster.
func programs(s *roottest.Sim, app string) string {
	var out []string
	for _, key := range records.SortedKeys(s.Model.Shares) {
		if sh := s.Model.Shares[key]; sh.App == app {
			name, _, _ := strings.Cut(key, ".")
			out = append(out, name+"="+sh.Spec.Command[0])
		}
	}
	return strings.Join(out, " ")
}

// One cluster after the other is given another program, and what fails in the first
// reaches no other.
func TestClustersAreUpdatedOneAfterTheOther(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog", "sky")
	s.Apply("shop", 6, nil)
	s.Ticks(4, time.Second)
	if got := programs(s, "shop"); got != "edge=x fog=x sky=x" {
		t.Fatal(got)
	}
	s.Apply("shop", 6, command("y"))
	seen := []string{}
	for range 20 {
		s.Tick(time.Second)
		if got := programs(s, "shop"); len(seen) == 0 || seen[len(seen)-1] != got {
			seen = append(seen, got)
		}
	}
	if got := fmt.Sprint(seen); got != "[edge=y fog=x sky=x edge=y fog=y sky=x edge=y fog=y sky=y]" {
		t.Errorf("%s", got)
	}
	if v := status.Application(s.Model, s.Model.Apps["shop"]); !v.Holds {
		t.Errorf("%+v", v)
	}
	s.Apply("shop", 6, command("bad"))
	s.Ticks(20, time.Second)
	if got := programs(s, "shop"); got != "edge=bad fog=y sky=y" {
		t.Errorf("%s", got)
	}
	r := rollouts.Progress(s.Model, s.Model.Apps["shop"], "web")
	if r.Phase != wire.RolloutFailed || r.Why != "cluster edge: web.0: exited with 1" ||
		r.Clusters[1].Phase != wire.RolloutWaiting {
		t.Errorf("%+v", r)
	}
	if v := status.Application(s.Model, s.Model.Apps["shop"]); v.Holds || v.Services[0].Rollout != wire.RolloutFailed ||
		!strings.Contains(v.Message, "web.0: exited with 1") ||
		!strings.HasPrefix(v.Message, "web: 6 of 6 ready, 0 of them as applied; ") {
		t.Errorf("%+v", v)
	}
	if v := rollouts.View(s.Model, s.Model.Apps["shop"]).Services[0]; v.Ready != 6 || v.Updated != 0 ||
		v.Clusters[1].Ready != 2 {
		t.Errorf("%+v", v)
	}
	// Another number needs nobody's turn; another process of the root changes nothing.
	s.Reopen()
	s.Apply("shop", 9, command("bad"))
	s.Ticks(5, time.Second)
	if n := s.Model.Shares["fog.shop.web"].Min + s.Model.Shares["sky.shop.web"].Min +
		s.Model.Shares["edge.shop.web"].Min; n != 9 || programs(s, "shop") != "edge=bad fog=y sky=y" {
		t.Errorf("%d: %s", n, programs(s, "shop"))
	}
	s.Apply("shop", 6, command("y"))
	s.Ticks(10, time.Second)
	if got := programs(s, "shop"); got != "edge=y fog=y sky=y" {
		t.Errorf("%s", got)
	}
}

// One that is away is not waited for.
func TestAClusterThatIsAwayIsNotWaitedFor(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("shop", 4, nil)
	s.Ticks(4, time.Second)
	s.Clusters["edge"].Linked = false
	s.Ticks(20, time.Second)
	s.Apply("shop", 4, command("y"))
	s.Ticks(5, time.Second)
	if got := programs(s, "shop"); got != "edge=y fog=y" {
		t.Error(got)
	}
}

func paused(on bool) func(*record.Application) {
	return func(a *record.Application) { a.Holds = map[string]wire.Hold{"web": {Paused: on, By: "ann"}} }
}

// What is paused is given to nobody else.
func TestAPausedRolloutReachesNobodyElse(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("shop", 4, nil)
	s.Ticks(4, time.Second)
	for _, on := range []bool{true, false} {
		s.Apply("shop", 4, command("y"))
		paused(on)(s.Model.Apps["shop"])
		s.Store(state.KeyApp+"shop", s.Model.Apps["shop"])
		s.Ticks(8, time.Second)
		want := "edge=x fog=x"
		if !on {
			want = "edge=y fog=y"
		}
		if got := programs(s, "shop"); got != want || s.Model.Shares["edge.shop.web"].Hold.Paused != on {
			t.Errorf("paused %v: %s", on, got)
		}
	}
}
