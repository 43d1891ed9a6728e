package place

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/index"
)

var size4 = api.Resources{CPU: 4000, Memory: 4 * gi, Disk: 40 * gi}

func worker(id string, used api.Resources, change ...func(*WorkerView)) WorkerView {
	w := WorkerView{ID: id, Runtimes: []string{"process"}, Capacity: size4, Used: used}
	for _, f := range change {
		f(&w)
	}
	return w
}

func has(n int) func(*WorkerView)          { return func(w *WorkerView) { w.Same = n } }
func suspect(w *WorkerView)                { w.Suspect = true }
func noDisk(w *WorkerView)                 { w.Capacity.Disk = 0 }
func runs(r ...string) func(*WorkerView)   { return func(w *WorkerView) { w.Runtimes = r } }
func half() api.Resources                  { return api.Resources{CPU: 2000, Memory: 2 * gi, Disk: 20 * gi} }
func with(f func(*Request)) Request        { r := request(1); r.Instance = "shop.web.0"; f(&r); return r }
func unchanged(*Request)                   {}
func noSpread(r *Request)                  { r.Spread = "none" }
func noDiskWanted(r *Request)              { r.Demand.Disk = 0 }
func avoid(ids ...string) func(r *Request) { return func(r *Request) { r.Avoid = ids } }

func TestSchedule(t *testing.T) {
	empty := api.Resources{}
	for name, c := range map[string]struct {
		workers []WorkerView
		change  func(*Request)
		want    string
		reason  string
	}{
		"best fit":                   {[]WorkerView{worker("a", empty), worker("b", half())}, unchanged, "b", ""},
		"largest share left decides": {[]WorkerView{worker("a", api.Resources{CPU: 3900, Memory: 3 * gi}), worker("b", api.Resources{CPU: 1000, Memory: gi, Disk: 10 * gi})}, unchanged, "b", ""},
		"spread first":               {[]WorkerView{worker("a", empty), worker("b", half(), has(1))}, unchanged, "a", ""},
		"spread off":                 {[]WorkerView{worker("a", empty), worker("b", half(), has(1))}, noSpread, "b", ""},
		"no disk, none wanted":       {[]WorkerView{worker("a", half()), worker("b", half(), noDisk)}, noDiskWanted, "b", ""},
		"no disk":                    {[]WorkerView{worker("a", empty, noDisk)}, unchanged, "", "1 worker: 1 is full: needs 100Mi disk, 0 free"},
		"nobody":                     {nil, unchanged, "", "no worker has joined yet"},
		"suspect":                    {[]WorkerView{worker("a", empty, suspect), worker("b", empty, suspect)}, unchanged, "", "2 workers: 2 are suspect"},
		"runtime":                    {[]WorkerView{worker("a", empty, runs("container", "wasm"))}, unchanged, "", "1 worker: 1 lacks runtime process (has container, wasm)"},
		"avoid is strict":            {[]WorkerView{worker("a", empty)}, avoid("a"), "", "1 worker: 1 is avoided because the instance failed or was lost there"},
		"avoid leaves the others":    {[]WorkerView{worker("a", half()), worker("b", empty)}, avoid("a"), "b", ""},
		"full": {
			[]WorkerView{worker("a", api.Resources{Memory: 4 * gi}), worker("b", api.Resources{Memory: 4*gi - 380*mi}), worker("c", api.Resources{Memory: 4*gi - mi})}, unchanged, "",
			"3 workers: 3 are full: needs 512Mi memory, largest free 380Mi",
		},
		"overcommitted":       {[]WorkerView{worker("a", api.Resources{CPU: 9000})}, unchanged, "", "1 worker: 1 is full: needs 100m cpu, 0 free"},
		"negative use":        {[]WorkerView{worker("a", api.Resources{CPU: math.MinInt64})}, unchanged, "a", ""},
		"negative capacity":   {[]WorkerView{{ID: "a", Runtimes: []string{"process"}, Capacity: api.Resources{CPU: math.MinInt64}, Used: api.Resources{CPU: math.MaxInt64}}}, unchanged, "", "1 worker: 1 is full: needs 100m cpu, 0 free"},
		"nothing demanded":    {[]WorkerView{{ID: "a"}}, func(r *Request) { r.Demand, r.Runtime = api.Resources{}, "" }, "a", ""},
		"unknown scheduler":   {[]WorkerView{worker("a", empty)}, func(r *Request) { r.Scheduler = "best" }, "", `this cluster has no scheduler "best": use rom`},
		"default scheduler":   {[]WorkerView{worker("a", empty)}, func(r *Request) { r.Scheduler = "" }, "a", ""},
		"filters in order":    {[]WorkerView{worker("a", size4, suspect, runs("wasm"))}, avoid("a"), "", "1 worker: 1 is suspect"},
		"cpu before memory":   {[]WorkerView{worker("a", size4)}, unchanged, "", "1 worker: 1 is full: needs 100m cpu, 0 free"},
		"an exact fit is one": {[]WorkerView{worker("a", amount.Sub(size4, request(1).Demand))}, unchanged, "a", ""},
	} {
		d := Schedule(c.workers, with(c.change))
		if d.Chosen != c.want || d.Reason != c.reason {
			t.Errorf("%s: chose %q (%s), want %q (%s)", name, d.Chosen, d.Reason, c.want, c.reason)
		}
	}
}

func TestScheduleRecord(t *testing.T) {
	var ws []WorkerView
	for i := range 8 {
		ws = append(ws, worker(fmt.Sprintf("w%d", i), api.Resources{CPU: api.CPU(100 * i), Memory: api.Bytes(i) * 256 * mi, Disk: api.Bytes(i) * 2 * gi}))
	}
	d := Schedule(ws, with(unchanged))
	if d.Candidates != 8 || len(d.Ranked) != maxRanked || d.Ranked[0].ID != d.Chosen {
		t.Fatalf("record %+v", d)
	}
	for i := 1; i < len(d.Ranked); i++ {
		if d.Ranked[i].Score < d.Ranked[i-1].Score {
			t.Errorf("ranked %d scores %v, the one before it %v", i, d.Ranked[i].Score, d.Ranked[i-1].Score)
		}
	}
	best := d.Ranked[0]
	if best.ID != "w7" || best.Parts["cpu"] != 0.8 || best.Score != max(best.Parts["cpu"], best.Parts["memory"], best.Parts["disk"]) {
		t.Errorf("best is %+v", best)
	}
}

// Ties fall on every worker, also where ids differ in one character only, and on
// none very much more often: the arcs of a ring differ by the logarithm of its size.
func TestTiesFallOnAll(t *testing.T) {
	const workers, instances = 10, 10000
	var ws []WorkerView
	for i := range workers {
		ws = append(ws, worker(fmt.Sprintf("w%d", i), api.Resources{}))
	}
	won := map[string]int{}
	for i := range instances {
		won[Schedule(ws, with(func(r *Request) { r.Instance = fmt.Sprintf("shop.web.%d", i) })).Chosen]++
	}
	for _, w := range ws {
		if n := won[w.ID]; n < instances/workers/100 || n > 4*instances/workers {
			t.Errorf("%s wins %d of %d: %v", w.ID, n, instances, won)
		}
	}
}

// What is placed counts, so that the next one goes elsewhere: in the end all have
// the same.
func TestPlacingSpreadsEvenly(t *testing.T) {
	var ws []WorkerView
	for i := range 10 {
		ws = append(ws, worker(fmt.Sprintf("w%d", i), api.Resources{}))
	}
	for i := range 70 {
		d := Schedule(ws, with(func(r *Request) { r.Instance = fmt.Sprintf("shop.web.%d", i) }))
		w := &ws[slices.IndexFunc(ws, func(w WorkerView) bool { return w.ID == d.Chosen })]
		w.Same++
		w.Used = amount.Add(w.Used, d.Request.Demand)
	}
	for _, w := range ws {
		if w.Same != 7 {
			t.Errorf("%s has %d of 70", w.ID, w.Same)
		}
	}
}

// The hash is part of what a replay must reproduce, also on another machine.
func TestTieHashIsStable(t *testing.T) {
	if got, want := index.RingOf("w1"), uint64(0x1e4c6f2150a3deea); got != want {
		t.Errorf("hash %#x, want %#x", got, want)
	}
}

// Memory does not grow with the number of workers: an allocation for each would
// be 10,000. The few there are, for the words of the record, vary: under the race
// detector sync.Pool, which fmt uses, forgets at random.
func TestScheduleAllocates(t *testing.T) {
	ws, req := many(10000), with(unchanged)
	if n := testing.AllocsPerRun(5, func() { Schedule(ws, req) }); n > 500 {
		t.Errorf("%v allocations for 10,000 workers", n)
	}
}

func many(n int) []WorkerView {
	ws := make([]WorkerView, n)
	for i := range ws {
		ws[i] = worker(fmt.Sprintf("worker-%05d", i), api.Resources{CPU: api.CPU(i*37) % 4100, Memory: api.Bytes(i*53%4096) * mi}, has(i%3))
	}
	return ws
}

func BenchmarkSchedule10000(b *testing.B) {
	ws, req := many(10000), with(unchanged)
	b.ReportAllocs()
	for b.Loop() {
		if d := Schedule(ws, req); d.Chosen == "" {
			b.Fatal(d.Reason)
		}
	}
}

// All tie: the hash is computed for each.
func BenchmarkSchedule10000Equal(b *testing.B) {
	ws, req := many(10000), with(unchanged)
	for i := range ws {
		ws[i].Used, ws[i].Same = api.Resources{}, 0
	}
	b.ReportAllocs()
	for b.Loop() {
		if d := Schedule(ws, req); d.Chosen == "" {
			b.Fatal(d.Reason)
		}
	}
}
