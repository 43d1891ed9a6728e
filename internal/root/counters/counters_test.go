package counters_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/counters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/status"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster says what it has counted; the root shows it, and what of it came after
// the cluster was away.
func TestCountsOfClusters(t *testing.T) {
	c := roottest.NewRunningCore(t)
	report := func(from, to uint64, changes ...wire.Change) {
		t.Helper()
		r := wire.Report{V: wire.Version, To: wire.Rev{Inc: "good", N: to}, Changes: changes,
			From: wire.Rev{Inc: "good", N: from}}
		clusters.OnReport(t.Context(), c, "good", r)
	}
	counts := func(app string, restarts, changes uint64) wire.Change {
		return wire.Change{Key: wire.ReportedCounters + app,
			Value: roottest.JSON(t, wire.Counters{Restarts: restarts, Changes: changes})}
	}
	good := func() apiv1.ClusterView {
		return core.View(c, func(m *state.Model) apiv1.ClusterView {
			return status.Cluster(m, m.Clusters["good"], time.Now())
		})
	}
	report(2, 3, counts("app", 2, 1), counts(wire.GoneCounters, 1, 1),
		wire.Change{Key: wire.ReportedCounters, Value: []byte(`{}`)},
		wire.Change{Key: wire.ReportedCounters + "odd", Value: []byte(`[]`)})
	if v := good(); *v.Tally != (wire.Counters{Restarts: 3, Changes: 2}) || v.SinceAway != nil {
		t.Fatalf("%+v, %+v", v.Tally, v.SinceAway)
	}
	if v := status.Application(c.M, c.M.Apps["app"]); v.Tally.Restarts != 2 {
		t.Errorf("%+v", v.Tally)
	}
	at := time.Now()
	core.Do(c, func(m *state.Model) { counters.Lose(m.Clusters["good"], at) })
	report(3, 4, counts("app", 2, 4))
	if v := good(); v.SinceAway == nil || v.SinceAway.String() != "0 restarts, 3 changes applied" ||
		!v.SinceAway.At.Equal(at) {
		t.Errorf("%+v", v.SinceAway)
	}
	report(4, 5, wire.Change{Key: wire.ReportedCounters + "app", Deleted: true},
		counts(wire.GoneCounters, 1<<63, 1<<63))
	if v := good(); v.Tally.Restarts != 1<<40 {
		t.Errorf("no bound: %+v", v.Tally)
	}
	// One that has not been heard has counted nothing that is known.
	counters.Lose(c.M.Clusters["bad"], at)
	if v := status.Cluster(c.M, c.M.Clusters["bad"], at); v.Tally != nil || v.SinceAway != nil {
		t.Errorf("%+v, %+v", v.Tally, v.SinceAway)
	}
	who := access.With(t.Context(), access.Who{Name: "admin", Admin: true})
	if s := views.Status(who, c); s.Tally.Restarts != 1<<40 {
		t.Errorf("%+v", s.Tally)
	}
}
