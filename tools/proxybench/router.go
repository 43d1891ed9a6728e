package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/gcpace"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

// routerTask is how a router is set up.
type routerTask struct {
	Worker    string
	Dir       string // for the gateway's certificates
	Cert, Key []byte // DER
	CA        []byte
}

// routerRoutes is what a router is told next: where the instance is. A router tells
// then where its clients are to go.
type routerRoutes struct {
	Worker, Data string // its own worker where Data is ""
	Protocol     string
}

const (
	instanceID = "bench.web.0"
	benchHost  = "bench.test"
)

// local has the only instance.
type local string

func (l local) Target(id wire.InstanceID, _ string) (string, error) {
	if id != instanceID || l == "" {
		return "", proxy.ErrNoInstance
	}
	return string(l), nil
}

func (l local) Wake(wire.InstanceID) {}

func peerName(_, worker string) string { return worker + ".bench.test" }

// runRouter is the router of a worker, with all that it has: queue, policy, load
// report, counters.
func runRouter(t task, in *json.Decoder) error {
	key, err := x509.ParseECPrivateKey(t.Router.Key)
	if err != nil {
		return fmt.Errorf("key: %w", err)
	}
	ca, err := x509.ParseCertificate(t.Router.CA)
	if err != nil {
		return fmt.Errorf("authority: %w", err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	r, err := proxy.New(proxy.Options{
		Worker: t.Router.Worker, Cluster: "bench", Local: local(t.Upstream), DataAddr: "127.0.0.1:0",
		PeerName:    peerName,
		GatewayAddr: "127.0.0.1:0", GatewayTLSAddr: "127.0.0.1:0", SelfSigned: true, CertDir: t.Router.Dir,
		TLS: func() (*tls.Config, error) {
			return &tls.Config{
				MinVersion: tls.VersionTLS13, RootCAs: pool,
				Certificates: []tls.Certificate{{Certificate: [][]byte{t.Router.Cert}, PrivateKey: key}},
			}, nil
		},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go gcpace.Run(ctx) // as an engine does
	if err := r.Start(ctx); err != nil {
		return err
	}
	defer r.Close()
	for _, err := range r.Open(ctx) {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	if err := out.Encode(started{Data: r.DataAddr()}); err != nil {
		return fmt.Errorf("say where: %w", err)
	}
	for {
		var to routerRoutes
		if err := in.Decode(&to); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read the routes: %w", err)
		}
		e := wire.Endpoint{Instance: instanceID, Cluster: "bench", Worker: to.Worker, Address: to.Data}
		r.SetRoutes([]wire.Route{{
			V: 1, App: "bench", Service: "web", Endpoints: []wire.Endpoint{e},
			Ports: []api.Port{{Name: "web", Protocol: to.Protocol,
				Ingress: &api.Ingress{Host: benchHost, Redirect: new(bool)}}},
			Requests: wire.RequestRules{Needed: true, Concurrency: 64},
		}})
		if err := out.Encode(started{Addr: r.Entries()[0].Addr, Gateway: r.GatewayAddr(),
			Secured: r.GatewayTLSAddr()}); err != nil {
			return fmt.Errorf("say where: %w", err)
		}
	}
}

// authority signs the certificates of routers.
type authority struct {
	cert *x509.Certificate
	der  []byte
	key  *ecdsa.PrivateKey
	n    int64
}

func newAuthority() (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("make an authority: %w", err)
	}
	return &authority{cert: cert, der: der, key: key, n: 1}, nil
}

// issue makes a certificate for a name and returns it and its key.
func (a *authority) issue(name string) (cert []byte, key *ecdsa.PrivateKey, err error) {
	key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("make a key: %w", err)
	}
	a.n++
	tmpl := &x509.Certificate{
		SerialNumber: big.NewInt(a.n), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	cert, err = x509.CreateCertificate(rand.Reader, tmpl, a.cert, &key.PublicKey, a.key)
	if err != nil {
		return nil, nil, fmt.Errorf("make a certificate: %w", err)
	}
	return cert, key, nil
}

// router starts a router for a worker; upstream is the instance that it has, "" none.
func (b *measurer) router(worker, upstream string) (*process, started, error) {
	cert, key, err := b.ca.issue(peerName("", worker))
	if err != nil {
		return nil, started{}, err
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, started{}, fmt.Errorf("a key: %w", err)
	}
	dir := filepath.Join(b.dir, fmt.Sprintf("gateway-%d", len(b.all)))
	t := task{Upstream: upstream, Router: &routerTask{Dir: dir, Worker: worker, Cert: cert, Key: der, CA: b.ca.der}}
	t.Profile = b.profile("router-" + worker)
	var s started
	p, err := b.start(asRouter, t, &s)
	return p, s, err
}

// here is one router with the instance on its own worker.
func (b *measurer) here(protocol string) (*target, error) {
	t, _, err := b.routerHere(protocol, b.upstream)
	return t, err
}

// gateway is the same for clients from outside, with or without TLS.
func (b *measurer) gateway(secured bool) (*target, error) {
	t, s, err := b.routerHere("http", b.upstream)
	if err != nil {
		return nil, err
	}
	if t.addr = s.Gateway; secured {
		t.addr = s.Secured
	}
	return t, nil
}

func (b *measurer) routerHere(protocol, upstream string) (*target, started, error) {
	p, _, err := b.router("here", upstream)
	if err != nil {
		return nil, started{}, err
	}
	var s started
	if err := p.ask(routerRoutes{Worker: "here", Protocol: protocol}, &s); err != nil {
		return nil, started{}, err
	}
	return &target{addr: s.Addr, processes: []*process{p}}, s, nil
}

// there is two routers in a row: the instance is on the worker of the second.
func (b *measurer) there(protocol string) (*target, error) { return b.routersTo(protocol, b.upstream) }

func (b *measurer) routersTo(protocol, upstream string) (*target, error) {
	near, _, err := b.router("near", "")
	if err != nil {
		return nil, err
	}
	far, data, err := b.router("far", upstream)
	if err != nil {
		return nil, err
	}
	var s started
	for _, p := range []*process{far, near} {
		if err := p.ask(routerRoutes{Worker: "far", Data: data.Data, Protocol: protocol}, &s); err != nil {
			return nil, err
		}
	}
	return &target{addr: s.Addr, processes: []*process{near, far}}, nil
}
