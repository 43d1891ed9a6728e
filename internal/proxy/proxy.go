package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

// Why an instance of this worker takes no new connection. Local.Target returns
// an error that is or wraps one of them; another worker's router is told which.
var (
	ErrNoInstance = errors.New("no such instance")
	ErrNotReady   = errors.New("not ready")
	ErrDraining   = errors.New("draining")
	// ErrAsleep: it is not started, or does not answer yet since it woke. Local.Wake
	// starts it.
	ErrAsleep = errors.New("asleep")
)

// StartError is why an instance that would start with a request does not: its last
// starts failed, or its worker has no room for it. It is ErrNotReady. A request that
// finds no other instance is answered with it, so it says nothing of how things are
// arranged on the worker.
type StartError struct {
	// Why in words for the client.
	Why string
	// Again is when it is tried again at the earliest; 0 where nobody knows.
	Again time.Duration
	// Full: nothing failed, its worker has no room.
	Full bool
}

// Error implements error.
func (e *StartError) Error() string { return e.Why }

// Unwrap makes it ErrNotReady.
func (e *StartError) Unwrap() error { return ErrNotReady }

// Local answers for the instances of this worker. The engine implements it. It
// is called from goroutines of the Router only, never from within a call of one
// of its methods, so it may take locks that are held during such a call. It must
// not block.
type Local interface {
	// Target returns the address (host:port) at which the named port of an
	// instance of this worker listens. An error says why no new connection may go
	// there (ErrDraining, ErrNotReady, ErrNoInstance); it is told to the peer.
	Target(id wire.InstanceID, port string) (addr string, err error)
	// Wake starts an instance of which Target says ErrAsleep. It returns at once; that
	// the instance is ready, or will not be, is told by LocalChanged and Target. Doing
	// it again is of no harm.
	Wake(id wire.InstanceID)
}

// Options of a Router.
type Options struct {
	// Worker is the own name, Cluster the one of the own cluster: an endpoint with
	// both is an instance of this worker. Cluster "" compares the worker alone.
	Worker, Cluster string
	Local           Local
	// Log takes what an operator should know; nil discards it.
	Log *slog.Logger
	// StateFile keeps the loopback ports over restarts; "" keeps them in memory
	// only. Its folder must exist.
	StateFile string
	// EntryHost is where loopback entries listen; "" is 127.0.0.1.
	EntryHost string
	// DataAddr is where the data port listens ("" none: this worker then reaches
	// others and is reached by none).
	DataAddr string
	// GatewayAddr is where the gateway listens for HTTP ("" none), GatewayTLSAddr where
	// for HTTP with TLS.
	GatewayAddr, GatewayTLSAddr string
	// GatewayPorts are the first and the last port at which tcp and udp ports may be
	// published here; zero: any from 1 on.
	GatewayPorts [2]int
	// GatewayProxyFrom are the balancers in front of the gateway, whose connections begin
	// with a header of the PROXY protocol (version 1 or 2) and are refused without one.
	// Others are taken as they come: nobody else is believed.
	GatewayProxyFrom []netip.Prefix
	// CertDir keeps what the gateway's certificates are made of; it is made when it is
	// needed. Secrets has those that were given (may be nil), ACME says who gives others.
	CertDir string
	Secrets certs.Secrets
	ACME    certs.Authority
	// CertsAbove is where the gateways of a cluster share what they have of the ACME
	// server; nil: each has an account of its own.
	CertsAbove certs.Above
	// SelfSigned: each host has TLS, with a certificate that the gateway makes where
	// there is no other.
	SelfSigned bool
	// GatewayChanged is called when Gateway may say something else, from any goroutine.
	// It must not block or call the Router; nil for nobody.
	GatewayChanged func()
	// TLS is for both directions of the data port: own certificate and the pool
	// that peers must chain to (RootCAs, ClientCAs; where one is nil the other
	// stands for it); called for every handshake so that renewed certificates are
	// picked up. Nil: no data path, only local endpoints are reached.
	TLS func() (*tls.Config, error)
	// Away is TLS for connections to workers of other clusters, to which this one may
	// show another name; nil is TLS.
	Away func() (*tls.Config, error)
	// PeerName returns the TLS server name of a worker. Required with TLS.
	PeerName func(cluster, worker string) string
	// PeerAllowed refuses, by an error, a peer whose certificate is verified but
	// not a worker's. It is asked in every handshake, also resumed ones. Nil
	// accepts every verified peer.
	PeerAllowed func(tls.ConnectionState) error
	// Protocols are what else peers may ask for at the data port, by the name in the
	// handshake (ALPN). Who serves a connection closes it, and ends with the context.
	// May be nil.
	Protocols map[string]func(ctx context.Context, conn *tls.Conn)
	// Ask is called before the first use of a service whose endpoints are not here
	// (wire.Route.Unasked), and returns when they have been set; an error says why they
	// are not. Nil: there are none then.
	Ask func(ctx context.Context, service string) error
	// Sockets opens what the Router listens at and connects to; nil is the network of
	// this process. A test bed gives each of its routers that of a host of its own.
	Sockets netconn.Sockets
	// Listeners opens what the Router listens at, in place of Sockets, and may know it from
	// a process before; nil: it is opened anew.
	Listeners netconn.Listeners
	// Public runs the function that opens a socket of the gateway where its users are, for
	// example in another network namespace; nil: here.
	Public func(open func() error) error
	// Distances to other workers; nil where nothing is known of them and policies go
	// by what is the same for all.
	Distances Distances
	// Echo answers a worker that measures this one with what it says, at most
	// MaxEcho bytes; nil says nothing.
	Echo func(peer tls.ConnectionState, said []byte) []byte
	// HeaderTimeout is how long the head of a request may take; 0 is 10 s.
	HeaderTimeout time.Duration
	// MaxConns bounds the connections open at a time, separately at the data port,
	// at the gateway and at all entries together. 0 is 10,000.
	MaxConns int
}

// Distances are what policies go by. A Router calls them from any goroutine, with
// locks held: they return at once.
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

// Entry is a loopback address of a service's port on this worker.
type Entry struct {
	App, Service, Port string
	Addr               string // host:port
	// Problem says why nothing listens at Addr at the moment; "" if it does.
	Problem string
}

// Sockets opens the sockets of a Router.
type Sockets = netconn.Sockets

// Histogram is a distribution of durations.
type Histogram = counters.Histogram

// Traffic is bytes from and to clients.
type Traffic = counters.Traffic
