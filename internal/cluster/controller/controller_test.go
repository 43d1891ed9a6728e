package controller

import (
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/state"
)

// To open a large store takes long. The time that workers have to report begins when it is
// open, whatever there was before.
func TestWorkersGetTheirTimeFromWhenTheStoreIsOpen(t *testing.T) {
	open := time.Now()
	c := &core.Core{ClusterName: "edge", Logger: slog.New(slog.DiscardHandler), RecordStore: bustest.NewMemStore(),
		M: state.NewModel("edge", true, open.Add(-time.Minute))}
	if err := Init(t.Context(), c, true, open); err != nil {
		t.Fatal(err)
	}
	defer c.EndAsking()
	if !c.M.Started.Equal(open) || !c.M.Waits.Equal(open) {
		t.Errorf("the store was open at %s, workers have time since %s, and the cluster runs since %s", open, c.M.Waits,
			c.M.Started)
	}
}
