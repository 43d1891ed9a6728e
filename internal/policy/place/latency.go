package place

import (
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// unknownWish is the latency counted for a wish whose round trip is unknown: longer than any
// known one.
const unknownWish = 10 * time.Second

// PlaceRTT is the assumed round trip to a place on the Earth per kilometre of the great
// circle: light in fibre needs 10 µs there and back, and Internet paths are about twice as
// long as the great circle.
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

// kilometres returns the great circle from a worker; false if either location is unknown.
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

// tooFar returns the first threshold that a worker does not meet, or passed. latency is the
// sum of the expected round trips that count for the scheduler.
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

// wished returns the latency that a wish counts, in whole milliseconds: smaller differences
// are measurement noise.
func wished(rtt time.Duration) time.Duration {
	if rtt < 0 {
		return unknownWish
	}
	return rtt.Round(time.Millisecond)
}

// wishes says whether a request has wishes, so that latency counts with every scheduler.
func (r *Request) wishes() bool {
	return slices.ContainsFunc(r.Latency, func(t Threshold) bool { return t.Wish })
}

// nearest returns the latency and distance of the worker's nearest target among those that
// keep the threshold, or among all if none does. Unknown values are -1, and so is the
// distance if none is requested and the round trip is known.
func (t *Threshold) nearest(w *WorkerView) (rtt time.Duration, km float64, kept bool) {
	rtt, km = -1, -1
	closest := math.Inf(1)
	for i := range t.Targets {
		target := &t.Targets[i]
		d, timed := target.rtt(w)
		k, placed := -1.0, false
		if t.Distance > 0 || !timed { // the great circle costs as much as everything else
			k, placed = target.kilometres(w)
		}
		ok := (t.Max == 0 || timed && d <= t.Max.Std()) && (t.Distance == 0 || placed && k*1000 <= float64(t.Distance))
		// Targets that keep it come first, then the nearest.
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

// Keeps returns a worker's latency and distance to the nearest target of a threshold, -1 if
// unknown or not requested, and whether it is known to be near enough.
func Keeps(w WorkerView, t Threshold) (rtt time.Duration, km float64, kept bool) {
	w.Location, w.Coord = geo.CleanPoint(w.Location), geo.CleanCoord(w.Coord)
	c := cleanThreshold(t)
	if c.Free != "" {
		return -1, -1, true
	}
	rtt, km, kept = c.nearest(&w)
	return rtt, km, kept || c.Wish
}

// rankLatency adds the latency that counted to the record of a candidate. With the scheduler
// ldp the score is the expected latency in milliseconds.
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
