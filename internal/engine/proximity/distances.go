package proximity

import (
	"context"
	"crypto/tls"
	"hash/fnv"
	"path/filepath"
	"sync"
	"time"

	"github.com/verge-edge/verge/internal/distance"
	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	distancesFile = "distances.json"
)

// Distances connects the meter with the router: the router says which workers are used and routes
// by their distances; the meter measures over the data path of the router.
type Distances struct {
	meter  *distance.Meter
	router *proxy.Router
	// tunnel measures by the path of instances' packets; nil: none. It is set before any
	// measurement.
	tunnel func(ctx context.Context, cluster, worker string) (time.Duration, bool)

	mu   sync.Mutex      // guards below
	over map[string]bool // workers, by distance.Peer.Key, that were measured by it last
}

var (
	_ proxy.Distances = (*Distances)(nil)
	_ distance.Prober = (*Distances)(nil)
)

// New makes a router, and the meter that measures over it. What is measured is kept in a file
// in dir.
func New(dir string, o proxy.Options) (*Distances, error) {
	d := &Distances{}
	h := fnv.New64a()
	_, _ = h.Write([]byte(o.Cluster + "/" + o.Worker)) // a hash never fails
	d.meter = distance.New(distance.Options{Prober: d, Path: filepath.Join(dir, distancesFile), Seed: h.Sum64(),
		Log: o.Log})
	o.Distances, o.Echo = d, d.echo
	r, err := proxy.New(o)
	if err != nil {
		return nil, err
	}
	d.router = r
	return d, nil
}

// Router is the router that it was made with.
func (d *Distances) Router() *proxy.Router { return d.router }

// SetRoutes gives the router its routes, and the meter where the workers of their endpoints are.
func (d *Distances) SetRoutes(all []wire.Route) {
	d.meter.Placed(all)
	d.router.SetRoutes(all)
}

// Run measures until ctx is done.
func (d *Distances) Run(ctx context.Context) { d.meter.Run(ctx) }

// SetTunnel has workers measured by the path that packets of instances take. It is called
// before Run.
func (d *Distances) SetTunnel(measure func(ctx context.Context, cluster, worker string) (time.Duration, bool)) {
	d.tunnel = measure
}

// ForOverlay are these distances for the rules of the service network, which make the same
// use of them.
func (d *Distances) ForOverlay() overlay.Distances { return forOverlay{d} }

type forOverlay struct{ *Distances }

// Want implements overlay.Distances.
func (d forOverlay) Want(service string, workers []overlay.Worker) {
	list := make([]proxy.Worker, len(workers))
	for i, w := range workers {
		list[i] = proxy.Worker(w)
	}
	d.Distances.Want(service, list)
}

// echo answers a worker that measures this one.
func (d *Distances) echo(cs tls.ConnectionState, said []byte) []byte {
	s, err := pki.PeerSubject(cs)
	if err != nil {
		return nil
	}
	return d.meter.Told(s.Cluster, s.Name, said)
}

// Want implements proxy.Distances.
func (d *Distances) Want(service string, workers []proxy.Worker) {
	peers := make([]distance.Peer, len(workers))
	for i, w := range workers {
		peers[i] = distance.Peer{Cluster: w.Cluster, Worker: w.Name, Address: w.Address}
	}
	d.meter.Want(service, peers)
}

// Version implements proxy.Distances.
func (d *Distances) Version() uint64 { return d.meter.Version() }

// Distance implements proxy.Distances.
func (d *Distances) Distance(cluster, worker string) (time.Duration, route.Source, time.Time) {
	x := d.meter.Distance(cluster, worker)
	switch {
	case !x.Known:
		return 0, route.Unknown, x.At
	case x.Measured:
		return x.RTT, route.Measured, x.At
	}
	return x.RTT, route.Estimated, x.At
}

// Measure implements distance.Prober.
func (d *Distances) Measure(ctx context.Context, p distance.Peer, hello []byte) (time.Duration, []byte, error) {
	rtt, inTunnel := time.Duration(0), false
	if d.tunnel != nil {
		rtt, inTunnel = d.tunnel(ctx, p.Cluster, p.Worker)
	}
	d.noteOver(p.Key(), inTunnel)
	if inTunnel && p.Address == "" {
		return rtt, nil, nil
	}
	// Where the other one is it says at its data port alone.
	echo, answer, err := d.router.Measure(ctx, proxy.Worker{Cluster: p.Cluster, Name: p.Worker, Address: p.Address},
		hello)
	if inTunnel {
		return rtt, answer, nil
	}
	return echo, answer, err
}

func (d *Distances) noteOver(key string, tunnel bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !tunnel {
		delete(d.over, key)
		return
	}
	if d.over == nil {
		d.over = map[string]bool{}
	}
	d.over[key] = true
}

// measuredOver says what the last measurement of a worker went over.
func (d *Distances) measuredOver(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over[key] {
		return rpc.OverTunnel
	}
	return rpc.OverData
}
