package busserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"reflect"
	"unsafe"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/verge-edge/verge/internal/bus/credentials"
)

// Peer says which user of the bus the certificate of a connection names: the cluster
// whose link it is, a worker, or a plugin (PluginUser). The connection has verified the
// certificate.
type Peer func(tls.ConnectionState) (user string, err error)

// noPeer is the Peer of a server without a port.
func noPeer(tls.ConnectionState) (string, error) {
	return "", errors.New("nobody is expected from the network")
}

// admission lets a connection in if its certificate and its token name the same user and
// the server accepts the token. Without the comparison, whoever gets hold of the token
// and the key of one node could use them with the certificate of any other.
type admission struct {
	peer Peer
	log  *serverLog
	ns   *server.Server // set before the server starts
}

// Check implements server.Authentication. The server asks it instead of checking the
// token, so it runs the server's own check after the comparison. That check is what binds
// the token's expiry and its revocation to the connection.
func (a *admission) Check(c server.ClientAuthentication) bool {
	if err := a.compare(c.GetTLSConnectionState(), c.GetOpts().JWT); err != nil {
		if a.log.handshakes.Allow() {
			a.log.log.Warn("bus connection refused", "address", c.RemoteAddress(), "error", err)
		}
		return false
	}
	// The interface holds the server's *client.
	return checkToken(a.ns, reflect.ValueOf(c).UnsafePointer(), serverOptions(a.ns))
}

// compare says why a connection must not use a token. The signature of the token is
// not its business: a forged one is refused by the server right after.
func (a *admission) compare(state *tls.ConnectionState, token string) error {
	user := credentials.TokenName(token)
	if user == "" {
		return errors.New("it sent no readable token")
	}
	if state == nil {
		// Both ports demand TLS: this is a connection of the process itself.
		if user != credentials.OwnUser {
			return fmt.Errorf("the token of %s was sent without a certificate", user)
		}
		return nil
	}
	peer, err := a.peer(*state)
	if err != nil {
		return fmt.Errorf("its certificate: %w", err)
	}
	if peer != user {
		return fmt.Errorf("the certificate of %s was sent with the token of %s: a node must use its own; "+
			"if it is not an attack, let it join again", peer, user)
	}
	return nil
}

// serverOptions and checkToken are what the server runs where no
// CustomClientAuthentication is set. TestLinkedNames compares their declarations with
// those of the library, since the compiler does not.

//go:linkname serverOptions github.com/nats-io/nats-server/v2/server.(*Server).getOpts
func serverOptions(s *server.Server) *server.Options

//go:linkname checkToken github.com/nats-io/nats-server/v2/server.(*Server).processClientOrLeafAuthentication
func checkToken(s *server.Server, c unsafe.Pointer, opts *server.Options) bool
