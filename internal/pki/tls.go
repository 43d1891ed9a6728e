package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
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

// ClientTLS is the configuration of a client: the server must prove serverName
// (RootName, ClusterName, WorkerName), whatever address was dialled.
func (id *Identity) ClientTLS(serverName string) *tls.Config {
	cfg := id.tlsConfig()
	cfg.ServerName = serverName
	return cfg
}

func (id *Identity) tlsConfig() *tls.Config {
	pool := poolOf(id.current.Load().roots)
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		RootCAs:    pool,
		ClientCAs:  pool,
		Time:       id.Clock,
		// A resumed session would be judged by the certificate that its first
		// handshake saw.
		SessionTicketsDisabled: true,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return id.current.Load().server, nil
		},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return id.current.Load().client, nil
		},
	}
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
	return &tls.Config{MinVersion: tls.VersionTLS13, RootCAs: poolOf(m.certs), ServerName: serverName}, nil
}

// PinnedClient is the configuration for a request to join: nothing is known of
// the root but the pin of its CA (Token.Pin). The server must send that CA, a
// chain that leads to it, and prove serverName. clock may be nil for time.Now.
func PinnedClient(pin, serverName string, clock func() time.Time) *tls.Config {
	if clock == nil {
		clock = time.Now
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13,
		ServerName: serverName,
		Time:       clock,
		// The usual verification needs the CA beforehand. verifyPinned does the
		// same with the CA that the pin picks out of the server's chain.
		InsecureSkipVerify: true,
		VerifyConnection: func(cs tls.ConnectionState) error {
			return verifyPinned(cs.PeerCertificates, pin, serverName, clock())
		},
	}
}

func verifyPinned(chain []*x509.Certificate, pin, serverName string, now time.Time) error {
	if len(chain) == 0 {
		return errors.New("the server sent no certificate")
	}
	var ca *x509.Certificate
	for _, c := range chain {
		if isRoot(c) && pinOf(c) == pin {
			ca = c
		}
	}
	if ca == nil {
		return fmt.Errorf("%w: its authority does not have the fingerprint %.16s…: check the address, or make a new token there (verge token create)", ErrWrongRoot, pin)
	}
	_, err := chain[0].Verify(x509.VerifyOptions{
		Roots:         poolOf([]*x509.Certificate{ca}),
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
	case errors.As(err, new(x509.HostnameError)):
		return fmt.Errorf("%w: another node answers at this address: check the address", err)
	}
	return err
}
