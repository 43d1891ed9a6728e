package demand_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/autoscale"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/demand"
	"github.com/verge-edge/verge/internal/wire"
)

// Once in an epoch a report of requests wakes the controller, whose decision follows them. Where
// nothing is reported any more, nothing is asked for and the demand is forgotten.
func TestDemandWakesAndFades(t *testing.T) {
	c, now := clustertest.NewCore(t, bustest.NewMemStore()), time.Now()
	clustertest.AddWorkers(t, c, "w1")
	slo := api.Duration(time.Second)
	share := &wire.Share{V: wire.Version, App: "app", Service: "web", Max: 3,
		Spec: &api.Service{Replicas: api.Replicas{Min: 0, Max: 3}, SLO: &slo}}
	c.M.Shares["app.web"], c.M.FromRoot["app.web"] = share, share
	for len(c.Wake) > 0 {
		<-c.Wake
	}
	report := func(service string) {
		demand.OnDemand(c, "w1", &wire.Demand{V: wire.Version, Span: api.Duration(autoscale.Epoch),
			Services: []wire.ServiceDemand{{App: "app", Service: service, Requests: 1000}}}, now)
	}
	if report("nobody"); len(demand.Memory(c.M).Demand) != 0 {
		t.Error("a service that is not here is scaled")
	}
	if _, any := demand.UntilEpoch(c, now); any {
		t.Error("an epoch is waited for, and nobody asks for anything")
	}
	if report("web"); len(c.Wake) != 1 {
		t.Fatal("the controller is not woken")
	}
	if !demand.Decide(c, now) {
		t.Fatal("the decision is no news")
	}
	if w := autoscale.Memory(c.M).Wants["app.web"]; w == nil || w.Decision.Want < 1 {
		t.Fatalf("it wants %+v", w)
	}
	<-c.Wake
	if report("web"); len(c.Wake) != 0 || demand.Decide(c, now) {
		t.Error("it is decided again in the same epoch")
	}
	if left, any := demand.UntilEpoch(c, now); !any || left != autoscale.Epoch {
		t.Errorf("the next epoch is in %s, %v", left, any)
	}
	for range 1000 {
		now = now.Add(autoscale.Epoch)
		if demand.Decide(c, now); len(demand.Memory(c.M).Demand) == 0 {
			break
		}
	}
	if w := autoscale.Memory(c.M).Wants["app.web"]; w != nil || len(demand.Memory(c.M).Demand) != 0 {
		t.Errorf("it is still asked for: %+v", w)
	}
}
