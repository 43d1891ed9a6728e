package rehearsal_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/records/clonetest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

// A clone shares no map, slice or pointer with its model that anybody modifies.
func TestACloneSharesNothing(t *testing.T) {
	m := state.NewModel("edge", true, time.Now())
	clonetest.Fill(m, clustertest.Immutable)
	m.Bind(state.Schema.New())
	for _, known := range m.DB.Memories() {
		clonetest.Fill(known, clustertest.Immutable)
	}
	for _, at := range clonetest.Shared(m, m.Clone(), clustertest.Immutable) {
		t.Errorf("%s is shared with the clone: see table.MemoryRules", at)
	}
}

// What a rehearsal does stays in it: here an instance begins elsewhere, as the worker that
// had its volume was removed, which leaves a record of that volume.
func TestARehearsalLeavesNothingInTheModel(t *testing.T) {
	s := clustertest.NewSite(t)
	source := []byte("application: app\nservices: {db: {command: [x], volumes: [{name: data, path: data}]}}\n")
	s.Give(source, 1)
	i := *s.Core.M.Insts["app.db.0"]
	i.State, i.Worker, i.Pinned, i.Former = wire.ClusterScheduled, "", "", "gone"
	s.Core.M.Insts[i.ID] = &i
	before := clustertest.Text(s.Core.M)
	m := s.Core.M.Clone()
	rehearsal.Rehearse(t.Context(), m, nil, s.Now)
	if len(volumes.LeftTable.Rows(m.DB)) != 1 {
		t.Fatalf("the rehearsal notes no volume: %+v", m.Insts[i.ID])
	}
	if after := clustertest.Text(s.Core.M); after != before {
		t.Errorf("the model was\n%s\nand is\n%s", before, after)
	}
}
