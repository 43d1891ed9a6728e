package cluster

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
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
	const services, each, workers = 1000, 10, 100
	s := newSim(b)
	for w := range workers {
		name := fmt.Sprintf("w%03d", w)
		s.addWorker(name)
		info := &s.m.Workers[name].Info
		info.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay}
		info.Capacity = api.Resources{CPU: 1 << 30, Memory: 1 << 50, Disk: 1 << 50}
	}
	for n := range services {
		s.share(fmt.Sprintf("s%03d", n), each, nil)
	}
	store := bus.NewMemStore()
	c := &core{name: "edge", log: slog.New(slog.DiscardHandler), store: store, keeper: keeper.Keeper{Store: store}, m: s.m}
	settle := func() {
		for range maxRounds {
			t := s.m.step(s.now)
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
	for w := range workers {
		if oneIn == 1 {
			break
		}
		uses := wire.Uses{Services: []string{fmt.Sprintf("app.s%03d", 100+w)}}
		if w%oneIn == 0 {
			uses.Services = append(uses.Services, "app.s007")
		}
		if err := c.takeUses(b.Context(), s.m.Workers[fmt.Sprintf("w%03d", w)], &uses); err != nil {
			b.Fatal(err)
		}
	}
	settle()
	for range 3 {
		s.now = s.now.Add(time.Second)
		for name, f := range s.fakes {
			f.act(s, name)
		}
		settle()
	}
	id := instanceID("app", "s007", 3)
	i := s.m.Insts[id]
	if i == nil || !i.Ready || len(s.m.Routes["app.s007"].Endpoints) != each {
		b.Fatalf("%s is not there: %+v", id, i)
	}
	status := s.m.Workers[i.Worker].Status
	bytes, changes := 0, 0
	for b.Loop() {
		st := status[id]
		st.Ready = !st.Ready
		status[id] = st
		before := map[string]wire.Rev{}
		for name := range s.m.Workers {
			before[name] = c.desiredOf(name).Rev()
		}
		settle()
		b.StopTimer()
		for name := range s.m.Workers {
			reply, err := c.desiredOf(name).Fetch(b.Context(), wire.Fetch{V: wire.Version, Since: before[name]})
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
