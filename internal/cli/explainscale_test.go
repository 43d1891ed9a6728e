package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestExplainScale(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	at := f.now
	d := rpc.ScaleDecision{
		V: 1, At: at.Add(-time.Second), Want: 4, From: 2, Why: "4 for the rate, 0 for what waits", Max: 10, Rate: 180,
		Predicted: 190.5, RPS: 50, Waiting: 3,
		Exec: api.Duration(20 * time.Millisecond), StartUp: api.Duration(80 * time.Millisecond),
		SLO: api.Duration(500 * time.Millisecond), ForRate: 4,
		Replicas: []wire.ReplicaDemand{{Instance: "shop.f.0", RPS: 50, Exec: api.Duration(20 * time.Millisecond),
			Waiting: 3}, {Instance: "shop.f.1"}},
	}
	last := d
	last.At, last.Want, last.From, last.Less, last.Refused, last.Why = at.Add(-time.Minute), 2, 3, 16, 1.5,
		"2 were enough for 16 epochs"
	given := rpc.Give{From: "edge", To: "east", N: 3,
		Why: "edge has no room: 2 workers: 2 are full: need 1Gi memory, largest free 380Mi"}
	f.fake.Scales = []rpc.ScaleReport{
		{
			V: 1, Cluster: "edge", App: "shop", Service: "f", Max: 10, Placed: 3, Awake: 2, Short: 4,
			Full:  "2 workers: 2 are full: need 1Gi memory, largest free 380Mi",
			Gives: []rpc.Give{given}, Unserved: "for 1: as many run as the service may have", Now: &d, Last: &last,
		},
		{V: 1, Cluster: "east", App: "shop", Service: "f", Max: 3, Extra: 3, Placed: 3, Awake: 3,
			Gives: []rpc.Give{given}},
		{V: 1, Cluster: "north", App: "shop", Service: "f", Min: 1, Max: 2, Extra: 1, Placed: 1, Awake: 0},
		{V: 1, Cluster: "south", App: "shop", Service: "f", Short: 2},
		{V: 1, Cluster: "west", App: "shop", Service: "f", Problem: "cluster west keeps its details to itself"},
		{V: 1, Cluster: "edge", App: "shop", Service: "db", Min: 2, Max: 2, Fixed: true, Placed: 2, Awake: 2},
	}
	for name, line := range map[string]string{
		"explain-scale": "explain scale shop.f", "explain-scale-fixed": "explain scale service/shop.db",
		"explain-scale-json": "explain scale shop.db -o json",
		"explain-scale-none": "explain scale shop.x", "explain-scale-bad": "explain scale shop",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
}
