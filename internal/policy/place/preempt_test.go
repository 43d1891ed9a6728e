package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

func occupant(id string, priority int, cpu api.CPU) Occupant {
	return Occupant{ID: id, Claim: turn.Claim{Group: "x", Rank: priority, Priority: priority}, Reserves: api.Resources{CPU: cpu, Memory: 512 * mi}}
}

func TestPreempt(t *testing.T) {
	full := func(id string) WorkerView { return worker(id, api.Resources{CPU: 4000}) }
	want := func(cpu api.CPU, priority int) Request {
		return with(func(r *Request) { r.Demand.CPU, r.Priority = cpu, priority })
	}
	for name, c := range map[string]struct {
		workers []WorkerView
		on      map[string][]Occupant
		req     Request
		worker  string
		victims []string
	}{
		"the lowest":          {[]WorkerView{full("a"), full("b")}, map[string][]Occupant{"a": {occupant("x", 2, 1000)}, "b": {occupant("y", 1, 1000)}}, want(500, 5), "b", []string{"y"}},
		"the fewest":          {[]WorkerView{full("a")}, map[string][]Occupant{"a": {occupant("x", 1, 100), occupant("y", 1, 1000), occupant("z", 1, 200)}}, want(500, 5), "a", []string{"y"}},
		"none that can stay":  {[]WorkerView{full("a")}, map[string][]Occupant{"a": {occupant("x", 0, 100), occupant("y", 1, 1000)}}, want(500, 5), "a", []string{"y"}},
		"never an equal":      {[]WorkerView{full("a")}, map[string][]Occupant{"a": {occupant("x", 5, 1000)}}, want(500, 5), "", nil},
		"never without use":   {[]WorkerView{full("a")}, map[string][]Occupant{"a": {occupant("x", 1, 100)}}, want(500, 5), "", nil},
		"not where it cannot": {[]WorkerView{worker("a", api.Resources{CPU: 4000}, suspect), full("b")}, map[string][]Occupant{"a": {occupant("x", 0, 1000)}, "b": {occupant("y", 3, 1000)}}, want(500, 5), "b", []string{"y"}},
		"room anyway":         {[]WorkerView{worker("a", api.Resources{})}, map[string][]Occupant{"a": {occupant("x", 0, 1000)}}, want(500, 5), "a", nil},
		"whoever has the card": {[]WorkerView{equipped("a", cards("gpu - 1", "camera"))},
			map[string][]Occupant{"a": {occupant("x", 0, 100), {ID: "y", Claim: turn.Claim{Group: "x", Priority: 1}, Reserves: api.Resources{VGPUs: 1000}, Devices: []wire.Held{{ID: "d0", Share: 1000}}}}},
			with(func(r *Request) { r.Demand.VGPUs, r.Priority = 500, 2 }), "a", []string{"y"}},
	} {
		w, victims := Preempt(c.workers, c.on, c.req, turn.Claim{Group: "x", Rank: c.req.Priority, Priority: c.req.Priority})
		var ids []string
		for _, v := range victims {
			ids = append(ids, v.ID)
		}
		if w != c.worker || !slices.Equal(ids, c.victims) {
			t.Errorf("%s: %v on %q, want %v on %q", name, ids, w, c.victims, c.worker)
		}
	}
}

// mosts are the highest priorities that count between the groups of genClaim.
var mosts = map[string]int{"x": 0, "y": 2, "z": 4}

func genClaim(t *rapid.T) turn.Claim {
	c := turn.Claim{Group: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "group"), Priority: rapid.IntRange(0, 5).Draw(t, "priority")}
	c.Rank = turn.RankOf(c.Priority, mosts[c.Group])
	return c
}

// Nobody displaces others in a ring, and who may is a matter of both alone.
func TestClaims(t *testing.T) {
	for _, c := range []struct {
		a, b turn.Claim
		want bool
	}{
		{turn.Claim{Group: "x", Rank: 0, Priority: 5}, turn.Claim{Group: "x", Rank: 0, Priority: 4}, true},
		{turn.Claim{Group: "x", Rank: 0, Priority: 5}, turn.Claim{Group: "x", Rank: 0, Priority: 5}, false},
		{turn.Claim{Group: "x", Rank: 0, Priority: 5}, turn.Claim{Group: "y", Rank: 0, Priority: 0}, false}, // what does not count for others
		{turn.Claim{Group: "y", Rank: 1, Priority: 1}, turn.Claim{Group: "x", Rank: 0, Priority: 900}, true},
		{turn.Claim{Group: "y", Rank: 2, Priority: 9}, turn.Claim{Group: "z", Rank: 2, Priority: 2}, false},
	} {
		if got := c.a.Over(c.b); got != c.want {
			t.Errorf("%+v over %+v: %v", c.a, c.b, got)
		}
	}
	for _, c := range []struct{ priority, most, want int }{{5, 0, 0}, {5, 3, 3}, {2, 3, 2}, {-4, 3, 0}, {4, -1, 0}} {
		if got := turn.RankOf(c.priority, c.most); got != c.want {
			t.Errorf("rank of %d, at most %d: %d", c.priority, c.most, got)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		a, b := genClaim(t), genClaim(t)
		if a.Over(b) && a.Compare(b) <= 0 {
			t.Fatalf("%+v displaces %+v, and nothing keeps them from a ring", a, b)
		}
	})
}

// Nobody waits behind one of a lower rank, nor within a group behind one of a lower
// priority; between groups of one rank the order is as it was, but for promises.
func TestInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var list []turn.Waiter
		for range rapid.IntRange(0, 12).Draw(t, "waiting") {
			w := turn.Waiter{Claim: genClaim(t), Promised: rapid.Bool().Draw(t, "promised")}
			w.Promised = w.Promised && w.Priority > 0
			list = append(list, w)
		}
		order := turn.InTurn(list)
		if sorted := slices.Sorted(slices.Values(order)); len(order) != len(list) || len(slices.Compact(sorted)) != len(list) {
			t.Fatalf("%v of %d", order, len(list))
		}
		groups := func(rank int, of []int) (out []string) {
			for _, i := range of {
				if list[i].Rank == rank {
					out = append(out, list[i].Group)
				}
			}
			return out
		}
		for n, i := range order {
			for _, k := range order[n+1:] {
				a, b := list[i], list[k]
				if a.Rank < b.Rank || a.Group == b.Group && a.Priority < b.Priority || a.Claim == b.Claim && a.Promised == b.Promised && i > k {
					t.Fatalf("%d %+v before %d %+v", i, a, k, b)
				}
			}
		}
		for rank := range 5 {
			var kept, later []int
			for i := range list {
				if list[i].Promised {
					kept = append(kept, i)
				} else {
					later = append(later, i)
				}
			}
			if want, got := groups(rank, append(kept, later...)), groups(rank, order); !slices.Equal(got, want) {
				t.Fatalf("of rank %d the groups are %v, want %v", rank, got, want)
			}
		}
	})
	if got := turn.InTurn([]turn.Waiter{{}, {Claim: turn.Claim{Group: "x"}}, {}}); !slices.Equal(got, []int{0, 1, 2}) {
		t.Errorf("without priorities: %v", got)
	}
}

// Whoever is displaced may be, without all of them the request fits, and
// with any one of them it would not; the order of what is listed does not matter.
func TestPreemptProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers, on := genWorkers(t), map[string][]Occupant{}
		for i := range workers {
			workers[i].Used = api.Resources{}
			for k := range rapid.IntRange(0, 5).Draw(t, "occupants") {
				o := Occupant{ID: fmt.Sprintf("o%d.%d", i, k), Claim: genClaim(t), Reserves: amount.Clean(genResources(t, "reserves"))}
				on[workers[i].ID] = append(on[workers[i].ID], o)
				workers[i].Used = amount.Add(workers[i].Used, o.Reserves)
			}
			workers[i].Capacity = amount.Larger(workers[i].Capacity, workers[i].Used) // nothing is overcommitted
		}
		req := genRequest(t)
		has := genClaim(t)
		req.Priority = has.Priority
		id, victims := Preempt(workers, on, req, has)
		for k := range on {
			on[k] = rapid.Permutation(on[k]).Draw(t, "order")
		}
		if again, others := Preempt(rapid.Permutation(workers).Draw(t, "workers"), on, req, has); again != id || fmt.Sprint(others) != fmt.Sprint(victims) {
			t.Fatalf("the order of inputs matters: %q %v, %q %v", id, victims, again, others)
		}
		// Worked out once, and again for what changes, it is the same.
		p := NewPreemption(req, has)
		for _, w := range workers {
			p.Put(worker(w.ID, api.Resources{}), nil)
		}
		p.Best("another", nil)
		for _, w := range workers {
			p.Put(w, on[w.ID])
		}
		if again, others := p.Best(req.Instance, req.Avoid); again != id || fmt.Sprint(others) != fmt.Sprint(victims) {
			t.Fatalf("in one go %q %v, step by step %q %v", id, victims, again, others)
		}
		if id == "" {
			return
		}
		w := workers[slices.IndexFunc(workers, func(w WorkerView) bool { return w.ID == id })]
		fits := func(gone []Occupant) bool {
			v := w
			for _, o := range gone {
				v.Used = amount.Sub(v.Used, o.Reserves)
			}
			return Schedule([]WorkerView{v}, req).Chosen == id
		}
		if req.Scheduler == "" && !fits(victims) {
			t.Fatalf("without %v it still does not fit %s", victims, id)
		}
		for i, v := range victims {
			if v.Group == has.Group && v.Priority >= has.Priority || v.Group != has.Group && v.Rank >= has.Rank {
				t.Fatalf("%+v has to make room for %+v", v, has)
			}
			if fits(slices.Delete(slices.Clone(victims), i, i+1)) {
				t.Fatalf("%s could stay", v.ID)
			}
		}
	})
}

// The root offers a cluster without room an instance only where something of a lower
// priority could make room, and after all that have some.
func TestClustersWhereRoomCanBeMade(t *testing.T) {
	full := cluster("full", 2, api.Resources{})
	full.Aggregate.Lower = []wire.PriorityUse{{Priority: 1, Used: api.Resources{CPU: 500, Memory: gi, Disk: gi}}, {Priority: 3, Used: api.Resources{CPU: 4000, Memory: 4 * gi, Disk: 4 * gi}}}
	room := cluster("room", 1, roomy)
	// As much could make room in all, but less than that on any one worker.
	parts := cluster("parts", 2, api.Resources{})
	parts.Aggregate.Lower = []wire.PriorityUse{
		{Priority: 1, Used: api.Resources{CPU: 2000, Memory: 4 * gi, Disk: 4 * gi}, Room: api.Resources{CPU: 1000, Memory: 2 * gi, Disk: 2 * gi}},
		{Priority: 3, Used: api.Resources{CPU: 2000, Memory: 2 * gi, Disk: 2 * gi}, Room: api.Resources{CPU: 1500, Memory: 3 * gi, Disk: 3 * gi}},
	}
	ask := func(cpu api.CPU, priority int) Request {
		r := request(1)
		r.Demand.CPU, r.Priority = cpu, priority
		return r
	}
	for name, c := range map[string]struct {
		clusters []ClusterView
		req      Request
		want     string
	}{
		"no priority":           {[]ClusterView{full}, ask(100, 0), ""},
		"an equal":              {[]ClusterView{full}, ask(100, 1), ""},
		"a higher one":          {[]ClusterView{full}, ask(100, 2), "full=1"},
		"too little":            {[]ClusterView{full}, ask(600, 2), ""},
		"all lower ones":        {[]ClusterView{full}, ask(600, 4), "full=1"},
		"room on one worker":    {[]ClusterView{parts}, ask(1000, 2), "parts=1"},
		"room on two only":      {[]ClusterView{parts}, ask(1001, 2), ""},
		"with those above":      {[]ClusterView{parts}, ask(1500, 4), "parts=1"},
		"on no one worker":      {[]ClusterView{parts}, ask(1501, 4), ""},
		"first where room is":   {[]ClusterView{full, room}, ask(100, 4), "room=1"},
		"impossible priorities": {[]ClusterView{full}, ask(100, -7), ""},
	} {
		if got := shares(RankClusters(c.clusters, c.req)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// How well an aggregate tells whether room can be made for an instance, against what is
// true of the workers: never no where one has it, and seldom yes where none has.
func TestRoomThatCanBeMadeQuality(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	const rounds = 5000
	var none, accepted, before int
	for range rounds {
		workers := fleet(r, 1+r.IntN(50))
		a := aggregateOf(workers)
		use := wire.PriorityUse{Priority: 1}
		size := 0.2 + 2*r.Float64()
		demand := api.Resources{CPU: api.CPU(2000 * size), Memory: api.Bytes(size * (1 << 32)), Disk: 1 << 30}
		fits := false
		for i := range workers {
			w := &workers[i]
			part := r.Float64()
			low := api.Resources{CPU: api.CPU(part * float64(w.Used.CPU)), Memory: api.Bytes(part * float64(w.Used.Memory)), Disk: api.Bytes(part * float64(w.Used.Disk))}
			free := amount.Add(amount.Sub(w.Capacity, w.Used), low)
			use.Used, use.Room = amount.Add(use.Used, low), amount.Larger(use.Room, free)
			ok, _ := amount.Fits(free, demand)
			fits = fits || ok
		}
		told, untold := a, a
		told.Lower = []wire.PriorityUse{use}
		use.Room = api.Resources{}
		untold.Lower = []wire.PriorityUse{use}
		says := func(a *wire.Aggregate) bool { return displaceable(a, amount.ToVec(demand), amount.Vec{}, 5) }
		if fits && !says(&told) && use.Used != (api.Resources{}) {
			t.Fatalf("one worker can make room for %+v, and the aggregate denies it: %+v", demand, told.Lower)
		}
		if !fits {
			none++
			accepted, before = accepted+count(says(&told)), before+count(says(&untold))
		}
	}
	is := float64(accepted) / float64(none)
	t.Logf("of %d fleets in which no worker can make room %.3f are asked for it, %.3f without the room of one worker", none, is, float64(before)/float64(none))
	if none < rounds/10 || is > 0.05 {
		t.Errorf("%d fleets, %.3f are asked", none, is)
	}
}
