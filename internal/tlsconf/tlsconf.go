package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
)

// Internal is the start of a configuration for connections whose both ends are Verge, and
// for clients of its HTTP interface.
func Internal() *tls.Config { return internal(&tls.Config{}) }

// Public is the start of a configuration for connections to programs of others: browsers at
// a gateway, receivers of hooks, plugins.
func Public() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12}
}

// internal sets in c what connections between parts of Verge have in common.
func internal(c *tls.Config) *tls.Config {
	c.MinVersion = tls.VersionTLS13
	return c
}

// Harden returns a copy of c with the settings of Internal.
func Harden(c *tls.Config) *tls.Config { return internal(c.Clone()) }

// Server returns a copy of c for a port, with the settings of Internal and what the port
// asks of clients, whatever c says. Configurations that c chooses for a client
// (GetConfigForClient) are treated the same.
func Server(c *tls.Config, auth tls.ClientAuthType) *tls.Config {
	c = Harden(c)
	c.ClientAuth = auth
	if c.ClientCAs == nil {
		// Without a pool crypto/tls would trust the system's authorities. An empty one trusts none.
		c.ClientCAs = x509.NewCertPool()
		if auth == tls.VerifyClientCertIfGiven {
			c.ClientAuth = tls.NoClientCert
		}
	}
	if choose := c.GetConfigForClient; choose != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := choose(hello)
			if err != nil || chosen == nil {
				return nil, err
			}
			return Server(chosen, auth), nil
		}
	}
	return c
}

// MutualServer is Server for a port that demands a certificate which ClientCAs vouch for.
func MutualServer(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errNone
	}
	if c.ClientCAs == nil && c.GetConfigForClient == nil {
		return nil, errors.New("TLS configuration without ClientCAs: nobody could be told from anybody")
	}
	return Server(c, tls.RequireAndVerifyClientCert), nil
}

// Client returns a copy of c for a client, with the settings of Internal. It refuses one
// that does not verify the server, or would do so by the system's authorities.
func Client(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errNone
	}
	if c.InsecureSkipVerify && c.VerifyConnection == nil && c.VerifyPeerCertificate == nil {
		return nil, errors.New("TLS configuration does not verify the server")
	}
	if !c.InsecureSkipVerify && c.RootCAs == nil {
		return nil, errors.New("TLS configuration without RootCAs: the system's authorities would vouch for the server")
	}
	return Harden(c), nil
}

var errNone = errors.New("no TLS configuration: nothing is sent in clear")
