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

// routeFixture has a service of three instances on three workers, two of which can
// be asked.
func routeFixture(t *testing.T) *fixture {
	ms := func(n float64) api.Duration { return api.Duration(n * float64(time.Millisecond)) }
	endpoint := func(n int, worker string, own string, rtt float64, share float64, recent int) rpc.RouteEndpoint {
		e := rpc.RouteEndpoint{Instance: "shop.web." + string(rune('0'+n)), Cluster: "edge", Worker: worker,
			Address: "192.0.2.1:8474", Ordinal: n, Share: share, Recent: recent, State: "ok", InFlight: n, Queue: 2 * n,
			Capacity: float64(n) * 42.5, Asleep: n == 0}
		if e.Local = worker == own; !e.Local && rtt > 0 {
			e.RTT, e.Source, e.AgeSeconds = ms(rtt), "measured", 12
			e.Bandwidth = 2.5 * (1 << 20)
			if n == 0 {
				e.Back = 700
			}
		}
		return e
	}
	report := func(worker string, a, b, c rpc.RouteEndpoint) rpc.RouteReport {
		return rpc.RouteReport{V: 1, MeanBody: 96 << 10, MeanAnswer: 512, Cluster: "edge", Worker: worker, App: "shop",
			Service: "web", Policy: api.Policy{Name: api.PolicyRoundRobin}, Endpoints: []rpc.RouteEndpoint{a, b, c}}
	}
	gone := endpoint(2, "w3", "w2", 0, 0, 0)
	gone.State, gone.Why = "ejected", "reach its data port: connection refused"
	weighted := report("w1", endpoint(0, "w1", "w1", 0, 0.4, 20), endpoint(1, "w1", "w1", 0, 0.4, 20),
		endpoint(2, "w3", "w1", 38, 0.2, 10))
	weighted.Service, weighted.Policy.Name = "mill", api.PolicyWeighted
	weighted.Endpoints[0].CPU, weighted.Endpoints[1].CPU = 4000, 4000
	worker := func(name string) rpc.WorkerView {
		return rpc.WorkerView{WorkerInfo: wire.WorkerInfo{Name: name}, Cluster: "edge"}
	}
	return newFixture(t, &resttest.Fake{
		NodeData: resttest.NodeData{WorkerList: []rpc.WorkerView{worker("w1"), worker("w2"), worker("w3")}},
		MetricData: resttest.MetricData{
			Routes: []rpc.RouteReport{
				report("w1", endpoint(0, "w1", "w1", 0, 1./3, 20), endpoint(1, "w2", "w1", 4, 1./3, 20),
					endpoint(2, "w3", "w1", 38, 1./3, 20)),
				weighted,
				report("w2", endpoint(0, "w1", "w2", 4, 0.5, 10), endpoint(1, "w2", "w2", 0, 0.5, 10), gone),
			},
			Nets: []rpc.NetReport{
				{V: 1, Cluster: "edge", Worker: "w1", Error: 0.12,
					Dropped: map[string]uint64{"isolated": 12, "spoofed": 3, "guarded": 0}, Peers: []rpc.NetPeer{
						{Cluster: "edge", Worker: "w2", Address: "192.0.2.2:8474", Path: wire.PathDirect,
							Via: "data port, TLS over TCP", RTT: ms(4), Source: "measured", Estimate: ms(5)},
						{Cluster: "edge", Worker: "w3", Address: "192.0.2.3:8474", Path: wire.PathNone,
							Why: "reach its data port: i/o timeout", RTT: ms(38), Source: "estimated", AgeSeconds: 900},
					}},
				{V: 1, Cluster: "edge", Worker: "w2", Error: 1.5, Peers: []rpc.NetPeer{}},
			},
		},
	})
}

func TestRoute(t *testing.T) {
	f := routeFixture(t)
	for name, line := range map[string]string{
		"route-show":           "route show shop.web --from w1",
		"route-show-wide":      "route show service/shop.web --from edge/w2 -o wide",
		"route-show-json":      "route show shop.web --from w2 -o json",
		"route-show-no-worker": "route show shop.web", "route-show-no-such": "route show shop.web --from w9",
		"route-show-no-route": "route show shop.db --from w1", "route-show-bad": "route show web --from w1",
		"route-explain": "explain route shop.web --from w2", "route-explain-none": "explain route shop.web",
		"route-explain-weighted": "explain route shop.mill --from w1",
		"route-plan":             "route plan shop.web",
		"route-plan-alpha":       "route plan shop.web --alpha 0.8 --localrtt 3ms --from w1",
		"route-plan-closest":     "route plan shop.web --policy closest --from w1 -o json",
		"route-plan-bad":         "route plan shop.web --alpha 2", "route-plan-none": "route plan shop.db",
		"netcheck": "netcheck --from w1", "netcheck-wide": "netcheck --from edge/w1 -o wide",
		"netcheck-alone": "netcheck --from w2", "netcheck-none": "netcheck",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
}
