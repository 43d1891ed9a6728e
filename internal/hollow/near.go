package hollow

import (
	"context"
	"hash/fnv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

const (
	// wide is the side of the square in which everybody lies, in seconds of round trip:
	// about that of a continent.
	wide = 0.05
	// access is what every path from there has in common, in seconds.
	access = 0.0005
	// exact is the error of coordinates: what is measured is what they say.
	exact = 0.01
	// measuredBy is how it was measured.
	measuredBy = "hollow"
)

// Measure implements engineclient.Client. Every worker and every host has a place that follows
// from its name alone, so that all hollow workers, in whichever process, agree on how far
// everything is, and it is so again after a restart.
func (h *Engine) Measure(_ context.Context, q rpc.MeasureAsk) (rpc.Measured, error) {
	if len(q.Peers) > rpc.MaxMeasurePeers || len(q.Targets) > rpc.MaxMeasureTargets {
		return rpc.Measured{}, wire.Problemf(400, "too-much", "ask for fewer at a time", "that are too many to measure",
			"%d peers and %d targets, at most %d and %d", len(q.Peers), len(q.Targets), rpc.MaxMeasurePeers,
			rpc.MaxMeasureTargets)
	}
	own := placeOf(h.cluster + "/" + h.worker)
	to := func(what string) rpc.MeasuredRTT {
		there := placeOf(what)
		return rpc.MeasuredRTT{RTT: api.Duration(own.RTT(&there)), By: measuredBy}
	}
	m := rpc.Measured{V: wire.Version, Own: own}
	for _, p := range q.Peers {
		m.Peers = append(m.Peers, to(p.Cluster+"/"+p.Worker))
	}
	for _, host := range q.Targets {
		m.Targets = append(m.Targets, to(host))
	}
	return m, nil
}

// placeOf is where a name lies.
func placeOf(name string) wire.Coordinate {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(name)) // it never fails
	n := hash.Sum64()
	// Names that differ in their last letters alone differ in few bits so far.
	n ^= n >> 33
	n *= 0xff51afd7ed558ccd
	n ^= n >> 33
	part := func(bits uint64) float64 { return float64(uint32(bits)) / (1 << 32) * wide }
	c := wire.Coordinate{Height: access, Error: exact}
	c.Vec[0], c.Vec[1] = part(n), part(n>>32)
	return c
}
