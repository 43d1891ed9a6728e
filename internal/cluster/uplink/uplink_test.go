package uplink_test

import (
	"encoding/json"
	"testing"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that was upgraded after its root fetches all again: a version before left out the
// parts that it did not know, and stored the revision all the same.
func TestPartsThatAVersionBeforeDidNotKnow(t *testing.T) {
	rev := wire.Rev{Inc: "root", N: 7}
	for _, record := range []string{`{"i":"root","n":7}`, `{"i":"root","n":7,"parts":["share.","route."]}`} {
		store := bustest.NewMemStore()
		if _, err := store.Put(t.Context(), state.KeyHave, []byte(record)); err != nil {
			t.Fatal(err)
		}
		c := clustertest.NewCore(t, store)
		d := uplink.FromRoot(c)
		if d.Have() != rev || !d.Partial() {
			t.Errorf("%s: has %s, partial %v", record, d.Have(), d.Partial())
		}
		rules, err := json.Marshal(wire.Publish{V: wire.Version, Hosts: "shop.example"})
		if err != nil {
			t.Fatal(err)
		}
		all := []wire.Change{{Key: "publish.team", Value: rules}}
		if err := d.Take(t.Context(), false, nil, wire.Rev{Inc: "root", N: 8}, nil); err != nil || !d.Partial() {
			t.Errorf("%s: what has changed since is not all: %v", record, err)
		}
		if err := d.Take(t.Context(), true, all, wire.Rev{Inc: "root", N: 8}, nil); err != nil || d.Partial() ||
			c.M.Publish()["team"] == nil {
			t.Errorf("%s: it is partial still: %v", record, err)
		}
		if again := clustertest.NewCore(t, store.Reopen()); uplink.FromRoot(again).Partial() {
			t.Errorf("%s: it has forgotten that", record)
		}
	}
}
