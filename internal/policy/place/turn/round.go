package turn

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
)

// Contender is a service with instances waiting to be placed by drf.
type Contender struct {
	// Service is its unique name.
	Service string
	// Group is its namespace. Weight is that of the group; if its contenders differ, the
	// largest counts. Less than 1 counts as 1.
	Group  string
	Weight int
	// Priority within the group.
	Priority int
	// Used is what its instances reserve now, Demand what one more would reserve.
	Used, Demand api.Resources
	// Waiting is the number of instances to place.
	Waiting int
}

// Round decides which service is next when several contend for free resources (weighted
// dominant resource fairness). The share of a service or group is its largest share of the
// total of any resource. The next instance belongs to the group with the smallest share
// divided by weight, and within it, among the services with the highest priority, to the
// one with the smallest share. Ties go to the smaller demand, summed over the resources as
// fractions of the total, then to the first by name. The caller places the instance and
// reports the result.
//
// Groups come first so that a namespace gains nothing by having more services or by
// declaring them important. With one group and one priority it is DRF among services.
type Round struct {
	total  amount.Vec
	groups groupHeap
}

// roundGroup is a group with waiting contenders. due is its share divided by its weight.
type roundGroup struct {
	name   string
	used   amount.Vec
	weight int
	due    float64
	heap   turnHeap
}

// turn is a contender in the heap of its group.
type turn struct {
	Contender
	at     int // index in the list of contenders
	used   amount.Vec
	share  float64
	demand float64
}

// NewRound starts a round among contenders in a cluster with total resources. others is
// what instances that belong to no contender reserve, by group.
func NewRound(total api.Resources, others map[string]api.Resources, contenders []Contender) *Round {
	r := &Round{total: amount.ToVec(amount.Clean(total))}
	by := map[string]*roundGroup{}
	for i, c := range contenders {
		g := by[c.Group]
		if g == nil {
			g = &roundGroup{name: c.Group, used: amount.ToVec(amount.Clean(others[c.Group])), weight: 1}
			by[c.Group] = g
		}
		g.weight = max(g.weight, c.Weight)
		c.Demand = amount.Clean(c.Demand)
		t := &turn{Contender: c, at: i, used: amount.ToVec(amount.Clean(c.Used))}
		for j, d := range amount.ToVec(c.Demand) {
			if r.total[j] > 0 {
				t.demand += float64(d) / float64(r.total[j])
			}
		}
		t.share, _ = amount.Dominant(&r.total, &t.used)
		for j := range amount.Kinds {
			g.used[j] = amount.AddInt(g.used[j], t.used[j])
		}
		if c.Waiting > 0 {
			g.heap = append(g.heap, t)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(by)) {
		if g := by[name]; len(g.heap) > 0 {
			g.due = r.due(g)
			heap.Init(&g.heap)
			r.groups = append(r.groups, g)
		}
	}
	heap.Init(&r.groups)
	return r
}

// due returns the share of a group divided by its weight.
func (r *Round) due(g *roundGroup) float64 {
	share, _ := amount.Dominant(&r.total, &g.used)
	return share / float64(g.weight)
}

// Turn is why it was an instance's turn in a round, with the shares before it was placed.
type Turn struct {
	Group  string `json:"group"`
	Weight int    `json:"weight"`
	// Share is the share of the group, Service that of the service, both of the total.
	Share   float64 `json:"share"`
	Of      string  `json:"of,omitempty"` // the group's dominant resource
	Service float64 `json:"service"`
	// Groups is the number of groups with waiting contenders, including this one.
	Groups int `json:"groups"`
}

// Turn returns why the next contender is next. There must be one.
func (r *Round) Turn() Turn {
	g := r.groups[0]
	t := Turn{Group: g.name, Weight: g.weight, Service: g.heap[0].share, Groups: len(r.groups)}
	share, of := amount.Dominant(&r.total, &g.used)
	if t.Share = share; share > 0 {
		t.Of = amount.Name(of)
	}
	return t
}

// Next returns the index of the next contender, -1 if none is left. It is the same until
// Placed, Passed, Took or Leave is called.
func (r *Round) Next() int {
	if len(r.groups) == 0 {
		return -1
	}
	return r.groups[0].heap[0].at
}

// Placed records that an instance of the next contender got a worker.
func (r *Round) Placed() {
	g := r.groups[0]
	t := g.heap[0]
	for j, d := range amount.ToVec(t.Demand) {
		t.used[j], g.used[j] = amount.AddInt(t.used[j], d), amount.AddInt(g.used[j], d)
	}
	t.share, _ = amount.Dominant(&r.total, &t.used)
	g.due = r.due(g)
	if t.Waiting--; t.Waiting > 0 {
		heap.Fix(&g.heap, 0)
		heap.Fix(&r.groups, 0)
		return
	}
	r.Leave()
}

// Passed records that one instance of the next contender has no place; its others may.
func (r *Round) Passed() {
	if t := r.groups[0].heap[0]; t.Waiting > 1 {
		t.Waiting--
		return
	}
	r.Leave()
}

// Took records that instances of a contender, by its index in the list, have places, whether
// it was next or not. out: there is no place for more of them.
func (r *Round) Took(at, instances int, out bool) {
	for gi, g := range r.groups {
		for ti, t := range g.heap {
			if t.at != at {
				continue
			}
			for j, d := range amount.ToVec(amount.Times(t.Demand, instances)) {
				t.used[j], g.used[j] = amount.AddInt(t.used[j], d), amount.AddInt(g.used[j], d)
			}
			t.share, _ = amount.Dominant(&r.total, &t.used)
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

// Leave removes the next contender from the round: no worker can take its instances, or
// none is waiting.
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

func (h turnHeap) Len() int { return len(h) }

func (h turnHeap) Swap(i, j int) { h[i], h[j] = h[j], h[i] }

func (h turnHeap) Less(i, j int) bool {
	a, b := h[i], h[j]
	return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.share, b.share), cmp.Compare(a.demand, b.demand),
		cmp.Compare(a.Service, b.Service)) < 0
}

func (h *turnHeap) Push(x any) { *h = append(*h, x.(*turn)) }

func (h *turnHeap) Pop() any {
	n := len(*h) - 1
	t := (*h)[n]
	*h = (*h)[:n]
	return t
}

type groupHeap []*roundGroup

func (h groupHeap) Len() int { return len(h) }

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
