package gateway

import (
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/proxy/counters"
)

// State is what a gateway publishes besides HTTP, and with which certificates.
type State struct {
	Ports        []PortState
	Certificates []certs.Report // those first that expire first
}

// PortState is a tcp or udp port at a gateway.
type PortState struct {
	Port    int
	UDP     bool
	Service string // "<application>.<service>"
	Open    bool
	Problem string // why it is not open; "" if it is, or is about to be
}

// State is what it publishes now.
func (g *Gateway) State() State {
	if !g.enabled() {
		return State{}
	}
	return State{Ports: g.Ports.list(), Certificates: g.certs.Reports()}
}

// RefreshSecrets looks at the secrets with certificates again.
func (g *Gateway) RefreshSecrets() {
	if g.enabled() {
		g.certs.Refresh()
	}
}

// Stats returns the counters.
func (g *Gateway) Stats() Stats {
	return Stats{
		Requests: g.requests.Load(), UnknownHost: g.unknown.Load(), Limited: g.limited.Load(),
		NoEndpoint: g.noEndpoint.Load(),
		Failed:     g.failed.Load(), Rejected: g.rejected.Load(), BadProxy: g.badProxy.Load(),
		Flooded: g.opts.Flooded.Load(),
		Open:    g.Conns.Open(), Traffic: g.traffic.Read(),
	}
}

// Stats counts the requests of users.
type Stats struct {
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
