package backend

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Who may have an image: where it runs first, then the workers before the one that asks,
// and nobody for who has no business with it.
func TestImageSources(t *testing.T) {
	m := state.NewModel("edge", true, time.Time{})
	m.Shares["shop.web"] = &wire.Share{App: "shop", Service: "web", Spec: &api.Service{Image: "redis:7"}}
	m.Shares["bank.db"] = &wire.Share{App: "bank", Service: "db", Spec: &api.Service{Image: "postgres:16"}}
	for i := range 6 {
		w := state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: fmt.Sprintf("w%d", i),
			Address: fmt.Sprintf("10.0.0.%d:8474", i)}}, time.Now())
		w.Connected = true
		m.Workers[w.Info.Name] = w
	}
	m.Workers["w4"].Info.Address = ""
	put := func(key string, ordinal int, worker string, state wire.State) {
		id := fmt.Sprintf("%s.%d", key, ordinal)
		app, service := key[:4], key[5:]
		m.Insts[id] = &wire.Instance{ID: id, App: app, Service: service, Worker: worker, State: state}
	}
	put("shop.web", 0, "w0", wire.WorkerScheduled)
	put("shop.web", 1, "w1", wire.WorkerScheduled)
	put("shop.web", 2, "w2", wire.WorkerScheduled)
	put("shop.web", 3, "w3", wire.Running)
	put("shop.web", 4, "w4", wire.Running)
	put("shop.web", 5, "", wire.Requested)
	put("bank.db", 0, "w5", wire.Running)
	for asks, want := range map[string]string{
		"w0 redis:7":     "[{w3 10.0.0.3:8474 false}]",
		"w2 redis:7":     "[{w3 10.0.0.3:8474 false} {w0 10.0.0.0:8474 true} {w1 10.0.0.1:8474 true}]",
		"w3 redis:7":     "[{w0 10.0.0.0:8474 true} {w1 10.0.0.1:8474 true} {w2 10.0.0.2:8474 true}]",
		"w5 redis:7":     "[]",
		"w1 postgres:16": "[]",
		"w9 redis:7":     "[]",
	} {
		var worker, image string
		if _, err := fmt.Sscan(asks, &worker, &image); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(workers.ImageSources(m, worker, image)); got != want {
			t.Errorf("%s: %s, want %s", asks, got, want)
		}
	}
	m.Workers["w3"].Suspect = true
	if got := fmt.Sprint(workers.ImageSources(m, "w0", "redis:7")); got != "[]" {
		t.Errorf("with one that is suspect: %s", got)
	}
}

// What workers have removed is in the events; others say nothing of it.
func TestImagesThatWereRemoved(t *testing.T) {
	b := &Backend{Core: clustertest.NewCore(t, bustest.NewMemStore())}
	gone := rpc.ImageAsk{V: wire.Version}
	for range workers.MaxImagesGone + 1 {
		gone.Gone = append(gone.Gone, rpc.ImageGone{Image: "docker.io/library/redis:7", Size: 40 << 20,
			Why: "nothing has needed it for 8 days"})
	}
	for _, who := range []access.Who{{Name: "user/ann"}, {Name: "worker/far/w1", Node: true},
		{Name: "worker/edge/w1"}} {
		if _, err := b.ImageSources(access.With(t.Context(), who), gone); err == nil {
			t.Errorf("%+v is believed", who)
		}
	}
	if _, err := b.ImageSources(access.With(t.Context(), access.Who{Name: "worker/edge/w1", Node: true}),
		gone); err != nil {
		t.Fatal(err)
	}
	list := b.EventRing.After(t.Context(), 0, 0).Events
	if want := `image "docker.io/library/redis:7" (40Mi) was removed: "nothing has needed it for 8 days"`; len(list) != workers.MaxImagesGone || list[0].Subject != "worker/edge/w1" || list[0].What != want {
		t.Errorf("%d events, %+v", len(list), list)
	}
}
