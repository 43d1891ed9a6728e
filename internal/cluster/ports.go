package cluster

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/wire"
)

// Ports whose numbers descriptors name. In the service network each instance has all ports
// for itself. Elsewhere the instances of a worker share those of its machine, and a second
// one with the same number does not start.

// rival is a service, "<application>.<service>", with a port of the same number.
type rival struct {
	key  string
	port int
}

// portRivals are the services that have a port whose number a service names, which is one of
// them: two of its own instances meet as well.
func (t *tx) portRivals(key string) []rival {
	if t.rivals == nil {
		users := map[int][]string{}
		for _, s := range t.m.shares {
			for i := range s.Spec.Ports {
				if n := s.Spec.Ports[i].Number; n != 0 {
					users[n] = append(users[n], s.App+"."+s.Service)
				}
			}
		}
		t.rivals = map[string][]rival{}
		for _, n := range slices.Sorted(maps.Keys(users)) {
			slices.Sort(users[n])
			all := slices.Compact(users[n])
			for _, k := range all {
				for _, other := range all {
					t.rivals[k] = append(t.rivals[k], rival{other, n})
				}
			}
		}
	}
	return t.rivals[key]
}

// portMates are the workers that share their ports with one, which is among them; none where
// it is in the service network. Workers that are reached at a loopback address are on one
// machine.
func (t *tx) portMates(name string) []string {
	w := t.m.workers[name]
	if w == nil || w.inOverlay() {
		return nil
	}
	if !onLoopback(&w.Info) {
		return []string{name}
	}
	var out []string
	for _, other := range t.m.workerNames() {
		if x := t.m.workers[other]; !x.inOverlay() && onLoopback(&x.Info) {
			out = append(out, other)
		}
	}
	return out
}

func (w *worker) inOverlay() bool {
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

// publish notes what a cluster holds. Nobody changes held any more.
func (b *PortBook) publish(cluster string, held map[int]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held == nil {
		b.held = map[string]map[int]string{}
	}
	b.held[cluster] = held
}

// others are the ports that other clusters hold.
func (b *PortBook) others(cluster string) map[int]string {
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

// portsHeld are the ports whose numbers descriptors name, of instances that share those of
// this machine, and their services.
func (m *model) portsHeld() map[int]string {
	held := map[int]string{}
	for _, i := range m.insts {
		s, w := m.shares[i.App+"."+i.Service], m.workers[i.Worker]
		if s == nil || w == nil || w.inOverlay() || !onLoopback(&w.Info) || i.State != wire.Running && i.State != wire.WorkerScheduled {
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
func (t *tx) heldElsewhere(key, name string) (out []string) {
	w := t.m.workers[name]
	if len(t.m.otherPorts) == 0 || w == nil || w.inOverlay() || !onLoopback(&w.Info) {
		return nil
	}
	for _, r := range t.portRivals(key) {
		if who := t.m.otherPorts[r.port]; who != "" && r.key == key {
			out = append(out, place.PortTaken(r.port, who))
		}
	}
	return out
}

// markElsewhere tells an index of the ports that other clusters hold.
func (t *tx) markElsewhere(f *place.Fleet) {
	if len(t.m.otherPorts) == 0 {
		return
	}
	_ = t.portRivals("") // makes them
	for key := range t.rivals {
		for name := range t.m.workers {
			if len(t.heldElsewhere(key, name)) > 0 {
				f.Mark(key, name, t.used()[name].same[key], t.conflicting(key, name))
			}
		}
	}
}

// lookPorts takes over what other clusters hold; true if that is something else.
func (c *core) lookPorts() bool {
	if c.ports == nil {
		return false
	}
	now := c.ports.others(c.m.name)
	if maps.Equal(now, c.m.otherPorts) {
		return false
	}
	c.m.otherPorts = now
	return true
}
