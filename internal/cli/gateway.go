package cli

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
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

// refused says whether a worker is a gateway with TLS that its cluster gives no
// certificates to.
func refused(v rpc.WorkerView) bool { return v.WantsCertificates() && !v.GatewayGrant.May() }

// gatewayCell is where users reach a worker, and that it may not do all it wants to.
func gatewayCell(v rpc.WorkerView) cell {
	if !refused(v) {
		return text(v.Gateway)
	}
	return cell{strings.TrimSpace(v.Gateway + " (TLS not allowed)"), yellow}
}

// grantWords say whether a worker may be a gateway with TLS; "" where nobody asks.
func (a *app) grantWords(v rpc.WorkerView) string {
	g := v.GatewayGrant
	switch {
	case refused(v):
		return "not allowed: it gets no certificates (verge worker allow-gateway " + v.Name + ")"
	case !g.May():
		return ""
	case g.By == "":
		return "TLS allowed: it was a gateway before permissions existed"
	}
	return "TLS allowed by " + g.By + ", " + a.since(g.At) + " ago"
}

func (a *app) allowGatewayCommand() *cobra.Command {
	return &cobra.Command{
		Use: "allow-gateway NAME", Short: "Allow a worker to be a gateway with TLS",
		Long: `Allow a worker to be a gateway with TLS. It gets the certificates of all published
hosts, with their keys: allow only machines that you trust with them.

A worker with --gateway-tls that is not allowed is a gateway for plain HTTP and ports
alone. Use a context of the worker's cluster. A worker can also be allowed when it
joins: verge token create --worker --gateway.`,
		Example: "  verge worker allow-gateway w1",
		Args:    oneArg("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onWorker(cmd.Context(), args[0], func(ctx context.Context, c *client.Client, t target) error {
				if _, err := c.Workers.AllowGateway(ctx, t.cluster, t.worker); err != nil {
					return err
				}
				return a.printf("%s may be a gateway with TLS", t)
			})
		},
	}
}

func (a *app) denyGatewayCommand() *cobra.Command {
	return &cobra.Command{
		Use: "deny-gateway NAME", Short: "Withdraw the permission to be a gateway with TLS",
		Long: `Withdraw the permission to be a gateway with TLS: the worker loses the certificates
that it was given, and stays a gateway for plain HTTP and ports.

The machine may have copied the keys that it had. If you no longer trust it, get new
certificates for its hosts.`,
		Example: "  verge worker deny-gateway w1",
		Args:    oneArg("NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.onWorker(cmd.Context(), args[0], func(ctx context.Context, c *client.Client, t target) error {
				if err := c.Workers.DenyGateway(ctx, t.cluster, t.worker); err != nil {
					return err
				}
				return a.printf("%s may no longer be a gateway with TLS", t)
			})
		},
	}
}

// onWorker does something to a worker; name may have its kind before it.
func (a *app) onWorker(ctx context.Context, name string, do func(context.Context, *client.Client, target) error) error {
	return a.outOfUse(ctx, []string{kindWorker + "/" + strings.TrimPrefix(name, kindWorker+"/")}, do)
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
		return nil, &userError{what: "the certificate cannot be used", why: strings.TrimPrefix(err.Error(), "tls: "),
			next: "give --cert a file with the chain, the host's certificate first, and --key its private key, " +
				"both in PEM"}
	}
	switch end, now := pair.Leaf.NotAfter, a.opts.Now(); {
	case !now.Before(end):
		return nil, &userError{what: "the certificate cannot be used",
			why:  "it expired at " + end.UTC().Format(time.RFC3339),
			next: "get a new one from its authority; gateways keep the one they have"}
	case !now.Add(wire.ExpiresSoon).Before(end):
		a.notef("note: the certificate expires soon, at %s: get a new one in time", end.UTC().Format(time.RFC3339))
	}
	if len(pair.Leaf.DNSNames) > 0 {
		a.notef("note: it is for %s, until %s",
			strings.Join(pair.Leaf.DNSNames[:min(5, len(pair.Leaf.DNSNames))], ", "),
			pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
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
