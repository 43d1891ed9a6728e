package place

import (
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// unknownWish is what a round trip counts with that somebody wishes to be short and of
// which nothing is known: longer than those that are.
const unknownWish = 10 * time.Second

// PlaceRTT is how long a round trip to a place on the Earth is taken to be for each
// kilometre of the great circle: light in fibre needs 10 µs there and back, and paths
// of the Internet are about twice as long as the great circle.
const PlaceRTT = 20 * time.Microsecond

// rtt is the expected round trip from a worker; false where nothing is known.
func (t *Target) rtt(w *WorkerView) (time.Duration, bool) {
	if t.Worker != "" && t.Worker == w.ID {
		return 0, true
	}
	if d, ok := t.Direct[w.ID]; ok && d > 0 {
		return d.Std(), true
	}
	if t.Coord != nil && w.Coord != nil && w.Coord.Error < wire.UnknownError && t.Coord.Error < wire.UnknownError {
		return t.Coord.RTT(w.Coord) + t.Margin.Std(), true
	}
	if km, ok := t.kilometres(w); ok && t.Place {
		rtt := time.Duration(km * float64(PlaceRTT))
		if w.Coord != nil && w.Coord.Error < wire.UnknownError {
			rtt += time.Duration(w.Coord.Height * 1e9) // its access link
		}
		return rtt, true
	}
	return 0, false
}

// kilometres is the great circle from a worker; false where one of the two is nowhere.
func (t *Target) kilometres(w *WorkerView) (float64, bool) {
	if t.Worker != "" && t.Worker == w.ID {
		return 0, true
	}
	if t.Location == nil || w.Location == nil {
		return 0, false
	}
	km := geo.DistanceKm(*t.Location, *w.Location)
	if t.Far != "" {
		km += t.RadiusKm
	}
	return km, true
}

// tooFar names the first threshold that a worker does not keep, or passed. latency is
// the sum of the expected round trips that count with the scheduler.
func tooFar(w *WorkerView, req *Request) (latency time.Duration, r removal) {
	for n := range req.Latency {
		t := &req.Latency[n]
		if t.Free != "" {
			continue
		}
		nearest, km, kept := t.nearest(w)
		if t.Wish {
			latency += wished(nearest)
			continue
		}
		if !kept {
			f := far{rtt: nearest, km: km, which: n, may: t.may(w)}
			if t.Max > 0 && (nearest < 0 || nearest > t.Max.Std()) {
				return 0, removal{filter: fWorkerLatency, far: f}
			}
			return 0, removal{filter: fWorkerDistance, far: f}
		}
		if req.Scheduler == LDP {
			latency += max(0, nearest)
		}
	}
	return latency, removal{filter: passed}
}

// wished is what a round trip to what is to be near counts with: differences of less than
// a millisecond are those of the measurements.
func wished(rtt time.Duration) time.Duration {
	if rtt < 0 {
		return unknownWish
	}
	return rtt.Round(time.Millisecond)
}

// wishes says whether a request has any, so that latency counts with every scheduler.
func (r *Request) wishes() bool {
	return slices.ContainsFunc(r.Latency, func(t Threshold) bool { return t.Wish })
}

// nearest is the target that a worker is nearest to of those that keep the threshold,
// or of all where none does. What is not known is -1, and so is the distance where no
// distance is asked for and the round trip is known.
func (t *Threshold) nearest(w *WorkerView) (rtt time.Duration, km float64, kept bool) {
	rtt, km = -1, -1
	closest := math.Inf(1)
	for i := range t.Targets {
		target := &t.Targets[i]
		d, timed := target.rtt(w)
		k, placed := -1.0, false
		if t.Distance > 0 || !timed { // the great circle costs as much as all else
			k, placed = target.kilometres(w)
		}
		ok := (t.Max == 0 || timed && d <= t.Max.Std()) && (t.Distance == 0 || placed && k*1000 <= float64(t.Distance))
		// One that keeps it comes before all that do not; of the same kind the nearest.
		by := math.Inf(1)
		switch {
		case timed:
			by = float64(d)
		case placed && t.Max == 0:
			by = k * float64(PlaceRTT)
		}
		if ok == kept && by >= closest || kept && !ok {
			continue
		}
		rtt, km, kept, closest = -1, -1, ok, by
		if timed {
			rtt = d
		}
		if placed {
			km = k
		}
	}
	return rtt, km, kept
}

// Keeps says whether a worker keeps a threshold as far as is known: what it is away,
// -1 where that is not known or not asked for, and whether that is near enough.
func Keeps(w WorkerView, t Threshold) (rtt time.Duration, km float64, kept bool) {
	w.Location, w.Coord = geo.CleanPoint(w.Location), geo.CleanCoord(w.Coord)
	c := cleanThreshold(t)
	if c.Free != "" {
		return -1, -1, true
	}
	rtt, km, kept = c.nearest(&w)
	return rtt, km, kept || c.Wish
}

// rankLatency writes what counted of latency into what is shown of a candidate: with the
// scheduler ldp its score is the expected latency in milliseconds, unless nothing has one.
func (c *candidate) rankLatency(r *Ranked, req *Request) {
	ms := float64(c.latency) / 1e6
	if req.Scheduler != LDP {
		if req.wishes() {
			r.Parts["latency_ms"] = ms
		}
		return
	}
	r.Parts["latency_ms"], r.Parts["rom"] = ms, r.Score
	r.Score = ms
}
