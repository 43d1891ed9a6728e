package routes_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/rehearsal"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/tier/keeper"
	"github.com/verge-edge/verge/internal/wire"
)

// BenchmarkRouteChange is the death of one endpoint among 1,000 services of 10 on 100
// workers: the passes that follow from it, and the bytes that all workers fetch, where
// all of them are told of everything and where one in ten uses the service.
func BenchmarkRouteChange(b *testing.B) {
	b.Run("all", func(b *testing.B) { benchmarkRouteChange(b, 1) })
	b.Run("tenth", func(b *testing.B) { benchmarkRouteChange(b, 10) })
}

func benchmarkRouteChange(b *testing.B, oneIn int) {
	const services, each, nWorkers = 1000, 10, 100
	s := clustertest.NewSim(b)
	for w := range nWorkers {
		name := fmt.Sprintf("w%03d", w)
		s.AddWorker(name)
		info := &s.Model.Workers[name].Info
		info.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay}
		info.Capacity = api.Resources{CPU: 1 << 30, Memory: 1 << 50, Disk: 1 << 50}
	}
	for n := range services {
		s.Share(fmt.Sprintf("s%03d", n), each, nil)
	}
	store := bustest.NewMemStore()
	c := &core.Core{ClusterName: "edge", Logger: slog.New(slog.DiscardHandler), RecordStore: store,
		Keeper: keeper.Keeper{Store: store},
		M:      s.Model}
	settle := func() {
		for range rehearsal.MaxRounds {
			t := reconcile.Step(s.Model, s.Now)
			groups, err := t.Encode()
			if err != nil {
				b.Fatal(err)
			}
			if len(groups) == 0 {
				return
			}
			for _, g := range groups {
				if _, err := store.Commit(b.Context(), g...); err != nil {
					b.Fatal(err)
				}
			}
			t.Done()
		}
	}
	for w := range nWorkers {
		if oneIn == 1 {
			break
		}
		uses := wire.Uses{Services: []string{fmt.Sprintf("app.s%03d", 100+w)}}
		if w%oneIn == 0 {
			uses.Services = append(uses.Services, "app.s007")
		}
		if err := workers.TakeUses(b.Context(), c, s.Model.Workers[fmt.Sprintf("w%03d", w)], &uses); err != nil {
			b.Fatal(err)
		}
	}
	settle()
	for range 3 {
		s.Now = s.Now.Add(time.Second)
		for name, f := range s.Workers {
			f.Act(s, name)
		}
		settle()
	}
	id := state.InstanceID("app", "s007", 3)
	i := s.Model.Insts[id]
	if i == nil || !i.Ready || len(s.Model.Routes["app.s007"].Endpoints) != each {
		b.Fatalf("%s is not there: %+v", id, i)
	}
	status := s.Model.Workers[i.Worker].Status
	bytes, changes := 0, 0
	for b.Loop() {
		st := status[id]
		st.Ready = !st.Ready
		status[id] = st
		before := map[string]wire.Rev{}
		for name := range s.Model.Workers {
			before[name] = workers.DesiredOf(c, name).Rev()
		}
		settle()
		b.StopTimer()
		for name := range s.Model.Workers {
			reply, err := workers.DesiredOf(c, name).Fetch(b.Context(),
				wire.Fetch{V: wire.Version, Since: before[name]})
			if err != nil {
				b.Fatal(err)
			}
			text, err := json.Marshal(reply)
			if err != nil {
				b.Fatal(err)
			}
			bytes += len(text)
			changes += len(reply.Changes)
		}
		b.StartTimer()
	}
	b.ReportMetric(float64(bytes)/float64(b.N), "bytes/change")
	b.ReportMetric(float64(changes)/float64(b.N), "routes/change")
}
