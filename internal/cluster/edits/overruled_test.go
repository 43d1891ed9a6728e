package edits_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/edits"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
)

// What begins here alone gives way as soon as the root has an application of its name, be it
// at other clusters only: with the commit of what the root says, not with the next pass.
func TestAnApplicationOfTheRootOverrulesAtOnce(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	source := []byte("application: shop\nservices: {web: {command: [x]}}\n")
	_, err := edits.ApplyLocal(t.Context(), c, source, false, time.Now())
	if err != nil || c.M.Shares["shop.web"] == nil {
		t.Fatalf("%v, %v", c.M.Shares, err)
	}
	far := wire.Change{Key: wire.DesiredRoute + "shop.db",
		Value: clustertest.JSON(t, wire.Route{V: wire.Version, App: "shop", Service: "db"})}
	to := wire.Rev{Inc: "root", N: 7}
	if err := uplink.FromRoot(c).Take(t.Context(), false, []wire.Change{far}, to, nil); err != nil {
		t.Fatal(err)
	}
	if s := c.M.Shares["shop.web"]; s != nil {
		t.Errorf("it still counts: %+v", s)
	}
}
