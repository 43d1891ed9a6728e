package place

import (
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// If something in other clusters must be near the instances of a service, those clusters
// learn where these are by the disc and ball of their cluster, coarser than what the root
// knows. A position per instance would reveal single workers.

const (
	// coarseDegrees is the rounding of a centre on the Earth, about 11 km or less.
	coarseDegrees = 0.1
	// coarseKm is the step that a radius on the Earth is rounded up to.
	coarseKm = 5
	// spareKm and spareRTT (seconds) are the least margin added to a radius, so that small
	// changes are not reported.
	spareKm  = 2
	spareRTT = 0.002
	// steadyKm is how much a reported radius may be too long before it is reported anew,
	// which takes a message to every cluster. coarseDisc adds less than that.
	steadyKm = 20
	// coarseRTT is the rounding of the numbers of a ball, in seconds, and leastBall the
	// least radius: the exact ball of a single worker is a point.
	coarseRTT = 0.005
	leastBall = 0.010
	// steadyRTT is steadyKm for a ball, in seconds; coarseBall adds less than that.
	steadyRTT = 0.015
)

// WhereOf returns what other clusters learn of where the workers of a cluster are; what is
// not known of all of them is omitted. old, the previous report, may be nil. It is kept while
// it is still true and not much coarser. While workers are suspect or cordoned nothing new is
// reported, since aggregates do not cover these workers.
func WhereOf(a wire.Aggregate, old *wire.Where) *wire.Where {
	a = cleanAggregate(a)
	var was, w wire.Where
	if old != nil {
		was = *old
	}
	if d := a.Disc; d != nil && d.Workers > 0 && d.Workers >= a.Workers && d.RadiusKm < geo.MaxKm {
		switch {
		case was.Disc != nil && stillKm(was.Disc, d):
			w.Disc = was.Disc
		case a.Suspect+a.Cordoned == 0:
			w.Disc = coarseDisc(d)
		}
	}
	if r := a.Around; r != nil && r.Outside > 0 && r.Workers > 0 && r.Workers >= a.Workers {
		switch {
		case was.Around != nil && stillRTT(was.Around, r):
			w.Around = was.Around
		case a.Suspect+a.Cordoned == 0:
			w.Around = coarseBall(r)
		}
	}
	if w.Disc == nil && w.Around == nil {
		return nil
	}
	return &w
}

// coarseDisc returns a coarser disc that contains d.
func coarseDisc(d *wire.Disc) *wire.Disc {
	round := func(x float64) float64 { return math.Round(math.Round(x/coarseDegrees)*coarseDegrees*10)/10 + 0 }
	c := api.Point{round(d.Center[0]), round(d.Center[1])}
	return &wire.Disc{Center: c, RadiusKm: upTo(d.RadiusKm+geo.DistanceKm(c, d.Center)+spareKm, coarseKm)}
}

// coarseBall returns a coarser ball that contains r. The part common to all paths (height and
// adjustment) is rounded up.
func coarseBall(r *wire.Around) *wire.Around {
	out := &wire.Around{Center: r.Center}
	c := &out.Center
	for i, x := range c.Vec {
		c.Vec[i] = math.Round(math.Round(x/coarseRTT)*coarseRTT*1e3)/1e3 + 0
	}
	c.Height, c.Adjustment = upTo(c.Height, coarseRTT), upTo(c.Adjustment, coarseRTT)
	radius := max(leastBall, upTo(r.Radius.Std().Seconds()+geo.Apart(c, &r.Center)+spareRTT, coarseRTT))
	out.Radius = api.Duration(math.Round(radius*1e3) * 1e6)
	return out
}

// upTo rounds up to a multiple of step, which is in whole thousandths.
func upTo(x, step float64) float64 {
	return math.Round(math.Ceil(x/step-1e-9)*step*1e3)/1e3 + 0
}

// stillKm says whether the told disc contains the actual one and is not much larger.
func stillKm(told, is *wire.Disc) bool {
	return geo.DistanceKm(told.Center, is.Center)+is.RadiusKm <= told.RadiusKm+1e-6 &&
		told.RadiusKm <= is.RadiusKm+steadyKm
}

// stillRTT is stillKm in the space of round trips.
func stillRTT(told, is *wire.Around) bool {
	toldRadius, isRadius := told.Radius.Std().Seconds(), is.Radius.Std().Seconds()
	more := told.Center.Height + told.Center.Adjustment - is.Center.Height - is.Center.Adjustment
	return geo.Apart(&told.Center, &is.Center)+isRadius <= toldRadius+1e-9 && toldRadius <= isRadius+steadyRTT &&
		more >= -1e-9 && more <= steadyRTT
}

// Somewhere returns the target of an instance in another cluster, of which only where is
// known (nil: nothing). It counts as on the far side of that area: what is near enough then
// is so wherever the instance is, as far as coordinates can tell. comparable says whether
// coordinates of the asking cluster can be compared with those of others.
func Somewhere(id, far string, where *wire.Where, comparable bool) Target {
	t := Target{ID: id, Far: far}
	if where == nil {
		return t
	}
	if d := where.Disc; d != nil {
		c := d.Center
		t.Location, t.RadiusKm = &c, d.RadiusKm
	}
	if r := where.Around; r != nil && comparable {
		c := r.Center
		t.Coord, t.Margin = &c, r.Radius
	}
	return cleanTarget(t)
}

// MayKeep says whether a worker may meet a threshold that it is not known to meet, because
// a target is somewhere in another cluster.
func MayKeep(w WorkerView, t Threshold) bool { return t.may(&w) }

func (t *Threshold) may(w *WorkerView) bool {
	for i := range t.Targets {
		target := &t.Targets[i]
		if target.Far == "" {
			continue
		}
		if d := target.Direct[w.ID].Std(); d > 0 && (t.Distance == 0 || t.Max > 0 && d > t.Max.Std()) {
			continue // it was measured
		}
		if t.Distance > 0 && target.Location != nil && w.Location != nil &&
			(geo.DistanceKm(*target.Location, *w.Location)-target.RadiusKm)*1000 > float64(t.Distance) {
			continue
		}
		return true
	}
	return false
}

// somewhere says whether only an area on the Earth is known of some target.
func (t *Threshold) somewhere() bool {
	for i := range t.Targets {
		if t.Targets[i].Far != "" && t.Targets[i].Location != nil {
			return true
		}
	}
	return false
}
