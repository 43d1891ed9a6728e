package place

import (
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/index"
	"github.com/verge-edge/verge/internal/wire"
)

// genFleetWorker is a worker of a few kinds, so that some are alike.
func genFleetWorker(t *rapid.T, id string) WorkerView {
	ws := genWorkers(t)
	if len(ws) == 0 || rapid.Bool().Draw(t, "plain") {
		few := rapid.Int64Range(0, 3)
		return WorkerView{
			ID: id, Runtimes: runtimes, Arch: "amd64", Capacity: api.Resources{CPU: 4000, Memory: 4 * gi, Disk: 4 * gi},
			Used: api.Resources{CPU: api.CPU(1000 * few.Draw(t, "cpu")), Memory: gi * api.Bytes(few.Draw(t, "memory"))},
		}
	}
	w := ws[0]
	w.ID = id
	return w
}

// A Fleet decides as Schedule does on the same workers, after any history.
func TestFleetIsSchedule(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var f Fleet
		f.limits.small, f.limits.often, f.limits.marks = 1, rapid.IntRange(1, 3).Draw(t, "often"), rapid.IntRange(0, 4).Draw(t, "marks")
		views := map[string]WorkerView{}
		marks := map[string]map[string]mark{"a": {}, "b": {}}
		service := rapid.SampledFrom([]string{"a", "b"})
		ids := rapid.Custom(func(t *rapid.T) string { return fmt.Sprintf("w%d", rapid.IntRange(0, 150).Draw(t, "id")) })
		put := func(w WorkerView) {
			f.Put(w)
			w.Same, w.Conflicts = 0, nil
			views[w.ID] = w
		}
		for i := range rapid.IntRange(0, 120).Draw(t, "at first") {
			put(genFleetWorker(t, fmt.Sprintf("w%d", i)))
		}
		reqs := []Request{genRequest(t), genRequest(t), {Instance: "shop.web.0", Demand: api.Resources{CPU: 1000, Memory: gi}}}
		check := func(t *rapid.T) {
			name := service.Draw(t, "service")
			req := rapid.SampledFrom(reqs).Draw(t, "request")
			req.Scheduler = rapid.SampledFrom(Schedulers()).Draw(t, "scheduler")
			if req.Scheduler == NearestDemand && rapid.Bool().Draw(t, "traffic") {
				at := func() *wire.Coordinate { return onLine(rapid.Float64Range(0, 100).Draw(t, "at")) }
				req.Traffic = &Traffic{Points: []Entry{{At: Target{ID: "a", Coord: at()}, Rate: 3}, {At: Target{ID: "b", Worker: "w1", Coord: at()}, Rate: 2}}}
			}
			req.Instance = fmt.Sprintf("shop.web.%d", rapid.IntRange(0, 9).Draw(t, "instance"))
			var list []WorkerView
			for id, w := range views {
				w.Same, w.Conflicts = marks[name][id].same, marks[name][id].conflicts
				list = append(list, w)
			}
			want, got := Schedule(list, req), f.Schedule(name, req)
			want.Workers, want.InputsOmitted, got.Workers, got.InputsOmitted = nil, 0, nil, 0
			if !reflect.DeepEqual(want, got) {
				t.Fatalf("the fleet decides\n%+v\nSchedule\n%+v", got, want)
			}
			if got.Chosen == "" {
				return
			}
			w := views[got.Chosen]
			w.Used = amount.Add(amount.Clean(w.Used), amount.Clean(req.Demand))
			views[w.ID] = w
			f.Use(w.ID, w.Used)
			m := marks[name][w.ID]
			m.same++
			marks[name][w.ID] = m
			f.Mark(name, w.ID, m.same, m.conflicts)
		}
		t.Repeat(map[string]func(*rapid.T){
			"decide": check, "decide again": check, "and again": check,
			"put": func(t *rapid.T) { put(genFleetWorker(t, ids.Draw(t, "id"))) },
			"remove": func(t *rapid.T) {
				id := ids.Draw(t, "id")
				f.Remove(id)
				delete(views, id)
				for _, of := range marks {
					delete(of, id)
				}
			},
			"mark": func(t *rapid.T) {
				id, name := ids.Draw(t, "id"), service.Draw(t, "service")
				m := mark{same: rapid.IntRange(0, 2).Draw(t, "same")}
				if rapid.IntRange(0, 3).Draw(t, "conflict") == 0 {
					m.conflicts = []string{"db"}
				}
				f.Mark(name, id, m.same, m.conflicts)
				if _, ok := views[id]; ok {
					marks[name][id] = m
				}
			},
			"": func(t *rapid.T) {
				for _, l := range f.indexes {
					l.settle(&f)
					n := 0
					for _, g := range l.groups {
						if g != nil {
							n += checkNode(t, g)
						}
					}
					if n != len(views) || len(l.at) != n {
						t.Fatalf("the index has %d and %d of %d workers", n, len(l.at), len(views))
					}
				}
				if len(f.indexes) > maxIndexes {
					t.Fatalf("%d indexes", len(f.indexes))
				}
			},
		})
	})
}

// checkNode holds what a tree promises of itself, and counts its rows.
func checkNode(t *rapid.T, n *index.Node) int {
	sum := index.Node{Rows: n.Rows, Kids: n.Kids}
	sum.Sum()
	if !reflect.DeepEqual(sum.Box, n.Box) {
		t.Fatalf("a box is\n%+v\nshould be\n%+v", n.Box, sum.Box)
	}
	count, last := len(n.Rows), n.Low
	for i := range n.Rows {
		if n.Rows[i].Compare(&last) < 0 {
			t.Fatal("rows out of order")
		}
		last = n.Rows[i]
	}
	for _, k := range n.Kids {
		if k.Low.Compare(&last) < 0 {
			t.Fatal("kids out of order")
		}
		last = k.Low
		count += checkNode(t, k)
	}
	if n.Size() == 0 || n.Size() > index.Fan || n.N != count {
		t.Fatalf("a node of %d with %d below, counted %d", n.Size(), n.N, count)
	}
	return count
}

// fleetOf makes n workers: all alike, or no two.
func fleetOf(n int, alike bool) *Fleet {
	f := &Fleet{}
	for i := range n {
		w := worker(fmt.Sprintf("worker-%05d", i), api.Resources{})
		w.Capacity = api.Resources{CPU: 64000, Memory: 64 * gi, Disk: 640 * gi}
		if !alike {
			h := index.RingOf(w.ID)
			w.Capacity.Memory += api.Bytes(h % 4096 << 12)
			w.Used = api.Resources{CPU: api.CPU(h >> 10 % 64000), Memory: api.Bytes(h>>20%(64<<10)) * mi, Disk: api.Bytes(h>>40%640) * gi}
		}
		f.Put(w)
	}
	return f
}

// BenchmarkFleet places instances, each of which counts: half of them begin with a
// fleet that has none of the service, the others with one that has many.
func BenchmarkFleet(b *testing.B) {
	for _, n := range []int{500, 10_000, 100_000} {
		for _, alike := range []bool{true, false} {
			for _, many := range []bool{false, true} {
				b.Run(fmt.Sprintf("workers=%d/alike=%t/many=%t", n, alike, many), func(b *testing.B) {
					f := fleetOf(n, alike)
					req := with(unchanged)
					i := 0
					place := func() {
						req.Instance = fmt.Sprintf("shop.web.%d", i)
						i++
						d := f.Schedule("shop.web", req)
						if d.Chosen == "" {
							b.Fatal(d.Reason)
						}
						f.Use(d.Chosen, amount.Add(f.views[d.Chosen].Used, req.Demand))
						f.Mark("shop.web", d.Chosen, f.marks["shop.web"][d.Chosen].same+1, nil)
					}
					if many {
						for range n {
							place()
						}
					} else {
						for range askedOften {
							place()
						}
					}
					b.ReportAllocs()
					b.ResetTimer()
					for b.Loop() {
						place()
						if !many && i%maxMarks == 0 { // a service of its own
							clear(f.marks)
						}
					}
				})
			}
		}
	}
}
