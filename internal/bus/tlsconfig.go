package bus

import (
	"crypto/tls"
	"errors"
)

// hardenServer returns a copy of c that speaks TLS 1.3 only and demands a
// client certificate that c.ClientCAs vouches for, whatever c says about that.
func hardenServer(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errors.New("no TLS configuration: the bus is never spoken in clear")
	}
	if c.ClientCAs == nil && c.GetConfigForClient == nil {
		return nil, errors.New("TLS configuration without ClientCAs: nobody could be told from anybody")
	}
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	c.ClientAuth = tls.RequireAndVerifyClientCert
	if dynamic := c.GetConfigForClient; dynamic != nil {
		c.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			chosen, err := dynamic(hello)
			if err != nil || chosen == nil {
				return nil, err
			}
			chosen = chosen.Clone()
			chosen.MinVersion = tls.VersionTLS13
			chosen.ClientAuth = tls.RequireAndVerifyClientCert
			return chosen, nil
		}
	}
	return c, nil
}

// hardenClient returns a copy of c that speaks TLS 1.3 only and verifies the
// server.
func hardenClient(c *tls.Config) (*tls.Config, error) {
	if c == nil {
		return nil, errors.New("no TLS configuration: the bus is never spoken in clear")
	}
	if c.InsecureSkipVerify && c.VerifyConnection == nil && c.VerifyPeerCertificate == nil {
		return nil, errors.New("TLS configuration does not verify the server")
	}
	c = c.Clone()
	c.MinVersion = tls.VersionTLS13
	return c, nil
}
