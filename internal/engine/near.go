package engine

import (
	"context"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/distance"
	"github.com/verge-edge/verge/internal/wire"
)

const (
	// nearService stands for what the cluster wants to be measured, among the services
	// that are measured because they are used: no service is named so.
	nearService = "what the cluster asks"
	// nearWithin bounds an answer; shorter than the cluster's patience.
	nearWithin = 2500 * time.Millisecond
)

// Measure says how far others are, because the cluster asks. It measures them now, and
// goes on measuring the peers for a while: that is how the own coordinate becomes good.
func (e *Engine) Measure(ctx context.Context, q wire.MeasureAsk) (wire.Measured, error) {
	if len(q.Peers) > wire.MaxMeasurePeers || len(q.Targets) > wire.MaxMeasureTargets {
		return wire.Measured{}, wire.Problemf(400, "too-much", "ask for fewer at a time", "that are too many to measure",
			"%d peers and %d targets, at most %d and %d", len(q.Peers), len(q.Targets), wire.MaxMeasurePeers, wire.MaxMeasureTargets)
	}
	if err := e.wait(ctx); err != nil {
		return wire.Measured{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, nearWithin)
	defer cancel()
	out := wire.Measured{V: wire.Version, Own: wire.Coordinate{Error: wire.UnknownError}}
	if e.kit.far == nil {
		for range q.Peers {
			out.Peers = append(out.Peers, wire.MeasuredRTT{Why: "this worker measures nobody"})
		}
		return out, nil
	}
	m := e.kit.far.meter
	peers := make([]distance.Peer, 0, len(q.Peers))
	for _, p := range q.Peers {
		if p.Cluster == e.opts.Config.Cluster && p.Worker == e.opts.Config.Worker {
			continue
		}
		peers = append(peers, distance.Peer{Cluster: p.Cluster, Worker: p.Worker, Address: p.Address})
	}
	m.MeasureNow(ctx, peers)
	if len(peers) > 0 {
		m.Want(nearService, peers)
	}
	for _, p := range q.Peers {
		rtt, why := m.Last(p.Cluster, p.Worker)
		out.Peers = append(out.Peers, wire.MeasuredRTT{RTT: api.Duration(rtt), Why: why})
	}
	out.Own = m.Own()
	return out, nil
}
