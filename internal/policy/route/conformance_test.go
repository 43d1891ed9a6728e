package route_test

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
)

// policies are all that there are, each in the forms that differ.
func policies() []api.Policy {
	near := func(alpha float64, decay string) api.Policy {
		return api.Policy{Name: api.PolicyProximity, Alpha: alpha, Beta: 0.5, Decay: decay}
	}
	return []api.Policy{
		{}, {Name: api.PolicyRoundRobin}, {Name: api.PolicyRandom}, {Name: api.PolicyWeighted}, {Name: api.PolicyClosest},
		{Name: api.PolicyLocal, Fallback: api.PolicyClosest}, {Name: api.PolicyLocal, Fallback: api.PolicyRoundRobin},
		{Name: api.PolicyLocal, Fallback: api.PolicyProximity},
		near(0, api.DecayExponential), near(0.8, api.DecayExponential), near(1, api.DecayExponential),
		near(1, api.DecayPower), near(0.5, api.DecayInverse),
		{Name: api.PolicyProximity, Alpha: 1, Beta: api.MaxBeta, Decay: api.DecayExponential},
		{Name: api.PolicyProximity, Alpha: 1, Beta: api.MaxBeta, Decay: api.DecayPower},
		{Name: api.PolicyInstance, Ordinal: 3},
		{Name: api.PolicyBilliard}, {Name: api.PolicyLeastConnections}, {Name: api.PolicyTwoChoices}, {Name: api.PolicyLeastResponse}, {Name: api.PolicyFastest},
	}
}

// byLoad says whether what a policy picks depends on the load that the view tells,
// so that Pick does not give the shares that Weights says.
func byLoad(p api.Policy) bool {
	switch p.Name {
	case api.PolicyLeastConnections, api.PolicyTwoChoices, api.PolicyLeastResponse, api.PolicyFastest:
		return true
	}
	return false
}

// everyPolicy runs a property with each.
func everyPolicy(t *testing.T, check func(*rapid.T, api.Policy)) {
	for _, p := range policies() {
		t.Run(p.String(), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { check(t, p) })
		})
	}
}

func made(t rapid.TB, p api.Policy, seed uint64) route.Policy {
	t.Helper()
	made, err := route.New(p, seed)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// drawMeasured draws endpoints of which everything imaginable was measured.
func drawMeasured(t *rapid.T, most int) []route.Endpoint {
	list := drawEndpoints(t, most)
	rtt := rapid.OneOf(
		rapid.Int64Range(int64(time.Microsecond), int64(time.Second)),
		rapid.SampledFrom([]int64{0, -1, 1, math.MaxInt64, math.MinInt64, int64(time.Hour)}))
	weight := rapid.OneOf(rapid.Float64Range(0, 100),
		rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, math.MaxFloat64, math.SmallestNonzeroFloat64}))
	by := map[string]route.Endpoint{}
	for i, e := range list {
		if same, known := by[e.ID]; known { // duplicates agree
			same.Ready, same.Suspect, same.Ejected = e.Ready, e.Suspect, e.Ejected
			list[i] = same
			continue
		}
		e.Local = rapid.IntRange(0, 4).Draw(t, "local") == 0
		e.RTT = time.Duration(rtt.Draw(t, "rtt"))
		e.Source = route.Source(rapid.IntRange(0, 3).Draw(t, "source"))
		e.Weight = weight.Draw(t, "weight")
		e.Ordinal = rapid.IntRange(0, 4).Draw(t, "ordinal")
		if rapid.Bool().Draw(t, "loaded") {
			e.Load = drawLoad(t)
		}
		by[e.ID], list[i] = e, e
	}
	return list
}

// drawLoad draws what nobody should ever tell a policy, and what is usual.
func drawLoad(t *rapid.T) route.Load {
	count := rapid.SampledFrom([]int{0, 1, 2, 3, 5, 10, 1000, -1, math.MaxInt32, math.MaxInt64 / 4, math.MinInt64 / 4})
	number := rapid.SampledFrom([]float64{0, 1, 0.5, 20, 1e9, -1, math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, math.SmallestNonzeroFloat64})
	span := rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second, time.Hour, -1, math.MaxInt64, math.MinInt64})
	when := rapid.SampledFrom([]time.Time{{}, loadTime, loadTime.Add(-time.Minute), loadTime.Add(-time.Hour), loadTime.Add(time.Hour)})
	l := route.Load{
		InFlight: count.Draw(t, "in flight"), Since: count.Draw(t, "since"), Queue: count.Draw(t, "queue"), Running: count.Draw(t, "running"),
		Others: number.Draw(t, "others"), Capacity: number.Draw(t, "capacity"), Bandwidth: number.Draw(t, "bandwidth"), Back: number.Draw(t, "back"),
		Concurrency: count.Draw(t, "concurrency"), Exec: span.Draw(t, "exec"), StartUp: span.Draw(t, "start"),
		Asleep: rapid.Bool().Draw(t, "asleep"), Reported: when.Draw(t, "reported"), Joined: when.Draw(t, "joined"), Failed: when.Draw(t, "failed"),
	}
	for range rapid.IntRange(0, 5).Draw(t, "answers") {
		l.Answered(loadTime, l.Began(loadTime), span.Draw(t, "took"))
	}
	return l
}

var loadTime = time.Unix(1000, 0)

// request is one of the usual kind, or one that says nothing.
func request(t *rapid.T) route.Request {
	return rapid.SampledFrom([]route.Request{{}, {Now: loadTime}, {Now: loadTime, Bytes: 1 << 20}, {Bytes: math.MaxInt64, Answer: math.MaxInt64}, {Now: loadTime, Bytes: -1}}).Draw(t, "request")
}

// may says whether a policy may use an endpoint at all.
func may(p api.Policy, e route.Endpoint) bool {
	return e.Ready && (p.Name != api.PolicyInstance || e.Ordinal == p.Ordinal)
}

func TestWeightsAreShares(t *testing.T) {
	everyPolicy(t, func(t *rapid.T, p api.Policy) {
		v := route.NewView(rapid.Uint64().Draw(t, "seed"), drawMeasured(t, 20))
		w := made(t, p, 1).Weights(v)
		if len(w) != len(v.Endpoints) {
			t.Fatalf("%d weights of %d", len(w), len(v.Endpoints))
		}
		best, sum := 3, 0.0
		for _, e := range v.Endpoints {
			if may(p, e) {
				best = min(best, rank(e))
			}
		}
		for i, x := range w {
			switch e := v.Endpoints[i]; {
			case !(x >= 0 && x <= 1+1e-9):
				t.Fatalf("weight %v of %+v", x, e)
			case x > 0 && (!may(p, e) || rank(e) != best):
				t.Fatalf("%+v has the weight %v, the best class is %d", e, x, best)
			}
			sum += x
		}
		if want := float64(min(1, 3-best)); math.Abs(sum-min(1, want)) > 1e-9 {
			t.Fatalf("%v add up to %v", w, sum)
		}
	})
}

func TestPickFollowsTheWeights(t *testing.T) {
	everyPolicy(t, func(t *rapid.T, p api.Policy) {
		if byLoad(p) {
			return // it goes by load, not by shares
		}
		seed := rapid.Uint64().Draw(t, "seed")
		list := drawMeasured(t, 12)
		for i := range list {
			list[i].Load.Asleep = false // no rotation waits for them
		}
		v := route.NewView(seed, list)
		w, policy := made(t, p, seed).Weights(v), made(t, p, seed)
		counts := make([]int, len(w))
		picks := rapid.IntRange(1, 300).Draw(t, "picks")
		for range picks {
			i, ok := policy.Pick(v, route.Request{})
			if ok != (len(w) > 0 && slices.Max(w) > 0) {
				t.Fatalf("ok is %v with %v", ok, w)
			}
			if !ok {
				return
			}
			if w[i] == 0 {
				t.Fatalf("%d was picked and has no weight", i)
			}
			counts[i]++
		}
		// Points of the golden ratio are off by less than 3 + log2 of their number in
		// any interval; independent ones by five standard deviations.
		bound := 3 + math.Log2(float64(picks))
		if p.Name == api.PolicyRandom {
			bound = 6 * math.Sqrt(float64(picks)/4)
		}
		for i, n := range counts {
			if d := math.Abs(float64(n) - w[i]*float64(picks)); d > bound {
				t.Fatalf("endpoint %d: %d of %d with the weight %v", i, n, picks, w[i])
			}
		}
	})
}

func TestEachIsTriedOnce(t *testing.T) {
	everyPolicy(t, func(t *rapid.T, p api.Policy) {
		v := route.NewView(1, drawMeasured(t, 10))
		policy := made(t, p, 2)
		usable, last := 0, 0
		for _, e := range v.Endpoints {
			if may(p, e) {
				usable++
			}
		}
		var tried []string
		for {
			r := request(t)
			r.Tried = tried
			i, ok := policy.Pick(v, r)
			if !ok {
				break
			}
			e := v.Endpoints[i]
			if slices.Contains(tried, e.ID) || !may(p, e) || rank(e) < last {
				t.Fatalf("%+v after %v", e, tried)
			}
			last, tried = rank(e), append(tried, e.ID)
		}
		if len(tried) != usable {
			t.Fatalf("%d tried of %d", len(tried), usable)
		}
	})
}

func TestSameSeedSameChoices(t *testing.T) {
	everyPolicy(t, func(t *rapid.T, p api.Policy) {
		list := drawMeasured(t, 10)
		a, b := route.NewView(5, list), route.NewView(5, rapid.Permutation(list).Draw(t, "order"))
		x, y := made(t, p, 7), made(t, p, 7)
		for range 50 {
			r := request(t)
			i, ok := x.Pick(a, r)
			j, also := y.Pick(b, r)
			if ok != also || ok && a.Endpoints[i].ID != b.Endpoints[j].ID {
				t.Fatalf("%d %v and %d %v", i, ok, j, also)
			}
		}
	})
}

// What changes in a view counts from the next choice on.
func TestPickSeesChanges(t *testing.T) {
	everyPolicy(t, func(t *rapid.T, p api.Policy) {
		v := route.NewView(1, drawMeasured(t, 8))
		policy := made(t, p, 3)
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if len(v.Endpoints) == 0 {
				return
			}
			k := rapid.IntRange(0, len(v.Endpoints)-1).Draw(t, "which")
			e := v.Endpoints[k]
			e.Ready, e.Ejected = rapid.Bool().Draw(t, "ready"), rapid.Bool().Draw(t, "ejected")
			v.Set(k, e)
			w := made(t, p, 3).Weights(v)
			if i, ok := policy.Pick(v, request(t)); ok && w[i] == 0 || !ok && slices.Max(w) > 0 {
				t.Fatalf("picked %d %v, weights %v", i, ok, w)
			}
		}
	})
}

func TestManyEndpointsOfEveryPolicy(t *testing.T) {
	for _, p := range policies() {
		for _, n := range []int{0, 1, 10_000} {
			list := endpoints(n)
			for i := range list {
				list[i].Ordinal, list[i].RTT, list[i].Source = i, time.Duration(1+i)*time.Millisecond, route.Measured
			}
			if n == 1 {
				list[0].Ordinal = p.Ordinal
			}
			v := route.NewView(1, list)
			policy := made(t, p, 1)
			sum := 0.0
			for _, w := range policy.Weights(v) {
				sum += w
			}
			for range 100 {
				if _, ok := policy.Pick(v, route.Request{}); ok != (n > 0) {
					t.Fatalf("%s of %d: %v", p, n, ok)
				}
			}
			if math.Abs(sum-float64(min(n, 1))) > 1e-9 {
				t.Errorf("%s of %d: weights add up to %v", p, n, sum)
			}
		}
	}
}

// at is an endpoint so far away; 0 is not known.
func at(id string, ms float64) route.Endpoint {
	e := route.Endpoint{ID: id, Ready: true, RTT: time.Duration(ms * 1e6)}
	if ms > 0 {
		e.Source = route.Measured
	}
	return e
}

func weightsByID(t *testing.T, p api.Policy, list ...route.Endpoint) map[string]float64 {
	t.Helper()
	v := route.NewView(1, list)
	out := map[string]float64{}
	for i, w := range made(t, p, 1).Weights(v) {
		out[v.Endpoints[i].ID] = math.Round(w*1e6) / 1e6
	}
	return out
}

func TestWhatAPolicyPrefers(t *testing.T) {
	local := func(e route.Endpoint) route.Endpoint { e.Local = true; return e }
	guessed := func(e route.Endpoint) route.Endpoint { e.Source = route.Estimated; return e }
	ejected := func(e route.Endpoint) route.Endpoint { e.Ejected = true; return e }
	weighing := func(e route.Endpoint, w float64) route.Endpoint { e.Weight = w; return e }
	prox := func(alpha float64) api.Policy {
		return api.Policy{Name: api.PolicyProximity, Alpha: alpha, Beta: 0.5, Decay: api.DecayExponential}
	}
	for name, c := range map[string]struct {
		policy string
		p      api.Policy
		list   []route.Endpoint
		want   string
	}{
		"nearest":                         {"closest", api.Policy{}, []route.Endpoint{at("a", 5), at("b", 3), at("c", 9)}, "map[a:0 b:1 c:0]"},
		"ties share":                      {"closest", api.Policy{}, []route.Endpoint{at("a", 5), at("b", 5.05), at("c", 5.3)}, "map[a:0.5 b:0.5 c:0]"},
		"own worker before all":           {"closest", api.Policy{}, []route.Endpoint{at("a", 0.001), local(at("b", 0))}, "map[a:0 b:1]"},
		"measured before estimated":       {"closest", api.Policy{}, []route.Endpoint{at("a", 9), guessed(at("b", 1))}, "map[a:1 b:0]"},
		"estimated before unknown":        {"closest", api.Policy{}, []route.Endpoint{at("a", 0), guessed(at("b", 1))}, "map[a:0 b:1]"},
		"nothing known":                   {"closest", api.Policy{}, []route.Endpoint{at("a", 0), at("b", 0)}, "map[a:0.5 b:0.5]"},
		"the nearest has failed":          {"closest", api.Policy{}, []route.Endpoint{ejected(at("a", 1)), at("b", 3)}, "map[a:0 b:1]"},
		"own worker":                      {"local", api.Policy{}, []route.Endpoint{at("a", 1), local(at("b", 0)), local(at("c", 0))}, "map[a:0 b:0.5 c:0.5]"},
		"none on the own worker":          {"local", api.Policy{}, []route.Endpoint{at("a", 1), at("b", 7)}, "map[a:1 b:0]"},
		"that on the own worker failed":   {"local", api.Policy{}, []route.Endpoint{at("a", 1), ejected(local(at("b", 0)))}, "map[a:1 b:0]"},
		"another fallback":                {"", api.Policy{Name: "local", Fallback: "round-robin"}, []route.Endpoint{at("a", 1), at("b", 7)}, "map[a:0.5 b:0.5]"},
		"weights":                         {"weighted", api.Policy{}, []route.Endpoint{weighing(at("a", 1), 1), weighing(at("b", 1), 3)}, "map[a:0.25 b:0.75]"},
		"a weight that is not known":      {"weighted", api.Policy{}, []route.Endpoint{weighing(at("a", 1), 1), weighing(at("b", 1), math.NaN()), weighing(at("c", 1), 3)}, "map[a:0.166667 b:0.333333 c:0.5]"},
		"a distance that is not known":    {"", prox(1), []route.Endpoint{at("a", 2), at("b", 0), at("c", 4), at("d", 6)}, "map[a:0.534447 b:0.196612 c:0.196612 d:0.072329]"},
		"alpha 0":                         {"", prox(0), []route.Endpoint{at("a", 2), at("b", 400)}, "map[a:0.5 b:0.5]"},
		"far beyond what a number can be": {"", prox(1), []route.Endpoint{at("a", 5000), at("b", 5002), at("c", 90000)}, "map[a:0.731059 b:0.268941 c:0]"},
		"only far ones":                   {"", prox(0.5), []route.Endpoint{at("a", 9e4), at("b", 9e4)}, "map[a:0.5 b:0.5]"},
	} {
		p := c.p
		if c.policy != "" {
			p = api.Policy{Name: c.policy}
		}
		if got := fmt.Sprint(weightsByID(t, p, c.list...)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// What a node serves is shared by the endpoints on it.
func TestWeigh(t *testing.T) {
	node := []struct {
		name   string
		serves float64
	}{{"big", 100}, {"small", 50}, {"small", 50}, {"new", 0}, {"odd", math.NaN()}, {"broken", math.Inf(1)}}
	list := make([]route.Endpoint, len(node))
	for range 2 { // it may be weighed again
		route.Weigh(list, func(i int) route.Capable { return route.Capable{Node: node[i].name, CPU: node[i].serves} })
	}
	var got []float64
	for _, e := range list {
		got = append(got, e.Weight)
	}
	if want := []float64{256, 64, 64, 0, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func BenchmarkPickByShares(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			v := route.NewView(1, endpoints(n))
			p := made(b, api.Policy{Name: api.PolicyProximity, Alpha: 0.8, Beta: 0.5, Decay: api.DecayExponential}, 1)
			b.ReportAllocs()
			for b.Loop() {
				p.Pick(v, route.Request{})
			}
		})
	}
}
