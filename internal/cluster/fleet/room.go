package fleet

import (
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/device"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/wire"
)

// Room is what a pass needs to know to make room on workers: who could be ended, and
// what is free when everything that leaves has left. It is made when the first instance
// asks for it, and brought up to date with what is placed, promised and displaced: where
// thousands wait, to look at everything for each would take minutes.
type Room struct {
	occupants map[string][]place.Occupant // by worker: those that could be ended
	leaves    map[string]*Usage           // by worker: what comes free there
	Coming    *place.Fleet                // the workers as they will be
	plans     map[string]*roomPlan        // by application and service
}

// roomPlan is whom the instances of a service could displace on which worker.
type roomPlan struct {
	*place.Preemption
	stale map[string]bool // workers of which something has changed
}

// maxRoomPlans bounds what is kept: each is as large as the list of workers.
const maxRoomPlans = 16

// MakingRoom is that of this pass.
func MakingRoom(t *state.Tx) *Room {
	if Pass(t).room != nil {
		return Pass(t).room
	}
	Pass(t).room = &Room{occupants: map[string][]place.Occupant{}, leaves: map[string]*Usage{},
		Coming: &place.Fleet{}, plans: map[string]*roomPlan{}}
	for _, i := range t.Instances() {
		if i.Leaving != nil {
			Leaves(t, i.Leaving.Worker, i)
		}
		if state.UnderWay(i) && i.Moving.Room {
			Leaves(t, i.Worker, i)
		} else if i.Room != nil && i.Worker != "" {
			Leaves(t, i.Worker, i)
		}
		Occupies(t, i)
	}
	fill(t, Pass(t).room.Coming, Pass(t).room.view)
	return Pass(t).room
}

// Occupies notes an instance that could be ended.
func Occupies(t *state.Tx, i *wire.Instance) {
	if Pass(t).room == nil || !Displaceable(i) {
		return
	}
	r, held := Reserves(t, i.Worker, i)
	Pass(t).room.occupants[i.Worker] = append(Pass(t).room.occupants[i.Worker],
		place.Occupant{ID: i.ID, Claim: ClaimOf(t, i), Reserves: r, Devices: held})
	Pass(t).room.changed(i.Worker)
}

// Leaves notes that an instance leaves a worker.
func Leaves(t *state.Tx, worker string, i *wire.Instance) {
	if Pass(t).room == nil {
		return
	}
	u := Pass(t).room.leaves[worker]
	if u == nil {
		u = &Usage{}
		Pass(t).room.leaves[worker] = u
	}
	r, held := Reserves(t, worker, i)
	u.Used = amount.Add(u.Used, r)
	u.hold(held, 1)
	Pass(t).room.occupants[worker] = slices.DeleteFunc(Pass(t).room.occupants[worker],
		func(o place.Occupant) bool { return o.ID == i.ID })
}

// view makes of a worker what it will be.
func (r *Room) view(v *place.WorkerView) {
	if u := r.leaves[v.ID]; u != nil {
		v.Used = amount.Sub(v.Used, u.Used)
		for k := range v.Devices {
			v.Devices[k].Used -= u.held[v.Devices[k].ID]
		}
	}
}

// changed says that something is other than it was on a worker.
func (r *Room) changed(worker string) {
	for _, p := range r.plans {
		p.stale[worker] = true
	}
}

// RoomPlan is whom the instances of a service could displace where.
func RoomPlan(t *state.Tx, key string, req place.Request, has turn.Claim) *roomPlan {
	r := MakingRoom(t)
	p := r.plans[key]
	if p == nil || req.Pinned != "" { // of such each asks for a worker of its own
		p = &roomPlan{place.NewPreemption(req, has), map[string]bool{}}
		for name := range t.Model.Workers {
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
		if v, ok := r.Coming.View(key, name); ok {
			p.Put(v, r.occupants[name])
		}
	}
	clear(p.stale)
	return p
}

// Claim promises an instance its room on a worker as it will be, until the end of the
// pass: nobody who comes after it in the pass gets what is free of that already.
func Claim(t *state.Tx, worker string, i *wire.Instance, s *wire.Share) {
	u := Used(t)[worker]
	v, ok := MakingRoom(t).Coming.View(i.App+"."+i.Service, worker)
	if u == nil || !ok {
		return
	}
	u.Used = amount.Add(u.Used, s.Spec.Resources)
	if held, _ := device.Give(v.Devices, s.Spec.Resources, s.Spec.Devices); len(held) > 0 {
		u.hold(held, 1)
		Rehold(t, worker, t.Model.Workers[worker], u)
	}
	Refit(t, worker, i.App, i.Service)
}

// Reserves is what an instance has of a worker: what it is, or is to be, the larger.
func Reserves(t *state.Tx, worker string, i *wire.Instance) (r api.Resources, held []wire.Held) {
	if s := t.Model.Shares[i.App+"."+i.Service]; s != nil {
		r = s.Spec.Resources
	}
	if o := t.Ordered(worker + "." + i.ID); o != nil && o.Spec != nil {
		r, held = amount.Larger(r, o.Spec.Resources), o.Devices
	}
	return r, held
}
