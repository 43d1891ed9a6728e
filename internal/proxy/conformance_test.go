package proxy

import (
	"net"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/proxytest"
	"github.com/verge-edge/verge/internal/wire"
)

// Whatever the way from a client to an instance, requests fare alike on it.
func TestConformance(t *testing.T) {
	for name, far := range map[string]bool{"Here": false, "There": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxytest.Run(t, func(t *testing.T, protocol string, rules wire.RequestRules, handle func(net.Conn)) string {
				ca := newAuthority(t)
				a := newWorker(t, ca, "a", nil)
				home := a
				if far {
					home = newWorker(t, ca, "b", nil)
				}
				i := startInstance(t, "app.web.0", "", handle)
				home.engine.set(i.id, i.addr, nil)
				rt := requestRoute(protocol, rules, home.endpoint(i.id))
				a.SetRoutes([]wire.Route{rt})
				home.SetRoutes([]wire.Route{rt})
				return a.addr(t, protocol)
			})
		})
	}
}
