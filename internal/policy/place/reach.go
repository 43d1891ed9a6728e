package place

import (
	"cmp"
	"time"

	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// How likely it is that workers of a cluster meet a threshold, judging by aggregates,
// most likely first.
const (
	keeps    = iota // its centre does
	mayKeep         // part of it may, or nothing is known
	unlikely        // by coordinates none does, which is no proof
)

// vacuumRTT is the shortest possible round trip per kilometre, at the speed of light.
const vacuumRTT = 6671 * time.Nanosecond

// TargetIn returns a target that is somewhere in a cluster, positioned by the aggregate of
// its workers.
func TargetIn(cluster string, a wire.Aggregate) Target {
	a = cleanAggregate(a)
	t := Target{ID: cluster, Cluster: cluster}
	if d := a.Disc; d != nil {
		t.Location, t.RadiusKm, t.Whole = &d.Center, d.RadiusKm, d.Workers >= a.Workers+a.Suspect+a.Cordoned
	}
	if r := a.Around; r != nil && r.Outside > 0 {
		t.Coord, t.Radius = &r.Center, r.Radius
	}
	return t
}

// reach is how far a cluster is from everything that a request must be near.
type reach struct {
	chance  int           // keeps, mayKeep or unlikely: of the least likely threshold
	latency time.Duration // expected, the sum over the thresholds where it is known
	known   bool          // for at least one threshold
}

// compare orders clusters: the likelier to meet the thresholds first, then those with known
// latency, then the nearer.
func (r reach) compare(o reach) int {
	return cmp.Or(cmp.Compare(r.chance, o.chance), cmp.Compare(count(!r.known), count(!o.known)),
		cmp.Compare(r.latency, o.latency))
}

// reaches returns how far a cluster is from what a request must be near, or the threshold
// that provably none of its workers meets.
func reaches(c *ClusterView, req *Request) (reach, removal) {
	var out reach
	for n := range req.Latency {
		t := &req.Latency[n]
		if t.Free != "" || t.Wish || len(t.Targets) == 0 {
			continue
		}
		best, nearest, kept := reach{chance: unlikely}, far{rtt: -1, km: -1, which: n}, false
		for i := range t.Targets {
			r, f, possible := t.from(c, &t.Targets[i])
			f.which = n
			switch {
			case possible && (!kept || r.compare(best) < 0):
				best, kept = r, true
			case !kept && f.km >= 0 && (nearest.km < 0 || f.km < nearest.km):
				nearest = f
			}
		}
		if !kept {
			if t.Max == 0 || t.Distance > 0 && nearest.km*1000 > float64(t.Distance) {
				return reach{}, removal{filter: fDistance, far: nearest}
			}
			return reach{}, removal{filter: fLatency, far: nearest}
		}
		out.chance = max(out.chance, best.chance)
		if best.known {
			out.known, out.latency = true, out.latency+best.latency
		}
	}
	return out, removal{filter: passed}
}

// from returns how far a cluster is from one target. possible is false if the aggregate
// proves that none of its workers meets the threshold; f is then the least distance.
func (t *Threshold) from(c *ClusterView, target *Target) (r reach, f far, possible bool) {
	if target.Cluster == c.ID && c.ID != "" {
		return reach{known: true}, f, true
	}
	a := &c.Aggregate
	f = far{rtt: -1, km: -1}
	asksPlace := t.Distance > 0 || target.Place
	if target.Location == nil || a.Disc == nil {
		// Workers without a known location meet no distance.
		if asksPlace && a.Disc == nil && len(a.Architectures) > 0 {
			return r, f, false
		}
	} else {
		centres := geo.DistanceKm(a.Disc.Center, *target.Location)
		f.km = max(0, centres-a.Disc.RadiusKm-target.RadiusKm)
		if t.Distance > 0 {
			if (target.Place || target.Whole) && f.km*1000 > float64(t.Distance) {
				return r, f, false
			}
			if centres*1000 > float64(t.Distance) {
				r.chance = mayKeep
			}
		}
		perKm := PlaceRTT
		if !target.Place {
			perKm = vacuumRTT
		}
		everywhere := target.Place || target.Whole && a.Disc.Workers >= a.Workers
		if f.rtt = time.Duration(f.km * float64(perKm)); everywhere && t.Max > 0 && f.rtt > t.Max.Std() {
			return r, f, false
		}
		r.latency, r.known = time.Duration(centres*float64(PlaceRTT)), true
	}
	least := time.Duration(0)
	if x := a.Around; x != nil && x.Outside > 0 && target.Coord != nil {
		r.latency, r.known = target.Coord.RTT(&x.Center)+target.Margin.Std(), true
		least = r.latency - x.Radius.Std() - target.Radius.Std()
	}
	switch {
	case t.Max > 0 && least > t.Max.Std():
		r.chance = unlikely
	case t.Max > 0 && (!r.known || r.latency > t.Max.Std()), t.Distance > 0 && f.km < 0:
		r.chance = mayKeep
	}
	return r, f, true
}
