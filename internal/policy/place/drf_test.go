package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
)

var drfNames = []string{DRF, DRFWorstFit, DRFBestFit, DRFTightest}

// The example of the paper on dominant resource fairness: 9 processors and 18 GB, A
// demands 1 and 4, B 3 and 1. A gets three instances, B two.
func TestRoundIsFair(t *testing.T) {
	r := NewRound(api.Resources{CPU: 9000, Memory: 18 * gi}, nil, []Contender{
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
	list := []Contender{{Service: "alone", Group: "x", Demand: one, Waiting: 100}}
	for i := range 10 {
		list = append(list, Contender{Service: fmt.Sprintf("s%d", i), Group: "y", Demand: one, Waiting: 100})
	}
	r := NewRound(api.Resources{CPU: 100_000}, map[string]api.Resources{"x": {CPU: 10_000}}, list)
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
	list := []Contender{
		{Service: "a", Group: "x", Weight: 3, Demand: one, Waiting: 100},
		{Service: "b", Group: "y", Demand: one, Waiting: 100},
		{Service: "c", Group: "z", Weight: -7, Demand: one, Waiting: 100},
	}
	r := NewRound(api.Resources{CPU: 100_000}, map[string]api.Resources{"x": {CPU: 9000}, "z": {CPU: 11_000}}, list)
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
	list := []Contender{
		{Service: "a", Group: "x", Demand: one, Waiting: 4},
		{Service: "b", Group: "x", Priority: 9, Demand: one, Waiting: 2, Used: api.Resources{CPU: 2000}},
		{Service: "c", Group: "x", Priority: 9, Demand: one, Waiting: 2},
		{Service: "d", Group: "y", Demand: one, Waiting: 4},
	}
	r := NewRound(api.Resources{CPU: 100_000}, nil, list)
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
		var list, plain []Contender
		weights := map[string]int{}
		for i := range rapid.IntRange(1, 8).Draw(t, "contenders") {
			c := Contender{
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
		r, has, left, most := NewRound(total, nil, list), map[string]int{}, map[string]int{}, map[string]int{}
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
		a, b := NewRound(total, nil, list), NewRound(total, nil, plain)
		for n := a.Next(); n >= 0; n = a.Next() {
			if other := b.Next(); other != n {
				t.Fatalf("weight 1: %d is next, without %d", n, other)
			}
			a.Placed()
			b.Placed()
		}
	})
}

// Of the scores each prefers what it is made for.
func TestDRFScores(t *testing.T) {
	req := with(func(r *Request) { r.Demand = api.Resources{CPU: 1000, Memory: gi / 4} })
	ws := []WorkerView{
		worker("cpu", api.Resources{Memory: 3 * gi, Disk: 20 * gi}), // all of its cpu is free
		worker("empty", api.Resources{}),                            // everything is
		worker("full", api.Resources{CPU: 3000, Memory: 3 * gi}),    // least is
		worker("memory", api.Resources{CPU: 2500, Disk: 30 * gi}),   // all of its memory is
	}
	for name, want := range map[string]string{DRF: "empty", DRFWorstFit: "empty", DRFBestFit: "empty", DRFTightest: "full", Spread: "empty"} {
		req.Scheduler = name
		d := Schedule(ws, req)
		if d.Chosen != want || len(d.Ranked) != 4 {
			t.Errorf("%s chooses %s of %+v, want %s", name, d.Chosen, d.Ranked, want)
		}
	}
	// By the formulas, by hand.
	req.Scheduler = DRF
	for _, r := range Schedule(ws, req).Ranked {
		if want := map[string]float64{"empty": 0.25 + 0.0625, "cpu": 0.25 + 0.25*0.0625}[r.ID]; want != 0 && r.Score != want {
			t.Errorf("alignment of %s is %v, want %v", r.ID, r.Score, want)
		}
	}
}

func genContenders(t *rapid.T) ([]Contender, []Request) {
	var list []Contender
	var reqs []Request
	for i := range rapid.IntRange(0, 6).Draw(t, "contenders") {
		req := genRequest(t)
		req.Instance, req.Scheduler, req.Pinned = "", rapid.SampledFrom(drfNames).Draw(t, "score"), ""
		list = append(list, Contender{
			Service: fmt.Sprintf("s%d", i), Group: rapid.SampledFrom([]string{"", "x"}).Draw(t, "group"),
			Used: genResources(t, "used"), Demand: req.Demand, Waiting: rapid.IntRange(-1, 8).Draw(t, "waiting"),
		})
		reqs = append(reqs, req)
	}
	return list, reqs
}

// Contend is what a Round and Schedule make of it together; nothing is given out twice,
// whatever is left waiting has no room, and the order of the workers means nothing.
func TestContendProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers := genWorkers(t)
		for i := range workers {
			workers[i].Same, workers[i].Conflicts = 0, nil
		}
		list, reqs := genContenders(t)
		for i := range reqs {
			reqs[i].Avoid, reqs[i].Latency = nil, nil
		}
		request := func(i int) Request { return reqs[i] }
		got := Contend(workers, list, request)
		if again := Contend(rapid.Permutation(workers).Draw(t, "order"), list, request); !slices.Equal(got, again) {
			t.Fatalf("the order of workers matters: %v, %v", got, again)
		}
		var f Fleet
		var total api.Resources
		for _, w := range workers {
			f.Put(w)
			if !w.Suspect {
				total = Add(total, cleanResources(w.Capacity))
			}
		}
		var want []Assignment
		placed := map[int]int{}
		r := NewRound(total, nil, list)
		for i := r.Next(); i >= 0; i = r.Next() {
			req := reqs[i]
			req.Instance = fmt.Sprintf("%s.%d", list[i].Service, placed[i])
			d := f.Schedule(list[i].Service, req)
			if d.Chosen == "" {
				r.Leave()
				continue
			}
			want = append(want, Assignment{i, placed[i], d.Chosen})
			placed[i]++
			if devices := slices.Clone(f.views[d.Chosen].Devices); asksDevices(toVec(req.Demand), req.Devices) {
				held, lacking := Give(devices, req.Demand, req.Devices)
				if lacking != "" {
					t.Fatalf("chosen without devices: %s", lacking)
				}
				hold(devices, held)
				f.Hold(d.Chosen, devices)
			}
			f.Use(d.Chosen, Add(f.views[d.Chosen].Used, cleanResources(req.Demand)))
			f.Mark(list[i].Service, d.Chosen, f.marks[list[i].Service][d.Chosen].same+1, nil)
			r.Placed()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Contend %v, one by one %v", got, want)
		}
		for _, w := range f.views {
			before := workers[slices.IndexFunc(workers, func(o WorkerView) bool { return o.ID == w.ID })]
			for j, u := range toVec(w.Used) {
				if u > toVec(w.Capacity)[j] && u > toVec(cleanResources(before.Used))[j] {
					t.Fatalf("%s is overcommitted: %+v", w.ID, w)
				}
			}
		}
		for i, c := range list {
			if n := placed[i]; n > max(0, c.Waiting) {
				t.Fatalf("%s has %d of %d", c.Service, n, c.Waiting)
			} else if n < c.Waiting {
				req := reqs[i]
				req.Instance = "more"
				if d := f.Schedule(c.Service, req); d.Chosen != "" {
					t.Fatalf("%s waits, and %s has room", c.Service, d.Chosen)
				}
			}
		}
	})
}

// Every scheduler: never overcommits, never violates a constraint, and does not depend
// on the order of workers.
func TestEverySchedulerIsSound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers, req := genWorkers(t), genRequest(t)
		req.Scheduler = rapid.SampledFrom(Schedulers()).Draw(t, "scheduler")
		for i := range workers {
			workers[i].Throughput = rapid.SampledFrom([]float64{0, 10, 10, 25.5, -3}).Draw(t, "throughput")
		}
		d := Schedule(workers, req)
		checkRecord(t, d, Schedule(rapid.Permutation(workers).Draw(t, "order"), req))
		rom := req
		rom.Scheduler = ROM
		if other := Schedule(workers, rom); (other.Chosen == "") != (d.Chosen == "") || other.Reason != d.Reason {
			t.Fatalf("%s: %q, rom: %q", req.Scheduler, d.Reason, other.Reason)
		}
		if d.Chosen == "" {
			return
		}
		w := workers[slices.IndexFunc(workers, func(w WorkerView) bool { return w.ID == d.Chosen })]
		if ok, lacking := Fits(Sub(w.Capacity, w.Used), cleanResources(req.Demand)); !ok || !satisfies(w, req) || w.Suspect || w.Cordoned {
			t.Fatalf("%s chose %+v: %s", req.Scheduler, w, lacking)
		}
	})
}

// The fastest is filled before the next, and of equally fast ones one before the other.
func TestThroughputFillsTheFastestFirst(t *testing.T) {
	speed := map[string]float64{"slow": 10, "fast": 40, "middle": 25, "middling": 25, "unknown": 0}
	var ws []WorkerView
	for id, x := range speed {
		ws = append(ws, worker(id, api.Resources{}, func(w *WorkerView) { w.Throughput = x }))
	}
	var order []string
	for i := range 5 * 4 {
		d := Schedule(ws, with(func(r *Request) {
			r.Instance, r.Scheduler, r.Demand = fmt.Sprintf("shop.web.%d", i), Throughput, api.Resources{CPU: 1000, Memory: gi, Disk: 10 * gi}
		}))
		w := &ws[slices.IndexFunc(ws, func(w WorkerView) bool { return w.ID == d.Chosen })]
		w.Used, w.Same = Add(w.Used, d.Request.Demand), w.Same+1
		if len(order) == 0 || order[len(order)-1] != w.ID {
			order = append(order, w.ID)
		}
	}
	if len(order) != 5 || order[0] != "fast" || order[3] != "slow" || order[4] != "unknown" {
		t.Errorf("filled in the order %v", order)
	}
}

// functions300 is 300 functions that contend for 40 nodes, a third more than there is.
func functions300() ([]WorkerView, []Contender, func(int) Request) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var ws []WorkerView
	for i := range 40 {
		w := worker(fmt.Sprintf("n%02d", i), api.Resources{})
		w.Capacity = api.Resources{CPU: api.CPU(4000 << (i % 3)), Memory: 8 * gi << (i % 4), Disk: 100 * gi}
		ws = append(ws, w)
	}
	var list []Contender
	for i := range 300 {
		list = append(list, Contender{Service: fmt.Sprintf("f%03d", i), Waiting: 8, Demand: api.Resources{
			CPU: api.CPU(50 + 50*rnd.IntN(10)), Memory: api.Bytes(64+64*rnd.IntN(16)) * mi, Disk: gi / 10,
		}})
	}
	return ws, list, func(i int) Request {
		return Request{Runtime: "process", Demand: list[i].Demand, Spread: "soft", Scheduler: DRF}
	}
}

func BenchmarkContend300x40(b *testing.B) {
	ws, list, request := functions300()
	n := 0
	for b.Loop() {
		n = len(Contend(ws, list, request))
	}
	b.ReportMetric(float64(n), "placed")
}

// BenchmarkFleetSpread is the scheduler spread on many workers, which looks at all that
// fit.
func BenchmarkFleetSpread(b *testing.B) {
	f := fleetOf(10_000, false)
	req := with(func(r *Request) { r.Scheduler = Spread })
	for i := range askedOften {
		req.Instance = fmt.Sprintf("a.b.%d", i)
		f.Schedule("a.b", req)
	}
	for b.Loop() {
		f.Schedule("a.b", req)
	}
}

// To say who got what, one by one or several at a time, is the same as to say that who was
// next got it.
func TestTookIsPlaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := api.Resources{CPU: 64000, Memory: 64 * gi}
		var list []Contender
		for i := range rapid.IntRange(1, 6).Draw(t, "contenders") {
			list = append(list, Contender{
				Service: fmt.Sprint("s", i), Group: rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "group"), Weight: rapid.IntRange(0, 3).Draw(t, "weight"),
				Priority: rapid.IntRange(0, 2).Draw(t, "priority"), Waiting: rapid.IntRange(1, 5).Draw(t, "waiting"),
				Demand: api.Resources{CPU: api.CPU(rapid.Int64Range(1, 4000).Draw(t, "cpu")), Memory: api.Bytes(rapid.Int64Range(1, 4).Draw(t, "memory")) * gi},
			})
		}
		a, b := NewRound(total, nil, list), NewRound(total, nil, list)
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
