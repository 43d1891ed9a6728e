package place

import (
	"cmp"
	"container/heap"
	"slices"
	"strconv"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// Contender is a service of which instances wait to be placed by drf.
type Contender struct {
	// Service is its name; no two have the same.
	Service string
	// Group is whose it is: a namespace. Weight is that of the group, the largest counts
	// where its contenders differ; less than 1 is 1.
	Group  string
	Weight int
	// Priority within the group.
	Priority int
	// Used is what its instances reserve now, Demand what one more does.
	Used, Demand api.Resources
	// Waiting is how many are to be placed.
	Waiting int
}

// Round decides who is next where several services contend for what is free (weighted
// dominant resource fairness). The share of a service, or of all services of a group, is
// the largest of its shares of all that there is of a resource. The next instance is of
// the group whose share, divided by its weight, is the smallest, and within it of the
// services with the highest priority that with the smallest share; of equal ones the
// service with the smaller demand, summed over the resources as parts of what there is,
// then the first by name. Whoever calls places an instance and says so.
//
// Groups come first so that a namespace does not get more by having more services, nor
// by saying that they are important. With one group and one priority it is DRF among
// services.
type Round struct {
	total  vec
	groups groupHeap
}

// roundGroup is a group that has somebody waiting. due is its share by its weight.
type roundGroup struct {
	name   string
	used   vec
	weight int
	due    float64
	heap   turnHeap
}

// turn is a contender in the heap of its group.
type turn struct {
	Contender
	at     int // index in the list of contenders
	used   vec
	share  float64
	demand float64
}

// NewRound begins a round among contenders in a cluster that has total. others is what
// instances of each group reserve that belong to no contender.
func NewRound(total api.Resources, others map[string]api.Resources, contenders []Contender) *Round {
	r := &Round{total: toVec(cleanResources(total))}
	by := map[string]*roundGroup{}
	for i, c := range contenders {
		g := by[c.Group]
		if g == nil {
			g = &roundGroup{name: c.Group, used: toVec(cleanResources(others[c.Group])), weight: 1}
			by[c.Group] = g
		}
		g.weight = max(g.weight, c.Weight)
		c.Demand = cleanResources(c.Demand)
		t := &turn{Contender: c, at: i, used: toVec(cleanResources(c.Used))}
		for j, d := range toVec(c.Demand) {
			if r.total[j] > 0 {
				t.demand += float64(d) / float64(r.total[j])
			}
		}
		t.share, _ = dominant(&r.total, &t.used)
		for j := range resources {
			g.used[j] = addInt(g.used[j], t.used[j])
		}
		if c.Waiting > 0 {
			g.heap = append(g.heap, t)
		}
	}
	for _, name := range sortedKeys(by) {
		if g := by[name]; len(g.heap) > 0 {
			g.due = r.due(g)
			heap.Init(&g.heap)
			r.groups = append(r.groups, g)
		}
	}
	heap.Init(&r.groups)
	return r
}

// due is what a group has by its weight.
func (r *Round) due(g *roundGroup) float64 {
	share, _ := dominant(&r.total, &g.used)
	return share / float64(g.weight)
}

// dominant is the largest share of a resource, and which that is.
func dominant(total, used *vec) (share float64, of int) {
	for j := range resources {
		if total[j] > 0 {
			if s := float64(used[j]) / float64(total[j]); s > share {
				share, of = s, j
			}
		}
	}
	return share, of
}

// Dominant is the largest of the shares that used is of total, and the resource of which
// it is that: "cpu"; 0 and "" where nothing is used.
func Dominant(total, used api.Resources) (share float64, of string) {
	t, u := toVec(cleanResources(total)), toVec(cleanResources(used))
	share, j := dominant(&t, &u)
	if share == 0 {
		return 0, ""
	}
	return share, resourceName(j)
}

// Turn is why it was the turn of an instance that was placed in a round, with the shares
// as they were before it was placed.
type Turn struct {
	Group  string `json:"group"`
	Weight int    `json:"weight"`
	// Share of the group, and of the service within all that there is.
	Share   float64 `json:"share"`
	Of      string  `json:"of,omitempty"` // the resource that has the largest share of the group
	Service float64 `json:"service"`
	// Groups that had somebody waiting, itself too.
	Groups int `json:"groups"`
}

// Turn says why the one who is next is that. There must be one.
func (r *Round) Turn() Turn {
	g := r.groups[0]
	t := Turn{Group: g.name, Weight: g.weight, Service: g.heap[0].share, Groups: len(r.groups)}
	share, of := dominant(&r.total, &g.used)
	if t.Share = share; share > 0 {
		t.Of = resourceName(of)
	}
	return t
}

// Next is the index of the contender who is next, -1 where nobody is left. It is the
// same until Placed, Passed or Leave is called.
func (r *Round) Next() int {
	if len(r.groups) == 0 {
		return -1
	}
	return r.groups[0].heap[0].at
}

// Placed says that an instance of the one who was next has a worker.
func (r *Round) Placed() {
	g := r.groups[0]
	t := g.heap[0]
	for j, d := range toVec(t.Demand) {
		t.used[j], g.used[j] = addInt(t.used[j], d), addInt(g.used[j], d)
	}
	t.share, _ = dominant(&r.total, &t.used)
	g.due = r.due(g)
	if t.Waiting--; t.Waiting > 0 {
		heap.Fix(&g.heap, 0)
		heap.Fix(&r.groups, 0)
		return
	}
	r.Leave()
}

// Passed says that one instance of the one who was next has no place; others of it may.
func (r *Round) Passed() {
	if t := r.groups[0].heap[0]; t.Waiting > 1 {
		t.Waiting--
		return
	}
	r.Leave()
}

// Took says that instances of a contender, by its index in the list, have places, whether
// it was next or not; out, that there are none for more of them.
func (r *Round) Took(at, instances int, out bool) {
	for gi, g := range r.groups {
		for ti, t := range g.heap {
			if t.at != at {
				continue
			}
			for j, d := range toVec(Times(t.Demand, instances)) {
				t.used[j], g.used[j] = addInt(t.used[j], d), addInt(g.used[j], d)
			}
			t.share, _ = dominant(&r.total, &t.used)
			g.due = r.due(g)
			if t.Waiting -= instances; out || t.Waiting <= 0 {
				heap.Remove(&g.heap, ti)
			} else {
				heap.Fix(&g.heap, ti)
			}
			if len(g.heap) == 0 {
				heap.Remove(&r.groups, gi)
			} else {
				heap.Fix(&r.groups, gi)
			}
			return
		}
	}
}

// Leave takes the one who was next out of the round: no worker can take it, or none of
// it waits any more.
func (r *Round) Leave() {
	g := r.groups[0]
	heap.Pop(&g.heap)
	if len(g.heap) == 0 {
		heap.Pop(&r.groups)
		return
	}
	heap.Fix(&r.groups, 0)
}

type turnHeap []*turn

func (h turnHeap) Len() int      { return len(h) }
func (h turnHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h turnHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.share, b.share), cmp.Compare(a.demand, b.demand), cmp.Compare(a.Service, b.Service)) < 0
}
func (h *turnHeap) Push(x any) { *h = append(*h, x.(*turn)) }
func (h *turnHeap) Pop() any {
	n := len(*h) - 1
	t := (*h)[n]
	*h = (*h)[:n]
	return t
}

type groupHeap []*roundGroup

func (h groupHeap) Len() int      { return len(h) }
func (h groupHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h groupHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(a.due, b.due), cmp.Compare(a.name, b.name)) < 0
}
func (h *groupHeap) Push(x any) { *h = append(*h, x.(*roundGroup)) }
func (h *groupHeap) Pop() any {
	n := len(*h) - 1
	g := (*h)[n]
	*h = (*h)[:n]
	return g
}

// Assignment is an instance that Contend gave a worker: of the contender with that
// index, counted from 0 for each.
type Assignment struct {
	Contender, Instance int
	Worker              string
}

// Contend decides a whole round at once, as a cluster does instance by instance: who is
// next places an instance by the Request of its service; request is asked for it once,
// and its Instance is then made of the name of the service and a number. It returns the assignments in
// their order. The workers are not changed; of each only what it has for all services
// counts, so Same and Conflicts are to be empty. Latency of a request is ignored.
//
// Records are not made. 300 services on 40 workers take milliseconds.
func Contend(workers []WorkerView, contenders []Contender, request func(i int) Request) []Assignment {
	var total api.Resources
	rows, devices := make([]row, len(workers)), make([][]Device, len(workers))
	for i := range workers {
		devices[i] = slices.Clone(workers[i].Devices)
		for k := range devices[i] {
			devices[i][k].Used = min(max(0, devices[i][k].Used), whole)
		}
		rows[i] = newRow(&workers[i], 0)
		if !workers[i].Suspect {
			total = Add(total, cleanResources(workers[i].Capacity))
		}
	}
	type asking struct {
		req    Request
		how    *scorer
		demand vec
		fits   []int // indexes of the workers that satisfy the constraints
		same   []int // by index
		placed int
		// devices: it asks for some
		devices bool
	}
	all := make([]asking, len(contenders))
	for i := range contenders {
		a := &all[i]
		a.req = cleanRequest(request(i))
		a.how, a.demand, a.same = scorerOf(a.req.Scheduler), toVec(a.req.Demand), make([]int, len(rows))
		a.devices = asksDevices(a.demand, a.req.Devices)
		avoid := map[string]bool{}
		for _, id := range a.req.Avoid {
			avoid[id] = true
		}
		for w := range workers {
			if a.how == nil {
				break
			}
			if r := reject(&workers[w], &a.req, avoid, vec{}, vec{}); r.filter == passed {
				a.fits = append(a.fits, w)
			}
		}
	}
	round := NewRound(total, nil, contenders)
	var out []Assignment
	for i := round.Next(); i >= 0; i = round.Next() {
		a := &all[i]
		id := contenders[i].Service + "." + strconv.Itoa(a.placed)
		seed := ringOf(id)
		best, found := candidate{}, -1
		for _, w := range a.fits {
			r := &rows[w]
			if firstShort(&a.demand, &r.free) >= 0 {
				continue
			}
			if a.devices {
				if _, lacking := Give(devices[w], a.req.Demand, a.req.Devices); lacking != "" {
					continue
				}
			}
			c := candidate{view: &workers[w], key: r.hash - seed}
			a.how.judge(&c, fit{capacity: r.capacity, free: r.free, demand: a.demand, throughput: cleanRate(workers[w].Throughput)}, a.same[w], a.req.Spread != "none")
			if found < 0 || c.before(&best) {
				best, found = c, w
			}
		}
		if found < 0 {
			round.Leave()
			continue
		}
		for j, d := range a.demand {
			rows[found].free[j] -= d
		}
		if a.devices {
			held, _ := Give(devices[found], a.req.Demand, a.req.Devices)
			hold(devices[found], held)
		}
		a.same[found]++
		out = append(out, Assignment{i, a.placed, workers[found].ID})
		a.placed++
		round.Placed()
	}
	return out
}

// hold notes what of devices is taken.
func hold(devices []Device, held []wire.Held) {
	for _, h := range held {
		if k := slices.IndexFunc(devices, func(d Device) bool { return d.ID == h.ID }); k >= 0 {
			devices[k].Used = min(devices[k].Used+h.Share, whole)
		}
	}
}
