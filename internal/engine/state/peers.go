package state

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engineapi"
)

// FillPeers gives each order the ports of the services of its application, which
// the routes have of every service.
func FillPeers(o *engineapi.EngineOrders) {
	by := map[string]map[string][]api.Port{}
	for i := range o.Routes {
		r := &o.Routes[i]
		if by[r.App] == nil {
			by[r.App] = map[string][]api.Port{}
		}
		by[r.App][r.Service] = r.Ports
	}
	for i := range o.Orders {
		if o.Orders[i].Peers == nil {
			o.Orders[i].Peers = by[o.Orders[i].App]
		}
	}
}
