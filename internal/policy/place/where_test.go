package place

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/wire"
)

// augsburg is 57 km from Munich, Berlin 504 km.
var augsburg = api.Point{48.37, 10.90}

// inMunich is what the cluster of Munich tells of where it is.
func inMunich(km float64) *wire.Where {
	return &wire.Where{Disc: &wire.Disc{Center: munich, RadiusKm: km}}
}

// An instance in another cluster is anywhere in its disc: near enough is who is so to all
// of it, and the reason says what is known of the others.
func TestDistanceToAServiceOfAnotherCluster(t *testing.T) {
	workers := lined(3)
	workers[0].Location, workers[1].Location = &berlin, &augsburg
	near := func(where *wire.Where) Threshold {
		return Threshold{To: "db", Distance: 100_000, Targets: []Target{Somewhere("app.db.0", "munich/w-1", where, false)}}
	}
	for _, c := range []struct {
		name   string
		th     Threshold
		chosen string
		said   string // of the worker at Augsburg
		may    bool   // as far as is known of it
	}{
		{"its disc is near", near(inMunich(30)), "w1", "", true},
		{"a part of its disc is", near(inMunich(60)), "", "w1: is not known to be within 100km of db: up to 117 km away, in another cluster", true},
		{"nothing is told", near(nil), "", "w1: is not known to be within 100km of db", true},
	} {
		d := Schedule(workers, nearRequest("rom", c.th))
		if d.Chosen != c.chosen {
			t.Errorf("%s: %q: %s", c.name, d.Chosen, d.Reason)
		}
		alone := Schedule(workers[1:2], nearRequest("rom", c.th))
		if got := reasonOf(alone); got != c.said {
			t.Errorf("%s: %q, want %q", c.name, got, c.said)
		}
		if MayKeep(workers[1], c.th) != c.may {
			t.Errorf("%s: may keep it: %t", c.name, !c.may)
		}
	}
	th := near(inMunich(60))
	if MayKeep(workers[0], th) {
		t.Error("Berlin may be within 100 km of a disc of 60 km at Munich")
	}
	if got, want := reasonOf(Schedule(workers[:1], nearRequest("rom", th))), "w0: is not within 100km of db: up to 564 km away"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// reasonOf is the example of the only filter; "" where nothing was removed.
func reasonOf(d Decision) string {
	if len(d.Filtered) == 0 {
		return ""
	}
	return d.Filtered[0].Example
}

// The ball of the other cluster counts until somebody has measured, and only where
// coordinates can be compared.
func TestLatencyToAServiceOfAnotherCluster(t *testing.T) {
	where := &wire.Where{Around: &wire.Around{Center: *onLine(20), Radius: ms(10)}}
	to := func(comparable bool, direct map[string]api.Duration) Threshold {
		target := Somewhere("app.db.0", "munich/w-1", where, comparable)
		target.Direct = direct
		return Threshold{To: "db", Max: ms(15), Targets: []Target{target}}
	}
	d := Schedule(lined(3), nearRequest(LDP, to(true, nil)))
	if want := "w0: is not known to be within 15ms of db: up to 30.0ms away by coordinates, in another cluster"; d.Chosen != "w2" || reasonOf(d) != want {
		t.Errorf("%q: %q, want %q", d.Chosen, reasonOf(d), want)
	}
	d = Schedule(lined(3), nearRequest(LDP, to(false, nil)))
	if want := "w0: is not known to be within 15ms of db"; d.Chosen != "" || reasonOf(d) != want {
		t.Errorf("not comparable: %q: %q, want %q", d.Chosen, reasonOf(d), want)
	}
	measured := to(true, map[string]api.Duration{"w0": ms(4), "w2": ms(40)})
	d = Schedule(lined(3), nearRequest(LDP, measured))
	if d.Chosen != "w0" || MayKeep(lined(3)[2], measured) || !MayKeep(lined(3)[1], measured) {
		t.Errorf("measured: %q: %s", d.Chosen, d.Reason)
	}
}

// Whatever others say of where they are, nobody is near enough by it who was not before,
// and nothing panics.
func TestWhereaboutsThatCannotBe(t *testing.T) {
	nan := math.NaN()
	far := *onLine(500)
	notANumber := far
	notANumber.Vec[3] = nan
	for name, w := range map[string]*wire.Where{
		"nothing":             {},
		"no place":            {Disc: &wire.Disc{Center: api.Point{nan, 400}, RadiusKm: 1}},
		"no radius":           {Disc: &wire.Disc{Center: munich, RadiusKm: nan}},
		"a negative radius":   {Disc: &wire.Disc{Center: munich, RadiusKm: -1000}},
		"without end":         {Disc: &wire.Disc{Center: munich, RadiusKm: math.Inf(1)}},
		"no coordinate":       {Around: &wire.Around{Center: notANumber, Radius: ms(1)}},
		"a negative ball":     {Around: &wire.Around{Center: far, Radius: -ms(499)}},
		"longer than a clock": {Around: &wire.Around{Center: far, Radius: math.MaxInt64}},
	} {
		workers := lined(2)
		workers[0].Location = &augsburg
		for _, th := range []Threshold{{To: "db", Distance: 1000}, {To: "db", Max: ms(15)}, {To: "db", Max: ms(15), Distance: 1000}} {
			th.Targets = []Target{Somewhere("app.db.0", "munich/w-1", w, true)}
			if d := Schedule(workers, nearRequest(LDP, th)); d.Chosen != "" {
				t.Errorf("%s: %q", name, d.Chosen)
			}
			MayKeep(workers[0], th)
		}
	}
	for name, a := range map[string]wire.Aggregate{
		"nobody":      {Disc: &wire.Disc{Center: munich}, Around: &wire.Around{Outside: 1}},
		"some":        {Workers: 3, Disc: &wire.Disc{Center: munich, Workers: 2}, Around: &wire.Around{Outside: 1, Workers: 2}},
		"away":        {Workers: 2, Suspect: 1, Disc: &wire.Disc{Center: munich, Workers: 2}},
		"not a place": {Workers: 1, Disc: &wire.Disc{Center: api.Point{nan, 0}, Workers: 1}},
		"unmeasured":  {Workers: 1, Around: &wire.Around{Center: *onLine(1), Workers: 1}},
	} {
		if w := WhereOf(a, nil); w != nil {
			t.Errorf("%s: told %+v", name, w)
		}
	}
}

// What was told of a cluster is told on while a worker is away or cordoned.
func TestWhereaboutsWhileAWorkerIsAway(t *testing.T) {
	a := wire.Aggregate{Workers: 2, Disc: &wire.Disc{Center: munich, RadiusKm: 20, Workers: 2}, Around: &wire.Around{Center: *onLine(20), Radius: ms(3), Workers: 2, Outside: 2}}
	told := WhereOf(a, nil)
	if told == nil || told.Disc == nil || told.Around == nil || told.Disc.Workers+told.Around.Workers+told.Around.Outside != 0 {
		t.Fatalf("%+v", told)
	}
	for _, away := range []wire.Aggregate{
		{Workers: 1, Suspect: 1, Disc: &wire.Disc{Center: munich, RadiusKm: 20, Workers: 1}},
		{Workers: 1, Cordoned: 1, Disc: &wire.Disc{Center: munich, RadiusKm: 20, Workers: 1}},
	} {
		if got := WhereOf(away, told); got == nil || got.Disc != told.Disc || got.Around != nil {
			t.Errorf("%+v is told as %+v", away, got)
		}
	}
	away := wire.Aggregate{Workers: 1, Suspect: 1, Disc: &wire.Disc{Center: berlin, RadiusKm: 20, Workers: 1}}
	if got := WhereOf(away, told); got != nil {
		t.Errorf("elsewhere, one away: %+v", got)
	}
}

// What is told contains all workers, is coarser than any of them, does not change with
// small changes, and its size does not tell how far apart they are.
func TestWhereaboutsContainAllWorkers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lat, lon := rapid.Float64Range(-89, 89).Draw(t, "latitude"), rapid.Float64Range(-179, 179).Draw(t, "longitude")
		var points []api.Point
		var coords []*wire.Coordinate
		height := rapid.Float64Range(0, 0.02).Draw(t, "height")
		for range rapid.IntRange(1, 10).Draw(t, "workers") {
			points = append(points, api.Point{lat + rapid.Float64Range(-1, 1).Draw(t, "north"), lon + rapid.Float64Range(-1, 1).Draw(t, "east")})
			c := wire.Coordinate{Height: height, Error: 0.1}
			for i := range c.Vec {
				c.Vec[i] = rapid.Float64Range(-0.1, 0.1).Draw(t, "coordinate")
			}
			coords = append(coords, &c)
		}
		a := wire.Aggregate{Workers: len(points), Disc: geo.Disc(points), Around: geo.Around(coords)}
		a.Around.Outside = 1
		w := WhereOf(a, nil)
		if w == nil || w.Disc == nil || w.Around == nil {
			t.Fatalf("%+v is told as %+v", a, w)
		}
		for _, p := range points {
			if km := geo.DistanceKm(w.Disc.Center, p); km > w.Disc.RadiusKm {
				t.Fatalf("%v is %.3f km from the centre of %+v", p, km, *w.Disc)
			}
		}
		if math.Mod(w.Disc.RadiusKm, coarseKm) != 0 || w.Disc.RadiusKm > a.Disc.RadiusKm+steadyKm {
			t.Fatalf("%+v is told as %+v", *a.Disc, *w.Disc)
		}
		asks := WorkerView{ID: "w", Coord: &wire.Coordinate{Error: 0.1}}
		for i := range asks.Coord.Vec {
			asks.Coord.Vec[i] = rapid.Float64Range(-0.2, 0.2).Draw(t, "who asks")
		}
		target := Somewhere("i", "c/w", w, true)
		rtt, known := target.rtt(&asks)
		for _, c := range coords {
			// Heights are told of the mean worker, to the millisecond.
			if is := c.RTT(asks.Coord); !known || rtt < is-2*time.Millisecond {
				t.Fatalf("%v is within %v, %v: by %+v", is, rtt, known, *w.Around)
			}
		}
		if r := w.Around.Radius.Std(); r < 10*time.Millisecond || r%(5*time.Millisecond) != 0 || r > a.Around.Radius.Std()+15*time.Millisecond {
			t.Fatalf("%+v is told as %+v", *a.Around, *w.Around)
		}
		// The same again is the same; something a little smaller within it as well.
		if again := WhereOf(a, w); again.Disc != w.Disc || again.Around != w.Around {
			t.Fatalf("told %+v, and then %+v", w, again)
		}
		if a.Disc.RadiusKm = max(1, a.Disc.RadiusKm-2); WhereOf(a, w).Disc != w.Disc {
			t.Fatal("two kilometres are told")
		}
	})
}

// The whereabouts of one worker are a ball and a disc, not a point.
func TestASingleWorkerIsToldAsItsSurroundings(t *testing.T) {
	c := wire.Coordinate{Vec: [wire.CoordinateDimensions]float64{0.0123, -0.0456}, Height: 0.0017, Error: 0.2}
	a := wire.Aggregate{Workers: 1, Disc: geo.Disc([]api.Point{{48.137412, 11.575543}}), Around: geo.Around([]*wire.Coordinate{&c})}
	a.Around.Outside = 1
	w := WhereOf(a, nil)
	if w.Disc.Center != (api.Point{48.1, 11.6}) || w.Disc.RadiusKm != 10 {
		t.Errorf("%+v", *w.Disc)
	}
	if v := w.Around.Center.Vec; v[0] != 0.01 || v[1] != -0.045 || w.Around.Center.Height != 0.005 || w.Around.Radius != ms(10) {
		t.Errorf("%+v", *w.Around)
	}
	if b, err := json.Marshal(w); err != nil || strings.Contains(string(b), "workers") {
		t.Errorf("%v: numbers of workers are told: %s", err, b)
	}
}
