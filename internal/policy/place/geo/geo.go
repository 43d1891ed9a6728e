package geo

import (
	"math"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/wire"
)

// MaxKm is more than the distance of any two places.
const MaxKm = EarthKm * 4

// Center returns the centre of a location.
func Center(l *api.Location) api.Point { return api.Point{l.Latitude, l.Longitude} }

// RadiusKm returns the radius of a location in kilometres.
func RadiusKm(l *api.Location) float64 { return float64(l.Radius) / 1000 }

// EarthKm is the mean radius of the Earth. The Earth is not a sphere: distances
// are wrong by up to 0.5 %.
const EarthKm = 6371.0088

// KmPerDegree is the length of a degree of latitude, and the greatest length of a
// degree of longitude.
const KmPerDegree = EarthKm * math.Pi / 180

// DistanceKm is the great-circle distance of two points (haversine formula).
func DistanceKm(a, b api.Point) float64 {
	const rad = math.Pi / 180
	sinLat, sinLon := math.Sin((b[0]-a[0])*rad/2), math.Sin((b[1]-a[1])*rad/2)
	h := sinLat*sinLat + math.Cos(a[0]*rad)*math.Cos(b[0]*rad)*sinLon*sinLon
	return 2 * EarthKm * math.Asin(math.Sqrt(min(1, h)))
}

// Inside says whether p is in the polygon: whether a ray to the east crosses an
// odd number of its sides. A point on a side may be either.
func Inside(polygon []api.Point, p api.Point) bool {
	in := false
	for i, a := range polygon {
		b := polygon[(i+1)%len(polygon)]
		if (a[0] > p[0]) == (b[0] > p[0]) {
			continue
		}
		if p[1] < a[1]+(p[0]-a[0])/(b[0]-a[0])*(b[1]-a[1]) {
			in = !in
		}
	}
	return in
}

// MayTouch says whether the polygon may have a point in common with the disc of
// radius km around center. It says no only where that is proven.
func MayTouch(polygon []api.Point, center api.Point, km float64) bool {
	if len(polygon) == 0 || Inside(polygon, center) {
		return true
	}
	for i, a := range polygon {
		if sideMayTouch(a, polygon[(i+1)%len(polygon)], center, km, 10) {
			return true
		}
	}
	return false
}

// sideMayTouch halves a side until each piece is provably outside, or one may reach
// in. A side is straight in degrees; no point of it is further from the nearer end
// than half its length, which is bounded by taking a degree of longitude to be as
// long as at the equator.
func sideMayTouch(a, b, center api.Point, km float64, depth int) bool {
	near := min(DistanceKm(a, center), DistanceKm(b, center))
	if near <= km {
		return true
	}
	if near-math.Hypot(b[0]-a[0], b[1]-a[1])*KmPerDegree/2 > km*(1+amount.Slack) {
		return false
	}
	if depth == 0 {
		return true
	}
	m := api.Point{(a[0] + b[0]) / 2, (a[1] + b[1]) / 2}
	return sideMayTouch(a, m, center, km, depth-1) || sideMayTouch(m, b, center, km, depth-1)
}

// Disc returns the disc that contains the locations of workers, around their centre
// of gravity, rounded to about a kilometre, with a radius in whole kilometres; nil
// without locations.
func Disc(points []api.Point) *wire.Disc {
	if len(points) == 0 {
		return nil
	}
	var x, y, z float64
	for _, p := range points {
		lat, lon := p[0]*math.Pi/180, p[1]*math.Pi/180
		x += math.Cos(lat) * math.Cos(lon)
		y += math.Cos(lat) * math.Sin(lon)
		z += math.Sin(lat)
	}
	round := func(rad float64) float64 { return math.Round(rad*180/math.Pi*100)/100 + 0 }
	d := &wire.Disc{Center: api.Point{round(math.Atan2(z, math.Hypot(x, y))), round(math.Atan2(y, x))},
		Workers: len(points)}
	for _, p := range points {
		d.RadiusKm = max(d.RadiusKm, math.Ceil(DistanceKm(d.Center, p)*(1+amount.Slack)))
	}
	return d
}

// ValidPoint says whether p is on the Earth.
func ValidPoint(p api.Point) bool { return math.Abs(p[0]) <= 90 && math.Abs(p[1]) <= 180 }

// CleanPoint returns a copy, nil where p is impossible.
func CleanPoint(p *api.Point) *api.Point {
	if p == nil || !ValidPoint(*p) {
		return nil
	}
	q := *p
	return &q
}
