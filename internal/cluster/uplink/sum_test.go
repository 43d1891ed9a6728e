package uplink_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/wire"
)

// Where adding up all workers takes long, it is done again only when something was
// stored or decided since, and now and then.
func TestManyWorkersAreAddedUpWhenSomethingHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bustest.NewMemStore()
		c := clustertest.NewCore(t, store)
		added := func(full bool) bool {
			t.Helper()
			time.Sleep(6 * time.Second)
			before := uplink.Memory(c.M).SumAt
			uplink.Memory(c.M).SumTook = 10 * time.Millisecond // as of many
			if _, err := uplink.UpStatus(c, full); err != nil {
				t.Fatal(err)
			}
			return !uplink.Memory(c.M).SumAt.Equal(before)
		}
		if !added(true) {
			t.Fatal("it was not added up although all was asked for")
		}
		if added(false) {
			t.Error("it was added up again when nothing had changed")
		}
		if _, err := store.Put(t.Context(), "something", []byte("else")); err != nil {
			t.Fatal(err)
		}
		if !added(false) {
			t.Error("it was not added up when something was stored")
		}
		if _, err := controller.Pass(t.Context(), c, time.Now(), true); err != nil {
			t.Fatal(err)
		}
		if !added(false) {
			t.Error("it was not added up when something was decided")
		}
		if added(false) {
			t.Error("it was added up again when nothing had changed")
		}
		proximity.Memory(c.M).Entering, proximity.Memory(c.M).Flows["gone.web"] = []wire.Entering{{App: "gone",
			Service: "web", Rate: 1}}, &proximity.Flows{}
		if _, err := controller.Pass(t.Context(), c, time.Now(), false); err != nil {
			t.Fatal(err)
		}
		if !added(false) {
			t.Error("it was not added up when other requests entered")
		}
		time.Sleep(uplink.SumEvery)
		if !added(false) {
			t.Error("it is never added up by itself")
		}
		c.M.Workers["w9"] = state.NewWorker(state.WorkerRecord{}, time.Now()) // it counts as suspect: significant
		if !added(true) || uplink.Memory(c.M).Said.Suspect != 1 {
			t.Errorf("the root was told %+v", uplink.Memory(c.M).Said)
		}
	})
}
