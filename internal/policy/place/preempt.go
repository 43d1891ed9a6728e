package place

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/estimate"
	"github.com/verge-edge/verge/internal/policy/place/geo"
	"github.com/verge-edge/verge/internal/policy/place/index"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Occupant is an instance on a worker that may be ended to make room.
type Occupant struct {
	ID wire.InstanceID
	turn.Claim
	Reserves api.Resources
	Devices  []wire.Held
}

// Preempt selects the instances that make room for a request that no worker can take as it
// is: on the worker where their highest claim is lowest, then where they are fewest, then by
// position on the ring as in Schedule. The request may displace each of them (Over), fits
// without them, and needs all of them gone. Occupants are by worker, without those that must
// not be ended. worker is "" if none will do; victims are empty if one has room anyway.
func Preempt(workers []WorkerView, occupants map[string][]Occupant, req Request, has turn.Claim) (worker string,
	victims []Occupant) {
	p := NewPreemption(req, has)
	for i := range workers {
		p.Put(workers[i], occupants[workers[i].ID])
	}
	return p.Best(req.Instance, req.Avoid)
}

// Preemption is Preempt for many instances of a service: the victims on a worker are computed
// once, and again when something changes there.
type Preemption struct {
	req    Request
	has    turn.Claim
	demand amount.Vec
	rooms  map[string]room // of eligible workers
}

// room is what a worker must end.
type room struct {
	ring    uint64
	highest turn.Claim
	victims []Occupant
}

// NewPreemption returns a Preemption for instances with a claim and the requirements of req,
// whose Instance and Avoid are ignored.
func NewPreemption(req Request, has turn.Claim) *Preemption {
	req = cleanRequest(req)
	return &Preemption{req: req, has: has, demand: amount.ToVec(req.Demand), rooms: map[string]room{}}
}

// Put adds or replaces a worker and its occupants.
func (p *Preemption) Put(w WorkerView, on []Occupant) {
	w.Capacity, w.Used, w.Location, w.Coord = amount.Clean(w.Capacity), amount.Clean(w.Used), geo.CleanPoint(w.Location),
		geo.CleanCoord(w.Coord)
	if v, ok := makeRoom(&w, on, &p.req, p.has, p.demand); ok {
		p.rooms[w.ID] = room{ring: index.RingOf(w.ID), highest: highest(v), victims: v}
	} else {
		delete(p.rooms, w.ID)
	}
}

// Best returns the worker for an instance, and its victims.
func (p *Preemption) Best(instance wire.InstanceID, avoid []string) (worker string, victims []Occupant) {
	var best room
	seed := index.RingOf(instance)
	for id, r := range p.rooms {
		if slices.Contains(avoid, id) {
			continue
		}
		if worker == "" || cmp.Or(
			r.highest.Compare(best.highest), cmp.Compare(len(r.victims), len(best.victims)),
			cmp.Compare(r.ring-seed, best.ring-seed), cmp.Compare(id, worker),
		) < 0 {
			worker, best = id, r
		}
	}
	return worker, best.victims
}

// highest returns the highest claim among occupants; without any, one below all claims.
func highest(list []Occupant) turn.Claim {
	most := turn.Claim{Rank: -1}
	for i := range list {
		if list[i].Claim.Compare(most) > 0 {
			most = list[i].Claim
		}
	}
	return most
}

// makeRoom returns the victims of a request on a worker; false if ending them does not help.
func makeRoom(w *WorkerView, on []Occupant, req *Request, has turn.Claim, demand amount.Vec) ([]Occupant, bool) {
	lower := slices.DeleteFunc(slices.Clone(on), func(o Occupant) bool { return !has.Over(o.Claim) })
	capacity := amount.ToVec(w.Capacity)
	// Among equal claims, first those that free the most of what is requested.
	frees := func(o *Occupant) (share float64) {
		for j, r := range amount.ToVec(amount.Clean(o.Reserves)) {
			if demand[j] > 0 && capacity[j] > 0 {
				share = max(share, float64(r)/float64(capacity[j]))
			}
		}
		return share
	}
	slices.SortFunc(lower, func(a, b Occupant) int {
		return cmp.Or(a.Compare(b.Claim), cmp.Compare(frees(&b), frees(&a)), cmp.Compare(a.ID, b.ID))
	})
	fits := func(victims []Occupant) bool {
		v := *w
		v.Devices = slices.Clone(w.Devices)
		for i := range victims {
			v.Used = amount.Sub(v.Used, victims[i].Reserves)
			for _, h := range victims[i].Devices {
				if k := slices.IndexFunc(v.Devices, func(d device.Device) bool { return d.ID == h.ID }); k >= 0 {
					v.Devices[k].Used -= h.Share
				}
			}
		}
		return reject(&v, req, nil, demand, freeOf(&v)).filter == passed
	}
	if !fits(lower) { // the most frequent case
		return nil, false
	}
	n := 0
	for !fits(lower[:n]) {
		n++
	}
	victims := slices.Clone(lower[:n])
	for i := len(victims) - 1; i >= 0; i-- { // the most important first
		if without := slices.Delete(slices.Clone(victims), i, i+1); fits(without) {
			victims = without
		}
	}
	return victims, true
}

// displaceable says whether a cluster might have room for one replica if everything of a
// lower priority made room; it is false only if the contrary is proven. Instances that can
// make room have a rank below the priority, in any namespace.
func displaceable(a *wire.Aggregate, demand, pending amount.Vec, priority int) bool {
	if priority <= 0 || len(a.Lower) == 0 {
		return false
	}
	var lower, room amount.Vec
	told := false
	for i := range a.Lower {
		// Priorities reported together count as the lowest of them.
		if a.Lower[i].Priority < priority {
			for j, r := range amount.ToVec(a.Lower[i].Used) {
				lower[j] = amount.AddInt(lower[j], r)
			}
			told = a.Lower[i].Room != (api.Resources{}) // older clusters do not report it
			for j, r := range amount.ToVec(a.Lower[i].Room) {
				room[j] = max(room[j], r)
			}
		}
	}
	spreads, helps := estimate.SpreadsOf(a), false
	for j := range amount.Kinds {
		free := amount.SubInt(int64(spreads[j].Sum), pending[j])
		if demand[j] > amount.AddInt(free, lower[j]) || told && demand[j] > room[j] {
			return false
		}
		helps = helps || demand[j] > 0 && lower[j] > 0
	}
	return helps
}
