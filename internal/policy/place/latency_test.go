package place

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	// rapid: property tests that shrink a failure to its smallest case.
	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/phrase"
	"github.com/verge-edge/verge/internal/wire"
)

func ms(n float64) api.Duration { return api.Duration(n * 1e6) }

// onLine is a coordinate so many milliseconds along a line.
func onLine(at float64) *wire.Coordinate {
	return &wire.Coordinate{Vec: [wire.CoordinateDimensions]float64{at / 1e3}, Error: 0.1}
}

// lined are workers at 0, 10, 20 … ms, all of them with room.
func lined(n int) []WorkerView {
	var out []WorkerView
	for i := range n {
		out = append(out, WorkerView{
			ID: fmt.Sprintf("w%d", i), Runtimes: []string{"process"}, Coord: onLine(float64(10 * i)),
			Capacity: api.Resources{CPU: 4000, Memory: 1 << 30, Disk: 1 << 30},
		})
	}
	return out
}

func nearRequest(scheduler string, t ...Threshold) Request {
	return Request{Instance: "app.api.0", Count: 1, Runtime: "process", Scheduler: scheduler, Latency: t, Demand: api.Resources{CPU: 100, Memory: 1 << 20}}
}

func TestLatencyIsHardWithEveryScheduler(t *testing.T) {
	web := Target{ID: "app.web.0", Worker: "w3", Coord: onLine(30)}
	for _, scheduler := range []string{"rom", LDP} {
		d := Schedule(lined(8), nearRequest(scheduler, Threshold{To: "web", Max: ms(11), Targets: []Target{web}}))
		if d.Chosen != "w2" && d.Chosen != "w3" && d.Chosen != "w4" {
			t.Errorf("%s chose %q: %s", scheduler, d.Chosen, d.Reason)
		}
		want := Filter{Name: "latency", Removed: 5, Example: "w0: is not within 11ms of web: 30.0ms away"}
		if len(d.Filtered) != 1 || d.Filtered[0] != want {
			t.Errorf("%s: %+v, want %+v", scheduler, d.Filtered, want)
		}
		if scheduler == LDP && (d.Chosen != "w3" || d.Ranked[0].Score != 0 || math.Abs(d.Ranked[1].Score-10) > 0.001) {
			t.Errorf("ldp ranked %+v", d.Ranked)
		}
		// A measurement counts before coordinates, one way and the other.
		direct := map[string]api.Duration{"w3": ms(40), "w2": ms(40), "w4": ms(40), "w7": ms(3)}
		d = Schedule(lined(8), nearRequest(scheduler, Threshold{To: "web", Max: ms(11), Targets: []Target{{ID: "x", Coord: onLine(30), Direct: direct}}}))
		if d.Chosen != "w7" {
			t.Errorf("%s chose %q of what was measured: %s", scheduler, d.Chosen, d.Reason)
		}
		// What is not known is not near, and the reason says why.
		d = Schedule(lined(2), nearRequest(scheduler, Threshold{To: "web", Max: ms(11), Unknown: "nobody could measure it"}))
		if want := "2 workers: 2 are not known to be within 11ms of web (nobody could measure it)"; d.Chosen != "" || d.Reason != want {
			t.Errorf("%s: %q, %q, want %q", scheduler, d.Chosen, d.Reason, want)
		}
		// What does not count yet removes nobody.
		if d = Schedule(lined(2), nearRequest(scheduler, Threshold{To: "web", Max: ms(11), Free: "it has no instance"})); d.Chosen == "" {
			t.Errorf("%s: %q", scheduler, d.Reason)
		}
	}
}

// A wish removes nobody, and comes before the score of every scheduler; what is not known
// comes last, and less than a millisecond is no difference.
func TestAWishOrdersWorkers(t *testing.T) {
	host := func(direct map[string]api.Duration) Threshold {
		return Threshold{To: "data.example.org:443", Wish: true, Targets: []Target{{ID: "data", Direct: direct}}}
	}
	for _, scheduler := range []string{"rom", LDP, Spread, DRF, DRFTightest} {
		workers := lined(4)
		workers[1].Used.CPU, workers[2].Used.CPU = 3000, 10 // for best fit and worst fit alike one is better that is further off
		d := Schedule(workers, nearRequest(scheduler, host(map[string]api.Duration{"w0": ms(30), "w1": ms(20), "w2": ms(10)})))
		var order []string
		for _, r := range d.Ranked {
			order = append(order, r.ID)
		}
		if got := strings.Join(order, " "); got != "w2 w1 w0 w3" || len(d.Filtered) != 0 || d.Ranked[0].Parts["latency_ms"] != 10 {
			t.Errorf("%s: %s, %+v %+v", scheduler, got, d.Filtered, d.Ranked)
		}
		near, plain := nearRequest(scheduler, host(map[string]api.Duration{"w0": ms(10.1), "w1": ms(10.2), "w2": ms(9.9), "w3": ms(10)})), nearRequest(scheduler)
		if with, without := Schedule(workers, near), Schedule(workers, plain); with.Chosen != without.Chosen {
			t.Errorf("%s: %s by less than a millisecond, else %s", scheduler, with.Chosen, without.Chosen)
		}
		if d := Schedule(workers, nearRequest(scheduler, Threshold{To: "x", Wish: true, Unknown: "nobody has measured it"})); d.Chosen == "" {
			t.Errorf("%s: %s", scheduler, d.Reason)
		}
		// A bound counts as ever.
		web := Threshold{To: "web", Max: ms(1), Targets: []Target{{ID: "web", Worker: "w3", Coord: onLine(30)}}}
		if d := Schedule(workers, nearRequest(scheduler, host(map[string]api.Duration{"w0": ms(1)}), web)); d.Chosen != "w3" {
			t.Errorf("%s: %s although only w3 is near enough", scheduler, d.Chosen)
		}
	}
}

func TestDistanceToATarget(t *testing.T) {
	workers := lined(3)
	munich, berlin := api.Point{48.14, 11.58}, api.Point{52.52, 13.40}
	workers[0].Location, workers[1].Location = &berlin, &munich
	augsburg := api.Point{48.37, 10.90}
	for _, scheduler := range []string{"rom", LDP} {
		d := Schedule(workers, nearRequest(scheduler, Threshold{To: "48.37,10.90", Distance: 100_000, Targets: []Target{{ID: "48.37,10.90", Location: &augsburg}}}))
		if d.Chosen != "w1" || d.Filtered[0].Name != "distance" || d.Filtered[0].Example != "w0: is not within 100km of 48.37,10.90: 495 km away" {
			t.Errorf("%s: %q %+v", scheduler, d.Chosen, d.Filtered)
		}
		if d = Schedule(workers[2:], d.Request); d.Reason != "1 worker: 1 is not known to be within 100km of 48.37,10.90" {
			t.Errorf("%s: %q", scheduler, d.Reason)
		}
	}
}

// Whatever the inputs are: nobody is chosen that does not keep each threshold as far
// as is known, the order of workers does not matter, and a record can be replayed.
func TestLatencyProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		number := rapid.OneOf(rapid.Float64Range(-0.2, 0.2), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, 99, 1e300}))
		coord := rapid.Custom(func(t *rapid.T) *wire.Coordinate {
			if rapid.IntRange(0, 4).Draw(t, "none") == 0 {
				return nil
			}
			c := &wire.Coordinate{Height: number.Draw(t, "height"), Adjustment: number.Draw(t, "adjustment"), Error: rapid.Float64Range(0, 2).Draw(t, "error")}
			for i := range c.Vec {
				c.Vec[i] = number.Draw(t, "x")
			}
			return c
		})
		workers := lined(rapid.IntRange(0, 12).Draw(t, "workers"))
		for i := range workers {
			workers[i].Coord = coord.Draw(t, "coord")
			workers[i].Used = api.Resources{CPU: api.CPU(rapid.Int64Range(-10, 5000).Draw(t, "used"))}
		}
		req := nearRequest(rapid.SampledFrom([]string{"rom", LDP}).Draw(t, "scheduler"))
		for range rapid.IntRange(0, 3).Draw(t, "thresholds") {
			th := Threshold{To: "web", Max: ms(rapid.Float64Range(-5, 300).Draw(t, "max"))}
			for range rapid.IntRange(0, 3).Draw(t, "targets") {
				th.Targets = append(th.Targets, Target{ID: "x", Worker: rapid.SampledFrom([]string{"", "w0", "w5"}).Draw(t, "on"), Coord: coord.Draw(t, "at"), Direct: map[string]api.Duration{"w1": ms(rapid.Float64Range(-5, 300).Draw(t, "direct"))}})
			}
			req.Latency = append(req.Latency, th)
		}
		d := Schedule(workers, req)
		shuffled := append([]WorkerView(nil), workers...)
		rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)).Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		if e := Schedule(shuffled, req); e.Chosen != d.Chosen || e.Reason != d.Reason {
			t.Fatalf("%q %q, in another order %q %q", d.Chosen, d.Reason, e.Chosen, e.Reason)
		}
		if e, err := Replay(d); err != nil || e.Chosen != d.Chosen {
			t.Fatalf("replayed: %q, %v, want %q", e.Chosen, err, d.Chosen)
		}
		if d.Chosen == "" {
			if d.Reason == "" {
				t.Fatal("nobody, and no reason")
			}
			return
		}
		var w WorkerView
		for _, v := range workers {
			if v.ID == d.Chosen {
				w = v
			}
		}
		for _, th := range req.Latency {
			if th.Max <= 0 {
				continue
			}
			kept := false
			for _, target := range th.Targets {
				switch direct := target.Direct[w.ID]; {
				case target.Worker == w.ID:
					kept = true
				case direct > 0:
					kept = kept || direct <= th.Max
				case target.Coord != nil && w.Coord != nil && target.Coord.Valid() && w.Coord.Valid() && max(target.Coord.Error, w.Coord.Error) < wire.UnknownError:
					kept = kept || target.Coord.RTT(w.Coord) <= th.Max.Std()
				}
			}
			if !kept {
				t.Fatalf("%s does not keep %+v", w.ID, th)
			}
		}
	})
}

func TestWordsNeverRoundATooLongTripDown(t *testing.T) {
	for d, want := range map[time.Duration]string{20*time.Millisecond + 1: "20.1ms", 20 * time.Millisecond: "20.0ms", 999_999: "1.000ms", 1500: "0.002ms"} {
		if got := phrase.Milliseconds(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
	if w := (&filterLog{req: &Request{Latency: []Threshold{{To: "x", Max: ms(20)}}}}).latencyWords(&removal{far: far{rtt: 20*time.Millisecond + 1}}); !strings.Contains(w.one, "20.1ms") {
		t.Error(w.one)
	}
}

// BenchmarkLDP is one decision among workers whose coordinates are known, with one
// service of three instances to be near.
func BenchmarkLDP(b *testing.B) {
	for _, n := range []int{500, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			workers := lined(n)
			somewhere := func() *wire.Coordinate {
				c := &wire.Coordinate{Height: 1e-3, Error: 0.1}
				for i := range c.Vec {
					c.Vec[i] = rng.NormFloat64() * 0.03
				}
				return c
			}
			for i := range workers {
				workers[i].Coord = somewhere()
			}
			th := Threshold{To: "web", Max: ms(80)}
			for i := range 3 {
				th.Targets = append(th.Targets, Target{ID: fmt.Sprint("app.web.", i), Worker: fmt.Sprint("w", i), Coord: somewhere()})
			}
			req := nearRequest(LDP, th)
			for b.Loop() {
				if d := Schedule(workers, req); d.Chosen == "" {
					b.Fatal(d.Reason)
				}
			}
		})
	}
}

// BenchmarkFleetLDP is BenchmarkLDP by the index that a pass has: while it has an index,
// and before.
func BenchmarkFleetLDP(b *testing.B) {
	for _, indexed := range []bool{true, false} {
		b.Run(fmt.Sprintf("10000/index=%t", indexed), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			somewhere := func() *wire.Coordinate {
				c := &wire.Coordinate{Height: 1e-3, Error: 0.1}
				for i := range c.Vec {
					c.Vec[i] = rng.NormFloat64() * 0.03
				}
				return c
			}
			var f Fleet
			for _, w := range lined(10_000) {
				w.Coord = somewhere()
				f.Put(w)
			}
			th := Threshold{To: "web", Max: ms(80)}
			for i := range 3 {
				th.Targets = append(th.Targets, Target{ID: fmt.Sprint("app.web.", i), Worker: fmt.Sprint("w", i), Coord: somewhere()})
			}
			req := nearRequest(LDP, th)
			if !indexed {
				f.limits.often = math.MaxInt
			}
			for range askedOften {
				f.Schedule("app.api", req)
			}
			b.ReportAllocs()
			for b.Loop() {
				if d := f.Schedule("app.api", req); d.Chosen == "" {
					b.Fatal(d.Reason)
				}
			}
		})
	}
}
