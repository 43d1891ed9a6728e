package placement_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/root/namespaces"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A change of what a namespace may claim reaches the clusters with its shares, and moves
// nothing.
func TestStandingReachesTheClusters(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Apply("app", 2, nil)
	s.Ticks(3, time.Second)
	want := wire.Standing{Weight: 3, MaxPriority: 50}
	s.Model.Namespaces["default"] = &record.Namespace{V: wire.Version, Name: "default", Standing: want}
	s.Store(state.KeyNamespace+"default", s.Model.Namespaces["default"])
	revision := s.Model.Shares["edge.app.web"].Revision
	s.Ticks(2, time.Second)
	if sh := s.Model.Shares["edge.app.web"]; sh.Standing != want || sh.Revision != revision || s.Running("app") != 2 {
		t.Errorf("%+v\n%s", sh, s.Dump())
	}
	s.Model.Clusters["edge"].Aggregate.Capacity = api.Resources{CPU: 4000, Memory: 1 << 40}
	s.Model.Apps["app"].Spec.Services["web"].Resources = api.Resources{CPU: 500, Memory: 1 << 20}
	got := namespaces.SharesOf(s.Model, access.Who{Admin: true}, "default")
	if len(got) != 1 || got[0] != (apiv1.NamespaceShare{Cluster: "edge", Share: 0.25, Resource: "cpu"}) {
		t.Errorf("it has %+v", got)
	}
	if got := namespaces.SharesOf(s.Model, access.Who{Namespaces: map[string]access.Role{"default": access.Viewer}},
		"default"); len(got) != 0 {
		t.Errorf("who may not see the cluster sees %+v", got)
	}
}
