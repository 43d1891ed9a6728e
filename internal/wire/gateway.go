package wire

import "time"

// GatewayInfo is what a gateway publishes besides HTTP. It changes only when something happens.
type GatewayInfo struct {
	// TLS is the address where it listens for HTTPS; "" for none.
	TLS string `json:"tls,omitempty"`
	// Ports and Certificates (the first to expire first), at most MaxGatewayItems of each.
	// More: there are others.
	Ports        []GatewayPort        `json:"ports,omitempty"`
	Certificates []GatewayCertificate `json:"certificates,omitempty"`
	More         bool                 `json:"more,omitempty"`
}

// MaxGatewayItems bounds each list of a GatewayInfo.
const MaxGatewayItems = 50

// GatewayPort is a tcp or udp port of a gateway.
type GatewayPort struct {
	Port     int    `json:"port"`
	Protocol string `json:"protocol"`
	Service  string `json:"service,omitempty"` // "<application>.<service>"
	Problem  string `json:"problem,omitempty"` // why it is not open
}

// GatewayCertificate is the certificate of a host.
type GatewayCertificate struct {
	Host   string `json:"host"`
	Source string `json:"source"` // "secret", "acme", "self-signed"
	// Expires is zero if there is none yet.
	Expires time.Time `json:"expires,omitzero"`
	Problem string    `json:"problem,omitempty"`
	// Failed: there is none, or it could not be renewed or used. Else a Problem is that it
	// expires.
	Failed bool `json:"failed,omitempty"`
}

// GatewayGrant says whether a worker may be a gateway with TLS, and so gets the certificates of
// hosts and their keys.
type GatewayGrant struct {
	Allowed bool `json:"allowed"`
	// By decided it, at the time At. "" and zero if nobody did, as with a worker that was a
	// gateway before grants existed.
	By string    `json:"by,omitempty"`
	At time.Time `json:"at,omitzero"`
}

// May says whether it is allowed. A nil grant is not.
func (g *GatewayGrant) May() bool { return g != nil && g.Allowed }

// WantsCertificates says whether a worker is a gateway that needs the certificates of hosts.
func (w *WorkerInfo) WantsCertificates() bool { return w.Published != nil && w.Published.TLS != "" }
