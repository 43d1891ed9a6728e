package place

import "github.com/verge-edge/verge/internal/policy/place/share"

// bid is a cluster that may take replicas.
type bid struct {
	id string
	share.Taker
	freeShare float64 // of the demand's dominant resource
	displaces bool    // instances of a lower priority would have to make room
	lacks     int     // objects that are not there
	entering  float64 // requests a second, where they count
	reach     reach
}

// before is the order of RankClusters.
func (b *bid) before(o *bid) bool {
	switch {
	case b.displaces != o.displaces:
		return o.displaces
	case b.reach != o.reach:
		return b.reach.compare(o.reach) < 0
	case b.lacks != o.lacks:
		return b.lacks < o.lacks
	case b.Expected != o.Expected:
		return b.Expected > o.Expected
	case b.Same != o.Same:
		return b.Same < o.Same
	case b.freeShare != o.freeShare:
		return b.freeShare > o.freeShare
	}
	return b.id < o.id
}

// beforeOf is the order of bids; led: by the requests that enter there first.
func beforeOf(led bool) func(a, b *bid) bool {
	if !led {
		return (*bid).before
	}
	return func(a, b *bid) bool {
		if r := byEntering(a, b); r != 0 {
			return r < 0
		}
		return a.before(b)
	}
}

// ranked is what a record shows of a bid.
func (b *bid) ranked() Ranked {
	r := Ranked{ID: b.id, Score: float64(b.Expected), Parts: map[string]float64{
		"expected": float64(b.Expected), "same": float64(b.Same), "free_share": b.freeShare,
	}}
	if b.reach.known {
		r.Parts["latency_ms"] = float64(b.reach.latency) / 1e6
	}
	return r
}
