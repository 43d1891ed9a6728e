package clusters_test

import (
	"encoding/json"
	"testing"

	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that joins again with an empty directory is not told what the one before it had
// said, which would be a later state of its store; one that joins with the same key is.
func TestAClusterThatBeginsAnewHadNothing(t *testing.T) {
	b := roottest.NewCoreWithKeys(t, t.TempDir(), roottest.NewStore(t))
	cl := b.M.Clusters["edge"]
	says := func(inc string) wire.ReportReply {
		return clusters.OnReport(t.Context(), b, "edge",
			wire.Report{V: wire.Version, To: wire.Rev{Inc: inc, N: 5}, Status: json.RawMessage(`{"v":1}`)})
	}
	joins := func(rec state.ClusterRecord) {
		tx := b.M.Begin()
		state.ClusterTable.Put(tx.Rows, "edge", &rec)
		tx.Done()
	}
	says("first")
	rec := cl.ClusterRecord
	joins(rec)
	if r := says("second"); r.Was.Inc != "first" {
		t.Errorf("with the same key it had %s", r.Was)
	}
	rec.KeyHash = "another"
	joins(rec)
	if r := says("third"); !r.Was.IsZero() || r.Ack.Inc != "third" {
		t.Errorf("with another key it had %s, and has %s", r.Was, r.Ack)
	}
}
