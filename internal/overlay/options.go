package overlay

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/overlay/rules"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// ErrNoLease is what Attach returns as long as the worker has no place in the
// service network.
var ErrNoLease = errors.New("waiting for this worker's place in the service network, which its cluster gives")

// Options of a Network.
type Options struct {
	// Dir is the worker's data directory. It also tells the worker from others on the
	// machine.
	Dir string
	// Boot is the kernel's id of this boot: settings that were changed in an earlier one
	// are not put back.
	Boot string
	// Worker and Cluster are its names in routes.
	Worker, Cluster string
	// Ready says whether an instance of this worker may get connections now.
	Ready func(id wire.InstanceID) bool
	// Reached says whether an instance of another worker is reached at its own
	// addresses. nil: none is.
	Reached func(e *wire.Endpoint) bool
	// Distances to other workers; nil: policies go without.
	Distances Distances
	// MTU of instances; 0 is that of the tunnel, and to peers what is found to arrive.
	MTU int
	// Whole refuses leases without IPv4, and leases whose addresses are taken on this machine:
	// Set returns why.
	Whole bool
	// Paths to other workers; nil: none are looked for.
	Paths *PathOptions
	// Through serves the connections that ln accepts as those to a port of a service,
	// by the worker's router, until ln is closed. Instances of other workers that are
	// not Reached are reached by it. nil: they are not.
	Through func(ln net.Listener, app, service, port string)
	// Objects serves the connections that ln accepts, on ObjectsPort of an own address
	// of the worker, until ln is closed: what its instances ask for objects. nil: there
	// is nothing for them.
	Objects func(ln net.Listener)
	// Listeners open what the Network listens at, and may know it from the process before;
	// nil: nobody does.
	Listeners Listeners
	// Resolvers answer names outside of the network, host:port; nil: those of the machine.
	Resolvers func() []string
	// Use records that a service ("<application>.<service>") is used. Await returns when the
	// endpoints of an unasked service (wire.Route.Unasked) are set, or with an error. Use is
	// called with locks held. nil: not supported.
	Use   func(service string)
	Await func(ctx context.Context, service string) error
	// Problem shows what is wrong with a part of the network, "" that nothing is.
	Problem func(about, what string)
	// Others is called when other programs change rules; base: in a base chain. nil: ignored.
	Others func(base bool)
	Log    *slog.Logger
}

// Listeners open sockets by names: handover.Sockets.
type Listeners interface {
	Listen(ctx context.Context, lc net.ListenConfig, name, network, address string) (net.Listener, error)
	ListenPacket(ctx context.Context, lc net.ListenConfig, name, network, address string) (net.PacketConn, error)
}

// named opens the sockets of one name.
type named struct {
	by   Listeners
	name string
}

// Listen implements names.Opener.
func (n named) Listen(ctx context.Context, network, address string) (net.Listener, error) {
	return n.by.Listen(ctx, net.ListenConfig{}, n.name, network, address)
}

// ListenPacket implements names.Opener.
func (n named) ListenPacket(ctx context.Context, network, address string) (net.PacketConn, error) {
	// Another name: both have the same address.
	return n.by.ListenPacket(ctx, net.ListenConfig{}, n.name+" by datagrams", network, address)
}

// Distances are what policies go by. They are asked with locks held and return at
// once.
type Distances interface {
	// Want says that a service is used that needs the distances to these workers.
	Want(service string, workers []Worker)
	// Distance to a worker, where it comes from, and when it was found.
	Distance(cluster, worker string) (rtt time.Duration, from route.Source, at time.Time)
	// Version changes when a Distance may have.
	Version() uint64
}

// Worker is another worker and where its data port is, host:port.
type Worker struct{ Cluster, Name, Address string }

// PathOptions say how a worker proves itself to others and they to it.
type PathOptions struct {
	// Port for WireGuard over UDP; 0 is the usual one.
	Port uint16
	// MTU of the tunnel; 0 is what the machine's own connection allows.
	MTU int
	// Rate in bits a second above which nothing leaves by the tunnel; 0: no bound.
	Rate uint64
	// TLS is the worker's identity for both directions, PeerName and RelayName are the
	// names in the certificates of a worker and of a relay. Away is TLS towards other
	// clusters and relays, where it has another name for those: Hidden. nil: it has none.
	TLS       func() (*tls.Config, error)
	Away      func() (*tls.Config, error)
	Hidden    func() bool
	PeerName  func(cluster, worker string) string
	RelayName func(relay string) string
	// Verify returns the lease of the worker with a certificate chain, if it is its
	// own and the worker may come in.
	Verify func(chain []*x509.Certificate, s wire.SignedLease) (wire.Lease, error)
	// Refused returns why a worker with a certificate chain is revoked, nil if it is accepted.
	Refused func(chain []*x509.Certificate) error
	// Changed is called, without any lock, with the paths to others whenever they have changed,
	// and with the tunnel's properties.
	Changed func(p peer.Paths, t Tunnel)
}

// Tunnel between workers.
type Tunnel struct {
	// Mode is who encrypts, "kernel" or "user".
	Mode string
	MTU  int
	// Rate is the current limit, 0 for none.
	Rate uint64
}

// Place is what an instance has in the network, to be kept over restarts.
type Place struct {
	// App is the number of its application, Number its own, Number4 that of its IPv4
	// address or 0.
	App     uint32 `json:"app"`
	Number  uint32 `json:"number"`
	Number4 uint32 `json:"number4,omitempty"`
}

// Instance to attach.
type Instance struct {
	ID wire.InstanceID
	// App and Namespace are the application's, AppNumber its number in addresses.
	App, Namespace string
	AppNumber      uint32
	// In and Out bound what it receives and sends, in bits per second; 0: not at all.
	In, Out int64
	// PID of a process of the instance, 0 if none runs.
	PID int
	// Had is the place from an earlier run, zero if there was none.
	Had Place
}

// ObjectsPort is where instances reach the worker's object store, at Attachment.Host.
const ObjectsPort = rules.ObjectsPort

// Entry is where a port of a service is reached on this worker.
type Entry struct{ App, Service, Port, Addr string }

// Attachment is an instance's part of the network.
type Attachment struct {
	Place Place
	// NetNS is the path of its network namespace.
	NetNS string
	// Addrs of the instance, IPv6 first.
	Addrs []netip.Addr
	// Host is the worker's own address that the instance reaches.
	Host netip.Addr
	// Resolver is the content of its /etc/resolv.conf.
	Resolver []byte
}

// protocol that carries what is spoken on a port.
func protocol(p *api.Port) string {
	if p.Protocol == api.UDP {
		return api.UDP
	}
	return "tcp"
}

// portName is the name of a port, which the first may leave out.
func portName(p *api.Port) string {
	switch {
	case p.Name != "":
		return p.Name
	case p.Protocol != "":
		return p.Protocol
	case p.Ingress != nil:
		return "http"
	}
	return "tcp"
}
