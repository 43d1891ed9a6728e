package cluster

import (
	"maps"
	"net"
	"net/netip"
	"slices"

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
