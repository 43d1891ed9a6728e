package views_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/root/views"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster that is stopped but not suspect yet must not hold a status up: what it
// said last is shown with its age.
func TestStatusDoesNotWaitForASilentCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := roottest.NewCore(t, bustest.NewMemStore())
		all := bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}}
		silent := false
		conns := map[string]bus.Conn{}
		for _, name := range []string{"edge", "fog"} {
			conn := bustest.NewMem().Conn(name, all)
			defer conn.Close()
			stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
				if name == "edge" && silent {
					return
				}
				if err := m.Respond([]byte(`{"v":1,"d":[{"name":"w1","cluster":"` + name +
					`","status":"ready","age_seconds":1}]}`)); err != nil {
					t.Error(err)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			defer stop()
			conns[name] = conn
			cl := state.NewCluster(state.ClusterRecord{V: wire.Version, Name: name}, time.Now())
			cl.EverHeard, cl.Aggregate = true, &wire.Aggregate{V: wire.Version, Workers: 1, Details: true}
			b.M.Clusters[name] = cl
		}
		b.LinkTo = func(name string) (bus.Conn, error) { return conns[name], nil }
		ctx := access.With(t.Context(), access.Who{Name: "admin/ann", Admin: true})
		if list, missing := views.Workers(ctx, b, core.StatusTimeout); len(list) != 2 || len(missing) != 0 {
			t.Fatalf("%+v, %v", list, missing)
		}
		silent = true
		time.Sleep(7 * time.Second) // of virtual time
		begin := time.Now()
		list, missing := views.Workers(ctx, b, core.StatusTimeout)
		if took := time.Since(begin); took > core.StatusTimeout {
			t.Errorf("it took %s", took)
		}
		if len(list) != 2 || list[0].Cluster != "edge" || list[0].AgeSeconds < 8 || list[1].AgeSeconds != 1 {
			t.Errorf("%+v", list)
		}
		if len(missing) != 1 || !strings.Contains(missing[0], "as they were 8s ago") &&
			!strings.Contains(missing[0], "as they were 7s ago") {
			t.Errorf("%q", missing)
		}
	})
}
