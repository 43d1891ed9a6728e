package backend

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/bus/exchange/exchangetest"
	"github.com/verge-edge/verge/internal/cluster/answer"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// A volume of an instance that belongs to a worker is in use, whether or not the
// worker has heard of the instance; the root may see volumes and not remove them.
func TestVolumesOfWorkers(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	c.M.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	c.M.Insts["app.db.0"] = &wire.Instance{ID: "app.db.0", App: "app", Service: "db",
		PlacementHistory: wire.PlacementHistory{Pinned: "w1"}}
	c.M.Insts["app.db.1"] = &wire.Instance{ID: "app.db.1", App: "app", Service: "db", Worker: "w2"}
	c.M.Shares["app.db"] = &wire.Share{App: "app", Service: "db",
		Spec: &api.Service{Volumes: []api.Volume{{Path: "d", Name: "data"}}}}
	b := &Backend{Core: c}
	var asked []rpc.Ask
	exchangetest.OnAsk(t, c.Local, exchange.WorkerSubjects("w1"), func(q rpc.Ask, _ string) (any, *wire.Problem) {
		asked = append(asked, q)
		data := json.RawMessage(`{}`)
		if q.What == rpc.AskVolumes {
			data = json.RawMessage(`[
				{"namespace":"default","instance":"app.db.0","name":"data","cluster":"x","changed":"2026-01-01T00:00:00Z"},
				{"namespace":"default","instance":"app.db.0","name":"old"},
				{"namespace":"default","instance":"app.db.1","name":"data"},
				{"namespace":"other","instance":"app.db.0","name":"data"}]`)
		}
		return data, nil
	})
	list, err := b.Volumes(t.Context(), "edge", "w1")
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v", list, err)
	}
	for i, used := range []bool{true, false, false, false} {
		if list[i].InUse != used || list[i].Cluster != "edge" || list[i].Worker != "w1" {
			t.Errorf("%+v, in use should be %v", list[i], used)
		}
	}
	for _, q := range []struct {
		cluster, worker string
		ref             wire.VolumeRef
		want            string
	}{
		{"edge", "w1", list[0].VolumeRef, "volume-in-use"}, {"edge", "w9", list[1].VolumeRef, "no-such-worker"},
		{"fog", "w1", list[1].VolumeRef, "elsewhere"}, {"edge", "w1", list[1].VolumeRef, ""},
	} {
		err := b.RemoveVolume(t.Context(), q.cluster, q.worker, q.ref)
		if p := new(wire.Problem); q.want == "" && err != nil || q.want != "" &&
			(!errors.As(err, &p) || p.Code != q.want) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if last := asked[len(asked)-1]; len(asked) != 2 || last.What != rpc.AskRemoveVolume ||
		*last.Volume != list[1].VolumeRef {
		t.Errorf("the worker was asked %+v", asked)
	}
	if _, err := answer.Answer(t.Context(), c, rpc.Ask{What: rpc.AskVolumes, Worker: "w1"}); err != nil {
		t.Error(err)
	}
	if _, err := answer.Answer(t.Context(), c, rpc.Ask{What: rpc.AskRemoveVolume, Worker: "w1",
		Volume: &list[1].VolumeRef}); err == nil {
		t.Error("the root removed a volume of a site")
	}
}
