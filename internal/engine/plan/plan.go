package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/engineapi"
	"github.com/verge-edge/verge/internal/wire"
)

// Kind is what should become of an instance.
type Kind string

// The kinds of goals.
const (
	Run    Kind = "run"    // as its order says
	Stop   Kind = "stop"   // end it and keep saying that it ended
	Forget Kind = "forget" // end it and drop all traces
	Refuse Kind = "refuse" // it must not run here, and why
	Halt   Kind = "halt"   // end it, to be started again by the next engine
	Sleep  Kind = "sleep"  // end it, to be started by the next request
)

// Goal is the plan's verdict on one instance.
type Goal struct {
	Kind  Kind
	Order wire.Order
	Why   string
	Full  bool // it is refused for want of room, and of nothing else
}

// Present is what a plan needs to know about an instance that the engine has.
type Present struct {
	Order wire.Order // what its task was or will be started from
	// Holds its reservation: it has a task, or was admitted and has not ended for
	// good. A refused, stopped or given-up instance does not.
	Holds bool
	// ended for good by itself: it stays so until another incarnation is ordered.
	ended bool
	// Awake: it is to run although its order lets it sleep.
	Awake bool
}

// Presence is what an instance with this goal holds, where run is what it runs, or ran;
// busy says that it has a task. A goal to run holds room from the moment it is given, not
// only when the supervisor has come to it.
func (g *Goal) Presence(busy bool, phase wire.Phase, run *wire.Order) Present {
	switch {
	case busy:
		return Present{Order: *run, Holds: true}
	case phase == wire.PhaseExited && (g.Kind != Run || state.SameRun(run, &g.Order)):
		return Present{Order: *run, ended: true}
	case g.Kind == Run:
		return Present{Order: g.Order, Holds: true}
	case g.Kind == "" && phase == wire.PhasePending:
		// Fresh from disk, before the first plan: admitted by an earlier engine.
		return Present{Order: *run, Holds: true}
	}
	return Present{Order: g.Order}
}

// AddTo adds what an instance holds to a sum.
func (p Present) AddTo(sum api.Resources) api.Resources {
	if !p.Holds {
		return sum
	}
	return plus(sum, state.Reserved(&p.Order))
}

// World is the input of plan.
type World struct {
	// Current orders. Where known is false no orders could be read, and
	// the ones that the instances were started from stand in for them.
	Orders []wire.Order
	Known  bool
	// Halting: the engine is shutting down.
	Halting  bool
	Present  map[wire.InstanceID]Present
	Capacity api.Resources
	Devices  []engineapi.DeviceNode
	// Runtimes that this engine has drivers for.
	Runtimes []string
	// Refuses says why this worker never gives a service the volumes or user that it
	// names, "" if it does; nil: it does.
	Refuses func(*api.Service) string
	// Overlay: instances are connected by the service network, or wait for it.
	Overlay bool
}

// Goals gives every instance, ordered or present, its goal. Those that hold a
// reservation keep it; the others are admitted in the order of their ids for as
// long as the capacity lasts.
func Goals(w World) map[wire.InstanceID]Goal {
	orders := w.Orders
	if !w.Known {
		orders = nil
		for _, p := range w.Present {
			orders = append(orders, p.Order)
		}
	}
	// By reference: an order is large, and each request that wakes something sorts them.
	sorted := make([]*wire.Order, len(orders))
	for i := range orders {
		sorted[i] = &orders[i]
	}
	slices.SortFunc(sorted, func(a, b *wire.Order) int { return strings.Compare(a.ID, b.ID) })

	goals := make(map[wire.InstanceID]Goal, max(len(orders), len(w.Present)))
	free, cards := w.Capacity, newDevices(w.Devices)
	for id, p := range w.Present {
		goals[id] = Goal{Kind: Forget, Order: p.Order}
		if p.Holds {
			free = minus(free, state.Reserved(&p.Order))
			cards.hold(p.Order.Devices, 1)
		}
	}
	if w.Halting {
		for id, g := range goals {
			goals[id] = Goal{Kind: Halt, Order: g.Order}
		}
		return goals
	}

	// First those that have their place, so that nobody new takes it; then those
	// that hold a place as another incarnation, who compete for the difference.
	var replaced, fresh []wire.Order
	for _, x := range sorted {
		o := *x
		p, here := w.Present[o.ID]
		switch {
		case o.Stop:
			goals[o.ID] = Goal{Kind: Stop, Order: o}
		case w.unfit(&o) != "":
			goals[o.ID] = Goal{Kind: Refuse, Order: o, Why: w.unfit(&o)}
		case !(here && (p.Awake || p.ended && state.SameRun(&p.Order, &o)) || !here && state.BeginsAwake(&o)) &&
			o.Sleep != nil:
			goals[o.ID] = Goal{Kind: Sleep, Order: o}
		case here && (p.Holds || p.ended) && state.SameRun(&p.Order, &o):
			goals[o.ID] = Goal{Kind: Run, Order: o}
		case here && p.Holds:
			replaced = append(replaced, o)
		default:
			fresh = append(fresh, o)
		}
	}
	admit := func(o wire.Order, own api.Resources, has []wire.Held) {
		need := state.Reserved(&o)
		cards.hold(has, -1)
		lack := shortage(need, plus(free, own), w.Capacity)
		if lack == "" {
			lack = cards.lack(&o)
		}
		cards.hold(has, 1)
		if lack != "" {
			goals[o.ID] = Goal{Kind: Refuse, Order: o, Why: lack, Full: true}
			return
		}
		goals[o.ID] = Goal{Kind: Run, Order: o}
		free = minus(plus(free, own), larger(need, own))
		cards.hold(has, -1)
		cards.most(has, o.Devices)
	}
	for _, o := range replaced {
		p := w.Present[o.ID]
		admit(o, state.Reserved(&p.Order), p.Order.Devices)
	}
	for _, o := range fresh {
		admit(o, api.Resources{}, nil)
	}
	return goals
}

// unfit says why this engine can never run an order, "" if it can.
func (w *World) unfit(o *wire.Order) string {
	switch {
	case o.Spec == nil:
		return "the order has no service in it"
	case len(o.Spec.Command) == 0 && !state.Sandboxed(o):
		return "the service has no command"
	case !slices.Contains(w.Runtimes, state.RuntimeOf(o)) && !w.runs(o):
		return fmt.Sprintf("runtime %q is not on this worker, it has: %s", state.RuntimeOf(o),
			strings.Join(w.Runtimes, ", "))
	case o.Spec.NeedsNetwork() != "" && !w.Overlay:
		return o.Spec.NeedsNetwork() +
			" needs the service network, which this worker is not in (verge describe worker says why)"
	}
	if w.Refuses == nil {
		return ""
	}
	return w.Refuses(o.Spec)
}

// runs says that an order is of what runs here: then its runtime was here, and may
// only be away.
func (w *World) runs(o *wire.Order) bool {
	p, here := w.Present[o.ID]
	return here && p.Holds && state.SameRun(&p.Order, o)
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
