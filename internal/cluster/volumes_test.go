package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A volume of an instance that belongs to a worker is in use, whether or not the
// worker has heard of the instance; the root may see volumes and not remove them.
func TestVolumesOfWorkers(t *testing.T) {
	c := newTestCore(t, bus.NewMemStore())
	c.m.Workers["w1"] = &state.Worker{WorkerRecord: state.WorkerRecord{Info: wire.WorkerInfo{Name: "w1"}}}
	c.m.Insts["app.db.0"] = &wire.Instance{ID: "app.db.0", App: "app", Service: "db", Pinned: "w1"}
	c.m.Insts["app.db.1"] = &wire.Instance{ID: "app.db.1", App: "app", Service: "db", Worker: "w2"}
	c.m.Shares["app.db"] = &wire.Share{App: "app", Service: "db", Spec: &api.Service{Volumes: []api.Volume{{Path: "d", Name: "data"}}}}
	b := backend{&Cluster{core: c}}
	var asked []wire.Ask
	stop, err := c.local.Subscribe(exchange.WorkerSubjects("w1").Ask, func(_ context.Context, m bus.Msg) {
		var q wire.Ask
		err := json.Unmarshal(m.Data, &q)
		asked = append(asked, q)
		data := []byte(`{}`)
		if q.What == wire.AskVolumes {
			data = []byte(`[{"namespace":"default","instance":"app.db.0","name":"data","cluster":"x","changed":"2026-01-01T00:00:00Z"},
				{"namespace":"default","instance":"app.db.0","name":"old"},{"namespace":"default","instance":"app.db.1","name":"data"},{"namespace":"other","instance":"app.db.0","name":"data"}]`)
		}
		if err == nil {
			data, err = json.Marshal(wire.Answer{V: wire.Version, Data: data})
		}
		if err == nil {
			err = m.Respond(data)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
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
		if p := new(wire.Problem); q.want == "" && err != nil || q.want != "" && (!errors.As(err, &p) || p.Code != q.want) {
			t.Errorf("%+v: %v", q, err)
		}
	}
	if last := asked[len(asked)-1]; len(asked) != 2 || last.What != wire.AskRemoveVolume || *last.Volume != list[1].VolumeRef {
		t.Errorf("the worker was asked %+v", asked)
	}
	if _, err := c.answer(t.Context(), wire.Ask{What: wire.AskVolumes, Worker: "w1"}); err != nil {
		t.Error(err)
	}
	if _, err := c.answer(t.Context(), wire.Ask{What: wire.AskRemoveVolume, Worker: "w1", Volume: &list[1].VolumeRef}); err == nil {
		t.Error("the root removed a volume of a site")
	}
}
