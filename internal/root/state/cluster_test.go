package state_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// What is known of a cluster follows its record once that is stored.
func TestAClusterFollowsItsRecord(t *testing.T) {
	m := state.NewModel(time.Minute)
	store := func(rec *state.ClusterRecord) *state.Cluster {
		tx := m.Begin()
		before := m.Clusters["edge"]
		state.ClusterTable.Put(tx.Rows, "edge", rec)
		if m.Clusters["edge"] != before {
			t.Error("it changed before the transaction was done")
		}
		tx.Done()
		return m.Clusters["edge"]
	}
	rec := state.ClusterRecord{Name: "edge", KeyHash: "a"}
	joined := store(&rec)
	if joined == nil || joined.EverHeard {
		t.Fatalf("it joined: %+v", joined)
	}
	joined.EverHeard, joined.Connected, joined.Current, joined.Matched = true, true, true, true
	cordoned := rec
	cordoned.Cordon = &wire.Cordon{}
	if cl := store(&cordoned); cl != joined || cl.Cordon == nil || !cl.Current || !cl.Connected {
		t.Errorf("cordoned: %+v", cl)
	}
	revoked := rec
	revoked.Revoked = time.Now()
	if cl := store(&revoked); cl.Connected || cl.Revoked.IsZero() || !cl.Current {
		t.Errorf("revoked: %+v", cl)
	}
	again := rec
	again.KeyHash = "b"
	if cl := store(&again); cl.Current || cl.Matched || !cl.EverHeard || !cl.Revoked.IsZero() {
		t.Errorf("with another key: %+v", cl)
	}
	if cl := store(nil); cl != nil {
		t.Errorf("removed: %+v", cl)
	}
}
