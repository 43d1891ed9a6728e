package clusters_test

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/root/clusters"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
)

// A new process hears the history of each instance in turn, and tells it in the order in which
// it happened.
func TestWhatIsHeardFirstIsToldInOrder(t *testing.T) {
	b := roottest.NewCoreWithKeys(t, t.TempDir(), roottest.NewStore(t))
	at := time.Now().Add(-time.Hour)
	r := wire.Report{V: wire.Version, To: wire.Rev{Inc: "x", N: 3}}
	for n, id := range []string{"app.web.0", "app.web.1", "app.web.2"} {
		later := func(step int) time.Time { return at.Add(time.Duration(step*10+n) * time.Second) }
		rep := wire.Reported{Instance: wire.Instance{V: wire.Version, ID: id, App: "app", Service: "web", Ordinal: n,
			State: wire.Running, Since: later(2), History: []wire.Transition{
				{To: wire.ClusterScheduled, At: later(0), Tier: "root", Why: "delegated"},
				{To: wire.WorkerScheduled, At: later(1), Tier: "cluster/edge", Why: "placed"},
				{To: wire.Running, At: later(2), Tier: "worker", Why: "started"},
			}}}
		value, err := json.Marshal(rep)
		if err != nil {
			t.Fatal(err)
		}
		r.Changes = append(r.Changes, wire.Change{Key: id, Value: value})
	}
	if reply := clusters.OnReport(t.Context(), b, "edge", r); reply.Refused != "" {
		t.Fatal(reply.Refused)
	}
	list := b.EventRing.After(t.Context(), 0, 0).Events
	if len(list) != 6 || !slices.IsSortedFunc(list, func(x, y apiv1.Event) int { return x.At.Compare(y.At) }) {
		t.Errorf("%d events, not in order: %+v", len(list), list)
	}
}
