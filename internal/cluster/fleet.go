package cluster

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
)

// The index of the workers by which instances are placed. It is made when a pass has
// its first instance to place, of the usage that the pass counts anyway, and brought up
// to date with each that it places. So it follows from the model, a plan has its own,
// and nothing has to keep it in step with reports, cordons and settings between passes.

// recount forgets what is used: what instances are has changed.
func (t *tx) recount() { t.use, t.fleet, t.told, t.room = nil, nil, nil, nil }

// index is the workers as this tx leaves them.
func (t *tx) index() *place.Fleet {
	if t.fleet != nil {
		return t.fleet
	}
	t.fleet = &place.Fleet{}
	t.fill(t.fleet, func(*place.WorkerView) {})
	return t.fleet
}

// fill puts the workers into an index, each as change makes it.
func (t *tx) fill(f *place.Fleet, change func(*place.WorkerView)) {
	for name, w := range t.m.Workers {
		v, u := view(w, name), t.used()[name]
		v.Used = u.used
		u.taken(v.Devices)
		change(&v)
		f.Put(v)
	}
	for name := range t.m.Workers {
		for key, n := range t.used()[name].same {
			if n > 0 {
				t.markUse(f, key, name, false)
			}
		}
	}
	t.markPorts(f)
}

// refit brings the index up to date with what a worker has of a service.
func (t *tx) refit(name, app, service string) {
	if t.fleet == nil && t.room == nil {
		return
	}
	key, used := app+"."+service, t.used()[name].used
	moved := t.portsMoved(key, name)
	if t.fleet != nil {
		t.fleet.Use(name, used)
		t.markUse(t.fleet, key, name, moved)
	}
	if t.room != nil {
		v := place.WorkerView{ID: name, Used: used}
		t.room.view(&v)
		t.room.coming.Use(name, v.Used)
		t.markUse(t.room.coming, key, name, moved)
		t.room.changed(name)
	}
}

// rehold brings the index up to date with what of a worker's devices is taken.
func (t *tx) rehold(name string, w *state.Worker, u *usage) {
	if w == nil || t.fleet == nil && t.room == nil {
		return
	}
	devices := devices(w)
	u.taken(devices)
	if t.fleet != nil {
		t.fleet.Hold(name, devices)
	}
	if t.room != nil {
		v := place.WorkerView{ID: name, Devices: slices.Clone(devices)}
		t.room.view(&v)
		t.room.coming.Hold(name, v.Devices)
		t.room.changed(name)
	}
}

// markFor tells an index what a worker has of a service and what that meets there.
func (t *tx) markFor(f *place.Fleet, key, name string) {
	f.Mark(key, name, t.used()[name].same[key], t.conflicting(key, name))
}

// markUse tells an index what a worker has of a service, and those that are kept apart from
// it that they meet it there; where the ports of its machine are now taken or free (moved),
// also those that name the same.
func (t *tx) markUse(f *place.Fleet, key, name string, moved bool) {
	app, service, _ := strings.Cut(key, ".")
	t.markFor(f, key, name)
	for _, other := range t.keptApart(app, service) {
		t.markFor(f, app+"."+other, name)
	}
	if !moved {
		return
	}
	x := t.portIndex()
	machine, _ := t.machineOf(name)
	for _, n := range x.ports[key] {
		for _, other := range x.users[n] {
			for _, mate := range x.portMates(machine) {
				t.markFor(f, other, mate)
			}
		}
	}
}

// conflicting are the services kept apart from one of which there are instances on a worker,
// and the ports that it would have to share there.
func (t *tx) conflicting(key, name string) (out []string) {
	app, service, _ := strings.Cut(key, ".")
	for _, other := range t.keptApart(app, service) {
		if t.used()[name].same[app+"."+other] > 0 {
			out = append(out, other)
		}
	}
	out = append(out, t.heldElsewhere(key, name)...)
	return t.meets(key, name, out)
}
