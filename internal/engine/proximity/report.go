package proximity

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/distance"
	"github.com/verge-edge/verge/internal/overlay/peer"
	"github.com/verge-edge/verge/internal/ping"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// reportTimeout bounds how long a question about paths and routes takes.
	reportTimeout = 1500 * time.Millisecond
	// shownWithin is how long a report waits for endpoints.
	shownWithin = 700 * time.Millisecond
	// maxNetPeers are measured for one report.
	maxNetPeers = 1000
)

// Router is what a Reporter needs of the router.
type Router interface {
	// Route is how a service is routed; false where it is not. Workers are the others
	// behind it, or behind all services where key is "".
	Route(key string) (rpc.RouteReport, bool)
	Workers(key string) []proxy.Worker
}

// Paths are those of the service network.
type Paths interface {
	// Paths to other workers, or an error with the reason.
	Paths() (peer.Paths, error)
	// Dropped counts the packets that it refused, by reason; nil where that is not known.
	Dropped() map[string]uint64
}

// ReportOptions of a Reporter.
type ReportOptions struct {
	Cluster, Worker string
	// Distances are nil where the worker has no data path.
	Distances *Distances
	Router    Router
	// Network is nil where there is no service network now.
	Network func() Paths
	// Await returns when the endpoints of a service are here, AwaitAll those of all.
	Await    func(ctx context.Context, key string) error
	AwaitAll func(ctx context.Context) error
	Log      *slog.Logger
}

// Reporter answers how other workers are reached and how far they are.
type Reporter struct {
	o ReportOptions
	// pinger measures hosts that are no workers.
	pinger *ping.Pinger
}

// NewReporter reports by what the options have.
func NewReporter(o ReportOptions) *Reporter { return &Reporter{o: o, pinger: ping.New()} }

// Route says how a service ("<application>.<service>") is routed here. What its
// policy goes by is measured, where it is not known already.
func (r *Reporter) Route(ctx context.Context, key string) (rpc.RouteReport, error) {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	asking, enough := context.WithTimeout(ctx, shownWithin)
	err := r.o.Await(asking, key)
	enough()
	if err != nil {
		return rpc.RouteReport{},
			wire.Problemf(503, "not-told", "try again when its cluster answers: verge get clusters",
				"this worker does not know the instances of the service now",
				"it has not used %s for a while, and its cluster has not told it where they are", key)
	}
	r.measure(ctx, r.o.Router.Workers(key), true)
	report, ok := r.o.Router.Route(key)
	if !ok {
		return report, wire.Problemf(404, "no-route", "verge get services lists them",
			"this worker has no route to the service", "%s", key)
	}
	for i := range report.Endpoints {
		if x := &report.Endpoints[i]; !x.Local && r.o.Distances != nil {
			x.Estimate = api.Duration(r.o.Distances.meter.Known(x.Cluster, x.Worker).Estimate)
		}
	}
	return report, nil
}

// Net says how the other workers are reached to which this one has routes, and
// measures them all.
func (r *Reporter) Net(ctx context.Context) (rpc.NetReport, error) {
	out := rpc.NetReport{V: wire.Version, Cluster: r.o.Cluster, Worker: r.o.Worker, Peers: []rpc.NetPeer{}}
	if n := r.o.Network(); n != nil {
		out.Dropped = n.Dropped()
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if err := r.o.AwaitAll(ctx); err != nil { // then those that it has to do with
		r.o.Log.Debug("not all workers are known", "why", err)
	}
	workers := r.o.Router.Workers("")
	own := r.ownPaths()
	// Some have no data port for others, behind a NAT for example.
	portless := maps.Clone(own)
	for _, w := range workers {
		delete(portless, w.Cluster+"/"+w.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(portless)) {
		workers = append(workers, proxy.Worker{Cluster: portless[name].Cluster, Name: portless[name].Worker})
	}
	workers = workers[:min(len(workers), maxNetPeers)]
	r.measure(ctx, workers, false)
	if r.o.Distances == nil {
		return out, nil
	}
	out.Error = r.o.Distances.meter.Error()
	for _, w := range workers {
		k := r.o.Distances.meter.Known(w.Cluster, w.Name)
		p := rpc.NetPeer{Cluster: w.Cluster, Worker: w.Name, Address: w.Address, Path: wire.PathDirect,
			Via: "data port, TLS over TCP"}
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
			p.RTT, p.Source, p.AgeSeconds = api.Duration(k.RTT), route.Estimated.String(),
				max(0, time.Since(k.At).Seconds())
			if k.Measured {
				p.Source, p.Over = route.Measured.String(), r.o.Distances.measuredOver(p.Cluster+"/"+p.Worker)
			}
		}
		out.Peers = append(out.Peers, p)
	}
	return out, nil
}

// ownPaths are those of the service network, by cluster and worker.
func (r *Reporter) ownPaths() map[string]peer.Path {
	n := r.o.Network()
	if n == nil {
		return nil
	}
	paths, err := n.Paths()
	if err != nil {
		return nil
	}
	own := make(map[string]peer.Path, len(paths.Peers))
	for _, p := range paths.Peers {
		own[p.Cluster+"/"+p.Worker] = p
	}
	return own
}

// inNetwork says how a worker is reached in the service network, which its data port
// stands in for where it is not.
func inNetwork(p *rpc.NetPeer, path peer.Path) {
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

// measure measures workers on request; if some are enough, only those without a fresh
// measurement.
func (r *Reporter) measure(ctx context.Context, workers []proxy.Worker, some bool) {
	if r.o.Distances == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	var peers []distance.Peer
	for _, w := range workers {
		if some && (r.o.Distances.meter.Distance(w.Cluster, w.Name).Measured || len(peers) >= maxNetPeers) {
			continue
		}
		peers = append(peers, distance.Peer{Cluster: w.Cluster, Worker: w.Name, Address: w.Address})
	}
	r.o.Distances.meter.MeasureNow(ctx, peers)
}
