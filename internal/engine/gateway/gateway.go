package gateway

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"

	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/loop"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/proxy/certs"
	"github.com/verge-edge/verge/internal/wire"
)

// Dir is where a gateway keeps accounts, certificates and their keys.
const Dir = "gateway"

// about is the subject of a problem of a gateway.
const about = "gateway: "

// ACMEServer is the ACME server of a configuration. What cannot be read of it leaves
// the gateway without one.
func ACMEServer(c engineapi.ACMEConfig) (certs.Authority, error) {
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
		return certs.Authority{},
			errors.New("authorities of the ACME server (--acme-ca): there is no certificate in " + c.CA)
	}
	return a, nil
}

// Router has what a gateway publishes.
type Router interface {
	Gateway() proxy.GatewayState
	GatewayTLSAddr() string
}

// Watcher shows what the gateway of a worker publishes, and what is wrong with it.
type Watcher struct {
	router   Router
	board    interface{ SetPublished(*wire.GatewayInfo) }
	problems interface {
		Tell(subject, sentence string)
	}
	news chan struct{} // holds one when it may be something else
}

// NewWatcher shows it on board and among problems, once it runs.
func NewWatcher(board interface{ SetPublished(*wire.GatewayInfo) }, problems interface {
	Tell(subject, sentence string)
}) *Watcher {
	return &Watcher{board: board, problems: problems, news: make(chan struct{}, 1)}
}

// Watch has it read from router. It is called before Run.
func (w *Watcher) Watch(router Router) { w.router = router }

// Changed has it shown. It does not block.
func (w *Watcher) Changed() { loop.Poke(w.news) }

// Run shows what the gateway publishes, whenever that changes.
func (w *Watcher) Run(ctx context.Context) {
	told := map[string]bool{}
	for {
		w.show(told)
		select {
		case <-ctx.Done():
			return
		case <-w.news:
		}
	}
}

// show shows it once. told are the subjects of problems that there were.
func (w *Watcher) show(told map[string]bool) {
	st := w.router.Gateway()
	info := &wire.GatewayInfo{TLS: w.router.GatewayTLSAddr()}
	wrong := map[string]string{}
	for _, p := range st.Ports {
		protocol := "tcp"
		if p.UDP {
			protocol = "udp"
		}
		if p.Problem != "" {
			wrong[fmt.Sprintf("%sport %d/%s", about, p.Port, protocol)] = fmt.Sprintf("gateway: %s, which %s publishes",
				p.Problem, p.Service)
		}
		if len(info.Ports) == wire.MaxGatewayItems {
			info.More = true
			continue
		}
		info.Ports = append(info.Ports,
			wire.GatewayPort{Port: p.Port, Protocol: protocol, Service: p.Service, Problem: p.Problem})
	}
	for _, c := range st.Certificates {
		if info.TLS == "" {
			break // who comes here has no use of one
		}
		if c.Problem != "" {
			wrong[about+"host "+c.Host] = fmt.Sprintf("gateway, host %s: %s", c.Host, c.Problem)
		}
		if len(info.Certificates) == wire.MaxGatewayItems {
			info.More = true
			continue
		}
		info.Certificates = append(info.Certificates,
			wire.GatewayCertificate{Host: c.Host, Source: string(c.Source), Expires: c.NotAfter.UTC(),
				Problem: c.Problem, Failed: c.Failed})
	}
	for subject := range told {
		if wrong[subject] == "" {
			w.problems.Tell(subject, "")
			delete(told, subject)
		}
	}
	for subject, what := range wrong {
		told[subject] = true
		w.problems.Tell(subject, what)
	}
	w.board.SetPublished(info)
}
