package proxy

import (
	"crypto/tls"
	"log/slog"

	"github.com/verge-edge/verge/internal/wire"
)

// Local answers for the instances of this worker. The engine implements it.
type Local interface {
	// Target returns the address (host:port) at which the named port of an
	// instance of this worker listens. An error says why no new connection may go
	// there ("draining", "not ready", "no such instance"); it is told to the peer.
	Target(id wire.InstanceID, port string) (addr string, err error)
}

// Options of a Router.
type Options struct {
	Worker string // own name
	Local  Local
	Log    *slog.Logger
	// StateFile keeps the loopback ports over restarts.
	StateFile string
	// EntryHost is where loopback entries listen; "" is 127.0.0.1.
	EntryHost string
	// DataAddr is where the data port listens ("" none: this worker then reaches
	// others and is reached by none).
	DataAddr string
	// GatewayAddr is where the gateway listens for HTTP ("" none).
	GatewayAddr string
	// TLS is for both directions of the data port: own certificate and the pool
	// that peers must chain to; called for every handshake so that renewed
	// certificates are picked up. PeerName returns the TLS server name of a worker.
	TLS      func() (*tls.Config, error)
	PeerName func(cluster, worker string) string
}

// Entry is a loopback address of a service's port on this worker.
type Entry struct {
	App, Service, Port string
	Addr               string // host:port
}
