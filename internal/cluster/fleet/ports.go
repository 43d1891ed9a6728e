package fleet

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Ports whose numbers descriptors name. In the service network each instance has all ports
// for itself. Elsewhere the instances of a worker share those of its machine, and a second
// one with the same number does not start.

// PortIndex is who uses which port whose number descriptors name. It grows with the services and
// what runs of them, and not with the pairs of services that name the same number.
type PortIndex struct {
	ports map[string][]int    // by service, "<application>.<service>": the numbers that it names
	users map[int][]string    // by number: the services that name it
	local []string            // the workers that are reached at a loopback address
	on    map[[2]string]bool  // workers and the services with such ports of which they have some
	held  map[string]portUses // by machine
}

// portUses is by number how many workers of a machine have instances of which service.
type portUses map[int]map[string]int

// portIndex is that of this pass, made when it is first asked for.
func portIndex(t *state.Tx) *PortIndex {
	if Pass(t).PortsOf != nil {
		return Pass(t).PortsOf
	}
	x := &PortIndex{ports: map[string][]int{}, users: map[int][]string{}, on: map[[2]string]bool{},
		held: map[string]portUses{}}
	Pass(t).PortsOf = x
	for _, s := range t.Model.Shares {
		key := s.App + "." + s.Service
		for i := range s.Spec.Ports {
			if n := s.Spec.Ports[i].Number; n != 0 && !slices.Contains(x.ports[key], n) {
				x.ports[key] = append(x.ports[key], n)
				x.users[n] = append(x.users[n], key)
			}
		}
		slices.Sort(x.ports[key])
	}
	for _, name := range t.Model.WorkerNames() {
		w := t.Model.Workers[name]
		if inOverlay(w) {
			continue
		}
		if onLoopback(&w.Info) {
			x.local = append(x.local, name)
		}
		for key := range Used(t)[name].Same {
			portsMoved(t, key, name)
		}
	}
	return x
}

// machineOf is the machine whose ports the instances of a worker share, false where each has
// all for itself. Workers that are reached at a loopback address are on one machine, "".
func machineOf(t *state.Tx, name string) (string, bool) {
	w := t.Model.Workers[name]
	switch {
	case w == nil || inOverlay(w):
		return "", false
	case onLoopback(&w.Info):
		return "", true
	}
	return name, true
}

// portMates are the workers of a machine.
func (x *PortIndex) portMates(machine string) []string {
	if machine == "" {
		return x.local
	}
	return []string{machine}
}

// portsMoved notes what a worker has of a service, and says whether its machine has begun or
// ceased to have any with that.
func portsMoved(t *state.Tx, key, name string) (moved bool) {
	x := portIndex(t)
	machine, shared := machineOf(t, name)
	at, has := [2]string{name, key}, Used(t)[name].Same[key] > 0
	if !shared || len(x.ports[key]) == 0 || x.on[at] == has {
		return false
	}
	d := -1
	if x.on[at] = has; has {
		d = 1
	}
	if x.held[machine] == nil {
		x.held[machine] = portUses{}
	}
	for _, n := range x.ports[key] {
		of := x.held[machine][n]
		if of == nil {
			of = map[string]int{}
			x.held[machine][n] = of
		}
		was := of[key]
		if of[key] = was + d; of[key] == 0 {
			delete(of, key)
		}
		moved = was == 0 || of[key] == 0
	}
	return moved
}

// meets are the ports of a service that instances on the machine of a worker have.
func meets(t *state.Tx, key, name string, out []string) []string {
	machine, shared := machineOf(t, name)
	x := portIndex(t)
	if !shared {
		return out
	}
	for _, n := range x.ports[key] {
		for _, other := range slices.Sorted(maps.Keys(x.held[machine][n])) {
			if words := place.PortTaken(n, other); !slices.Contains(out, words) {
				out = append(out, words)
			}
		}
	}
	return out
}

func inOverlay(w *state.Worker) bool {
	return w.Info.Network != nil && w.Info.Network.Mode == wire.NetworkOverlay
}

func onLoopback(i *wire.WorkerInfo) bool {
	host, _, err := net.SplitHostPort(i.Address)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// PortBook has the ports that clusters in one process hold on the machine that they share, as
// those of verge dev do. The zero value is empty.
type PortBook struct {
	mu   sync.Mutex
	held map[string]map[int]string // by cluster: whose a port is
}

// Publish notes what a cluster holds. Nobody changes held any more.
func (b *PortBook) Publish(cluster string, held map[int]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[string]map[int]string{}
	}
	b.held[cluster] = held
}

// Others are the ports that other clusters hold.
func (b *PortBook) Others(cluster string) map[int]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := map[int]string{}
	for _, name := range slices.Sorted(maps.Keys(b.held)) {
		if name == cluster {
			continue
		}
		for port, who := range b.held[name] {
			out[port] = fmt.Sprintf("%s in cluster %s", who, name)
		}
	}
	return out
}

// PortsHeld are the ports whose numbers descriptors name, of instances that share those of
// this machine, and their services.
func PortsHeld(m *state.Model) map[int]string {
	held := map[int]string{}
	for _, i := range m.Insts {
		s, w := m.Shares[i.App+"."+i.Service], m.Workers[i.Worker]
		if s == nil || w == nil || inOverlay(w) || !onLoopback(&w.Info) || i.State != wire.Running &&
			i.State != wire.WorkerScheduled {
			continue
		}
		for p := range s.Spec.Ports {
			if n := s.Spec.Ports[p].Number; n != 0 {
				held[n] = i.App + "." + i.Service
			}
		}
	}
	return held
}

// heldElsewhere are the ports of a service that other clusters hold on the machine of a worker.
func heldElsewhere(t *state.Tx, key, name string) (out []string) {
	w := t.Model.Workers[name]
	if len(Memory(t.Model).OtherPorts) == 0 || w == nil || inOverlay(w) || !onLoopback(&w.Info) {
		return nil
	}
	for _, n := range portIndex(t).ports[key] {
		if who := Memory(t.Model).OtherPorts[n]; who != "" {
			out = append(out, place.PortTaken(n, who))
		}
	}
	return out
}

// markPorts tells an index of the ports that are taken on the machines of the workers.
func markPorts(t *state.Tx, f *place.Fleet) {
	x := portIndex(t)
	mark := func(n int, machine string) {
		for _, key := range x.users[n] {
			for _, name := range x.portMates(machine) {
				markFor(t, f, key, name)
			}
		}
	}
	for machine, held := range x.held {
		for n, of := range held {
			if len(of) > 0 {
				mark(n, machine)
			}
		}
	}
	for n := range Memory(t.Model).OtherPorts {
		mark(n, "")
	}
}
