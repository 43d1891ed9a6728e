package place

import (
	"cmp"
	"time"

	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// How likely it is that workers of a cluster keep an agreement, as far as aggregates
// say: most first.
const (
	keeps    = iota // its centre does
	mayKeep         // a part of it may, or nothing is known
	unlikely        // by coordinates none does, and they prove nothing
)

// vacuumRTT is how long a round trip takes at least for each kilometre: the light needs
// that long.
const vacuumRTT = 6671 * time.Nanosecond

// TargetIn is a target that is somewhere in a cluster, of which its aggregate tells no
// more than where its workers are.
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

// reach is what a cluster is away from all that a request must be near.
type reach struct {
	chance  int           // keeps, mayKeep or unlikely: of the threshold that is kept least
	latency time.Duration // expected, the sum over the thresholds of which it is known
	known   bool          // of at least one
}

// compare orders clusters: those first that are likelier to keep what is asked for, then
// the nearer ones.
func (r reach) compare(o reach) int {
	return cmp.Or(cmp.Compare(r.chance, o.chance), cmp.Compare(count(!r.known), count(!o.known)),
		cmp.Compare(r.latency, o.latency))
}

// reaches says what a cluster is away from what a request must be near, or which
// threshold is proven to be kept by none of its workers.
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

// from is what a cluster is away from one target; possible unless its aggregate proves
// that none of its workers keeps the threshold. Then it says how far it is at least.
func (t *Threshold) from(c *ClusterView, target *Target) (r reach, f far, possible bool) {
	if target.Cluster == c.ID && c.ID != "" {
		return reach{known: true}, f, true
	}
	a := &c.Aggregate
	f = far{rtt: -1, km: -1}
	asksPlace := t.Distance > 0 || target.Place
	if target.Location == nil || a.Disc == nil {
		// Workers that do not know where they are keep no distance.
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
