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
	switch end, now := pair.Leaf.NotAfter, a.opts.Now(); {
	case !now.Before(end):
		return nil, &userError{what: "the certificate cannot be used", why: "it has expired at " + end.UTC().Format(time.RFC3339), next: "get a new one from its authority; what gateways have stays as it is"}
	case !now.Add(wire.ExpiresSoon).Before(end):
		a.notef("note: the certificate expires soon, at %s: get a new one in time", end.UTC().Format(time.RFC3339))
	}
	if len(pair.Leaf.DNSNames) > 0 {
		a.notef("note: it is for %s, until %s", strings.Join(pair.Leaf.DNSNames[:min(5, len(pair.Leaf.DNSNames))], ", "), pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
	value := append(append([]byte{}, cert...), '\n')
	return append(value, key...), nil
}

// expiry is a column: the day on which a certificate expires.
func (a *app) expiry(t time.Time) cell {
	c := cell{text: t.UTC().Format(time.DateOnly)}
	switch now := a.opts.Now(); {
	case t.IsZero():
		c.text = ""
	case !now.Before(t):
		c.text, c.colour = "expired "+c.text, red
	case !now.Add(wire.ExpiresSoon).Before(t):
		c.colour = yellow
	}
	return c
}
