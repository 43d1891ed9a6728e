package place

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func occupant(id string, priority int, cpu api.CPU) Occupant {
	return Occupant{ID: id, Priority: priority, Reserves: api.Resources{CPU: cpu, Memory: 512 * mi}}
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
			map[string][]Occupant{"a": {occupant("x", 0, 100), {ID: "y", Priority: 1, Reserves: api.Resources{VGPUs: 1000}, Devices: []wire.Held{{ID: "d0", Share: 1000}}}}},
			with(func(r *Request) { r.Demand.VGPUs, r.Priority = 500, 2 }), "a", []string{"y"}},
	} {
		w, victims := Preempt(c.workers, c.on, c.req)
		var ids []string
		for _, v := range victims {
			ids = append(ids, v.ID)
		}
		if w != c.worker || !slices.Equal(ids, c.victims) {
			t.Errorf("%s: %v on %q, want %v on %q", name, ids, w, c.victims, c.worker)
		}
	}
}

// Whoever is displaced has a lower priority, without all of them the request fits, and
// with any one of them it would not; the order of what is listed does not matter.
func TestPreemptProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers, on := genWorkers(t), map[string][]Occupant{}
		for i := range workers {
			workers[i].Used = api.Resources{}
			for k := range rapid.IntRange(0, 5).Draw(t, "occupants") {
				o := Occupant{ID: fmt.Sprintf("o%d.%d", i, k), Priority: rapid.IntRange(0, 4).Draw(t, "priority"), Reserves: cleanResources(genResources(t, "reserves"))}
				on[workers[i].ID] = append(on[workers[i].ID], o)
				workers[i].Used = Add(workers[i].Used, o.Reserves)
			}
			workers[i].Capacity = Larger(workers[i].Capacity, workers[i].Used) // nothing is overcommitted
		}
		req := genRequest(t)
		req.Priority = rapid.IntRange(-1, 5).Draw(t, "of the request")
		id, victims := Preempt(workers, on, req)
		for k := range on {
			on[k] = rapid.Permutation(on[k]).Draw(t, "order")
		}
		if again, others := Preempt(rapid.Permutation(workers).Draw(t, "workers"), on, req); again != id || fmt.Sprint(others) != fmt.Sprint(victims) {
			t.Fatalf("the order of inputs matters: %q %v, %q %v", id, victims, again, others)
		}
		if id == "" {
			return
		}
		w := workers[slices.IndexFunc(workers, func(w WorkerView) bool { return w.ID == id })]
		fits := func(gone []Occupant) bool {
			v := w
			for _, o := range gone {
				v.Used = Sub(v.Used, o.Reserves)
			}
			return Schedule([]WorkerView{v}, req).Chosen == id
		}
		if req.Scheduler == "" && !fits(victims) {
			t.Fatalf("without %v it still does not fit %s", victims, id)
		}
		for i, v := range victims {
			if v.Priority >= req.Priority {
				t.Fatalf("%+v is not of a lower priority than %d", v, req.Priority)
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
		"first where room is":   {[]ClusterView{full, room}, ask(100, 4), "room=1"},
		"impossible priorities": {[]ClusterView{full}, ask(100, -7), ""},
	} {
		if got := shares(RankClusters(c.clusters, c.req)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
