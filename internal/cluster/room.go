package cluster

import (
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// room is what a pass needs to know to make room on workers: who could be ended, and
// what is free when everything that leaves has left. It is made when the first instance
// asks for it, and brought up to date with what is placed, promised and displaced: where
// thousands wait, to look at everything for each would take minutes.
type room struct {
	occupants map[string][]place.Occupant // by worker: those that could be ended
	leaves    map[string]*usage           // by worker: what comes free there
	coming    *place.Fleet                // the workers as they will be
	plans     map[string]*roomPlan        // by application and service
}

// roomPlan is whom the instances of a service could displace on which worker.
type roomPlan struct {
	*place.Preemption
	stale map[string]bool // workers of which something has changed
}

// maxRoomPlans bounds what is kept: each is as large as the list of workers.
const maxRoomPlans = 16

// makingRoom is that of this pass.
func (t *tx) makingRoom() *room {
	if t.room != nil {
		return t.room
	}
	t.room = &room{occupants: map[string][]place.Occupant{}, leaves: map[string]*usage{}, coming: &place.Fleet{}, plans: map[string]*roomPlan{}}
	for _, i := range t.Instances() {
		if i.Leaving != nil {
			t.leaves(i.Leaving.Worker, i)
		}
		if underWay(i) && i.Moving.Room {
			t.leaves(i.Worker, i)
		} else if i.Room != nil && i.Worker != "" {
			t.leaves(i.Worker, i)
		}
		t.occupies(i)
	}
	t.fill(t.room.coming, t.room.view)
	return t.room
}

// occupies notes an instance that could be ended.
func (t *tx) occupies(i *wire.Instance) {
	if t.room == nil || !displaceable(i) {
		return
	}
	r, held := t.reserves(i.Worker, i)
	t.room.occupants[i.Worker] = append(t.room.occupants[i.Worker], place.Occupant{ID: i.ID, Claim: t.claimOf(i), Reserves: r, Devices: held})
	t.room.changed(i.Worker)
}

// leaves notes that an instance leaves a worker.
func (t *tx) leaves(worker string, i *wire.Instance) {
	if t.room == nil {
		return
	}
	u := t.room.leaves[worker]
	if u == nil {
		u = &usage{}
		t.room.leaves[worker] = u
	}
	r, held := t.reserves(worker, i)
	u.used = amount.Add(u.used, r)
	u.hold(held, 1)
	t.room.occupants[worker] = slices.DeleteFunc(t.room.occupants[worker], func(o place.Occupant) bool { return o.ID == i.ID })
}

// view makes of a worker what it will be.
func (r *room) view(v *place.WorkerView) {
	if u := r.leaves[v.ID]; u != nil {
		v.Used = amount.Sub(v.Used, u.used)
		for k := range v.Devices {
			v.Devices[k].Used -= u.held[v.Devices[k].ID]
		}
	}
}

// changed says that something is other than it was on a worker.
func (r *room) changed(worker string) {
	for _, p := range r.plans {
		p.stale[worker] = true
	}
}

// roomPlan is whom the instances of a service could displace where.
func (t *tx) roomPlan(key string, req place.Request, has turn.Claim) *roomPlan {
	r := t.makingRoom()
	p := r.plans[key]
	if p == nil || req.Pinned != "" { // of such each asks for a worker of its own
		p = &roomPlan{place.NewPreemption(req, has), map[string]bool{}}
		for name := range t.m.Workers {
			p.stale[name] = true
		}
		if len(r.plans) >= maxRoomPlans {
			clear(r.plans)
		}
		if req.Pinned == "" {
			r.plans[key] = p
		}
	}
	for name := range p.stale {
		if v, ok := r.coming.View(key, name); ok {
			p.Put(v, r.occupants[name])
		}
	}
	clear(p.stale)
	return p
}

// claim promises an instance its room on a worker as it will be, until the end of the
// pass: nobody who comes after it in the pass gets what is free of that already.
func (t *tx) claim(worker string, i *wire.Instance, s *wire.Share) {
	u := t.used()[worker]
	v, ok := t.makingRoom().coming.View(i.App+"."+i.Service, worker)
	if u == nil || !ok {
		return
	}
	u.used = amount.Add(u.used, s.Spec.Resources)
	if held, _ := place.Give(v.Devices, s.Spec.Resources, s.Spec.Devices); len(held) > 0 {
		u.hold(held, 1)
		t.rehold(worker, t.m.Workers[worker], u)
	}
	t.refit(worker, i.App, i.Service)
}

// reserves is what an instance has of a worker: what it is, or is to be, the larger.
func (t *tx) reserves(worker string, i *wire.Instance) (r api.Resources, held []wire.Held) {
	if s := t.m.Shares[i.App+"."+i.Service]; s != nil {
		r = s.Spec.Resources
	}
	if o := t.Ordered(worker + "." + i.ID); o != nil && o.Spec != nil {
		r, held = amount.Larger(r, o.Spec.Resources), o.Devices
	}
	return r, held
}
