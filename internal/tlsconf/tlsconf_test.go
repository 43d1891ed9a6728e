package tlsconf

import (
	"crypto/tls"
	"crypto/x509"
	"testing"
)

func TestServerHardensWhatIsChosen(t *testing.T) {
	lax := &tls.Config{MinVersion: tls.VersionTLS10, ClientCAs: x509.NewCertPool()}
	for _, auth := range []tls.ClientAuthType{tls.RequireAndVerifyClientCert, tls.VerifyClientCertIfGiven} {
		c := Server(&tls.Config{
			ClientCAs:          x509.NewCertPool(),
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return lax, nil },
		}, auth)
		chosen, err := c.GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*tls.Config{c, chosen} {
			if c.MinVersion != tls.VersionTLS13 || c.ClientAuth != auth {
				t.Errorf("%v: version %x, %v", auth, c.MinVersion, c.ClientAuth)
			}
		}
	}
	if lax.MinVersion != tls.VersionTLS10 {
		t.Error("the configuration of the caller was changed")
	}
}

// Go verifies a certificate by the authorities of the system where there is no pool.
func TestNobodyIsTrustedWithoutAPool(t *testing.T) {
	for _, auth := range []tls.ClientAuthType{tls.RequireAndVerifyClientCert, tls.VerifyClientCertIfGiven} {
		c := Server(&tls.Config{
			GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return &tls.Config{}, nil },
		}, auth)
		chosen, err := c.GetConfigForClient(nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []*tls.Config{c, chosen} {
			if c.ClientCAs == nil || !c.ClientCAs.Equal(x509.NewCertPool()) {
				t.Errorf("%v: the system's authorities are trusted", auth)
			}
		}
	}
	if c := Server(&tls.Config{}, tls.VerifyClientCertIfGiven); c.ClientAuth != tls.NoClientCert {
		t.Errorf("without a pool: %v", c.ClientAuth)
	}
	if _, err := MutualServer(&tls.Config{}); err == nil {
		t.Error("a port that demands certificates has no pool")
	}
	if _, err := MutualServer(nil); err == nil {
		t.Error("a port in clear")
	}
}

func TestClientVerifiesTheServer(t *testing.T) {
	if _, err := Client(&tls.Config{InsecureSkipVerify: true}); err == nil {
		t.Error("a client that verifies nothing")
	}
	if _, err := Client(&tls.Config{}); err == nil {
		t.Error("a client that trusts the authorities of the system")
	}
	if _, err := Client(&tls.Config{RootCAs: x509.NewCertPool()}); err != nil {
		t.Error(err)
	}
	if _, err := Client(nil); err == nil {
		t.Error("a client in clear")
	}
	pinned := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(tls.ConnectionState) error { return nil }}
	if c, err := Client(pinned); err != nil || c.MinVersion != tls.VersionTLS13 {
		t.Errorf("%v, %v", c, err)
	}
}
