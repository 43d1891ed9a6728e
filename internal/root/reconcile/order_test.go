package reconcile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/root/jobs"
	"github.com/verge-edge/verge/internal/root/overflow"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster must never be given what the root does not remember having given: whatever the
// packages are called that add kinds of records, a share is stored after what it follows from.
func TestAShareIsStoredAfterItsCauses(t *testing.T) {
	tx := state.NewModel(time.Minute).Begin()
	tx.Shares["edge.app.web"] = &wire.Share{V: wire.Version, App: "app", Service: "web"}
	tx.Put(wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web"})
	jobs.Table.Put(tx.Rows, "app.web", &jobs.Schedule{V: wire.Version, App: "app", Service: "web"})
	overflow.Table.Put(tx.Rows, "app.web", &overflow.Record{V: wire.Version, App: "app", Service: "web"})
	state.LeaseTable.Put(tx.Rows, "edge", &wire.ClusterLease{V: wire.Version})
	groups, err := tx.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ops := slices.Concat(groups...)
	if last := ops[len(ops)-1].Key; len(ops) != 5 || last != state.KeyShare+"edge.app.web" {
		t.Errorf("%d records are stored, the last of them is %s", len(ops), last)
	}
}
