package place

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/turn"
)

var drfNames = []string{DRF, DRFWorstFit, DRFBestFit, DRFTightest}

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

func genContenders(t *rapid.T) ([]turn.Contender, []Request) {
	var list []turn.Contender
	var reqs []Request
	for i := range rapid.IntRange(0, 6).Draw(t, "contenders") {
		req := genRequest(t)
		req.Instance, req.Scheduler, req.Pinned = "", rapid.SampledFrom(drfNames).Draw(t, "score"), ""
		list = append(list, turn.Contender{
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
				total = amount.Add(total, amount.Clean(w.Capacity))
			}
		}
		var want []Assignment
		placed := map[int]int{}
		r := turn.NewRound(total, nil, list)
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
			if devices := slices.Clone(f.views[d.Chosen].Devices); device.Needed(amount.ToVec(req.Demand), req.Devices) {
				held, lacking := device.Give(devices, req.Demand, req.Devices)
				if lacking != "" {
					t.Fatalf("chosen without devices: %s", lacking)
				}
				hold(devices, held)
				f.Hold(d.Chosen, devices)
			}
			f.Use(d.Chosen, amount.Add(f.views[d.Chosen].Used, amount.Clean(req.Demand)))
			f.Mark(list[i].Service, d.Chosen, f.marks[list[i].Service][d.Chosen].same+1, nil)
			r.Placed()
		}
		if !slices.Equal(got, want) {
			t.Fatalf("Contend %v, one by one %v", got, want)
		}
		for _, w := range f.views {
			before := workers[slices.IndexFunc(workers, func(o WorkerView) bool { return o.ID == w.ID })]
			for j, u := range amount.ToVec(w.Used) {
				if u > amount.ToVec(w.Capacity)[j] && u > amount.ToVec(amount.Clean(before.Used))[j] {
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
		if ok, lacking := amount.Fits(amount.Sub(w.Capacity, w.Used), amount.Clean(req.Demand)); !ok || !satisfies(w, req) || w.Suspect || w.Cordoned {
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
		w.Used, w.Same = amount.Add(w.Used, d.Request.Demand), w.Same+1
		if len(order) == 0 || order[len(order)-1] != w.ID {
			order = append(order, w.ID)
		}
	}
	if len(order) != 5 || order[0] != "fast" || order[3] != "slow" || order[4] != "unknown" {
		t.Errorf("filled in the order %v", order)
	}
}

// functions300 is 300 functions that contend for 40 nodes, a third more than there is.
func functions300() ([]WorkerView, []turn.Contender, func(int) Request) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var ws []WorkerView
	for i := range 40 {
		w := worker(fmt.Sprintf("n%02d", i), api.Resources{})
		w.Capacity = api.Resources{CPU: api.CPU(4000 << (i % 3)), Memory: 8 * gi << (i % 4), Disk: 100 * gi}
		ws = append(ws, w)
	}
	var list []turn.Contender
	for i := range 300 {
		list = append(list, turn.Contender{Service: fmt.Sprintf("f%03d", i), Waiting: 8, Demand: api.Resources{
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
