package rehearsal_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/reconcile"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A clone shares no map, slice or pointer with its model that anybody modifies.
func TestACloneSharesNothing(t *testing.T) {
	m := state.NewModel(time.Minute)
	clonetest.Fill(m, roottest.Immutable)
	m.Bind(state.Schema.New())
	for _, known := range m.DB.Memories() {
		clonetest.Fill(known, roottest.Immutable)
	}
	m.Shares["edge.app.web"] = &wire.Share{V: wire.Version}
	for _, at := range clonetest.Shared(m, m.Clone(), roottest.Immutable) {
		t.Errorf("%s is shared with the clone: see state.Model.Clone and table.MemoryRules", at)
	}
}

// What a rehearsal does stays in it, also of what is of this process alone: here a pass
// forgets a leading cluster, and what a cluster lacks.
func TestARehearsalLeavesNothingInTheModel(t *testing.T) {
	s := roottest.NewSim(t, "c1", "c2")
	s.Ticks(2, time.Second)
	s.Apply("app", 2, nil)
	s.Ticks(6, time.Second)
	c := s.Model.Clusters["c1"]
	c.Short = map[string]*state.Shortage{"gone.web": {Full: "full"}}
	overflow.Lacks(c, "app.web").Held.N = 3
	c.Aggregate.Entering = []wire.Entering{{App: "app", Service: "web", Rate: 10}}
	placement.Memory(s.Model).Leads = map[string]*placement.Leading{"app.web": {From: "c1", To: "c2", Why: "it is so"},
		"gone.web": {}}
	before := roottest.Text(t, s.Model)
	m := s.Model.Clone()
	overflow.Lull(m, s.Now)
	m.Clusters["c1"].RevokedKeys["hash"] = wire.Revocation{V: wire.Version}
	reconcile.Step(m, s.Now).Done()
	if len(placement.Memory(m).Leads) == 2 || m.Clusters["c1"].Short["gone.web"] != nil {
		t.Errorf("nothing was forgotten: %+v, %+v", placement.Memory(m).Leads, m.Clusters["c1"].Short)
	}
	if after := roottest.Text(t, s.Model); after != before {
		t.Errorf("the model was\n%s\nand is\n%s", before, after)
	}
}
