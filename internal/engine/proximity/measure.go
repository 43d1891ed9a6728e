package proximity

import (
	"context"
	"sync"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/distance"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// askedService stands for what the cluster wants to be measured, among the services
	// that are measured because they are used: no service is named so.
	askedService = "what the cluster asks"
	// measureTimeout bounds an answer; shorter than the timeout of the cluster.
	measureTimeout = 2500 * time.Millisecond
)

// Measure measures distances for the cluster now, and keeps measuring the peers for a while,
// which makes the worker's own coordinate accurate.
func (r *Reporter) Measure(ctx context.Context, q rpc.MeasureAsk) (out rpc.Measured, err error) {
	if len(q.Peers) > rpc.MaxMeasurePeers || len(q.Targets) > rpc.MaxMeasureTargets {
		return rpc.Measured{}, wire.Problemf(400, "too-much", "ask for fewer at a time", "that are too many to measure",
			"%d peers and %d targets, at most %d and %d", len(q.Peers), len(q.Targets), rpc.MaxMeasurePeers,
			rpc.MaxMeasureTargets)
	}
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	out = rpc.Measured{V: wire.Version, Own: wire.Coordinate{Error: wire.UnknownError}}
	pinged := r.pingAll(ctx, q.Targets)
	defer func() { out.Targets = <-pinged }()
	if r.o.Distances == nil {
		for range q.Peers {
			out.Peers = append(out.Peers, rpc.MeasuredRTT{Why: "this worker measures nobody"})
		}
		return out, nil
	}
	m := r.o.Distances.meter
	peers := make([]distance.Peer, 0, len(q.Peers))
	for _, p := range q.Peers {
		if p.Cluster == r.o.Cluster && p.Worker == r.o.Worker {
			continue
		}
		peers = append(peers, distance.Peer{Cluster: p.Cluster, Worker: p.Worker, Address: p.Address})
	}
	m.MeasureNow(ctx, peers)
	if len(peers) > 0 {
		m.Want(askedService, peers)
	}
	for _, p := range q.Peers {
		rtt, why := m.Last(p.Cluster, p.Worker)
		out.Peers = append(out.Peers, rpc.MeasuredRTT{RTT: api.Duration(rtt), Why: why})
	}
	out.Own = m.Own()
	return out, nil
}

// pingAll measures hosts that are no workers, at the same time. What comes of it is sent
// once, in the order of the targets.
func (r *Reporter) pingAll(ctx context.Context, targets []string) <-chan []rpc.MeasuredRTT {
	out := make([]rpc.MeasuredRTT, len(targets))
	done := make(chan []rpc.MeasuredRTT, 1)
	var all sync.WaitGroup
	for k, target := range targets {
		host, port, ok := api.SplitTarget(target)
		if !ok {
			out[k].Why = "it is no address"
			continue
		}
		all.Go(func() {
			rtt, by, err := r.pinger.Ping(ctx, host, port)
			if err != nil {
				out[k].Why = err.Error()
				return
			}
			out[k].RTT, out[k].By = api.Duration(rtt), by
		})
	}
	go func() {
		all.Wait()
		done <- out
	}()
	return done
}
