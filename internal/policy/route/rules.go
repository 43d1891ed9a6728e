package route

import (
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
)

// equal is the rule of policies without preferences: round robin, random, and instance, whose
// candidates are all the same replica.
func equal(_ []*Endpoint, w []float64) {
	for i := range w {
		w[i] = 1
	}
}

// local shares equally between those on the own worker; false if there are none.
func local(c []*Endpoint, w []float64) (any bool) {
	for i, e := range c {
		if e.Local {
			w[i], any = 1, true
		}
	}
	return any
}

// weighted shares by weight. An unknown weight counts as the median of the others: the endpoint is
// probably like them.
func weighted(c []*Endpoint, w []float64) {
	var known []float64
	for _, e := range c {
		if e.Weight > 0 && !math.IsInf(e.Weight, 0) {
			known = append(known, e.Weight)
		}
	}
	if len(known) == 0 {
		equal(c, w)
		return
	}
	substitute, most := median(known), slices.Max(known)
	for i, e := range c {
		w[i] = substitute / most
		if e.Weight > 0 && !math.IsInf(e.Weight, 0) {
			w[i] = e.Weight / most
		}
	}
}

// closest shares equally between those on the own worker; if there are none, between the nearest
// measured ones; if none was measured, between the nearest estimated ones; else between all. A
// measured distance comes before a shorter estimate: estimates name the right one in a third of the
// cases.
func closest(c []*Endpoint, w []float64) {
	if local(c, w) {
		return
	}
	best, least := Unknown, time.Duration(0)
	for _, e := range c {
		switch s := e.source(); {
		case s > best:
			best, least = s, e.RTT
		case s == best && s != Unknown:
			least = min(least, e.RTT)
		}
	}
	if best == Unknown {
		equal(c, w)
		return
	}
	for i, e := range c {
		if e.source() == best && e.RTT <= least+Tie(least) {
			w[i] = 1
		}
	}
}

// Tie is how much longer than the shortest a round trip may be to count as the same: 2 %, at least
// 0.1 ms. Measurements do not distinguish them, and requests would jump between them.
func Tie(shortest time.Duration) time.Duration { return max(shortest/50, 100*time.Microsecond) }

// proximity is (1-alpha)/N + alpha·P, where P falls with the distance as the decay
// function says (proxy-mity, CCGrid 2019, equations 3 to 6).
type proximity struct{ api.Policy }

func (p proximity) shares(c []*Endpoint, w []float64) {
	l := p.distances(c)
	nearest := slices.Min(append(l, math.Inf(1)))
	total := 0.0
	for i, x := range l {
		// Relative to the nearest, which is 1: the shares are the same, and only what is negligible
		// next to it underflows.
		switch p.Decay {
		case api.DecayInverse: // the same without beta
			w[i] = nearest / x
		case api.DecayPower:
			w[i] = math.Pow(nearest/x, p.Beta)
		default:
			w[i] = math.Exp(-p.Beta * (x - nearest))
		}
		total += w[i]
	}
	for i := range w {
		w[i] = (1-p.Alpha)/float64(len(w)) + p.Alpha*w[i]/total
	}
}

// distances of the candidates in milliseconds, all above 0. Those on the own worker get one that
// does not draw everything there; an unknown one counts as the median of the known.
func (p proximity) distances(c []*Endpoint) []float64 {
	const ms = float64(time.Millisecond)
	var known []float64
	for _, e := range c {
		if !e.Local && e.source() != Unknown {
			known = append(known, float64(e.RTT)/ms)
		}
	}
	own, unknown := float64(p.LocalRTT)/ms, 1.0
	if len(known) > 0 {
		unknown = median(known)
	}
	if own == 0 {
		own = 0.9 * slices.Min(append(known, unknown))
	}
	l := make([]float64, len(c))
	for i, e := range c {
		switch {
		case e.Local:
			l[i] = own
		case e.source() == Unknown:
			l[i] = unknown
		default:
			l[i] = float64(e.RTT) / ms
		}
	}
	return l
}

// median of at least one value; it sorts them.
func median(x []float64) float64 {
	slices.Sort(x)
	n := len(x)
	if n%2 == 1 {
		return x[n/2]
	}
	return (x[n/2-1] + x[n/2]) / 2
}
