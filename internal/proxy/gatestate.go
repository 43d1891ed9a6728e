package proxy

import (
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/proxy/counters"
)

// GatewayState is what a gateway publishes besides HTTP, and with which certificates.
type GatewayState struct {
	Ports        []GatewayPortState
	Certificates []certs.Report // those first that expire first
}

// GatewayPortState is a tcp or udp port at a gateway.
type GatewayPortState struct {
	Port    int
	UDP     bool
	Service string // "<application>.<service>"
	Open    bool
	Problem string // why it is not open; "" if it is, or is about to be
}

// state is what it publishes now.
func (g *gateway) state() GatewayState {
	if !g.enabled() {
		return GatewayState{}
	}
	return GatewayState{Ports: g.ports.list(), Certificates: g.certs.Reports()}
}

// refreshSecrets looks at the secrets with certificates again.
func (g *gateway) refreshSecrets() {
	if g.enabled() {
		g.certs.Refresh()
	}
}

// stats returns the counters.
func (g *gateway) stats() GatewayStats {
	return GatewayStats{
		Requests: g.requests.Load(), UnknownHost: g.unknown.Load(), Limited: g.limited.Load(), NoEndpoint: g.noEndpoint.Load(),
		Failed: g.failed.Load(), Rejected: g.rejected.Load(), BadProxy: g.badProxy.Load(), Flooded: g.opts.Flooded.Load(),
		Open: g.conns.Open(), Traffic: g.traffic.Read(),
	}
}

// GatewayStats counts the requests of users.
type GatewayStats struct {
	Requests    uint64
	UnknownHost uint64 // answered 404 or 400: nobody publishes the host, or the path
	Limited     uint64 // answered 429, or connections to a tcp port that were closed for that
	NoEndpoint  uint64 // answered 503
	Failed      uint64 // answered 502
	Rejected    uint64 // connections beyond the limits
	BadProxy    uint64 // connections of balancers without a valid header of the PROXY protocol
	Flooded     uint64 // connections of HTTP/2, at entries too, with too many frames that carry nothing, or a head without end
	Open        int    // connections now
	Traffic     counters.Traffic
}
