package coord_test

import (
	"math"
	"math/rand/v2"
	"time"
)

// hostile is a network that no coordinates fit, as between phones and homes: nodes with access
// links of a few to some tens of milliseconds, in a square of 80 ms, between which each pair
// takes a path of its own. Its length is drawn from a lognormal law around the distance
// (sigma 0.6); a fifth of the pairs takes a detour besides, of a Pareto law (1.5) with no upper
// limit below 5 s; the directions differ by a tenth. Nearly all nodes have triangles whose long
// side is longer than the two others together. It is drawn from the seed, of no data set.
func hostile(n int, seed uint64) [][]time.Duration {
	rng := rand.New(rand.NewPCG(seed, 21))
	type node struct{ x, y, access float64 }
	var nodes []node
	for range n {
		nodes = append(nodes, node{rng.Float64() * 80, rng.Float64() * 80, 5 * math.Exp(0.8*rng.NormFloat64())})
	}
	out := make([][]time.Duration, n)
	for i, a := range nodes {
		out[i] = make([]time.Duration, n)
		for j, b := range nodes[:i] {
			ms := (math.Hypot(a.x-b.x, a.y-b.y) + a.access + b.access) * math.Exp(0.6*rng.NormFloat64())
			if rng.Float64() < 0.2 {
				ms *= math.Pow(1-rng.Float64(), -1/1.5)
			}
			for _, at := range []*time.Duration{&out[i][j], &out[j][i]} {
				*at = time.Duration(1e6 * min(ms*math.Exp(0.1*rng.NormFloat64()), 5000))
			}
		}
	}
	return out
}

// violations is the share of triangles whose longest side is longer than the others together.
func violations(rtt [][]time.Duration, seed uint64) float64 {
	const draws = 100_000
	rng := rand.New(rand.NewPCG(seed, 22))
	wrong := 0
	for range draws {
		three := rng.Perm(len(rtt))[:3]
		a, b, c := rtt[three[0]][three[1]], rtt[three[1]][three[2]], rtt[three[0]][three[2]]
		if longest := max(a, b, c); 2*longest > a+b+c {
			wrong++
		}
	}
	return float64(wrong) / draws
}
