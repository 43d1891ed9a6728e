package bed

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/tlsconf"
	"github.com/verge-edge/verge/internal/wire"
)

// Fleet is hosts with a router in each: the one that an engine has, with its queues,
// its load reports and mutual TLS between workers, and the network of its host. What
// the orchestrators would tell it, the experiment tells it: so that which replicas
// there are is known exactly, and each run begins with a router that has learnt nothing.
type Fleet struct {
	*lab.Lab
	e       *experiment.Env
	Hosts   []string
	routers map[string]*proxy.Router
	clients map[string]*http.Client
	linked  bool // links are those of the scenes
	sockets map[string]*sockets
	over    chan struct{} // closed when the threads of the hosts are to end
	threads sync.WaitGroup

	telling sync.Mutex // what routers are told is in order; taken before mu
	mu      sync.Mutex // guards below
	served  map[wire.InstanceID]string
	rtts    map[[2]string]time.Duration
	version uint64
	routes  map[string]wire.Route
}

// fleetPort is the data port of each router.
const fleetPort = 7443

// newFleet makes the hosts of a file, with routers. The caller closes it.
func newFleet(ctx context.Context, e *experiment.Env, file lab.File) (f *Fleet, err error) {
	f = &Fleet{
		e: e, Hosts: slices.Sorted(maps.Keys(file.Hosts)), routers: map[string]*proxy.Router{}, clients: map[string]*http.Client{},
		sockets: map[string]*sockets{}, over: make(chan struct{}),
		served: map[wire.InstanceID]string{}, rtts: map[[2]string]time.Duration{}, routes: map[string]wire.Route{},
	}
	identity, err := fleetIdentity()
	if err != nil {
		return nil, err
	}
	if f.Lab, err = e.Up(ctx, file); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.close())
		}
	}()
	st, err := f.Stats()
	if err != nil {
		return f, err
	}
	for i, host := range f.Hosts {
		for _, other := range f.Hosts[i+1:] {
			f.apart(host, other, f.RTT(st, host, other))
		}
		at := &sockets{f.Lab, host, make(chan func()), f.over, &f.threads}
		f.sockets[host] = at
		r, err := proxy.New(proxy.Options{
			Worker: host, Cluster: fleetCluster, Local: f, Sockets: at,
			DataAddr: f.dataAddress(host), TLS: identity, PeerName: func(string, string) string { return fleetCluster },
			Distances: distances{f, host},
		})
		if err == nil {
			err = r.Start(ctx)
		}
		if err != nil {
			return f, fmt.Errorf("router at %s: %w", host, err)
		}
		f.routers[host] = r
		for _, err := range r.Open(ctx) {
			return f, fmt.Errorf("router at %s: %w", host, err)
		}
		f.clients[host] = &http.Client{Timeout: time.Minute, Transport: &http.Transport{
			MaxIdleConnsPerHost: 4096,
			DialContext:         at.DialContext,
		}}
	}
	return f, nil
}

// close ends routers and hosts.
func (f *Fleet) close() error {
	for _, c := range f.clients {
		c.CloseIdleConnections()
	}
	for _, r := range f.routers {
		r.Close()
	}
	close(f.over)
	f.threads.Wait()
	return f.Down()
}

const fleetCluster = "lab"

// fleetIdentity is one certificate for all: who may talk to whom is not what these
// experiments are about.
func fleetIdentity() (func() (*tls.Config, error), error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{fleetCluster}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return func() (*tls.Config, error) {
		c := tlsconf.Internal()
		c.Certificates, c.RootCAs = []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}, pool
		return c, nil
	}, nil
}

// sockets are those of a host. Threads that are in its network are kept: to enter it
// for each connection would cost more than the connection.
type sockets struct {
	l    *lab.Lab
	host string
	jobs chan func() // for threads that have nothing to do
	end  <-chan struct{}
	all  *sync.WaitGroup // the threads
}

var _ proxy.Sockets = (*sockets)(nil)

// do calls f on a thread of the host.
func (s *sockets) do(f func() error) error {
	result := make(chan error, 1)
	job := func() { result <- f() }
	select {
	case s.jobs <- job:
	default:
		s.all.Go(func() {
			err := s.l.Do(s.host, func() error {
				for job != nil {
					job()
					select {
					case job = <-s.jobs:
					case <-s.end:
						job = nil
					}
				}
				return nil
			})
			if err != nil {
				result <- err // it did not get there
			}
		})
	}
	return <-result
}

// Listen implements proxy.Sockets.
func (s *sockets) Listen(_ context.Context, network, address string) (ln net.Listener, err error) {
	err = s.do(func() error {
		ln, err = net.Listen(network, address)
		return err
	})
	return ln, err
}

// DialContext implements proxy.Sockets. The address is numeric.
func (s *sockets) DialContext(ctx context.Context, network, address string) (c net.Conn, err error) {
	err = s.do(func() error {
		c, err = (&net.Dialer{}).DialContext(ctx, network, address)
		return err
	})
	return c, err
}

// distances from a host: what is set for the links, which is what a worker's own
// measurements come to.
type distances struct {
	f    *Fleet
	from string
}

var _ proxy.Distances = distances{}

// Want implements proxy.Distances.
func (distances) Want(string, []proxy.Worker) {}

// Distance implements proxy.Distances.
func (d distances) Distance(_, worker string) (time.Duration, route.Source, time.Time) {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	return d.f.rtts[[2]string{d.from, worker}], route.Measured, time.Now()
}

// Version implements proxy.Distances.
func (d distances) Version() uint64 {
	d.f.mu.Lock()
	defer d.f.mu.Unlock()
	return d.f.version
}

// apart notes how far two hosts are from each other.
func (f *Fleet) apart(a, b string, rtt time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rtts[[2]string{a, b}], f.rtts[[2]string{b, a}] = rtt, rtt
	f.version++
}

// dataAddress of the router at a host.
func (f *Fleet) dataAddress(host string) string {
	return fmt.Sprintf("%s:%d", f.Address(host), fleetPort)
}

// pairs are all links.
func (f *Fleet) pairs() (out [][2]string) {
	for i, a := range f.Hosts {
		for _, b := range f.Hosts[i+1:] {
			out = append(out, [2]string{a, b})
		}
	}
	return out
}

// Target implements proxy.Local, for all hosts: an instance is at one of them.
func (f *Fleet) Target(id wire.InstanceID, _ string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if addr, ok := f.served[id]; ok {
		return addr, nil
	}
	return "", proxy.ErrNoInstance
}

// Wake implements proxy.Local; none of them sleeps.
func (f *Fleet) Wake(wire.InstanceID) {}

// replica of a service: who answers for it, at a host. CPU is that of the whole host,
// by which the policies weighted and billiard share where nothing better is known; 0
// for not known.
type replica struct {
	host    string
	handler http.Handler
	cpu     api.CPU
}

// service lets all routers know a service and starts its replicas, which the routers
// call NAME.0, NAME.1 and so on. End takes it away again and waits until nothing of it
// runs; services end before the fleet does.
func (f *Fleet) service(name string, p api.Policy, rules wire.RequestRules, replicas []replica) (end func(), err error) {
	rt := wire.Route{V: wire.Version, App: fleetCluster, Service: name, Requests: rules, Ports: []api.Port{{Name: "http", Protocol: "http"}}}
	rt.Requests.Needed = true
	rt.SetPolicy(p)
	var servers []*http.Server
	var all sync.WaitGroup
	end = func() {
		f.mu.Lock()
		delete(f.routes, name)
		for _, e := range rt.Endpoints {
			delete(f.served, e.Instance)
		}
		f.mu.Unlock()
		f.tell()
		for _, s := range servers {
			_ = s.Close() // connections are the lab's and end with it
		}
		all.Wait()
	}
	for i, r := range replicas {
		ln, err := f.sockets[r.host].Listen(context.Background(), "tcp4", "127.0.0.1:0")
		if err != nil {
			end()
			return nil, fmt.Errorf("replica %d of %s at %s: %w", i, name, r.host, err)
		}
		id := fmt.Sprintf("%s.%s.%d", fleetCluster, name, i)
		rt.Endpoints = append(rt.Endpoints, wire.Endpoint{Instance: id, Cluster: fleetCluster, Worker: r.host, Address: f.dataAddress(r.host), CPU: r.cpu})
		s := &http.Server{ReadHeaderTimeout: time.Minute, Handler: r.handler}
		servers = append(servers, s)
		all.Go(func() { _ = s.Serve(ln) }) // it ends by Close
		f.mu.Lock()
		f.served[id] = ln.Addr().String()
		f.mu.Unlock()
	}
	f.mu.Lock()
	f.routes[name] = rt
	f.mu.Unlock()
	f.tell()
	return end, nil
}

// tell the routers what there is.
func (f *Fleet) tell() {
	f.telling.Lock()
	defer f.telling.Unlock()
	f.mu.Lock()
	routes := slices.Collect(maps.Values(f.routes))
	f.mu.Unlock()
	for _, r := range f.routers {
		r.SetRoutes(routes)
	}
}

// url of a service at the router of a host, for clients there.
func (f *Fleet) url(host, service string) (string, error) {
	for _, e := range f.routers[host].Entries() {
		if e.Service == service {
			if e.Problem != "" {
				return "", fmt.Errorf("the router at %s does not listen for %s: %s", host, service, e.Problem)
			}
			return "http://" + e.Addr + "/", nil
		}
	}
	return "", fmt.Errorf("the router at %s does not know %s", host, service)
}

// links sets those between hosts, from now on: their round trip time and, where rate
// is above 0, the bits per second of each direction.
func (f *Fleet) links(rtt func(a, b string) time.Duration, rate func(a, b string) api.Bitrate) error {
	for _, p := range f.pairs() {
		d := rtt(p[0], p[1])
		x := api.Duration(d)
		for _, way := range [][2]string{p, {p[1], p[0]}} {
			half := x / 2
			spec := lab.LinkSpec{Latency: &half}
			if rate != nil {
				r := rate(way[0], way[1])
				spec.Rate = &r
			}
			if _, err := f.Set(way[0], way[1], spec, true); err != nil {
				return err
			}
		}
		f.apart(p[0], p[1], d)
	}
	return nil
}

// knows is what a router has learnt of a service, for an error.
func (f *Fleet) knows(host, service string) string {
	rep, _ := f.routers[host].Route(fleetCluster + "." + service)
	var out []string
	for _, e := range rep.Endpoints {
		out = append(out, fmt.Sprintf("%s at %s: %d in flight, %d wait, %.1f/s, %v, %s %s", e.Instance, e.Worker, e.InFlight, e.Queue, e.Capacity, e.Exec.Std(), e.State, e.Why))
	}
	return strings.Join(out, "\n")
}
