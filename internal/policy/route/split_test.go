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

// split is a policy for a view in which a revision is tried.
func split(t rapid.TB, p api.Policy, seed uint64) route.Policy {
	return route.NewSplit(func() route.Policy { return made(t, p, seed) })
}

// tried are endpoints of clusters, each with so many old and new ones.
func tried(share float64, clusters ...[2]int) (list []route.Endpoint) {
	var of []route.Try
	for c, n := range clusters {
		for k := range n[0] + n[1] {
			list = append(list, route.Endpoint{ID: fmt.Sprintf("c%d.%d", c, k), Ready: true, Ordinal: k, RTT: time.Duration(1+30*c) * time.Millisecond, Source: route.Measured})
			of = append(of, route.Try{Cluster: fmt.Sprint(c), New: k >= n[0], Share: share})
		}
	}
	route.Group(list, func(i int) route.Try { return of[i] })
	return list
}

// The new ones get their share of what comes to their cluster, to a few requests, by every
// policy; each old one and each cluster gets what it would without them.
func TestAShareIsKept(t *testing.T) {
	for _, p := range policies() {
		if p.Name == api.PolicyInstance {
			continue // leads to one, which is an old one
		}
		for _, share := range []float64{0, 0.01, 0.05, 1.0 / 3, 0.5, 1} {
			list := tried(share, [2]int{4, 2}, [2]int{3, 0})
			v, s := route.NewView(7, list), split(t, p, 7)
			plain := made(t, p, 7)
			old := route.NewView(7, slices.DeleteFunc(slices.Clone(list), func(e route.Endpoint) bool { return e.New }))
			const n = 4000
			got, want := map[string]float64{}, map[string]float64{}
			newOnes, here, hereWithout := 0.0, 0.0, 0.0
			for range n {
				i, ok := s.Pick(v, route.Request{Now: loadTime})
				k, ok2 := plain.Pick(old, route.Request{Now: loadTime})
				if !ok || !ok2 {
					t.Fatalf("%s: nobody", p)
				}
				e := v.Endpoints[i]
				got[e.ID]++
				want[old.Endpoints[k].ID]++
				if e.New {
					newOnes++
				}
				if e.Group > 0 {
					here++
				}
				if old.Endpoints[k].Group > 0 {
					hereWithout++
				}
			}
			if math.Abs(newOnes-share*here) > 12 {
				t.Errorf("%s: the new ones got %v of %v, a share of %v", p, newOnes, here, share)
			}
			if math.Abs(here-hereWithout) > 12 {
				t.Errorf("%s: the cluster got %v with and %v without new ones", p, here, hereWithout)
			}
			for id, x := range want {
				if e := list[slices.IndexFunc(list, func(e route.Endpoint) bool { return e.ID == id })]; e.Group > 0 {
					x *= 1 - share
				}
				if p.Name != api.PolicyRandom && p.Name != api.PolicyTwoChoices && math.Abs(got[id]-x) > 60 {
					t.Errorf("%s: %s got %v, %v would be its part at a share of %v", p, id, got[id], x, share)
				}
			}
			w := s.Weights(v)
			var sum, ofNew, ofHere float64
			for i, x := range w {
				sum += x
				if v.Endpoints[i].New {
					ofNew += x
				}
				if v.Endpoints[i].Group > 0 {
					ofHere += x
				}
			}
			if math.Abs(sum-1) > 1e-9 || math.Abs(ofNew-share*ofHere) > 1e-9 {
				t.Errorf("%s: weights %v: %v of %v for the new ones", p, w, ofNew, ofHere)
			}
		}
	}
}

// Whatever endpoints there are and whatever becomes of them: somebody gets the request if
// anybody can, none that was asked already, and no new one where its share is 0 and an old
// one could have it.
func TestASplitFindsSomebody(t *testing.T) {
	everyPolicy(t, func(t *rapid.T, p api.Policy) {
		list := drawMeasured(t, 12)
		of := map[string]route.Try{}
		for _, e := range list {
			if _, ok := of[e.ID]; !ok {
				of[e.ID] = route.Try{
					Cluster: rapid.SampledFrom([]string{"a", "b"}).Draw(t, "cluster"), New: rapid.Bool().Draw(t, "new"),
					Share: rapid.SampledFrom([]float64{0, 0.05, 0.5, 1, -1, math.NaN(), 7, math.Inf(1)}).Draw(t, "share"),
				}
			}
		}
		route.Group(list, func(i int) route.Try { return of[list[i].ID] })
		v, s := route.NewView(3, list), split(t, p, 3)
		sum := 0.0
		for _, w := range s.Weights(v) {
			if !(w >= 0 && w <= 1+1e-9) {
				t.Fatalf("a weight of %v", w)
			}
			sum += w
		}
		if sum != 0 && math.Abs(sum-1) > 1e-9 {
			t.Fatalf("the weights add up to %v", sum)
		}
		for range 5 {
			r := request(t)
			for {
				i, ok := s.Pick(v, r)
				left := slices.ContainsFunc(v.Endpoints, func(e route.Endpoint) bool { return may(p, e) && !slices.Contains(r.Tried, e.ID) })
				if !ok {
					if left {
						t.Fatalf("nobody, after %v of %+v", r.Tried, v.Endpoints)
					}
					break
				}
				e := v.Endpoints[i]
				if !may(p, e) || slices.Contains(r.Tried, e.ID) {
					t.Fatalf("%s is chosen, after %v", e.ID, r.Tried)
				}
				if e.New && (e.Share == 0 || len(r.Tried) > 0) {
					for _, o := range v.Endpoints {
						if !o.New && may(p, o) && !o.Suspect && !o.Ejected && !slices.Contains(r.Tried, o.ID) {
							t.Fatalf("%s is chosen at a share of %v after %v, though there is %s", e.ID, e.Share, r.Tried, o.ID)
						}
					}
				}
				r.Tried = append(slices.Clone(r.Tried), e.ID)
			}
		}
	})
}

// A new one that has no place left is passed over while the other has one.
func TestAShareDoesNotQueue(t *testing.T) {
	list := tried(0.5, [2]int{2, 1})
	for i := range list {
		list[i].Load.Concurrency = 4
		if list[i].New {
			list[i].Load.InFlight = 4
		}
	}
	v, s := route.NewView(1, list), split(t, api.Policy{}, 1)
	for range 100 {
		if i, ok := s.Pick(v, route.Request{Now: loadTime}); !ok || v.Endpoints[i].New {
			t.Fatal("a request is put into a queue for the sake of a share")
		}
	}
}

// A choice allocates nothing.
func TestASplitAllocatesNothing(t *testing.T) {
	for _, name := range []string{api.PolicyRoundRobin, api.PolicyFastest, api.PolicyLeastConnections} {
		v, s := route.NewView(1, tried(0.3, [2]int{8, 2}, [2]int{4, 1})), split(t, api.Policy{Name: name}, 1)
		s.Pick(v, route.Request{Now: loadTime})
		if n := testing.AllocsPerRun(200, func() { s.Pick(v, route.Request{Now: loadTime}) }); n > 0 {
			t.Errorf("%s: %v pieces of memory for a choice", name, n)
		}
	}
}
