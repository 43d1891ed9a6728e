package backend

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/metrics"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker whose clock differs is a problem of the status, with by how much.
func TestClocksOfWorkersAreCompared(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	now := time.Now()
	for _, name := range []string{"w1", "w2"} {
		c.M.Workers[name] = state.NewWorker(state.WorkerRecord{V: wire.Version,
			Info: wire.WorkerInfo{V: wire.Version, Name: name}}, now)
	}
	report := func(name string, ahead time.Duration) {
		workers.OnReport(t.Context(), c, name, wire.Report{V: wire.Version, At: time.Now().Add(ahead).Unix(),
			Status: []byte(`{"v":1}`)})
	}
	report("w1", time.Hour)
	report("w2", 2*time.Second)
	ctx := access.With(context.WithoutCancel(t.Context()), access.Who{Name: "admin", Admin: true})
	s, err := (&Backend{Core: c}).Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	about := slices.DeleteFunc(s.Problems, func(p string) bool { return len(p) < 12 || p[:12] != "the clock of" })
	if len(about) != 1 || about[0] != "the clock of worker edge/w1 is 1h0m0s ahead of that of its cluster: set "+
		"both (NTP)" && about[0] != "the clock of worker edge/w1 is 59m59s ahead of that of its cluster: set both (NTP)" {
		t.Errorf("the problems are %q", s.Problems)
	}
	for _, m := range metrics.Samples(c) {
		if m.Name == "verge_workers_clock_skew_seconds" && (m.Value < 3590 || m.Value > 3610) {
			t.Errorf("it is measured as %v", m.Value)
		}
	}
}
