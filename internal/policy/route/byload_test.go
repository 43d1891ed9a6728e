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

// loadPolicies look at the load of endpoints, billiard at their shares; all are by
// request.
var loadPolicies = []string{api.PolicyBilliard, api.PolicyLeastConnections, api.PolicyTwoChoices, api.PolicyLeastResponse, api.PolicyFastest}

// loaded is an endpoint with a load.
func loaded(id string, rttMS float64, l route.Load) route.Endpoint {
	e := at(id, rttMS)
	e.Load = l
	return e
}

func picked(t *testing.T, policy string, r route.Request, list ...route.Endpoint) string {
	t.Helper()
	v := route.NewView(1, list)
	i, ok := made(t, api.Policy{Name: policy}, 1).Pick(v, r)
	if !ok {
		return ""
	}
	return v.Endpoints[i].ID
}

func TestWhatALoadPolicyPrefers(t *testing.T) {
	const ms = time.Millisecond
	now := loadTime
	busy := func(n int, exec time.Duration) route.Load {
		return route.Load{InFlight: n, Since: n, Exec: exec, Concurrency: 4, Capacity: 4 / exec.Seconds(), Reported: now}
	}
	// told is busy with so many answers that its places count.
	told := func(n int, exec time.Duration) route.Load {
		l := busy(0, exec)
		for range 40 {
			s := l.Began(loadTime)
			l.Ended(false)
			l.Answered(loadTime, s, exec)
		}
		l.InFlight = n
		return l
	}
	failed, asleep, newcomer := told(0, 100*ms), told(0, 100*ms), route.Load{Concurrency: 4}
	failed.Failed, asleep.Asleep, asleep.StartUp = now.Add(-time.Second), true, 300*ms
	thin := told(0, 100*ms)
	thin.Bandwidth = 1e6
	thinBack := told(0, 100*ms)
	thinBack.Bandwidth, thinBack.Back = 1e9, 1e6
	others := told(0, 100*ms)
	others.Others = 4
	for name, c := range map[string]struct {
		policy string
		bytes  int64
		list   []route.Endpoint
		want   string
	}{
		"fewest in flight":                  {api.PolicyLeastConnections, 0, []route.Endpoint{loaded("a", 1, busy(3, ms)), loaded("b", 50, busy(2, time.Hour)), loaded("c", 1, busy(4, ms))}, "b"},
		"of two the one with fewer":         {api.PolicyTwoChoices, 0, []route.Endpoint{loaded("a", 1, busy(3, ms)), loaded("b", 1, busy(2, ms))}, "b"},
		"shorter by capacity":               {api.PolicyLeastResponse, 0, []route.Endpoint{loaded("a", 1, busy(3, 100*ms)), loaded("b", 1, busy(2, 200*ms))}, "a"},
		"alike, so the nearer":              {api.PolicyLeastResponse, 0, []route.Endpoint{loaded("a", 9, busy(1, 100*ms)), loaded("b", 1, busy(1, 100*ms))}, "b"},
		"unreported counts as the best":     {api.PolicyLeastResponse, 0, []route.Endpoint{loaded("a", 1, busy(0, 100*ms)), loaded("b", 1, busy(0, 200*ms)), loaded("c", 0.5, route.Load{})}, "c"},
		"the near and idle one":             {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, told(0, 100*ms)), loaded("b", 30, told(0, 100*ms))}, "a"},
		"near but loaded":                   {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, told(6, 100*ms)), loaded("b", 30, told(0, 100*ms))}, "b"},
		"far but fast":                      {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, told(0, 500*ms)), loaded("b", 90, told(1, 100*ms))}, "b"},
		"a thin link, a small body":         {api.PolicyFastest, 1000, []route.Endpoint{loaded("a", 1, thin), loaded("b", 90, told(0, 100*ms))}, "a"},
		"a thin link, a large body":         {api.PolicyFastest, 1 << 20, []route.Endpoint{loaded("a", 1, thin), loaded("b", 90, told(0, 100*ms))}, "b"},
		"others are there":                  {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, others), loaded("b", 20, told(0, 100*ms))}, "b"},
		"it has failed just now":            {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, failed), loaded("b", 20, told(0, 100*ms))}, "b"},
		"awake before asleep":               {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, asleep), loaded("b", 20, told(1, 100*ms))}, "b"},
		"asleep before a long queue":        {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, asleep), loaded("b", 20, told(20, 100*ms))}, "a"},
		"a newcomer is tried":               {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, newcomer), loaded("b", 1, told(3, 100*ms))}, "a"},
		"a newcomer has to show first":      {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 1, route.Load{Concurrency: 4, InFlight: 1}), loaded("b", 1, told(1, 100*ms))}, "b"},
		"only the asleep one":               {api.PolicyLeastConnections, 0, []route.Endpoint{loaded("a", 1, asleep)}, "a"},
		"awake, by the fewest connections":  {api.PolicyLeastConnections, 0, []route.Endpoint{loaded("a", 1, asleep), loaded("b", 1, busy(9, ms))}, "b"},
		"an unknown distance is a mean one": {api.PolicyFastest, 0, []route.Endpoint{loaded("a", 2, busy(0, ms)), loaded("b", 0, busy(0, ms)), loaded("c", 20, busy(0, ms))}, "a"},
	} {
		if got := picked(t, c.policy, route.Request{Now: now, Bytes: c.bytes}, c.list...); got != c.want {
			t.Errorf("%s (%s): %s, want %s", name, c.policy, got, c.want)
		}
	}
	for since, want := range map[time.Duration]string{0: "a", time.Second: "a", 1200 * ms: "b"} {
		tried := told(0, 100*ms)
		tried.Trial = route.Trial{Bytes: 1 << 20, Since: now.Add(-since)}
		for bytes, want := range map[int64]string{1 << 20: want, 1000: "a"} {
			if got := picked(t, api.PolicyFastest, route.Request{Now: now, Bytes: bytes}, loaded("a", 1, tried), loaded("b", 90, told(0, 100*ms))); got != want {
				t.Errorf("%d bytes, and another body has been on its way for %v: %s, want %s", bytes, since, got, want)
			}
		}
	}
	near, far := loaded("a", 1, thinBack), loaded("b", 90, told(0, 100*ms))
	for want, r := range map[string]route.Request{"a": {Now: now, Bytes: 1 << 20}, "b": {Now: now, Bytes: 1 << 20, Answer: 1 << 20}} {
		if got := picked(t, api.PolicyFastest, r, near, far); got != want {
			t.Errorf("a line that is thin on its way back, %d bytes of answer: %s, want %s", r.Answer, got, want)
		}
	}
}

// Where all are alike, all are used alike: these policies turn into a rotation.
func TestEqualLoadsTakeTurns(t *testing.T) {
	for _, name := range loadPolicies {
		for _, n := range []int{1, 2, 7, 100} {
			v := route.NewView(3, endpoints(n))
			p, counts := made(t, api.Policy{Name: name}, 5), make([]int, n)
			for range 20 * n {
				i, ok := p.Pick(v, route.Request{Now: loadTime})
				if !ok {
					t.Fatal("nothing picked")
				}
				counts[i]++
			}
			low, high := slices.Min(counts), slices.Max(counts)
			if name == api.PolicyTwoChoices {
				if low == 0 || high > 60 { // Binomial(20n, 1/n): 20 and at most 4.5
					t.Errorf("%s of %d: %v", name, n, counts)
				}
			} else if low != 20 || high != 20 {
				t.Errorf("%s of %d: from %d to %d", name, n, low, high)
			}
		}
	}
}

// Who was slow once is tried again in time: not while that is fresh news, and after an hour, when it
// says little, in one of explore choices until it has answered.
func TestFastestLeavesNobodyOutForEver(t *testing.T) {
	answered := func(took time.Duration, times int) (l route.Load) {
		l.Concurrency = 1
		for range times {
			s := l.Began(loadTime)
			l.Heard(loadTime)
			l.Ended(true)
			l.Report(loadTime, 0, 0)
			l.Answered(loadTime, s, took)
		}
		return l
	}
	v := route.NewView(1, []route.Endpoint{
		loaded("slow", 1, answered(400*time.Millisecond, 100)), loaded("fast", 1, answered(100*time.Millisecond, 100)),
	})
	p := made(t, api.Policy{Name: api.PolicyFastest}, 1)
	uses := func(now time.Time) (n int) {
		for range 2000 {
			i, _ := p.Pick(v, route.Request{Now: now})
			if v.Endpoints[i].ID == "slow" {
				n++
				continue
			}
			l := v.Endpoints[i].Load
			l.Answered(now, l.Began(now), 100*time.Millisecond)
			l.Heard(now)
			l.Ended(true)
			v.SetLoad(i, l)
		}
		return n
	}
	if n := uses(loadTime.Add(time.Second)); n != 0 {
		t.Errorf("it was heard of just now, and used %d times", n)
	}
	if n := uses(loadTime.Add(time.Hour)); n < 3 || n > 40 {
		t.Errorf("it was not heard of for an hour, and used %d times of 2000", n)
	}
}

// Without a queue the first choice is the nearest. Who has never answered may be faster than it.
func TestFastestTriesWhomItDoesNotKnow(t *testing.T) {
	v := route.NewView(1, []route.Endpoint{
		{ID: "near", Ready: true, Local: true, Load: route.Load{Concurrency: 1}},
		{ID: "far", Ready: true, RTT: 20 * time.Millisecond, Source: route.Measured, Load: route.Load{Concurrency: 1}},
	})
	p := made(t, api.Policy{Name: api.PolicyFastest}, 1)
	now, counts := loadTime, map[string]int{}
	for range 1000 {
		i, _ := p.Pick(v, route.Request{Now: now})
		counts[v.Endpoints[i].ID]++
		took := 100 * time.Millisecond
		if v.Endpoints[i].ID == "far" {
			took = 30 * time.Millisecond
		}
		l := v.Endpoints[i].Load
		sent := l.Began(now)
		now = now.Add(took)
		l.Heard(now)
		l.Answered(now, sent, took)
		l.Ended(true)
		v.SetLoad(i, l)
	}
	if counts["far"] < 700 {
		t.Errorf("the far one answers in half the time, and got %d of 1000 requests", counts["far"])
	}
}

// The order of a billiard word.
func TestBilliardWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 8).Draw(t, "n")
		list, total := endpoints(n), 0
		rates := make(map[string]int, n)
		for i := range list {
			k := rapid.IntRange(1, 12).Draw(t, "rate")
			list[i].Weight = float64(k)
			rates[list[i].ID] = k
			total += k
		}
		v := route.NewView(1, list)
		p := made(t, api.Policy{Name: api.PolicyBilliard}, 1)
		counts, last := map[string]int{}, map[string]int{}
		var word []string
		for k := 1; k <= 4*total; k++ {
			i, ok := p.Pick(v, route.Request{})
			if !ok {
				t.Fatal("nothing picked")
			}
			id := v.Endpoints[i].ID
			word = append(word, id)
			counts[id]++
			gap := float64(total) / float64(rates[id])
			if at, before := last[id]; before && math.Abs(float64(k-at)-gap) > float64(n) {
				t.Fatalf("a gap of %d, on average it is %.1f", k-at, gap)
			}
			last[id] = k
			for id, r := range rates {
				// For two it is below 1; of more the fastest lets all others go first.
				bound := float64(max(1, n-1))
				if off := math.Abs(float64(counts[id]) - float64(k)*float64(r)/float64(total)); off > bound+1e-9 {
					t.Fatalf("%s was used %d times of %d, its share is %d of %d", id, counts[id], k, r, total)
				}
			}
		}
		if period := total; !slices.Equal(word[:period], word[period:2*period]) {
			t.Fatalf("the word is not periodic: %v", word[:2*period])
		}
	})
}

func TestBilliardNeverUsesWhatHasNoShare(t *testing.T) {
	list := []route.Endpoint{at("a", 1), at("b", 1), at("c", 1)}
	list[0].Weight, list[1].Weight, list[2].Weight = 1, 3, 5e-324
	v := route.NewView(1, list)
	p := made(t, api.Policy{Name: api.PolicyBilliard}, 1)
	for range 1000 {
		if i, _ := p.Pick(v, route.Request{}); v.Endpoints[i].ID == "c" {
			t.Fatal("c has next to nothing, and was used")
		}
	}
	if i, ok := p.Pick(v, route.Request{Tried: []string{"a", "b"}}); !ok || v.Endpoints[i].ID != "c" {
		t.Error("rather c than nobody")
	}
}

// Who comes gets no burst, and the others keep their turns.
func TestBilliardSurvivesChurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := endpoints(10)
		for i := range all {
			all[i].Weight = float64(1 + i%3)
		}
		p := made(t, api.Policy{Name: api.PolicyBilliard}, 1)
		in := []int{0, 1, 2}
		lastUse, newcomer := map[string]int{}, map[string]bool{}
		k := 0
		for range rapid.IntRange(1, 20).Draw(t, "changes") {
			list := make([]route.Endpoint, 0, len(in))
			total := 0.0
			for _, i := range in {
				list = append(list, all[i])
				total += all[i].Weight
			}
			v := route.NewView(7, list)
			for range rapid.IntRange(1, 30).Draw(t, "picks") {
				i, ok := p.Pick(v, route.Request{})
				if !ok {
					t.Fatal("nothing picked")
				}
				k++
				id := v.Endpoints[i].ID
				if at, used := lastUse[id]; used && !newcomer[id] && k-at < int(total/v.Endpoints[i].Weight/2)-len(list) {
					t.Fatalf("%s again after %d, usual is %.1f", id, k-at, total/v.Endpoints[i].Weight)
				}
				lastUse[id] = k
				delete(newcomer, id)
			}
			next := rapid.IntRange(3, 9).Draw(t, "who")
			if at := slices.Index(in, next); at >= 0 {
				in = slices.Delete(in, at, at+1)
				delete(lastUse, all[next].ID)
			} else {
				in = append(in, next)
				newcomer[all[next].ID] = true
			}
			for id := range lastUse { // a set that changes changes all gaps
				newcomer[id] = true
			}
		}
	})
}

// Every policy by load is quick and makes no garbage, with few endpoints and with
// ten thousand.
func TestPickByLoadMakesNoGarbage(t *testing.T) {
	for _, name := range loadPolicies {
		for _, n := range []int{10, 10_000} {
			list := endpoints(n)
			for i := range list {
				list[i].Load = route.Load{Exec: time.Millisecond * time.Duration(1+i%5), Concurrency: 4, Capacity: 100, Asleep: i == 3, Reported: loadTime}
			}
			v := route.NewView(1, list)
			p := made(t, api.Policy{Name: name}, 1)
			p.Pick(v, route.Request{Now: loadTime})
			if allocs := testing.AllocsPerRun(200, func() {
				i, _ := p.Pick(v, route.Request{Now: loadTime, Bytes: 1000})
				l := v.Endpoints[i].Load
				l.Began(loadTime)
				v.SetLoad(i, l)
			}); allocs != 0 {
				t.Errorf("%s of %d: %v allocations a choice", name, n, allocs)
			}
		}
	}
}

// FuzzPick gives every policy by load numbers that nobody would measure.
func FuzzPick(f *testing.F) {
	f.Add(uint64(1), 3, -1, int64(5), math.NaN(), math.Inf(1), int64(-7), int64(1)<<62)
	f.Add(uint64(9), 0, math.MaxInt, int64(math.MinInt64), 1e-300, math.Copysign(0, -1), int64(0), int64(-1))
	f.Fuzz(func(t *testing.T, seed uint64, a, b int, span int64, x, y float64, at, bytes int64) {
		l := route.Load{
			InFlight: a, Since: b, Queue: b, Running: a, Others: x, Capacity: y, Bandwidth: x, Exec: time.Duration(span),
			Concurrency: b, StartUp: time.Duration(at), Reported: time.Unix(at, 0), Failed: time.Unix(span, 0),
		}
		l.Back, l.Trial = y, route.Trial{Bytes: span, Since: time.Unix(at, 0)}
		s := l.Began(loadTime)
		l.Ended(false)
		l.Report(time.Unix(at, 1), a, b)
		l.Answered(loadTime, s, time.Duration(at))
		list := endpoints(4)
		list[0].Load, list[1].Load = l, l
		list[1].Load.Others, list[1].Load.Exec, list[2].RTT, list[2].Source = y, time.Duration(bytes), time.Duration(span), route.Measured
		v := route.NewView(seed, list)
		for _, name := range loadPolicies {
			p, err := route.New(api.Policy{Name: name}, seed)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if i, ok := p.Pick(v, route.Request{Now: time.Unix(at, 0), Bytes: bytes}); !ok || i < 0 || i >= 4 {
					t.Fatalf("%s: %d %v", name, i, ok)
				}
			}
			sum := 0.0
			for _, w := range p.Weights(v) {
				sum += w
			}
			if !(math.Abs(sum-1) < 1e-9) {
				t.Fatalf("%s: weights add up to %v", name, sum)
			}
		}
	})
}

func BenchmarkPickByLoad(b *testing.B) {
	for _, name := range loadPolicies {
		for _, n := range []int{10, 10_000} {
			b.Run(fmt.Sprint(name, "/", n), func(b *testing.B) {
				list := endpoints(n)
				for i := range list {
					list[i].RTT, list[i].Source = time.Duration(i%50)*time.Millisecond, route.Measured
					l := route.Load{Exec: time.Millisecond, Concurrency: 10, Capacity: 100}
					for k := range 20 {
						s := l.Began(loadTime)
						l.Heard(loadTime)
						l.Report(loadTime, 0, 1+k%2)
						l.Answered(loadTime, s, time.Duration(1+(i+k)%5)*time.Millisecond)
						if k%3 > 0 {
							l.Ended(true)
						}
					}
					list[i].Load = l
				}
				v := route.NewView(1, list)
				p := made(b, api.Policy{Name: name}, 1)
				b.ReportAllocs()
				for b.Loop() {
					p.Pick(v, route.Request{Now: loadTime, Bytes: 1000})
				}
			})
		}
	}
}
