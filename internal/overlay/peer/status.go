package peer

import (
	"net/netip"
	"time"
)

// Path is how a worker reaches another one in the service network.
type Path struct {
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	// Addr is the other's own address in the service network.
	Addr netip.Addr `json:"addr,omitzero"`
	// Path is wire.PathDirect, PathRelay or PathNone.
	Path string `json:"path"`
	// Endpoint is where packets are sent, Relay the name of the relay where that is
	// one.
	Endpoint netip.AddrPort `json:"endpoint,omitzero"`
	Relay    string         `json:"relay,omitempty"`
	// Why says in words why Path is no better one.
	Why string `json:"why,omitempty"`
	// Since when Path is what it is.
	Since time.Time `json:"since,omitzero"`
	// Handshake is when the last one was.
	Handshake time.Time `json:"handshake,omitzero"`
	// Rx and Tx count bytes since the other one became a peer.
	Rx uint64 `json:"rx,omitempty"`
	Tx uint64 `json:"tx,omitempty"`
}

// Paths are all of a worker, and what others see of it.
type Paths struct {
	V int `json:"v"`
	// Key is the worker's public WireGuard key, in base64, Port its UDP port.
	Key  string `json:"key,omitempty"`
	Port uint16 `json:"port,omitempty"`
	// Outside is where its relay sees it; NAT says that this is none of its own
	// addresses.
	Outside netip.AddrPort `json:"outside,omitzero"`
	NAT     bool           `json:"nat,omitempty"`
	// Relay is the name of the relay at which it can be reached; RelayWhy says why
	// there is none.
	Relay    string `json:"relay,omitempty"`
	RelayWhy string `json:"relay_why,omitempty"`
	// Peers by cluster and worker.
	Peers []Path `json:"peers,omitempty"`
}
