package engine

import (
	"context"
	"crypto/tls"
	"hash/fnv"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/distance"
	"github.com/verge-edge/verge/internal/pki"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	distancesFile = "distances.json"
	// netWithin bounds how long a question about paths and routes takes.
	netWithin = 1500 * time.Millisecond
	// maxNetPeers are measured because somebody asks.
	maxNetPeers = 1000
)

// distances connects the meter with the router: the router says what is used and
// goes by what is known, the meter measures over the router's data path.
type distances struct {
	meter  *distance.Meter
	router *proxy.Router
	// tunnel measures by the path that packets of instances take; nil: there is none.
	// It is set before anything is measured.
	tunnel func(ctx context.Context, cluster, worker string) (time.Duration, bool)

	mu   sync.Mutex      // guards below
	over map[string]bool // workers, by distance.Peer.Key, that were measured by it last
}

var (
	_ proxy.Distances = (*distances)(nil)
	_ distance.Prober = (*distances)(nil)
)

func newDistances(dir string, o proxy.Options) (*distances, error) {
	d := &distances{}
	h := fnv.New64a()
	_, _ = h.Write([]byte(o.Cluster + "/" + o.Worker)) // a hash never fails
	d.meter = distance.New(distance.Options{Prober: d, Path: filepath.Join(dir, distancesFile), Seed: h.Sum64(), Log: o.Log})
	o.Distances, o.Echo = d, d.echo
	r, err := proxy.New(o)
	if err != nil {
		return nil, err
	}
	d.router = r
	return d, nil
}

// echo answers a worker that measures this one.
func (d *distances) echo(cs tls.ConnectionState, said []byte) []byte {
	s, err := pki.PeerSubject(cs)
	if err != nil {
		return nil
	}
	return d.meter.Told(s.Cluster, s.Name, said)
}

// Want implements proxy.Distances.
func (d *distances) Want(service string, workers []proxy.Worker) {
	peers := make([]distance.Peer, len(workers))
	for i, w := range workers {
		peers[i] = distance.Peer{Cluster: w.Cluster, Worker: w.Name, Address: w.Address}
	}
	d.meter.Want(service, peers)
}

// Version implements proxy.Distances.
func (d *distances) Version() uint64 { return d.meter.Version() }

// Distance implements proxy.Distances.
func (d *distances) Distance(cluster, worker string) (time.Duration, route.Source, time.Time) {
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
func (d *distances) Measure(ctx context.Context, p distance.Peer, hello []byte) (time.Duration, []byte, error) {
	rtt, inTunnel := time.Duration(0), false
	if d.tunnel != nil {
		rtt, inTunnel = d.tunnel(ctx, p.Cluster, p.Worker)
	}
	d.noteOver(p.Key(), inTunnel)
	if inTunnel && p.Address == "" {
		return rtt, nil, nil
	}
	// Where the other one is it says at its data port alone.
	echo, answer, err := d.router.Measure(ctx, proxy.Worker{Cluster: p.Cluster, Name: p.Worker, Address: p.Address}, hello)
	if inTunnel {
		return rtt, answer, nil
	}
	return echo, answer, err
}

func (d *distances) noteOver(key string, tunnel bool) {
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
func (d *distances) measuredOver(key string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over[key] {
		return wire.OverTunnel
	}
	return wire.OverData
}

// Route says how a service ("<application>.<service>") is routed here. What its
// policy goes by is measured, where it is not known already.
func (e *Engine) Route(ctx context.Context, key string) (wire.RouteReport, error) {
	if err := e.wait(ctx); err != nil {
		return wire.RouteReport{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, netWithin)
	defer cancel()
	asking, enough := context.WithTimeout(ctx, shownWithin)
	err := e.uses.await(asking, key)
	enough()
	if err != nil {
		return wire.RouteReport{}, wire.Problemf(503, "not-told", "try again when its cluster answers: verge get clusters", "this worker does not know the instances of the service now",
			"it has not used %s for a while, and its cluster has not told it where they are", key)
	}
	e.measure(ctx, e.kit.router.Workers(key), true)
	r, ok := e.kit.router.Route(key)
	if !ok {
		return r, wire.Problemf(404, "no-route", "verge get services lists them", "this worker has no route to the service", "%s", key)
	}
	for i := range r.Endpoints {
		if x := &r.Endpoints[i]; !x.Local && e.kit.far != nil {
			x.Estimate = api.Duration(e.kit.far.meter.Known(x.Cluster, x.Worker).Estimate)
		}
	}
	return r, nil
}

// Net says how the other workers are reached to which this one has routes, and
// measures them all.
func (e *Engine) Net(ctx context.Context) (wire.NetReport, error) {
	if err := e.wait(ctx); err != nil {
		return wire.NetReport{}, err
	}
	out := wire.NetReport{V: wire.Version, Cluster: e.opts.Config.Cluster, Worker: e.opts.Config.Worker, Peers: []wire.NetPeer{}}
	if n := e.kit.net(); n != nil {
		if st, err := n.Stats(); err == nil { // else it says what else it knows
			out.Dropped = st.Dropped
		}
	}
	ctx, cancel := context.WithTimeout(ctx, netWithin)
	defer cancel()
	if err := e.uses.awaitAll(ctx); err != nil { // then those that it has to do with
		e.log.Debug("not all workers are known", "why", err)
	}
	workers := e.kit.router.Workers("")
	own := e.ownPaths()
	// Some have no data port for others, behind a NAT for example.
	portless := maps.Clone(own)
	for _, w := range workers {
		delete(portless, w.Cluster+"/"+w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(portless)) {
		workers = append(workers, proxy.Worker{Cluster: portless[name].Cluster, Name: portless[name].Worker})
	}
	workers = workers[:min(len(workers), maxNetPeers)]
	e.measure(ctx, workers, false)
	if e.kit.far == nil {
		return out, nil
	}
	out.Error = e.kit.far.meter.Error()
	for _, w := range workers {
		k := e.kit.far.meter.Known(w.Cluster, w.Name)
		p := wire.NetPeer{Cluster: w.Cluster, Worker: w.Name, Address: w.Address, Path: wire.PathDirect, Via: "data port, TLS over TCP"}
		switch {
		case w.Address == "":
			p.Path, p.Via = wire.PathNone, ""
		case k.Failures > 0:
			p.Path, p.Via, p.Why = wire.PathNone, "", k.Why
		}
		if path, ok := own[p.Cluster+"/"+p.Worker]; ok {
			inNetwork(&p, path)
		}
		if k.Distance.Known {
			p.Estimate = api.Duration(k.Estimate)
			p.RTT, p.Source, p.AgeSeconds = api.Duration(k.RTT), route.Estimated.String(), max(0, time.Since(k.At).Seconds())
			if k.Measured {
				p.Source, p.Over = route.Measured.String(), e.kit.far.measuredOver(p.Cluster+"/"+p.Worker)
			}
		}
		out.Peers = append(out.Peers, p)
	}
	return out, nil
}

// ownPaths are those of the service network, by cluster and worker.
func (e *Engine) ownPaths() map[string]wire.Path {
	n := e.kit.net()
	if n == nil {
		return nil
	}
	paths, err := n.Paths()
	if err != nil {
		return nil
	}
	own := make(map[string]wire.Path, len(paths.Peers))
	for _, p := range paths.Peers {
		own[p.Cluster+"/"+p.Worker] = p
	}
	return own
}

// inNetwork says how a worker is reached in the service network, which its data port
// stands in for where it is not.
func inNetwork(p *wire.NetPeer, path wire.Path) {
	switch path.Path {
	case wire.PathDirect:
		p.Path, p.Via, p.Why = path.Path, "WireGuard to "+path.Endpoint.String(), ""
	case wire.PathRelay:
		p.Path, p.Via, p.Why = path.Path, "WireGuard through relay "+path.Relay, path.Why
	default:
		if p.Why == "" {
			p.Why = path.Why
		}
	}
}

// measure measures workers because somebody asks, only those of which no fresh
// measurement is known if some is enough.
func (e *Engine) measure(ctx context.Context, workers []proxy.Worker, some bool) {
	if e.kit.far == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, netWithin)
	defer cancel()
	var peers []distance.Peer
	for _, w := range workers {
		if some && (e.kit.far.meter.Distance(w.Cluster, w.Name).Measured || len(peers) >= maxNetPeers) {
			continue
		}
		peers = append(peers, distance.Peer{Cluster: w.Cluster, Worker: w.Name, Address: w.Address})
	}
	e.kit.far.meter.MeasureNow(ctx, peers)
}
