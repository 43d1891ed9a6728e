package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/mholt/acmez/v3/acme"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// sharing is a cluster's store for its gateways, as they see it.
type sharing struct {
	mu     sync.Mutex
	values map[string][]byte
	locks  map[string]string // by name, the owner
	away   bool
}

func newSharing() *sharing {
	return &sharing{values: map[string][]byte{}, locks: map[string]string{}}
}

// ACME implements certs.Above.
func (s *sharing) ACME(_ context.Context, q rpc.ACMERequest) (r rpc.ACMEReply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.away {
		return r, errors.New("nobody answers")
	}
	switch q.Op {
	case rpc.ACMELoad:
		r.Value, r.Found = s.values[q.Key], s.values[q.Key] != nil
	case rpc.ACMEStore:
		for k := range q.Values {
			r.Found = r.Found || q.Absent && s.values[k] != nil
		}
		for k, v := range q.Values {
			if !r.Found {
				s.values[k] = v
			}
		}
	case rpc.ACMEDelete:
		delete(s.values, q.Key)
	case rpc.ACMEList:
		for k, v := range s.values {
			if k == q.Key || strings.HasPrefix(k, q.Key+"/") {
				r.Entries = append(r.Entries, rpc.ACMEEntry{Key: k, Size: len(v), Modified: time.Now()})
			}
		}
	case rpc.ACMELock:
		if r.Held = s.locks[q.Key] == "" || s.locks[q.Key] == q.Owner; r.Held {
			s.locks[q.Key] = q.Owner
		}
		r.Lease = time.Minute
	case rpc.ACMEUnlock:
		delete(s.locks, q.Key)
	}
	return r, nil
}

// set changes it.
func (s *sharing) set(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// has says whether a value whose key ends so is there.
func (s *sharing) has(end string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k := range s.values {
		if strings.HasSuffix(k, end) {
			return true
		}
	}
	return false
}

// acmeGateway is a gateway with TLS that publishes a host by ACME.
func acmeGateway(t *testing.T, name, dir string, server *acmeServer, above *sharing) *worker {
	t.Helper()
	return newWorker(t, newAuthority(t), name, func(o *Options) {
		o.GatewayTLSAddr, o.CertDir, o.ACME = "127.0.0.1:0", dir, server.authority()
		if above != nil {
			o.CertsAbove = above
		}
	})
}

func (w *worker) publishACME(t *testing.T) {
	t.Helper()
	w.addHTTP(t, "app.web.0", says("hello"))
	w.SetRoutes([]wire.Route{publish("web0", api.Ingress{Host: host, TLS: api.IngressTLS{Mode: "acme"}},
		w.endpoint("app.web.0"))})
}

// shown is the certificate that a gateway shows for the host.
func (w *worker) shown(t *testing.T, server *acmeServer) *x509.Certificate {
	t.Helper()
	var leaf *x509.Certificate
	eventually(t, "the gateway shows a certificate", func() bool {
		c, err := tls.Dial("tcp", w.GatewayTLSAddr(), &tls.Config{ServerName: host, RootCAs: server.roots})
		if err != nil {
			return false
		}
		leaf = c.ConnectionState().PeerCertificates[0]
		return c.Close() == nil
	})
	return leaf
}

// The gateways of a cluster ask for one certificate, and all show it; one that begins
// while the cluster is away shows what it has on disk.
func TestGatewaysShareACME(t *testing.T) {
	server, above := newACMEServer(t), newSharing()
	dir := filepath.Join(t.TempDir(), "gateway")
	a := acmeGateway(t, "a", dir, server, above)
	b := acmeGateway(t, "b", filepath.Join(t.TempDir(), "gateway"), server, above)
	server.begin(t, a)
	a.publishACME(t)
	b.publishACME(t)
	first, second := a.shown(t, server), b.shown(t, server)
	if !first.Equal(second) {
		t.Errorf("two certificates are shown: %s and %s", first.SerialNumber, second.SerialNumber)
	}
	if n := server.orders.Load(); n != 1 {
		t.Errorf("%d orders for one host", n)
	}
	above.set(func() {
		if len(above.locks) > 0 {
			t.Errorf("locks are left: %v", above.locks)
		}
	})
	a.Close()
	above.set(func() { above.away = true })
	again := acmeGateway(t, "c", dir, server, above)
	again.publishACME(t)
	if !again.shown(t, server).Equal(first) {
		t.Error("without its cluster the gateway shows another certificate")
	}
	if n := server.orders.Load(); n != 1 {
		t.Errorf("%d orders after a start without the cluster", n)
	}
}

// Without its cluster and without anything on disk a gateway asks nobody, says why, and
// goes on when the cluster is there. What another gateway had of old is taken over.
func TestGatewayTakesOverAndWaits(t *testing.T) {
	server, above := newACMEServer(t), newSharing()
	dir := filepath.Join(t.TempDir(), "gateway")
	old := acmeGateway(t, "old", dir, server, nil) // as of before gateways shared
	server.begin(t, old)
	old.publishACME(t)
	leaf := old.shown(t, server)
	old.Close()

	above.set(func() { above.away = true })
	b := acmeGateway(t, "b", filepath.Join(t.TempDir(), "gateway"), server, above)
	b.publishACME(t)
	eventually(t, "it says that the cluster is away", func() bool {
		c := b.Gateway().Certificates
		return len(c) == 1 && c[0].Failed && strings.Contains(c[0].Problem, "does not answer")
	})
	// One that has something on disk in the old form shows it meanwhile.
	a := acmeGateway(t, "a", dir, server, above)
	a.publishACME(t)
	if !a.shown(t, server).Equal(leaf) {
		t.Error("what was on disk is not shown")
	}
	a.Close()
	above.set(func() { above.away = false })
	// Its owner brings it to the cluster before anybody is asked: b waits for its lock.
	above.set(func() { above.locks["issue_cert_"+host] = "one that is gone" })
	a = acmeGateway(t, "a", dir, server, above)
	a.publishACME(t)
	eventually(t, "it is taken over", func() bool { return above.has(".crt") && above.has(".key") })
	if !b.shown(t, server).Equal(leaf) {
		t.Error("the other gateway shows another certificate")
	}
	if n := server.orders.Load(); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// The end of the lease of one that died lets another go on.
func TestGatewayGoesOnForOneThatDied(t *testing.T) {
	server, above := newACMEServer(t), newSharing()
	above.locks["issue_cert_"+host] = "one that died"
	b := acmeGateway(t, "b", filepath.Join(t.TempDir(), "gateway"), server, above)
	server.begin(t, b)
	b.publishACME(t)
	if server.orders.Load() != 0 {
		t.Error("it did not wait for the lock")
	}
	above.set(func() { clear(above.locks) }) // what a cluster does with its lease
	b.shown(t, server)
	if n := server.orders.Load(); n != 1 {
		t.Errorf("%d orders", n)
	}
}

// A challenge that another gateway was given is answered, of a host that is published
// and of no other.
func TestGatewayAnswersChallengesOfAnother(t *testing.T) {
	server, above := newACMEServer(t), newSharing()
	above.locks["issue_cert_"+host] = "the other gateway"
	b := acmeGateway(t, "b", filepath.Join(t.TempDir(), "gateway"), server, above)
	b.publishACME(t)
	challenge := func(name string) {
		issuer := &certmagic.ACMEIssuer{CA: server.authority().Directory}
		data, err := json.Marshal(acme.Challenge{
			Type: acme.ChallengeTypeHTTP01, Token: "token-of-" + name, KeyAuthorization: "token-of-" + name + ".thumb",
			Identifier: acme.Identifier{Type: "dns", Value: name},
		})
		must(t, err)
		above.set(func() {
			above.values["acme/"+certmagic.StorageKeys.Safe(issuer.IssuerKey())+"/challenge_tokens/"+name+
				".json"] = data
		})
	}
	challenge(host)
	challenge("other.example")
	ask := func(name string) (int, string) {
		req, err := http.NewRequest(http.MethodGet, "http://"+b.GatewayAddr()+"/.well-known/acme-challenge/token-of-"+
			name, nil)
		must(t, err)
		req.Host = name
		res, err := http.DefaultTransport.RoundTrip(req)
		must(t, err)
		body, err := io.ReadAll(res.Body)
		must(t, errors.Join(err, res.Body.Close()))
		return res.StatusCode, string(body)
	}
	eventually(t, "the challenge is answered", func() bool {
		status, body := ask(host)
		return status == http.StatusOK && body == "token-of-"+host+".thumb"
	})
	if status, body := ask("other.example"); status != http.StatusNotFound || strings.Contains(body, "thumb") {
		t.Errorf("of a host that is not published: %d %q", status, body)
	}
}
