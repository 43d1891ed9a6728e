package place

import (
	"fmt"
	"testing"

	// rapid: property tests that shrink a failure to its smallest case.
	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Whatever happens to one worker at a time: where something fits that did not, a gain was
// seen since; and where things only become less, none is.
func TestAGainIsSeen(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := func(name string, most int) int64 { return int64(rapid.IntRange(0, most).Draw(t, name)) }
		var workers []WorkerView
		for i := range rapid.IntRange(1, 6).Draw(t, "workers") {
			w := WorkerView{ID: fmt.Sprint(i), Runtimes: []string{"process"}, Suspect: rapid.IntRange(0, 3).Draw(t, "away") == 0}
			w.Capacity = api.Resources{CPU: 4000, Memory: 64 * mi}
			w.Used = api.Resources{CPU: api.CPU(amount("cpu", 4000)), Memory: api.Bytes(amount("memory", 64)) * mi}
			workers = append(workers, w)
		}
		req := request(1)
		req.Demand = api.Resources{CPU: api.CPU(1 + amount("asked cpu", 3999)), Memory: api.Bytes(1+amount("asked memory", 63)) * mi}
		was, fitted := aggregateOf(workers), truth(workers, req.Demand, 1) > 0
		if fitted {
			return
		}
		gained := false
		last := was
		for range rapid.IntRange(1, 10).Draw(t, "changes") {
			w := &workers[rapid.IntRange(0, len(workers)-1).Draw(t, "which")]
			before := *w
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				w.Used.CPU = api.CPU(amount("cpu", 4000))
			case 1:
				w.Used.Memory = api.Bytes(amount("memory", 64)) * mi
			case 2:
				w.Suspect = !w.Suspect
			}
			is := aggregateOf(workers)
			less := w.Used.CPU >= before.Used.CPU && w.Used.Memory >= before.Used.Memory && w.Suspect == before.Suspect && w.Used == before.Used
			if g := Gained(last, is, req); g && less {
				t.Fatalf("a gain where nothing has changed: %+v, %+v", last, is)
			} else if gained = gained || g; truth(workers, req.Demand, 1) > 0 && !gained {
				t.Fatalf("it fits, and no gain was seen")
			}
			last = is
		}
	})
}

func TestGained(t *testing.T) {
	base := cluster("a", 4, roomy).Aggregate
	for name, c := range map[string]struct {
		change func(*wire.Aggregate)
		ask    func(*Request)
		want   bool
	}{
		"nothing":                       {func(*wire.Aggregate) {}, nil, false},
		"less memory":                   {func(a *wire.Aggregate) { a.Memory.Sum -= 1; a.Memory.Max -= 1 }, nil, false},
		"more memory":                   {func(a *wire.Aggregate) { a.Memory.Sum += 1 }, nil, true},
		"more where it is most":         {func(a *wire.Aggregate) { a.Memory.Sum -= 5; a.Memory.Max += 1 }, nil, true},
		"more of what is not asked for": {func(a *wire.Aggregate) { a.VGPUs.Sum += 1000; a.VGPUs.Max += 1000 }, nil, false},
		"a worker more":                 {func(a *wire.Aggregate) { a.Workers++ }, nil, true},
		"a worker less":                 {func(a *wire.Aggregate) { a.Workers--; a.Suspect++ }, nil, false},
		"an instance less":              {func(a *wire.Aggregate) { a.Instances-- }, nil, true},
		"a label, not asked for":        {func(a *wire.Aggregate) { a.Labels = map[string]int{"disk=ssd": 1} }, nil, false},
		"a label":                       {func(a *wire.Aggregate) { a.Labels = map[string]int{"disk=ssd": 1} }, func(r *Request) { r.Affinity.Labels = map[string]string{"disk": "ssd"} }, true},
		"another place":                 {func(a *wire.Aggregate) { a.Disc = &wire.Disc{Workers: 1} }, nil, true},
	} {
		is, req := base, request(1)
		c.change(&is)
		if c.ask != nil {
			c.ask(&req)
		}
		if got := Gained(base, is, req); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
