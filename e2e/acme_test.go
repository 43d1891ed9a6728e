package e2e

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	// The ACME server by which clients of Let's Encrypt are tested.
	"github.com/letsencrypt/pebble/v2/ca"
	"github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
)

const acmeHost = "shop.test"

// inTurns passes connections on to several addresses, one after the other: as a name
// does that has several addresses.
func inTurns(t *testing.T, to ...string) (port int) {
	t.Helper()
	ln := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0"))
	var turn atomic.Uint32
	var work sync.WaitGroup
	work.Go(func() {
		for {
			in, err := ln.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to[int(turn.Add(1))%len(to)])
			if err != nil {
				_ = in.Close()
				continue
			}
			end := func() { _, _ = in.Close(), out.Close() }
			work.Go(func() { defer end(); _, _ = io.Copy(out, in) })
			work.Go(func() { defer end(); _, _ = io.Copy(in, out) })
		}
	})
	t.Cleanup(func() { _ = ln.Close(); work.Wait() })
	return ln.Addr().(*net.TCPAddr).Port
}

// acmeAuthority is an ACME server that looks for challenges at two ports of this machine.
// orders counts what it was asked for.
func acmeAuthority(t *testing.T, httpPort, tlsPort int) (directory, caFile string, roots *x509.CertPool, orders *atomic.Int32) {
	t.Helper()
	t.Setenv("PEBBLE_VA_NOSLEEP", "1")
	t.Setenv("PEBBLE_WFE_NONCEREJECT", "0")
	quiet, store := log.New(io.Discard, "", 0), db.NewMemoryStore()
	authority := ca.New(quiet, store, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "the only one"}})
	roots = x509.NewCertPool()
	roots.AddCert(authority.GetRootCert(0).Cert)
	names := must[net.Listener](t)(net.Listen("tcp", "127.0.0.1:0")) // Pebble asks over TCP
	resolver := &dns.Server{Listener: names, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
		m := new(dns.Msg).SetReply(q)
		if q.Question[0].Qtype == dns.TypeA {
			m.Answer = append(m.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Question[0].Name, Rrtype: dns.TypeA, Class: dns.ClassINET}, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(m)
	})}
	var work sync.WaitGroup
	work.Go(func() { _ = resolver.ActivateAndServe() })
	t.Cleanup(func() { _ = names.Close(); work.Wait() })
	validation := va.New(quiet, httpPort, tlsPort, false, names.Addr().String(), store)
	front := wfe.New(quiet, store, validation, authority, []string{"acme.example"}, false, false, 0, 0)
	handler := front.Handler()
	orders = &atomic.Int32{}
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if strings.Contains(req.URL.Path, "order-plz") {
			orders.Add(1)
		}
		handler.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	return server.URL + wfe.DirectoryPath, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})), roots, orders
}

// TestGatewaysShareCertificates has two gateways behind one name, in processes of their
// own. They get nothing before their operator allows it; then one certificate, although
// challenges arrive at either, and both show it, also while their cluster is away.
func TestGatewaysShareCertificates(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	w := newRoot(t)
	edge := w.addCluster("edge")
	edge.answers()
	plain, secure := []string{freeAddr(t), freeAddr(t)}, []string{freeAddr(t), freeAddr(t)}
	directory, pemText, roots, orders := acmeAuthority(t, inTurns(t, plain...), inTurns(t, secure...))
	caFile := w.file("ca-", pemText)
	for i := range plain {
		w.addWorker("edge", "edge-"+strconv.Itoa(i+1), "--gateway", plain[i], "--gateway-tls", secure[i],
			"--acme-agree", "--acme-email", "ops@example.org", "--acme-directory", directory, "--acme-ca", caFile)
	}
	w.allReady()
	w.root.apply(fmt.Sprintf(`application: shop
services:
  front:
    command: [testprogram]
    ports:
      - name: http
        ingress: {host: %s, tls: acme}
    readiness:
      http: {path: /healthz}
`, acmeHost))

	for _, name := range []string{"edge-1", "edge-2"} {
		eventually(t, 30*time.Second, name+" says that it may not", func() error {
			status := edge.ok("status")
			if !strings.Contains(status, "worker edge/"+name+": gateway: the operator of cluster edge has not allowed") || !strings.Contains(status, "host "+acmeHost+": no certificate by ACME: the operator of cluster edge has not allowed") {
				return fmt.Errorf("it is not in the status:\n%s", status)
			}
			return nil
		})
	}
	if list := edge.ok("get", "workers"); strings.Count(list, "(TLS not allowed)") != 2 {
		t.Errorf("get workers:\n%s", list)
	}
	if n := orders.Load(); n != 0 {
		t.Errorf("%d orders by gateways that may be none", n)
	}

	edge.ok("worker", "allow-gateway", "edge-1")
	edge.ok("worker", "allow-gateway", "edge-2")
	shown := func(addr string) (*x509.Certificate, error) {
		d := tls.Dialer{NetDialer: &net.Dialer{Timeout: 5 * time.Second}, Config: &tls.Config{ServerName: acmeHost, RootCAs: roots}}
		c, err := d.DialContext(context.Background(), "tcp", addr)
		if err != nil {
			return nil, err
		}
		return c.(*tls.Conn).ConnectionState().PeerCertificates[0], c.Close()
	}
	var leaves [2]*x509.Certificate
	for i, addr := range secure {
		eventually(t, 100*time.Second, "the gateway at "+addr+" shows a certificate", func() (err error) {
			leaves[i], err = shown(addr)
			return err
		})
	}
	if !leaves[0].Equal(leaves[1]) {
		t.Errorf("two certificates are shown: %s and %s", leaves[0].SerialNumber, leaves[1].SerialNumber)
	}
	if n := orders.Load(); n != 1 {
		t.Errorf("%d orders for one host", n)
	}
	if list := edge.ok("get", "workers"); strings.Contains(list, "not allowed") {
		t.Errorf("get workers:\n%s", list)
	}

	edge.kill()
	for i, name := range []string{"edge-1", "edge-2"} {
		x := w.worker[name]
		x.kill()
		if r := verge(t, "", "worker", "stop", "--data-dir", x.dir); r.code != 0 {
			t.Fatalf("%+v", r)
		}
		x.start()
		eventually(t, 30*time.Second, name+" shows its certificate without its cluster", func() error {
			leaf, err := shown(secure[i])
			if err == nil && !leaf.Equal(leaves[0]) {
				err = fmt.Errorf("it is another: %s", leaf.SerialNumber)
			}
			return err
		})
	}
	if n := orders.Load(); n != 1 {
		t.Errorf("%d orders after a start without the cluster", n)
	}
}
