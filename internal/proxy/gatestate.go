package proxy

import (
	"github.com/verge-edge/verge/internal/proxy/certs"
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

// Gateway is what it publishes now; nothing where the Router is none.
func (r *Router) Gateway() GatewayState {
	if !r.isGateway() {
		return GatewayState{}
	}
	return GatewayState{Ports: r.gateway.ports.list(), Certificates: r.gateway.certs.Reports()}
}

// SecretsChanged says that secrets with certificates may have other values.
func (r *Router) SecretsChanged() {
	if r.isGateway() {
		r.gateway.certs.Refresh()
	}
}
