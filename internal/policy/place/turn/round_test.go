package turn_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/turn"
)

const (
	mi = api.Bytes(1 << 20)
	gi = api.Bytes(1 << 30)
)

// The example of the paper on dominant resource fairness: 9 processors and 18 GB, A
// demands 1 and 4, B 3 and 1. A gets three instances, B two.
func TestRoundIsFair(t *testing.T) {
	r := turn.NewRound(api.Resources{CPU: 9000, Memory: 18 * gi}, nil, []turn.Contender{
		{Service: "a", Demand: api.Resources{CPU: 1000, Memory: 4 * gi}, Waiting: 100},
		{Service: "b", Demand: api.Resources{CPU: 3000, Memory: gi}, Waiting: 100},
	})
	var order []int
	for range 5 {
		order = append(order, r.Next())
		r.Placed()
	}
	if want := []int{0, 1, 0, 1, 0}; !slices.Equal(order, want) && !slices.Equal(order, []int{0, 1, 0, 0, 1}) {
		t.Errorf("the order is %v", order)
	}
}

// A namespace with ten services gets no more than one with one, and what runs counts.
func TestRoundIsFairToGroups(t *testing.T) {
	one := api.Resources{CPU: 1000}
	list := []turn.Contender{{Service: "alone", Group: "x", Demand: one, Waiting: 100}}
	for i := range 10 {
		list = append(list, turn.Contender{Service: fmt.Sprintf("s%d", i), Group: "y", Demand: one, Waiting: 100})
	}
	r := turn.NewRound(api.Resources{CPU: 100_000}, map[string]api.Resources{"x": {CPU: 10_000}}, list)
	got := map[string]int{}
	each := map[int]int{}
	for range 90 {
		i := r.Next()
		each[i]++
		got[list[i].Group]++
		r.Placed()
	}
	if got["x"] != 40 || got["y"] != 50 {
		t.Errorf("x has 10 and gets %d, y gets %d of 90", got["x"], got["y"])
	}
	for i := range 10 {
		if each[i+1] != 5 {
			t.Errorf("within y they get %v", each)
		}
	}
}

// With twice the weight a namespace is due twice the share, of what it has and of what
// it gets; a weight below 1 is 1.
func TestRoundIsFairByWeight(t *testing.T) {
	one := api.Resources{CPU: 1000}
	list := []turn.Contender{
		{Service: "a", Group: "x", Weight: 3, Demand: one, Waiting: 100},
		{Service: "b", Group: "y", Demand: one, Waiting: 100},
		{Service: "c", Group: "z", Weight: -7, Demand: one, Waiting: 100},
	}
	r := turn.NewRound(api.Resources{CPU: 100_000}, map[string]api.Resources{"x": {CPU: 9000}, "z": {CPU: 11_000}}, list)
	got := map[string]int{}
	for range 80 {
		got[list[r.Next()].Group]++
		if turn := r.Turn(); turn.Group != list[r.Next()].Group || turn.Groups != 3 || turn.Weight != max(1, list[r.Next()].Weight) {
			t.Fatalf("%+v", turn)
		}
		r.Placed()
	}
	if got["x"] != 51 || got["y"] != 20 || got["z"] != 9 {
		t.Errorf("they get %v, beside 9, 0 and 11", got)
	}
	if turn := r.Turn(); turn.Share != 0.2 && turn.Share != 0.6 || turn.Of != "cpu" {
		t.Errorf("%+v", turn)
	}
}

// Within a namespace those of the highest priority are next; between namespaces no
// priority counts.
func TestRoundGoesByPriorityWithinAGroup(t *testing.T) {
	one := api.Resources{CPU: 1000}
	list := []turn.Contender{
		{Service: "a", Group: "x", Demand: one, Waiting: 4},
		{Service: "b", Group: "x", Priority: 9, Demand: one, Waiting: 2, Used: api.Resources{CPU: 2000}},
		{Service: "c", Group: "x", Priority: 9, Demand: one, Waiting: 2},
		{Service: "d", Group: "y", Demand: one, Waiting: 4},
	}
	r := turn.NewRound(api.Resources{CPU: 100_000}, nil, list)
	var order []string
	for i := r.Next(); i >= 0; i = r.Next() {
		order = append(order, list[i].Service)
		r.Placed()
	}
	if want := []string{"d", "d", "c", "d", "c", "d", "b", "b", "a", "a", "a", "a"}; !slices.Equal(order, want) {
		t.Errorf("the order is %v, want %v", order, want)
	}
}

// Weighted max-min on one resource: when it is given out, no group could have had more
// but by taking from one that has less by its weight. With weights of 1 the order is
// that without any, and every service of a group gets on.
func TestRoundProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const all = 1_000_000
		var list, plain []turn.Contender
		weights := map[string]int{}
		for i := range rapid.IntRange(1, 8).Draw(t, "contenders") {
			c := turn.Contender{
				Service: fmt.Sprintf("s%d", i), Group: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "group"),
				Demand: api.Resources{CPU: api.CPU(rapid.IntRange(1, 5000).Draw(t, "demand"))}, Waiting: rapid.IntRange(1, 400).Draw(t, "waiting"),
			}
			if weights[c.Group] == 0 {
				weights[c.Group] = rapid.IntRange(1, 10).Draw(t, "weight")
			}
			plain = append(plain, c)
			c.Weight = weights[c.Group]
			list = append(list, c)
		}
		total := api.Resources{CPU: all}
		r, has, left, most := turn.NewRound(total, nil, list), map[string]int{}, map[string]int{}, map[string]int{}
		for _, c := range list {
			left[c.Group] += c.Waiting
			most[c.Group] = max(most[c.Group], int(c.Demand.CPU))
		}
		each := map[int]int{}
		for n, free := r.Next(), all; n >= 0 && free >= 5000; n = r.Next() { // as long as there is room for any
			c := list[n]
			has[c.Group] += int(c.Demand.CPU)
			free -= int(c.Demand.CPU)
			left[c.Group]--
			each[n]++
			r.Placed()
		}
		for g := range has {
			for o, n := range left {
				// o would like more: g has no more than o by weight, but for its last.
				if n > 0 && float64(has[g]-most[g])/float64(weights[g]) > float64(has[o])/float64(weights[o]) {
					t.Fatalf("%s has %d by weight %d, and %s %d by %d", g, has[g], weights[g], o, has[o], weights[o])
				}
			}
		}
		for i, c := range list {
			for k, o := range list {
				if c.Group == o.Group && each[i] < c.Waiting && (each[k]-1)*int(o.Demand.CPU) > each[i]*int(c.Demand.CPU) {
					t.Fatalf("within %s %s has %d of %s, and %s %d of %s", c.Group, c.Service, each[i], c.Demand.CPU, o.Service, each[k], o.Demand.CPU)
				}
			}
		}
		for i := range list {
			list[i].Weight = 1
		}
		a, b := turn.NewRound(total, nil, list), turn.NewRound(total, nil, plain)
		for n := a.Next(); n >= 0; n = a.Next() {
			if other := b.Next(); other != n {
				t.Fatalf("weight 1: %d is next, without %d", n, other)
			}
			a.Placed()
			b.Placed()
		}
	})
}

// To say who got what, one by one or several at a time, is the same as to say that who was
// next got it.
func TestTookIsPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := api.Resources{CPU: 64000, Memory: 64 * gi}
		var list []turn.Contender
		for i := range rapid.IntRange(1, 6).Draw(t, "contenders") {
			list = append(list, turn.Contender{
				Service: fmt.Sprint("s", i), Group: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "group"), Weight: rapid.IntRange(0, 3).Draw(t, "weight"),
				Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Waiting: rapid.IntRange(1, 5).Draw(t, "waiting"),
				Demand: api.Resources{CPU: api.CPU(rapid.Int64Range(1, 4000).Draw(t, "cpu")), Memory: api.Bytes(rapid.Int64Range(1, 4).Draw(t, "memory")) * gi},
			})
		}
		a, b := turn.NewRound(total, nil, list), turn.NewRound(total, nil, list)
		for n := a.Next(); n >= 0; n = a.Next() {
			if b.Next() != n || a.Turn() != b.Turn() {
				t.Fatalf("%d and %d are next", n, b.Next())
			}
			if rapid.Bool().Draw(t, "placed") {
				a.Placed()
				b.Took(n, 1, false)
			} else {
				a.Leave()
				b.Took(n, 0, true)
			}
		}
		if b.Next() >= 0 {
			t.Fatal("one is left")
		}
	})
}
