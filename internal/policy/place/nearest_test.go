package place

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
)

// entering are requests at workers of lined, by worker.
func entering(t Traffic, rates map[int]float64) *Traffic {
	for _, at := range sortedKeys(mapKeys(rates, func(n int) string { return fmt.Sprint(n) })) {
		var n int
		_, _ = fmt.Sscan(at, &n)
		t.Points = append(t.Points, Entry{At: Target{ID: "w" + at, Worker: "w" + at, Coord: onLine(float64(10 * n))}, Rate: rates[n]})
	}
	return &t
}

func mapKeys[K comparable, V any](m map[K]V, name func(K) string) map[string]V {
	out := map[string]V{}
	for k, v := range m {
		out[name(k)] = v
	}
	return out
}

func nearestRequest(t *Traffic) Request {
	r := nearRequest(NearestDemand)
	r.Traffic = t
	return r
}

func TestNearestDemand(t *testing.T) {
	exec := ms(20)
	for _, tc := range []struct {
		name string
		t    *Traffic
		want string
		ms   float64 // expected
	}{
		{"the first is where they come from", entering(Traffic{Exec: exec}, map[int]float64{6: 5}), "w6", 20},
		{"or most of them", entering(Traffic{Exec: exec}, map[int]float64{1: 5, 6: 6}), "w6", 20 + 50*5./11},
		{"the second is where the first is far", entering(Traffic{Exec: exec, Replicas: map[string]int{"w6": 1}}, map[int]float64{1: 5, 6: 6}), "w1", 20},
		{"or where the first has too much to do", entering(Traffic{Exec: exec, RPS: 50, Replicas: map[string]int{"w6": 1}}, map[int]float64{6: 45, 5: 1}), "w6", 0},
		{"what nobody answers is counted", entering(Traffic{}, map[int]float64{3: 1}), "w3", 0},
	} {
		d := Schedule(lined(8), nearestRequest(tc.t))
		if d.Chosen != tc.want || tc.ms > 0 && math.Abs(d.Ranked[0].Score-tc.ms) > 0.1 {
			t.Errorf("%s: %q, %+v", tc.name, d.Chosen, d.Ranked)
		}
	}
	// Where no requests are known, or none that is possible, it is rom.
	plain := nearRequest(ROM)
	want := Schedule(lined(8), plain)
	for _, none := range []*Traffic{nil, {}, entering(Traffic{}, map[int]float64{1: math.NaN(), 2: -1, 3: math.Inf(1), 4: 0})} {
		if got := Schedule(lined(8), nearestRequest(none)); got.Chosen != want.Chosen || !reflect.DeepEqual(got.Ranked, want.Ranked) {
			t.Errorf("%+v: %+v, rom: %+v", none, got.Ranked, want.Ranked)
		}
	}
}

// A worker that is faster by its profile is worth a way.
func TestNearestDemandKnowsWhoIsFast(t *testing.T) {
	workers := lined(3)
	workers[0].Throughput, workers[1].Throughput, workers[2].Throughput = 10, 100, 100
	d := Schedule(workers, nearestRequest(entering(Traffic{Exec: ms(10)}, map[int]float64{0: 20})))
	if d.Chosen != "w1" {
		t.Errorf("%+v", d.Ranked)
	}
}

func drawTraffic(t *rapid.T, workers []WorkerView) Traffic {
	tr := Traffic{Exec: ms(rapid.Float64Range(0, 50).Draw(t, "exec")), Replicas: map[string]int{}}
	if rapid.Bool().Draw(t, "capacity is known") {
		tr.RPS = rapid.Float64Range(1, 100).Draw(t, "rps")
	}
	for i := range workers {
		w := &workers[i]
		if rapid.IntRange(0, 2).Draw(t, "enter") == 0 {
			tr.Points = append(tr.Points, Entry{At: Target{ID: w.ID, Worker: w.ID, Coord: w.Coord}, Rate: rapid.Float64Range(0, 100).Draw(t, "rate")})
		}
		if n := rapid.IntRange(0, 9).Draw(t, "replicas") - 7; n > 0 {
			tr.Replicas[w.ID] = n
		}
	}
	return tr
}

// Whoever is chosen, nobody else would make requests faster.
func TestNearestDemandIsTheBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := lined(rapid.IntRange(1, 12).Draw(t, "workers"))
		for i := range workers {
			workers[i].Coord = onLine(rapid.Float64Range(0, 100).Draw(t, "at"))
			workers[i].Used.CPU = api.CPU(rapid.IntRange(0, 4000).Draw(t, "used"))
		}
		tr := drawTraffic(t, workers)
		req := nearestRequest(&tr)
		d := Schedule(workers, req)
		if cleanTraffic(&tr) == nil {
			return
		}
		best := math.Inf(1)
		for i := range workers {
			if workers[i].Capacity.CPU-workers[i].Used.CPU < req.Demand.CPU {
				if workers[i].ID == d.Chosen {
					t.Fatalf("%s has no room", d.Chosen)
				}
				continue
			}
			with := tr
			with.Replicas = map[string]int{workers[i].ID: 1}
			for id, n := range tr.Replicas {
				with.Replicas[id] += n
			}
			at, ok := Expected(workers, with)
			if !ok {
				t.Fatal("nobody answers")
			}
			best = min(best, at.Seconds()*1e3)
		}
		if math.IsInf(best, 1) != (d.Chosen == "") {
			t.Fatalf("chosen %q, best %v", d.Chosen, best)
		}
		// To the last bit the parts are given in another order.
		if d.Chosen != "" && d.Ranked[0].Score > best*1.02+0.01 {
			t.Fatalf("chosen %s with %v ms, best is %v", d.Chosen, d.Ranked[0].Score, best)
		}
		slices.Reverse(workers)
		if again := Schedule(workers, req); again.Chosen != d.Chosen {
			t.Fatalf("in another order %s instead of %s", again.Chosen, d.Chosen)
		}
	})
}

// As long as nobody is crowded another replica harms nobody, and no request is faster
// than its way and its work.
func TestExpected(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		workers := lined(10)
		tr := Traffic{Exec: ms(5), Replicas: map[string]int{"w0": 1}}
		for i := range workers {
			if rng.IntN(2) == 0 {
				tr.Points = append(tr.Points, Entry{At: Target{ID: workers[i].ID, Worker: workers[i].ID, Coord: workers[i].Coord}, Rate: rng.Float64() * 10})
			}
		}
		if len(tr.Points) == 0 {
			continue
		}
		last := time.Duration(math.MaxInt64)
		for range 5 {
			now, ok := Expected(workers, tr)
			if !ok || now > last || now < 5*time.Millisecond {
				t.Fatalf("%v after %v, %v", now, last, ok)
			}
			last = now
			tr.Replicas[workers[rng.IntN(len(workers))].ID]++
		}
	}
	if _, ok := Expected(lined(3), Traffic{Points: []Entry{{At: Target{Worker: "w1"}, Rate: 1}}}); ok {
		t.Error("nobody is there, and an answer is expected")
	}
}

func BenchmarkNearestDemand(b *testing.B) {
	for _, n := range []int{50, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			workers := lined(n)
			tr := Traffic{Exec: ms(20), RPS: 50, Replicas: map[string]int{}}
			for i := range MaxEntries {
				w := &workers[i*n/MaxEntries]
				tr.Points = append(tr.Points, Entry{At: Target{ID: w.ID + fmt.Sprint(i), Worker: w.ID, Coord: w.Coord}, Rate: 5})
				if i%8 == 0 {
					tr.Replicas[w.ID] = 1
				}
			}
			req := nearestRequest(&tr)
			b.ReportAllocs()
			for b.Loop() {
				Schedule(workers, req)
			}
		})
	}
}
