package profile_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/profile"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// By throughput the worker that the profile says to be the fastest is filled first,
// and machines that were not measured count by their kind.
func TestThroughputIsByProfile(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	s.UpdateInfo("w3", func(i *wire.WorkerInfo) { i.Arch = "arm64" })
	s.Share("web", 12, func(v *api.Service) { v.Scheduler = place.Throughput })
	p := &profile.Record{V: wire.Version, App: "app", Service: "web", Program: s.Model.Shares["app.web"].Spec.ProgramID(),
		Nodes: map[string]profile.Node{
			"w1": {ProfileNode: rpc.ProfileNode{Worker: "w1", Rate: 50}, CPU: 1000, Arch: "amd64"},
			"w3": {ProfileNode: rpc.ProfileNode{Worker: "w3", Rate: 90}, CPU: 1000, Arch: "arm64"},
		}}
	profile.Table.Rows(s.Model.DB)["app.web"] = p
	s.Store(profile.Key+"app.web", p)
	s.Ticks(3, time.Second)
	if got := s.Placed("web"); got["w3"] != 10 || got["w1"]+got["w2"] != 2 {
		t.Errorf("%v\n%s", got, s.Dump())
	}
}
