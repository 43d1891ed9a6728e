package fleet

import (
	"maps"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/policy/place/amount"
	"github.com/verge-edge/verge/internal/policy/place/turn"
	"github.com/verge-edge/verge/internal/policy/place/waste"
	"github.com/verge-edge/verge/internal/tier/table"
	"github.com/verge-edge/verge/internal/wire"
)

// Usage is what the instances placed on each worker reserve, and how many of
// them belong to each service.
type Usage struct {
	Used api.Resources
	Same map[string]int
	N    int // of all instances
	// held is what of its devices is taken, in thousandths, by their ids; nil: nothing.
	held map[string]api.Units
}

// Add counts an instance.
func (u *Usage) Add(i *wire.Instance) {
	if u.Same == nil {
		u.Same = map[string]int{}
	}
	u.Same[i.App+"."+i.Service]++
	u.N++
}

// Reserved is what is reserved on each worker.
func Reserved(t *state.Tx) map[string]*Usage {
	out, all := make(map[string]*Usage, len(t.Model.Workers)), make([]Usage, len(t.Model.Workers))
	for name := range t.Model.Workers {
		out[name], all = &all[0], all[1:]
	}
	add := func(worker string, i *wire.Instance) {
		u := out[worker]
		if u == nil {
			return
		}
		// What it is to be may ask for more than what it is, or for less; until it is
		// updated it takes the larger of both.
		var r api.Resources
		if s := t.Model.Shares[i.App+"."+i.Service]; s != nil {
			r = s.Spec.Resources
		}
		if o := t.Ordered(worker + "." + i.ID); state.Asleep(i) && i.Worker == worker {
			r = api.Resources{} // until somebody asks for it, and its worker finds room
		} else if o != nil && o.Spec != nil {
			r = amount.Larger(r, o.Spec.Resources)
		}
		u.Used = amount.Add(u.Used, r)
		u.Add(i)
	}
	held(t, out)
	for _, i := range t.Instances() {
		if i.Worker != "" && i.State != wire.Terminated && i.State != wire.Failed {
			add(i.Worker, i)
		}
		if state.UnderWay(i) {
			add(i.Moving.Worker, i)
		}
		if i.Leaving != nil {
			add(i.Leaving.Worker, i)
		}
		// What may come back with a lost worker still takes room there.
		if i.Shadow != nil && i.Shadow.Worker != i.Worker {
			add(i.Shadow.Worker, i)
		}
	}
	return out
}

// The index of the workers by which instances are placed. It is made when a pass has
// its first instance to place, of the usage that the pass counts anyway, and brought up
// to date with each that it places. So it follows from the model, a plan has its own,
// and nothing has to keep it in step with reports, cordons and settings between passes.

// Recount forgets what is used: what instances are has changed.
func Recount(t *state.Tx) {
	Pass(t).use, Pass(t).Fleet, Pass(t).Told, Pass(t).room = nil, nil, nil, nil
}

// Index is the workers as this tx leaves them.
func Index(t *state.Tx) *place.Fleet {
	if Pass(t).Fleet != nil {
		return Pass(t).Fleet
	}
	Pass(t).Fleet = &place.Fleet{}
	fill(t, Pass(t).Fleet, func(*place.WorkerView) {})
	return Pass(t).Fleet
}

// Usual is what the instances of this cluster ask for; nil where no worker has accelerators.
func Usual(t *state.Tx) waste.Usual {
	p := Pass(t)
	if p.usual != nil {
		return *p.usual
	}
	p.usual = &waste.Usual{}
	for _, w := range t.Model.Workers {
		if w.Info.Capacity.VGPUs > 0 || w.Info.Capacity.VTPUs > 0 {
			count := map[waste.Kind]int{}
			for _, s := range t.Model.Shares {
				r := s.Spec.Resources
				count[waste.Kind{CPU: r.CPU, Memory: r.Memory}] += len(state.Ordinals(s))
			}
			*p.usual = waste.UsualOf(count)
			break
		}
	}
	return *p.usual
}

// fill puts the workers into an index, each as change makes it.
func fill(t *state.Tx, f *place.Fleet, change func(*place.WorkerView)) {
	for name, w := range t.Model.Workers {
		v, u := View(w, name), Used(t)[name]
		v.Used = u.Used
		u.taken(v.Devices)
		change(&v)
		f.Put(v)
	}
	for name := range t.Model.Workers {
		for key, n := range Used(t)[name].Same {
			if n > 0 {
				markUse(t, f, key, name, false)
			}
		}
	}
	markPorts(t, f)
}

// Refit brings the index up to date with what a worker has of a service.
func Refit(t *state.Tx, name, app, service string) {
	if Pass(t).Fleet == nil && Pass(t).room == nil {
		return
	}
	key, used := app+"."+service, Used(t)[name].Used
	moved := portsMoved(t, key, name)
	if Pass(t).Fleet != nil {
		Pass(t).Fleet.Use(name, used)
		markUse(t, Pass(t).Fleet, key, name, moved)
	}
	if Pass(t).room != nil {
		v := place.WorkerView{ID: name, Used: used}
		Pass(t).room.view(&v)
		Pass(t).room.Coming.Use(name, v.Used)
		markUse(t, Pass(t).room.Coming, key, name, moved)
		Pass(t).room.changed(name)
	}
}

// Rehold brings the index up to date with what of a worker's devices is taken.
func Rehold(t *state.Tx, name string, w *state.Worker, u *Usage) {
	if w == nil || Pass(t).Fleet == nil && Pass(t).room == nil {
		return
	}
	devices := Devices(w)
	u.taken(devices)
	if Pass(t).Fleet != nil {
		Pass(t).Fleet.Hold(name, devices)
	}
	if Pass(t).room != nil {
		v := place.WorkerView{ID: name, Devices: slices.Clone(devices)}
		Pass(t).room.view(&v)
		Pass(t).room.Coming.Hold(name, v.Devices)
		Pass(t).room.changed(name)
	}
}

// markFor tells an index what a worker has of a service and what that meets there.
func markFor(t *state.Tx, f *place.Fleet, key, name string) {
	f.Mark(key, name, Used(t)[name].Same[key], conflicting(t, key, name))
}

// markUse tells an index what a worker has of a service, and those that are kept apart from
// it that they meet it there; where the ports of its machine are now taken or free (moved),
// also those that name the same.
func markUse(t *state.Tx, f *place.Fleet, key, name string, moved bool) {
	app, service, _ := strings.Cut(key, ".")
	markFor(t, f, key, name)
	for _, other := range keptApart(t, app, service) {
		markFor(t, f, app+"."+other, name)
	}
	if !moved {
		return
	}
	x := portIndex(t)
	machine, _ := machineOf(t, name)
	for _, n := range x.ports[key] {
		for _, other := range x.users[n] {
			for _, mate := range x.portMates(machine) {
				markFor(t, f, other, mate)
			}
		}
	}
}

// conflicting are the services kept apart from one of which there are instances on a worker,
// and the ports that it would have to share there.
func conflicting(t *state.Tx, key, name string) (out []string) {
	app, service, _ := strings.Cut(key, ".")
	for _, other := range keptApart(t, app, service) {
		if Used(t)[name].Same[app+"."+other] > 0 {
			out = append(out, other)
		}
	}
	out = append(out, heldElsewhere(t, key, name)...)
	return meets(t, key, name, out)
}

// Scratch is what is worked out in the course of one pass.
type Scratch struct {
	// Each of these is made when it is first asked for.
	use       map[string]*Usage
	Fleet     *place.Fleet
	Told      map[string]bool // services of which Fleet knows the rates
	room      *Room
	apart     map[string][]string
	PortsOf   *PortIndex
	standings map[string]wire.Standing // of namespaces
	usual     *waste.Usual

	Turn *turn.Turn // of the instance that is being placed in a round
	// Stays are the instances that cannot leave a worker that is drained, with the
	// reason; Waits those whose turn has not come.
	Stays map[wire.InstanceID]string
	Waits map[wire.InstanceID]bool
}

var scratch = table.AddScratch[Scratch](&state.Schema)

// Pass is the scratch of the pass that t is of.
func Pass(t *state.Tx) *Scratch { return scratch.Of(t.Rows, nil) }

// Known is what this process knows beside what is stored.
type Known struct {
	// OtherPorts are those that other clusters hold on this machine, see PortBook. The map is
	// replaced, never changed.
	OtherPorts map[int]string
}

var memory = table.Remember(&state.Schema, table.MemoryRules[Known]{
	Clone: func(k *Known) *Known {
		return &Known{OtherPorts: maps.Clone(k.OtherPorts)}
	},
})

// Memory is what is known beside the records of m.
func Memory(m *state.Model) *Known { return memory.Of(m.DB) }
