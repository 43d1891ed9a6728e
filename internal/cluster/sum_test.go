package cluster

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Where adding up all workers takes long, it is done again only when something was
// stored or decided since, and now and then.
func TestManyWorkersAreAddedUpWhenSomethingHasChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := bus.NewMemStore()
		c := newTestCore(t, store)
		added := func(full bool) bool {
			t.Helper()
			time.Sleep(6 * time.Second)
			before := c.sumAt
			c.sumTook = 10 * time.Millisecond // as of many
			if _, err := c.upStatus(full); err != nil {
				t.Fatal(err)
			}
			return !c.sumAt.Equal(before)
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
		if _, err := c.pass(t.Context(), time.Now(), true); err != nil {
			t.Fatal(err)
		}
		if !added(false) {
			t.Error("it was not added up when something was decided")
		}
		if added(false) {
			t.Error("it was added up again when nothing had changed")
		}
		c.m.entering, c.m.flows["gone.web"] = []wire.Entering{{App: "gone", Service: "web", Rate: 1}}, &flows{}
		if _, err := c.pass(t.Context(), time.Now(), false); err != nil {
			t.Fatal(err)
		}
		if !added(false) {
			t.Error("it was not added up when other requests entered")
		}
		time.Sleep(sumEvery)
		if !added(false) {
			t.Error("it is never added up by itself")
		}
		c.m.Workers["w9"] = state.NewWorker(state.WorkerRecord{}, time.Now()) // it counts as suspect: significant
		if !added(true) || c.said.Suspect != 1 {
			t.Errorf("the root was told %+v", c.said)
		}
	})
}
