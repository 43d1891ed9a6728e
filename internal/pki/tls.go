package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/tlsconf"
)

// ErrWrongRoot is wrapped by the error of a handshake (PinnedClient) with a
// server that does not belong to the root whose token is used.
var ErrWrongRoot = errors.New("this is not the root that made the token")

// ServerTLS is the configuration of a server (and, with a ServerName set in a
// Clone, of a client: for ports whose nodes dial each other). It speaks TLS
// 1.3, sends the root CA along, and verifies what certificate the client sends
// according to clientAuth against the root CA; see PeerSubject for who it is.
func (id *Identity) ServerTLS(clientAuth tls.ClientAuthType) *tls.Config {
	cfg := id.tlsConfig()
	cfg.ClientAuth = clientAuth
	return cfg
}

// AwayTLS is ServerTLS for connections to nodes beyond the cluster, to which Away is
// shown, where there is one.
func (id *Identity) AwayTLS(clientAuth tls.ClientAuthType) *tls.Config {
	cfg := id.ServerTLS(clientAuth)
	cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c := id.current.Load()
		if c.away != nil {
			c = c.away
		}
		return c.client, nil
	}
	return cfg
}

// LiveServerTLS is ServerTLS for a server that outlives a rotation of the root
// CA: every handshake uses what is trusted then. admit, if not nil, says of a
// client whose certificate has been verified why it may not come in.
func (id *Identity) LiveServerTLS(clientAuth tls.ClientAuthType, admit func(tls.ConnectionState) error) *tls.Config {
	now := func() *tls.Config {
		cfg := id.ServerTLS(clientAuth)
		cfg.VerifyConnection = func(cs tls.ConnectionState) error {
			if len(cs.VerifiedChains) == 0 {
				return nil // none was shown, where none is demanded
			}
			if err := id.Revoked.RefusesPeer(cs); err != nil || admit == nil {
				return err
			}
			return admit(cs)
		}
		return cfg
	}
	cfg := now()
	cfg.GetConfigForClient = func(*tls.ClientHelloInfo) (*tls.Config, error) { return now(), nil }
	return cfg
}

// ClientTLS is the configuration of a client: the server must prove serverName
// (RootName, ClusterName, WorkerName), whatever address was dialled. Every
// handshake uses what is trusted then. PeerSubject does not work on its
// connections: the name is proven, by VerifyConnection.
func (id *Identity) ClientTLS(serverName string) *tls.Config {
	cfg := id.tlsConfig()
	cfg.ServerName = serverName
	// The usual verification has a fixed pool and one time. verifyServer does the
	// same with those of the moment.
	cfg.InsecureSkipVerify = true
	cfg.VerifyConnection = func(cs tls.ConnectionState) error {
		return id.verifyServer(cs.PeerCertificates, serverName)
	}
	return cfg
}

func (id *Identity) verifyServer(chain []*x509.Certificate, serverName string) error {
	if len(chain) == 0 {
		return errors.New("the server sent no certificate")
	}
	pool := id.current.Load().pool
	err := id.Clock.Check(func(at time.Time) error {
		_, err := chain[0].Verify(x509.VerifyOptions{
			Roots: pool, Intermediates: poolOf(chain[1:]), DNSName: serverName, CurrentTime: at,
			KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		})
		return err
	})
	if err == nil {
		err = id.Revoked.Refuses(chain)
	}
	return Explain(err, id.Clock.Now())
}

func (id *Identity) tlsConfig() *tls.Config {
	pool := id.current.Load().pool
	c := tlsconf.Internal()
	c.RootCAs, c.ClientCAs = pool, pool
	c.Time = id.Clock.Now
	// A resumed session would be judged by the certificate that its first
	// handshake saw.
	c.SessionTicketsDisabled = true
	c.GetCertificate = func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		c := id.current.Load()
		// Its own name only those of its cluster know.
		if c.away != nil && hello.ServerName != WorkerName(c.subject.Cluster, c.subject.Name) {
			return c.away.server, nil
		}
		return c.server, nil
	}
	c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		return id.current.Load().client, nil
	}
	return c
}

// BearerTLS is the configuration of a client that has no certificate, only the
// root CA (PEM) and a bearer token.
func BearerTLS(ca, serverName string) (*tls.Config, error) {
	m, err := parsePEM([]byte(ca))
	if err == nil && len(m.certs) == 0 {
		err = errors.New("there is no certificate")
	}
	if err != nil {
		return nil, fmt.Errorf("root CA of the context: %w", err)
	}
	c := tlsconf.Internal()
	c.RootCAs, c.ServerName = poolOf(m.certs), serverName
	return c, nil
}

// PinnedClient is the configuration for a request to join: nothing is known of
// the root but the pins of its CA (Token.Pins). The server must send one that
// has one of them, a chain that leads to it, and prove serverName. clock may be
// nil for time.Now.
func PinnedClient(pins []string, serverName string, clock func() time.Time) *tls.Config {
	if clock == nil {
		clock = time.Now
	}
	c := tlsconf.Internal()
	c.ServerName, c.Time = serverName, clock
	// The usual verification needs the CA beforehand. verifyPinned does the
	// same with the CA that the pin picks out of the server's chain.
	c.InsecureSkipVerify = true
	c.VerifyConnection = func(cs tls.ConnectionState) error {
		return verifyPinned(cs.PeerCertificates, pins, serverName, clock())
	}
	return c
}

func verifyPinned(chain []*x509.Certificate, pins []string, serverName string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server sent no certificate")
	}
	var cas []*x509.Certificate
	for _, c := range chain {
		if slices.Contains(pins, pinOf(c)) && isRoot(c) {
			cas = append(cas, c)
		}
	}
	if len(cas) == 0 {
		return fmt.Errorf("%w: its authority does not have the fingerprint %.16s…: check the address, or make a new token there (verge token create)", ErrWrongRoot, strings.Join(pins, "…, "))
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         poolOf(cas),
		Intermediates: poolOf(chain[1:]),
		DNSName:       serverName,
		CurrentTime:   now,
		KeyUsages:     []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	})
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		// It shows the right CA, which is public, but has nothing signed by it.
		return fmt.Errorf("%w: it shows that root's certificate but is not certified by it: %w", ErrWrongRoot, err)
	}
	return Explain(err, now)
}

// LeadsTo says whether what the other side of a connection showed leads to the
// authority with a pin: false for who showed nothing.
func LeadsTo(cs tls.ConnectionState, pin string) bool {
	for _, chain := range cs.VerifiedChains {
		if len(chain) > 0 && pinOf(chain[len(chain)-1]) == pin {
			return true
		}
	}
	return false
}

// Explain adds to an error of certificate verification what to do next, for
// people. Other errors, and nil, are returned as they are. now is what the
// clock said during verification.
func Explain(err error, now time.Time) error {
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired && now.Before(invalid.Cert.NotBefore):
		return fmt.Errorf("%w: this machine's clock says %s: set the clock", err, now.UTC().Format(time.DateTime))
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return fmt.Errorf("%w: the other side must renew its certificate; or set this machine's clock if it is not %s", err, now.UTC().Format(time.DateTime))
	case errors.As(err, new(x509.UnknownAuthorityError)):
		return fmt.Errorf("%w: the other side belongs to another root: check the address", err)
	case errors.Is(err, ErrRevoked):
		return fmt.Errorf("%w: it must join again with a new token", err)
	case errors.As(err, new(x509.HostnameError)):
		return fmt.Errorf("%w: another node answers at this address: check the address", err)
	}
	return err
}
