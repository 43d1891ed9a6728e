package engine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// goalKind is what should become of an instance.
type goalKind string

const (
	goalRun    goalKind = "run"    // as its order says
	goalStop   goalKind = "stop"   // end it and keep saying that it ended
	goalForget goalKind = "forget" // end it and drop all traces
	goalRefuse goalKind = "refuse" // it must not run here, and why
	goalHalt   goalKind = "halt"   // end it, to be started again by the next engine
	goalSleep  goalKind = "sleep"  // end it, to be started by the next request
)

// goal is the plan's verdict on one instance.
type goal struct {
	kind  goalKind
	order wire.Order
	why   string
	full  bool // it is refused for want of room, and of nothing else
}

// present is what a plan needs to know about an instance that the engine has.
type present struct {
	order wire.Order // what its task was or will be started from
	// holds its reservation: it has a task, or was admitted and has not ended for
	// good. A refused, stopped or given-up instance does not.
	holds bool
	// ended for good by itself: it stays so until another incarnation is ordered.
	ended bool
	// awake: it is to run although its order lets it sleep.
	awake bool
}

// world is the input of plan.
type world struct {
	// orders that are in force. Where known is false no orders could be read, and
	// the ones that the instances were started from stand in for them.
	orders []wire.Order
	known  bool
	// halting: the engine is shutting down.
	halting  bool
	present  map[wire.InstanceID]present
	capacity api.Resources
	devices  []wire.DeviceNode
	// runtimes that this engine has drivers for.
	runtimes []string
	// hostPaths are the directories of the machine that instances may use, and
	// cannotMount says why nothing can be mounted here, "" if it can.
	hostPaths   []string
	cannotMount string
	// hostUsers are those of the machine that instances may run as, and isolation says
	// whether they can be another than this process.
	hostUsers []string
	isolation *wire.Isolation
	// overlay: instances are connected by the service network, or wait for it.
	overlay bool
}

// plan gives every instance, ordered or present, its goal. Those that hold a
// reservation keep it; the others are admitted in the order of their ids for as
// long as the capacity lasts.
func plan(w world) map[wire.InstanceID]goal {
	orders := w.orders
	if !w.known {
		orders = nil
		for _, p := range w.present {
			orders = append(orders, p.order)
		}
	}
	// By reference: an order is large, and each request that wakes something sorts them.
	sorted := make([]*wire.Order, len(orders))
	for i := range orders {
		sorted[i] = &orders[i]
	}
	slices.SortFunc(sorted, func(a, b *wire.Order) int { return strings.Compare(a.ID, b.ID) })

	goals := make(map[wire.InstanceID]goal, max(len(orders), len(w.present)))
	free, cards := w.capacity, newCards(w.devices)
	for id, p := range w.present {
		goals[id] = goal{kind: goalForget, order: p.order}
		if p.holds {
			free = minus(free, state.Reserved(&p.order))
			cards.hold(p.order.Devices, 1)
		}
	}
	if w.halting {
		for id, g := range goals {
			goals[id] = goal{kind: goalHalt, order: g.order}
		}
		return goals
	}

	// First those that have their place, so that nobody new takes it; then those
	// that hold a place as another incarnation, who compete for the difference.
	var replaced, fresh []wire.Order
	for _, x := range sorted {
		o := *x
		p, here := w.present[o.ID]
		switch {
		case o.Stop:
			goals[o.ID] = goal{kind: goalStop, order: o}
		case w.unfit(&o) != "":
			goals[o.ID] = goal{kind: goalRefuse, order: o, why: w.unfit(&o)}
		case !(here && (p.awake || p.ended && state.SameRun(&p.order, &o)) || !here && state.BeginsAwake(&o)) && o.Sleep != nil:
			goals[o.ID] = goal{kind: goalSleep, order: o}
		case here && (p.holds || p.ended) && state.SameRun(&p.order, &o):
			goals[o.ID] = goal{kind: goalRun, order: o}
		case here && p.holds:
			replaced = append(replaced, o)
		default:
			fresh = append(fresh, o)
		}
	}
	admit := func(o wire.Order, own api.Resources, has []wire.Held) {
		need := state.Reserved(&o)
		cards.hold(has, -1)
		lack := shortage(need, plus(free, own), w.capacity)
		if lack == "" {
			lack = cards.lack(&o)
		}
		cards.hold(has, 1)
		if lack != "" {
			goals[o.ID] = goal{kind: goalRefuse, order: o, why: lack, full: true}
			return
		}
		goals[o.ID] = goal{kind: goalRun, order: o}
		free = minus(plus(free, own), larger(need, own))
		cards.hold(has, -1)
		cards.most(has, o.Devices)
	}
	for _, o := range replaced {
		p := w.present[o.ID]
		admit(o, state.Reserved(&p.order), p.order.Devices)
	}
	for _, o := range fresh {
		admit(o, api.Resources{}, nil)
	}
	return goals
}

// unfit says why this engine can never run an order, "" if it can.
func (w *world) unfit(o *wire.Order) string {
	switch {
	case o.Spec == nil:
		return "the order has no service in it"
	case len(o.Spec.Command) == 0 && !state.Sandboxed(o):
		return "the service has no command"
	case !slices.Contains(w.runtimes, state.RuntimeOf(o)) && !w.runs(o):
		return fmt.Sprintf("runtime %q is not on this worker, it has: %s", state.RuntimeOf(o), strings.Join(w.runtimes, ", "))
	case o.Spec.NeedsNetwork() != "" && !w.overlay:
		return o.Spec.NeedsNetwork() + " needs the service network, of which this worker is no part (verge describe worker says why)"
	}
	return cmp.Or(unfitUser(o.Spec, w.hostUsers, w.isolation), unfitVolumes(o.Spec, w.hostPaths, w.cannotMount))
}

// runs says that an order is of what runs here: then its runtime was here, and may
// only be away.
func (w *world) runs(o *wire.Order) bool {
	p, here := w.present[o.ID]
	return here && p.holds && state.SameRun(&p.order, o)
}

// shortage says which needs exceed what is free of all, "" if none does.
func shortage(need, free, all api.Resources) string {
	var lacks []string
	say := func(what string, short bool, need, free, all fmt.Stringer) {
		if short {
			lacks = append(lacks, fmt.Sprintf("needs %s %s, %s of %s free", need, what, free, all))
		}
	}
	say("cpu", need.CPU > free.CPU, need.CPU, max(free.CPU, 0), all.CPU)
	say("memory", need.Memory > free.Memory, need.Memory, max(free.Memory, 0), all.Memory)
	say("disk", need.Disk > free.Disk, need.Disk, max(free.Disk, 0), all.Disk)
	say("vgpus", need.VGPUs > free.VGPUs, need.VGPUs, max(free.VGPUs, 0), all.VGPUs)
	say("vtpus", need.VTPUs > free.VTPUs, need.VTPUs, max(free.VTPUs, 0), all.VTPUs)
	in, out := need.Bandwidth.In, need.Bandwidth.Out
	say("bandwidth in", in > free.Bandwidth.In, in, max(free.Bandwidth.In, 0), all.Bandwidth.In)
	say("bandwidth out", out > free.Bandwidth.Out, out, max(free.Bandwidth.Out, 0), all.Bandwidth.Out)
	return strings.Join(lacks, "; ")
}
