package proxy

import (
	"net"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/proxytest"
	"github.com/verge-edge/verge/internal/wire"
)

// Whatever the way from a client to an instance, requests fare alike on it.
func TestConformance(t *testing.T) {
	for name, way := range map[string]struct{ far, gate bool }{"Here": {}, "There": {far: true},
		"Gateway": {gate: true}, "GatewayThere": {far: true, gate: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxytest.Run(t, func(t *testing.T, protocol string, rules wire.RequestRules,
				handle func(net.Conn)) string {
				ca := newAuthority(t)
				a := newWorker(t, ca, "a", nil)
				home := a
				if way.far {
					home = newWorker(t, ca, "b", nil)
				}
				i := startInstance(t, "app.web.0", "", handle)
				home.engine.set(i.id, i.addr, nil)
				rt := requestRoute(protocol, rules, home.endpoint(i.id))
				if way.gate {
					rt.Ports = publishedAs(protocol, "a", "127.0.0.1", "shop.example")
				}
				a.SetRoutes([]wire.Route{rt})
				home.SetRoutes([]wire.Route{rt})
				if way.gate {
					return a.GatewayAddr()
				}
				return a.addr(t, protocol)
			}, proxytest.Traits{Gateway: way.gate})
		})
	}
}

// publishedAs are ports that a gateway publishes under these names.
func publishedAs(protocol string, hosts ...string) (ports []api.Port) {
	for _, h := range hosts {
		ports = append(ports, api.Port{Name: "p" + strings.ReplaceAll(h, ".", "-"), Protocol: protocol,
			Ingress: &api.Ingress{Host: h}})
	}
	return ports
}
