package backend

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/record"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Once a volume that was left behind is removed, its worker may have the instance again:
// also where somebody removed it by hand, or the worker is no more. When the removal
// cannot be stored, all stays as it is.
func TestRemovingWhatIsLeft(t *testing.T) {
	store := bustest.NewMemStore()
	c := clustertest.NewCore(t, store)
	b := &Backend{Core: c}
	ref := func(name string) wire.VolumeRef {
		return wire.VolumeRef{Namespace: "default", Instance: "app.db.0", Name: name}
	}
	for _, w := range []string{"w1", "gone"} {
		l := &record.LeftVolumes{V: wire.Version, Worker: w, Namespace: "default", Instance: "app.db.0",
			Volumes: []string{"a", "b"}, Why: "given up"}
		data, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), volumes.KeyLeft+l.Key(), data); err != nil {
			t.Fatal(err)
		}
		volumes.LeftTable.Rows(c.M.DB)[l.Key()] = l
	}
	w1 := state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}
	if err := workers.KeepWorker(t.Context(), c, "w1", w1); err != nil {
		t.Fatal(err)
	}
	there := map[string]bool{"a": true}
	exchangetest.OnAsk(t, c.Local, exchange.WorkerSubjects("w1"), func(q rpc.Ask, _ string) (any, *wire.Problem) {
		if !there[q.Volume.Name] {
			return nil, wire.Problemf(404, "no-such-volume", "verge volume ls", "there is no such volume", "")
		}
		delete(there, q.Volume.Name)
		return struct{}{}, nil
	})
	remove := func(worker, name string) error { return b.RemoveVolume(t.Context(), "edge", worker, ref(name)) }
	left := func(worker, name string) bool { return volumes.IsLeft(c.M, worker, ref(name)) != "" }
	store.FailWrites(errors.New("disk full"))
	if err := remove("gone", "a"); err == nil || !left("gone", "a") {
		t.Errorf("%v", err)
	}
	store.FailWrites(nil)
	for _, q := range []struct{ worker, name string }{{"w1", "a"}, {"w1", "b"}, {"gone", "b"}, {"gone", "a"}} {
		if err := remove(q.worker, q.name); err != nil || left(q.worker, q.name) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	refusedAs(t, "once more", remove("w1", "a"), 404, "no-such-volume")
	refusedAs(t, "once more", remove("gone", "a"), 404, "no-such-worker")
	if list, err := store.List(t.Context(), volumes.KeyLeft); err != nil || len(list) > 0 ||
		len(volumes.LeftTable.Rows(c.M.DB)) > 0 {
		t.Errorf("left: %+v, %v", list, err)
	}
}
