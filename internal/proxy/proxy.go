package proxy

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/proxy/gateway"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/proxy/sockets"
)

// Options of a Router.
type Options struct {
	// Worker is the own name, Cluster the one of the own cluster: an endpoint with
	// both is an instance of this worker. Cluster "" compares the worker alone.
	Worker, Cluster string
	Local           local.Local
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
	Sockets sockets.Sockets
	// Listeners opens what the Router listens at, in place of Sockets, and may know it from
	// a process before; nil: it is opened anew.
	Listeners sockets.Listeners
	// Public runs the function that opens a socket of the gateway where its users are, for
	// example in another network namespace; nil: here.
	Public func(open func() error) error
	// Distances to other workers; nil where nothing is known of them and policies go
	// by what is the same for all.
	Distances router.Distances
	// Echo answers a worker that measures this one with what it says, at most
	// MaxEcho bytes; nil says nothing.
	Echo func(peer tls.ConnectionState, said []byte) []byte
	// HeaderTimeout is how long the head of a request may take; 0 is 10 s.
	HeaderTimeout time.Duration
	// MaxConns bounds the connections open at a time, separately at the data port,
	// at the gateway and at all entries together. 0 is 10,000.
	MaxConns int
}

// Why an instance of this worker takes no new connection, see package local.
var (
	ErrNoInstance = local.ErrNoInstance
	ErrNotReady   = local.ErrNotReady
	ErrDraining   = local.ErrDraining
	ErrAsleep     = local.ErrAsleep
)

// StartError is why an instance that would start with a request does not.
type StartError = local.StartError

// Local answers for the instances of this worker.
type Local = local.Local

// Entry is a loopback address of a service's port on this worker.
type Entry = entries.Entry

// Worker is another worker and where its data port is.
type Worker = data.Worker

// Distances are what policies go by.
type Distances = router.Distances

// ServiceStats counts what one service was asked for on this worker.
type ServiceStats = router.ServiceStats

// EndpointState is how a router sees an endpoint.
type EndpointState = router.EndpointState

// States of an endpoint, best first.
const (
	EndpointOK      = router.EndpointOK
	EndpointSuspect = router.EndpointSuspect
	EndpointSpare   = router.EndpointSpare
	EndpointEjected = router.EndpointEjected
	EndpointNoPath  = router.EndpointNoPath
)

// GatewayState is what a gateway publishes besides HTTP, and with which certificates.
type GatewayState = gateway.State

// GatewayPortState is a tcp or udp port at a gateway.
type GatewayPortState = gateway.PortState

// Sockets opens the sockets of a Router.
type Sockets = sockets.Sockets

// Histogram is a distribution of durations.
type Histogram = counters.Histogram

// Traffic is bytes from and to clients.
type Traffic = counters.Traffic
