package cluster

import (
	"fmt"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/cluster/advisor"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/core"
	"github.com/verge-edge/verge/internal/cluster/planner"
	"github.com/verge-edge/verge/internal/cluster/proximity"
	"github.com/verge-edge/verge/internal/cluster/routes"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// A cluster goes on while it plans: what its workers say meanwhile is neither read nor
// written by the rehearsal. The race detector judges; without it, the runtime.
func TestAPlanWhileWorkersReport(t *testing.T) {
	s := clustertest.NewSite(t)
	s.Core.M.Peer = opaqueNames("secret")
	s.Give(clustertest.Web(2, "a"), 2)
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for n := uint64(0); ; n++ {
			select {
			case <-stop:
				return
			default:
			}
			core.Do(s.Core, func(m *state.Model) {
				w := fmt.Sprint("w", 1+n%2)
				routes.Memory(m).Uses[w] = &routes.Uses{Marks: map[string]bool{routes.UsesApp + "app": n%4 < 2}}
				advisor.Memory(m).Plugins[w], m.Leaving[w] = true, true
				delete(advisor.Memory(m).Plugins, w)
				delete(m.Leaving, w)
				proximity.Flow(m, "app.web", w, &wire.ServiceDemand{Requests: 100}, time.Second, s.Now)
				m.Workers[w].Inbox.Accept(wire.Report{V: wire.Version, To: wire.Rev{Inc: "i", N: n},
					Changes: []wire.Change{{Key: fmt.Sprint(n)}}})
				m.Peer(fmt.Sprint(n % 100))
			})
		}
	}()
	for n := range 50 {
		here := 1 + n%3
		if _, err := planner.PlanShares(t.Context(), s.Core, s.PlanAsk(clustertest.Web(here, fmt.Sprint(n)), here), 0,
			s.Now); err != nil {
			t.Error(err)
		}
	}
	close(stop)
	<-done
}
