package engine

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/wire"
)

// Where a gateway keeps accounts, certificates and their keys.
const gatewayDir = "gateway"

// aboutGateway is the subject of a problem of a gateway.
const aboutGateway = "gateway: "

// acmeServer is the ACME server of a configuration. What cannot be read of it leaves
// the gateway without one.
func acmeServer(c wire.ACMEConfig) (certs.Authority, error) {
	a := certs.Authority{Directory: c.Directory, Email: c.Email}
	if c.CA == "" {
		return a, nil
	}
	text, err := atomicfile.ReadBounded(c.CA, 1<<20)
	if err != nil {
		return certs.Authority{}, fmt.Errorf("authorities of the ACME server (--acme-ca): %w", err)
	}
	a.Roots = x509.NewCertPool()
	if !a.Roots.AppendCertsFromPEM(text) {
		return certs.Authority{}, errors.New("authorities of the ACME server (--acme-ca): there is no certificate in " + c.CA)
	}
	return a, nil
}

// isGateway says whether users come to this worker.
func (c *kit) isGateway() bool { return c.config.GatewayAddr != "" || c.config.Gateway.TLSAddr != "" }

// watchGateway shows what the gateway publishes, whenever that changes.
func (e *Engine) watchGateway(ctx context.Context) {
	told := map[string]bool{}
	for {
		e.showGateway(told)
		select {
		case <-ctx.Done():
			return
		case <-e.gatewayNews:
		}
	}
}

// showGateway shows it once. told are the subjects of problems that there were.
func (e *Engine) showGateway(told map[string]bool) {
	st := e.kit.router.Gateway()
	info := &wire.GatewayInfo{TLS: e.kit.router.GatewayTLSAddr()}
	wrong := map[string]string{}
	for _, p := range st.Ports {
		protocol := "tcp"
		if p.UDP {
			protocol = "udp"
		}
		if p.Problem != "" {
			wrong[fmt.Sprintf("%sport %d/%s", aboutGateway, p.Port, protocol)] = fmt.Sprintf("gateway: %s, which %s publishes", p.Problem, p.Service)
		}
		if len(info.Ports) == wire.MaxGatewayItems {
			info.More = true
			continue
		}
		info.Ports = append(info.Ports, wire.GatewayPort{Port: p.Port, Protocol: protocol, Service: p.Service, Problem: p.Problem})
	}
	for _, c := range st.Certificates {
		if info.TLS == "" {
			break // who comes here has no use of one
		}
		if c.Problem != "" {
			wrong[aboutGateway+"host "+c.Host] = fmt.Sprintf("gateway, host %s: %s", c.Host, c.Problem)
		}
		if len(info.Certificates) == wire.MaxGatewayItems {
			info.More = true
			continue
		}
		info.Certificates = append(info.Certificates, wire.GatewayCertificate{Host: c.Host, Source: string(c.Source), Expires: c.NotAfter.UTC(), Problem: c.Problem, Failed: c.Failed})
	}
	for about := range told {
		if wrong[about] == "" {
			e.kit.problems.Tell(about, "")
			delete(told, about)
		}
	}
	for about, what := range wrong {
		told[about] = true
		e.kit.problems.Tell(about, what)
	}
	e.board.SetPublished(info)
}

// gatewayChanged has it shown. It does not block.
func (e *Engine) gatewayChanged() { loop.Poke(e.gatewayNews) }
