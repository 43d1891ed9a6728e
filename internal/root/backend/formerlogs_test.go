package backend_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/root/backend"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// The clusters in which an instance was before are asked at once, in the order of their names
// and after its own; its own alone if that knows.
func TestFormerLogsOfManyClusters(t *testing.T) {
	const clusters = 20
	var names []string
	for n := range clusters {
		names = append(names, fmt.Sprintf("c%02d", n))
	}
	s := roottest.NewSim(t, names...)
	s.Model.Insts["app.web.0"] = &wire.Instance{ID: "app.web.0", Cluster: "c05"}
	knows := map[string]int{"c05": 1, "c02": 2, "c17": 1} // former places
	conns := map[string]bus.Conn{}
	var mu sync.Mutex
	asked := map[string]int{}
	var first sync.WaitGroup // of all other clusters: none is answered before all have been asked
	for _, name := range names {
		conn := bustest.NewMem().Conn(name, bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
		defer conn.Close()
		conns[name] = conn
		cl := s.Model.Clusters[name]
		cl.Aggregate, cl.EverHeard = &wire.Aggregate{Details: true}, true
		stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
			var q rpc.Ask
			if err := json.Unmarshal(m.Data, &q); err != nil {
				t.Error(err)
			}
			mu.Lock()
			asked[name]++
			n := asked[name]
			mu.Unlock()
			if name != "c05" && n == 1 {
				first.Done()
				first.Wait()
			}
			reply := `{"v":1,"e":"x","p":{"status":404,"code":"no-former-log","title":"x"}}`
			if q.Former <= knows[name] {
				reply = fmt.Sprintf(`{"v":1,"d":{"former":%d,"worker":"%s/w%d"}}`, q.Former, name, q.Former)
			}
			if err := m.Respond([]byte(reply)); err != nil {
				t.Error(err)
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
	}
	b := backend.Backend{Core: &core.Core{Logger: slog.New(slog.DiscardHandler), M: s.Model,
		LinkTo: func(name string) (bus.Conn, error) { return conns[name], nil }}}
	for former, want := range map[int]string{1: "c05/w1", 2: "c02/w1", 3: "c02/w2", 4: "c17/w1", 5: ""} {
		clear(asked)
		first.Add(clusters - 1)
		chunk, err := b.Logs(t.Context(), "app.web.0", rpc.LogAsk{Former: former})
		if chunk.Worker != want || (err == nil) != (want != "") || want != "" && chunk.Former != former {
			t.Errorf("former log %d: %+v, %v, want %q", former, chunk, err, want)
		}
		if former == 1 {
			if len(asked) != 1 || asked["c05"] != 1 {
				t.Errorf("asked for what its own cluster knows: %v", asked)
			}
			first.Add(1 - clusters)
		}
	}
}
