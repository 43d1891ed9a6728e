package wire

import (
	"fmt"
	"net/netip"

	"github.com/verge-edge/verge/api"
)

// Lease is a worker's place in the service network. Leases go down the tree: a root has the
// prefix and the pool and gives clusters blocks of numbers and of the pool, from which they
// give their workers single ones. A worker keeps its lease for good: the addresses of its
// instances derive from it.
type Lease struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	Worker  string `json:"worker"`
	// Prefix is the root's unique local /48. With Number it is the worker's /80:
	// 48 bits of Prefix, 32 of worker, 24 of application, 24 of instance.
	Prefix netip.Prefix `json:"prefix"`
	// Number of the worker, unique below the root, 1 or more.
	Number uint32 `json:"number"`
	// IPv4 is the worker's /24; zero if the pool is exhausted: IPv6 is enough.
	IPv4 netip.Prefix `json:"ipv4,omitzero"`
	// Pool is the range of all IPv4 leases. Services is the range from which each worker takes
	// IPv4 addresses of services, independently.
	Pool     netip.Prefix `json:"pool,omitzero"`
	Services netip.Prefix `json:"services,omitzero"`
}

// SignedLease is a Lease signed by its cluster, so that workers of other clusters know the
// owner of each address.
type SignedLease struct {
	// Body is a Lease in JSON, Sig the signature of the cluster's authority over it,
	// as package pki makes it.
	Body []byte `json:"body"`
	Sig  []byte `json:"sig"`
}

// Relay is a node that forwards packets between workers which cannot reach each
// other. It cannot read them.
type Relay struct {
	// Name is unique below the root: "<cluster>/<worker>" of a worker, "root" on the
	// root's host. The node proves it with its certificate.
	Name string `json:"name"`
	// Key is its public WireGuard key, in base64.
	Key string `json:"key"`
	// Addresses at which it is reached, host:port over UDP, the best first.
	Addresses []string `json:"addresses"`
}

// Block is an assigned range of N numbers, beginning with From.
type Block struct {
	From uint32 `json:"from"`
	N    uint32 `json:"n"`
}

// ClusterLease is the part of the service network that a root gives a cluster for its workers.
// It only grows while the cluster is registered.
type ClusterLease struct {
	V       int    `json:"v"`
	Cluster string `json:"cluster"`
	// Key is the cluster's, as package pki names it (KeyHash): another cluster of the same name
	// gets none of this.
	Key string `json:"key,omitempty"`
	// Index of the cluster, 1 to MaxClusterIndex, or 0 if all are taken. Numbers of
	// applications that begin at the site contain it.
	Index uint32 `json:"index,omitempty"`
	// Prefix, Pool and Services are as in Lease.
	Prefix   netip.Prefix `json:"prefix"`
	Pool     netip.Prefix `json:"pool,omitzero"`
	Services netip.Prefix `json:"services,omitzero"`
	// Numbers of workers; Subnets are /24s of Pool, counted from its first.
	Numbers []Block `json:"numbers,omitempty"`
	Subnets []Block `json:"subnets,omitempty"`
	// Relays outside the cluster, in the order to try them.
	Relays []Relay `json:"relays,omitempty"`
}

// NetworkNeed is what a cluster needs of the service network in total: what workers have, what
// rests, and what workers wait for.
type NetworkNeed struct {
	Numbers int `json:"numbers"`
	Subnets int `json:"subnets"`
	// Relays that the cluster has.
	Relays []Relay `json:"relays,omitempty"`
}

// Bounds of relays in one message.
const (
	// MaxClusterRelays is how many a cluster reports to its root.
	MaxClusterRelays = 8
	// MaxRelays is how many any node is given.
	MaxRelays = 64
)

// Numbers of applications in addresses. A root gives 1 to MaxRootApp. A site's have the next
// higher bit set, then 12 bits of its cluster's index and 11 of its own count.
const (
	MaxRootApp      = 1<<23 - 1
	MaxClusterIndex = 1<<12 - 1
	SiteApps        = 1 << 11
)

// Network is what a worker learns about the service network, besides the routes.
type Network struct {
	V     int         `json:"v"`
	Lease SignedLease `json:"lease"`
	// Away is the same lease under the name that nodes outside the cluster know, see
	// JoinReply.Away; zero from clusters that make none.
	Away SignedLease `json:"away,omitzero"`
	// Relays in the order in which they are to be tried.
	Relays []Relay `json:"relays,omitempty"`
}

// NetworkInfo is what a worker says about its part in the service network.
type NetworkInfo struct {
	// Mode is NetworkOverlay or NetworkLoopback.
	Mode string `json:"mode" enum:"overlay,loopback"`
	// WireGuard is "kernel" or "user", by who encrypts; "" without overlay.
	WireGuard string `json:"wireguard,omitempty"`
	// Why says in words why Mode is not the better one.
	Why string `json:"why,omitempty"`
	// Port is where others send WireGuard's packets over UDP, MTU that of the tunnel
	// and Uplink what leaves by it at most; 0 without tunnel, or without bound.
	Port   uint16      `json:"port,omitempty"`
	MTU    int         `json:"mtu,omitempty"`
	Uplink api.Bitrate `json:"uplink,omitempty"`
	// Relay is set where the worker is one.
	Relay *Relay `json:"relay,omitempty"`
	// Via is the name of the relay through which others reach the worker; "" where
	// they need none, or it has none.
	Via string `json:"via,omitempty"`
}

// TunnelConfig is how a worker's packets for others travel in the service network.
type TunnelConfig struct {
	// Port for WireGuard over UDP; 0 is the usual one.
	Port uint16 `json:"port,omitempty"`
	// Uplink is what the worker's connection carries; 0 is not known, and nothing is
	// held back.
	Uplink api.Bitrate `json:"uplink,omitempty"`
	// MTU of instances and of the tunnel, MinMTU to MaxMTU; 0 is MinMTU for instances,
	// and for the tunnel what the machine's own connection allows.
	MTU int `json:"mtu,omitempty"`
}

// Bounds of TunnelConfig.
const (
	MinMTU = 1280
	MaxMTU = 1920
	// MinUplink is the least that can be bounded: less is a typing mistake.
	MinUplink = 100_000
)

// Shaped is what may leave by the tunnel, in bits a second; 0 is no bound. What is
// left over keeps the queue on this side of the line.
func (c TunnelConfig) Shaped() api.Bitrate { return c.Uplink / 100 * 95 }

// RelayConfig is how a node is a relay.
type RelayConfig struct {
	// Listen is host:port for TCP and UDP; "" is no relay.
	Listen string `json:"listen,omitempty"`
	// Ports are the first and the last UDP port of the ways through it; zero: any.
	Ports [2]uint16 `json:"ports,omitzero"`
	// Rate bounds each way; 0 is no bound.
	Rate api.Bitrate `json:"rate,omitempty"`
}

// String is how people write it, "" where it is none.
func (c RelayConfig) String() string {
	if c.Listen == "" {
		return ""
	}
	s := c.Listen
	if c.Ports != [2]uint16{} {
		s += fmt.Sprintf(", ports %d-%d", c.Ports[0], c.Ports[1])
	}
	if c.Rate != 0 {
		s += ", " + c.Rate.String()
	}
	return s
}

// Modes of a worker's network.
const (
	// NetworkAuto: overlay where the machine allows it, else loopback.
	NetworkAuto = "auto"
	// NetworkOverlay: each instance has a network namespace and addresses of its own.
	NetworkOverlay = "overlay"
	// NetworkLoopback: instances share the machine's network; services are reached
	// by ports of the loopback address.
	NetworkLoopback = "loopback"
)

// NetworkPort is the number of a service's port, by its index in the descriptor, in
// the service network, where each instance has all ports for itself.
func NetworkPort(ports []api.Port, i int) int { return api.PortNumber(ports, i) }
