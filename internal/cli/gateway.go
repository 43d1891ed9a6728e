package cli

import (
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// workerGateway says what a gateway publishes besides HTTP.
func (a *app) workerGateway(d *details, g *wire.GatewayInfo) {
	if g == nil {
		return
	}
	d.add("Gateway TLS", g.TLS)
	for _, p := range g.Ports {
		text := fmt.Sprintf("%d/%s to %s", p.Port, p.Protocol, p.Service)
		if p.Problem != "" {
			text += " (not open)"
		}
		d.add("Port", text)
	}
	for _, c := range g.Certificates {
		text := "none yet"
		if !c.Expires.IsZero() {
			text = "expires " + c.Expires.UTC().Format(time.DateOnly)
		}
		d.addf("Certificate", "%s: %s (%s)", c.Host, text, c.Source)
	}
	if g.More {
		d.add("", "and more")
	}
}

// certificateValue is the value of a secret with a certificate and its key, which it
// looks at. No error has any of the key.
func (a *app) certificateValue(certFile, keyFile string) ([]byte, error) {
	cert, err := a.secretValue(certFile)
	if err != nil {
		return nil, err
	}
	key, err := a.secretValue(keyFile)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &userError{what: "the certificate cannot be used", why: strings.TrimPrefix(err.Error(), "tls: "), next: "give --cert a file with the chain, the host's certificate first, and --key its private key, both in PEM"}
	}
	if end := pair.Leaf.NotAfter; time.Now().After(end) {
		a.notef("note: the certificate has expired at %s", end.UTC().Format(time.RFC3339))
	}
	if len(pair.Leaf.DNSNames) > 0 {
		a.notef("note: it is for %s, until %s", strings.Join(pair.Leaf.DNSNames[:min(5, len(pair.Leaf.DNSNames))], ", "), pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	value := append(append([]byte{}, cert...), '\n')
	return append(value, key...), nil
}
