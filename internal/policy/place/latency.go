package place

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// LDP is the scheduler that ranks by expected latency.
const LDP = "ldp"

// unknownWish is what a round trip counts with that somebody wishes to be short and of
// which nothing is known: longer than those that are.
const unknownWish = 10 * time.Second

// Threshold is the most that something may be away, with what is known of where it
// is. It removes workers whatever the scheduler.
type Threshold struct {
	// To is what the descriptor names: a service, a place or an address.
	To string `json:"to"`
	// Max is the longest round trip, 0: any. Distance is the longest great circle, 0: any.
	Max      api.Duration `json:"max,omitempty"`
	Distance api.Distance `json:"distance,omitempty"`
	// Wish: there is no bound, and it removes nobody. Whatever the scheduler, workers with
	// shorter round trips come first, by whole milliseconds.
	Wish bool `json:"wish,omitempty"`
	// Targets, of which one must be near enough in both.
	Targets []Target `json:"targets,omitempty"`
	// Free is why the threshold removes nobody now, such as that there is no instance
	// of the service yet; "" where it counts.
	Free string `json:"free,omitempty"`
	// Unknown is why it is not known where the targets are; "" where it is.
	Unknown string `json:"unknown,omitempty"`
}

// Target is one thing to be near.
type Target struct {
	// ID of an instance, or an address.
	ID string `json:"id"`
	// Worker that has it, "" where it is on none of this cluster. It is next to itself.
	Worker string `json:"worker,omitempty"`
	// Far names the worker of another cluster that has it, "" where none does.
	Far string `json:"far,omitempty"`
	// Cluster that has it somewhere, where the root decides: Location and Coord are the
	// centre of its workers then, and they are within RadiusKm and Radius of it. Whole:
	// all of them are known to be within RadiusKm. "" where a cluster decides; then one
	// that is Far is anywhere within RadiusKm of Location.
	Cluster  string       `json:"cluster,omitempty"`
	RadiusKm float64      `json:"radius_km,omitempty"`
	Radius   api.Duration `json:"radius,omitempty"`
	Whole    bool         `json:"whole,omitempty"`
	// Coord is where it is in the space of round trips, nil where that is not known.
	// Margin is how much longer than by Coord the round trip may be.
	Coord  *wire.Coordinate `json:"coord,omitempty"`
	Margin api.Duration     `json:"margin,omitempty"`
	// Place: it is a place on the Earth, to which the round trip is estimated (PlaceRTT).
	Place bool `json:"place,omitempty"`
	// Direct are round trips that were measured, by worker: they count before Coord.
	Direct map[string]api.Duration `json:"direct,omitempty"`
	// Location on the Earth, nil where that is not known.
	Location *api.Point `json:"location,omitempty"`
}

// PlaceRTT is how long a round trip to a place on the Earth is taken to be for each
// kilometre of the great circle: light in fibre needs 10 µs there and back, and paths
// of the Internet are about twice as long as the great circle.
const PlaceRTT = 20 * time.Microsecond

// far is what a worker is away from what a request must be near.
type far struct {
	rtt   time.Duration // to the nearest target, -1: not known
	km    float64       // to the nearest target, -1: not known
	which int           // index of the threshold
	may   bool          // it may be near enough all the same (MayKeep)
}

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
	km := distanceKm(*t.Location, *w.Location)
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
	w.Location, w.Coord = cleanPoint(w.Location), cleanCoord(w.Coord)
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

// latencyWords are those of a worker whose round trip is too long.
func (s *sieve) latencyWords(r *removal) words {
	t := &s.req.Latency[r.far.which]
	most := fmt.Sprintf("%s of %s", t.Max, t.To)
	one := fmt.Sprintf("is not within %s: %s away", most, milliseconds(r.far.rtt))
	switch {
	case r.far.rtt < 0:
		one = "is not known to be within " + most + t.because()
	case r.far.may:
		one = fmt.Sprintf("is not known to be within %s: up to %s away by coordinates, in another cluster", most, milliseconds(r.far.rtt))
	}
	return words{"latency", one, one, "are not known to be within " + most + t.because()}
}

func (t *Threshold) because() string {
	if t.Unknown == "" {
		return ""
	}
	return " (" + t.Unknown + ")"
}

// distanceWords are those of a worker that is too far on the Earth.
func (s *sieve) distanceWords(r *removal) words {
	t := &s.req.Latency[r.far.which]
	most := fmt.Sprintf("%s of %s", t.Distance, t.To)
	one := fmt.Sprintf("is not within %s: %s km away", most, tenths(r.far.km))
	switch {
	case r.far.km < 0:
		one = "is not known to be within " + most
	case r.far.may:
		one = fmt.Sprintf("is not known to be within %s: up to %s km away, in another cluster", most, tenths(r.far.km))
	case t.somewhere():
		one = fmt.Sprintf("is not within %s: up to %s km away", most, tenths(r.far.km))
	}
	return words{"distance", one, one, "are not known to be within " + most}
}

// milliseconds writes a round trip, rounded up, so that what is too long never reads
// as if it were short enough.
func milliseconds(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%.3fms", math.Ceil(float64(d)/1e3)/1e3)
	}
	return fmt.Sprintf("%.1fms", math.Ceil(float64(d)/1e5)/10)
}

// cleanThreshold returns a copy without what is impossible.
func cleanThreshold(t Threshold) Threshold {
	t.Max, t.Distance = max(0, t.Max), max(0, t.Distance)
	targets := t.Targets
	t.Targets = nil
	for i := range targets {
		t.Targets = append(t.Targets, cleanTarget(targets[i]))
	}
	return t
}

// maxRadius is more than a coordinate can be away: sums of it stay durations.
const maxRadius = api.Duration(time.Hour)

// cleanTarget returns a copy without what is impossible.
func cleanTarget(t Target) Target {
	t.Location, t.Coord, t.Margin = cleanPoint(t.Location), cleanCoord(t.Coord), min(max(0, t.Margin), maxRadius)
	t.Direct, t.Radius = cloneMap(t.Direct), min(max(0, t.Radius), maxRadius)
	if !(t.RadiusKm >= 0) || t.RadiusKm > maxKm {
		t.RadiusKm = maxKm
	}
	return t
}

// cleanCoord returns a copy, nil where c is impossible or says nothing.
func cleanCoord(c *wire.Coordinate) *wire.Coordinate {
	if c == nil || !c.Valid() || c.Error >= wire.UnknownError {
		return nil
	}
	q := *c
	return &q
}
