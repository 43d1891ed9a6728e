package geo_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b api.Point
		km   float64
	}{
		{api.Point{48.14, 11.58}, api.Point{48.14, 11.58}, 0},
		{api.Point{48.1374, 11.5755}, api.Point{52.5200, 13.4050}, 504.3}, // Munich, Berlin
		{api.Point{0, 0}, api.Point{0, 180}, math.Pi * geo.EarthKm},
		{api.Point{90, 0}, api.Point{-90, 123}, math.Pi * geo.EarthKm},
		{api.Point{0, 179.5}, api.Point{0, -179.5}, geo.KmPerDegree}, // over the 180th meridian
		{api.Point{60, 10}, api.Point{60, 11}, 55.6},
	} {
		if got := geo.DistanceKm(c.a, c.b); math.Abs(got-c.km) > 0.1 {
			t.Errorf("%v to %v: %.2f km, want %.2f", c.a, c.b, got, c.km)
		}
		if back := geo.DistanceKm(c.b, c.a); back != geo.DistanceKm(c.a, c.b) {
			t.Errorf("%v to %v is not as far as back", c.a, c.b)
		}
	}
}

func TestInside(t *testing.T) {
	// A U, open to the north.
	u := []api.Point{{0, 0}, {0, 3}, {3, 3}, {3, 2}, {1, 2}, {1, 1}, {3, 1}, {3, 0}}
	for _, c := range []struct {
		p    api.Point
		want bool
	}{{api.Point{.5, 1.5}, true}, {api.Point{2, .5}, true}, {api.Point{2, 2.5}, true}, {api.Point{2, 1.5}, false}, {api.Point{2, -1}, false}, {api.Point{4, .5}, false}} {
		if got := geo.Inside(u, c.p); got != c.want {
			t.Errorf("%v: %v", c.p, got)
		}
	}
	if geo.Inside(nil, api.Point{}) || geo.Inside([]api.Point{{90, 0}}, api.Point{90, 0}) {
		t.Error("there is something in nothing")
	}
}

// The bound on a polygon and a disc only says no where no point of the polygon is
// in the disc, and says it of nearly all that are some way off.
func TestMayTouch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lat, lon := rapid.Float64Range(-80, 80).Draw(t, "latitude"), rapid.Float64Range(-170, 170).Draw(t, "longitude")
		size := rapid.Float64Range(0.01, 8).Draw(t, "size")
		var polygon []api.Point
		n := rapid.IntRange(3, 8).Draw(t, "corners")
		for i := range n {
			r := size * rapid.Float64Range(0.3, 1).Draw(t, "r")
			s, c := math.Sincos(2 * math.Pi * float64(i) / float64(n))
			polygon = append(polygon, api.Point{lat + r*s, lon + r*c})
		}
		center := api.Point{lat + rapid.Float64Range(-9, 9).Draw(t, "north"), lon + rapid.Float64Range(-9, 9).Draw(t, "east")}
		km := rapid.Float64Range(0, 500).Draw(t, "km")
		least := math.Inf(1)
		for i, a := range polygon {
			b := polygon[(i+1)%n]
			for f := 0.0; f <= 1; f += 1.0 / 64 {
				least = min(least, geo.DistanceKm(center, api.Point{a[0] + f*(b[0]-a[0]), a[1] + f*(b[1]-a[1])}))
			}
		}
		touches := geo.Inside(polygon, center) || least <= km
		if got := geo.MayTouch(polygon, center, km); touches && !got {
			t.Fatalf("a point is %.2f km from the centre of a disc of %.2f km", least, km)
		} else if got && !touches && least > km*1.05+5 {
			t.Fatalf("the nearest point is %.2f km from the centre of a disc of %.2f km", least, km)
		}
	})
}

// Whatever the workers are, they are in the disc; its size does not tell where
// one of them is.
func TestDisc(t *testing.T) {
	if geo.Disc(nil) != nil {
		t.Error("a disc around nothing")
	}
	if d := geo.Disc([]api.Point{{48.137412, 11.575543}}); *d != (wire.Disc{Center: api.Point{48.14, 11.58}, RadiusKm: 1, Workers: 1}) {
		t.Errorf("a single worker: %+v", *d)
	}
	if d := geo.Disc([]api.Point{{10, 179}, {10, -179}}); math.Abs(d.Center[1]) != 180 || d.RadiusKm > 120 {
		t.Errorf("on both sides of the 180th meridian: %+v", *d)
	}
	rapid.Check(t, func(t *rapid.T) {
		var points []api.Point
		for range rapid.IntRange(1, 20).Draw(t, "workers") {
			points = append(points, api.Point{rapid.Float64Range(-90, 90).Draw(t, "latitude"), rapid.Float64Range(-180, 180).Draw(t, "longitude")})
		}
		d := geo.Disc(points)
		if d.Workers != len(points) || !geo.ValidPoint(d.Center) || d.RadiusKm != math.Trunc(d.RadiusKm) {
			t.Fatalf("%+v", *d)
		}
		for _, p := range points {
			if km := geo.DistanceKm(d.Center, p); km > d.RadiusKm {
				t.Fatalf("%v is %.3f km from the centre of %+v", p, km, *d)
			}
		}
	})
}
