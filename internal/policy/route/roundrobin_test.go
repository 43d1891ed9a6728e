package route_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	// rapid: property tests that shrink a failure to its smallest case.
	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
)

func endpoints(n int) []route.Endpoint {
	out := make([]route.Endpoint, n)
	for i := range out {
		out[i] = route.Endpoint{ID: fmt.Sprintf("app.web.%d@edge/w%d", i, i%7), Ready: true}
	}
	return out
}

// drawEndpoints draws a list with all kinds of flags, in any order, with
// duplicates that agree with their originals.
func drawEndpoints(t *rapid.T, most int) []route.Endpoint {
	n := rapid.IntRange(0, most).Draw(t, "n")
	out := endpoints(n)
	for i := range out {
		out[i].Ready = rapid.Bool().Draw(t, "ready")
		out[i].Suspect = rapid.Bool().Draw(t, "suspect")
		out[i].Ejected = rapid.Bool().Draw(t, "ejected")
	}
	if n > 0 {
		for range rapid.IntRange(0, 3).Draw(t, "duplicates") {
			out = append(out, out[rapid.IntRange(0, n-1).Draw(t, "duplicate")])
		}
	}
	return rapid.Permutation(out).Draw(t, "order")
}

// rank restates the class order independently of the code under test.
func rank(e route.Endpoint) int {
	switch {
	case !e.Ready:
		return 3
	case e.Ejected:
		return 2
	case e.Suspect:
		return 1
	}
	return 0
}

func TestPickUsesTheBestClassEqually(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := route.NewView(rapid.Uint64().Draw(t, "seed"), drawEndpoints(t, 20))
		best := 3
		for _, e := range v.Endpoints {
			best = min(best, rank(e))
		}
		var p route.RoundRobin
		n := 0
		for _, e := range v.Endpoints {
			if rank(e) == best {
				n++
			}
		}
		counts := map[string]int{}
		picks := rapid.IntRange(0, 70).Draw(t, "picks")
		for k := range picks {
			i, ok := p.Pick(v, route.Request{})
			if ok != (best < 3) {
				t.Fatalf("pick %d: ok is %v with best class %d", k, ok, best)
			}
			if !ok {
				return
			}
			if got := rank(v.Endpoints[i]); got != best {
				t.Fatalf("pick %d: class %d, best is %d", k, got, best)
			}
			counts[v.Endpoints[i].ID]++
			// Within n picks each of the n is used once: all counts are equal then.
			if (k+1)%n == 0 && len(counts) != n {
				t.Fatalf("after %d picks only %d of %d are used", k+1, len(counts), n)
			}
		}
		low, high := math.MaxInt, 0
		for _, e := range v.Endpoints {
			if rank(e) == best {
				low, high = min(low, counts[e.ID]), max(high, counts[e.ID])
			}
		}
		if picks > 0 && high-low > 1 {
			t.Fatalf("counts differ by %d", high-low)
		}
	})
}

// Whatever comes and goes, endpoints that stay are used equally often, and a
// newcomer gets no burst.
func TestRotationSurvivesChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		all := endpoints(16)
		stay := rapid.IntRange(2, 8).Draw(t, "stay")
		var p route.RoundRobin
		counts := make([]int, stay)
		sinceStable := map[string]int{}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			list := slices.Clone(all[:stay])
			for _, e := range all[stay:] {
				e.Suspect = rapid.IntRange(0, 3).Draw(t, "suspect") == 0
				if rapid.Bool().Draw(t, "present") {
					list = append(list, e)
				}
			}
			v := route.NewView(seed, list)
			i, ok := p.Pick(v, route.Request{})
			if !ok {
				t.Fatal("nothing picked")
			}
			id := v.Endpoints[i].ID
			if k := slices.IndexFunc(all[:stay], func(e route.Endpoint) bool { return e.ID == id }); k >= 0 {
				counts[k]++
				clear(sinceStable)
			} else if sinceStable[id]++; sinceStable[id] > 1 {
				t.Fatalf("%s was used twice while the others waited", id)
			}
			if d := slices.Max(counts) - slices.Min(counts); d > 1 {
				t.Fatalf("counts %v differ by %d", counts, d)
			}
		}
	})
}

func TestOrderOfTheListHasNoInfluence(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		list := drawEndpoints(t, 12)
		a := route.NewView(seed, list)
		b := route.NewView(seed, rapid.Permutation(list).Draw(t, "other order"))
		if !slices.Equal(a.Endpoints, b.Endpoints) {
			t.Fatalf("views differ:\n%v\n%v", a.Endpoints, b.Endpoints)
		}
	})
}

func TestDuplicatesCountOnce(t *testing.T) {
	list := []route.Endpoint{
		{ID: "a", Ready: true, Ejected: true},
		{ID: "a", Ready: true},
		{ID: "b", Ready: true},
		{ID: "a"},
	}
	v := route.NewView(1, list)
	if len(v.Endpoints) != 2 {
		t.Fatalf("%d endpoints, want 2", len(v.Endpoints))
	}
	for _, e := range v.Endpoints {
		if e.ID == "a" && (e.Ejected || !e.Ready) {
			t.Fatalf("kept %+v, want the healthy one", e)
		}
	}
}

func TestTriedEndpointsAreNotChosenAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := route.NewView(rapid.Uint64().Draw(t, "seed"), drawEndpoints(t, 12))
		usable := 0
		for _, e := range v.Endpoints {
			if e.Ready {
				usable++
			}
		}
		var p route.RoundRobin
		var tried []string
		last := 0
		for {
			i, ok := p.Pick(v, route.Request{Tried: tried})
			if !ok {
				break
			}
			e := v.Endpoints[i]
			if slices.Contains(tried, e.ID) {
				t.Fatalf("%s chosen twice", e.ID)
			}
			if rank(e) < last {
				t.Fatalf("class %d after class %d", rank(e), last)
			}
			last = rank(e)
			tried = append(tried, e.ID)
		}
		if len(tried) != usable {
			t.Fatalf("%d tried, %d usable", len(tried), usable)
		}
	})
}

func TestTenThousandEndpoints(t *testing.T) {
	v := route.NewView(7, endpoints(10_000))
	var p route.RoundRobin
	used := make([]int, len(v.Endpoints))
	for range 3 * len(used) {
		i, _ := p.Pick(v, route.Request{})
		used[i]++
	}
	for i, n := range used {
		if n != 3 {
			t.Fatalf("endpoint %d was used %d times in three rounds", i, n)
		}
	}
}

// The first choices of many routers must not all meet the same endpoint: a fleet
// that starts together would overrun it.
func TestRoutersStartAtDifferentEndpoints(t *testing.T) {
	list := endpoints(10)
	first := map[string]int{}
	rng := rand.New(rand.NewPCG(1, 2))
	const routers = 2000
	for range routers {
		v := route.NewView(rng.Uint64(), list)
		var p route.RoundRobin
		i, _ := p.Pick(v, route.Request{})
		first[v.Endpoints[i].ID]++
	}
	for id, n := range first {
		// Binomial(2000, 0.1): mean 200, deviation 13.4; five of them is 67.
		if n < 133 || n > 267 {
			t.Errorf("%s is the first of %d of %d routers", id, n, routers)
		}
	}
}

func TestWeightsAreTheSharesOfPick(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := route.NewView(3, drawEndpoints(t, 12))
		var p route.RoundRobin
		w := p.Weights(v)
		sum, used := 0.0, 0
		for _, x := range w {
			sum += x
			if x > 0 {
				used++
			}
		}
		_, ok := p.Pick(v, route.Request{})
		if !ok {
			if sum != 0 {
				t.Fatalf("weights %v where nothing can be picked", w)
			}
			return
		}
		if math.Abs(sum-1) > 1e-9 {
			t.Fatalf("weights %v sum to %v", w, sum)
		}
		for range 2 * used {
			if i, _ := p.Pick(v, route.Request{}); w[i] == 0 {
				t.Fatalf("picked %d, whose weight is 0", i)
			}
		}
	})
}

func TestNew(t *testing.T) {
	for _, name := range []string{"", api.PolicyRoundRobin} {
		if p, err := route.New(api.Policy{Name: name}, 1); err != nil {
			t.Errorf("%q: %v", name, err)
		} else if _, is := p.(*route.RoundRobin); !is {
			t.Errorf("%q is %T", name, p)
		}
	}
	if _, err := route.New(api.Policy{Name: "of-tomorrow"}, 1); err == nil {
		t.Error("an unknown policy was accepted")
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v := route.NewView(1, endpoints(n))
			var p route.RoundRobin
			b.ReportAllocs()
			for b.Loop() {
				p.Pick(v, route.Request{})
			}
		})
	}
}
