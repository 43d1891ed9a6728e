package portpool

import (
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"sync"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/engine/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Ports given to instances. They end where Linux starts to give out ports of
// its own accord to outgoing connections (32768), so those can't take one.
const (
	firstPort = 25000
	lastPort  = 32767
)

// Pool gives ports to instances and remembers which instance has which. Other engines of the
// machine are noticed when a port is tried.
type Pool struct {
	seed string              // differs from engine to engine
	free func(port int) bool // can it be listened on now?
	mu   sync.Mutex          // guards below
	held map[int]wire.InstanceID
}

// New is a pool; seed differs from engine to engine, and free says whether a port can be listened
// on now.
func New(seed string, free func(int) bool) *Pool {
	return &Pool{seed: seed, free: free, held: make(map[int]wire.InstanceID)}
}

// Keep notes ports that an instance has from an earlier engine.
func (p *Pool) Keep(id wire.InstanceID, ports map[string]int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range ports {
		p.held[n] = id
	}
}

// Give returns a port for every port of the service: those in had where they are
// still free, else others. Ports in had that are not used again are released.
func (p *Pool) Give(id wire.InstanceID, service []api.Port, had map[string]int) (map[string]int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked(id)
	ports := make(map[string]int, len(service))
	for i := range service {
		name := state.PortName(&service[i])
		n, err := p.oneLocked(id, &service[i], had[name])
		if err != nil {
			p.releaseLocked(id)
			return nil, err
		}
		p.held[n] = id
		ports[name] = n
	}
	return ports, nil
}

// oneLocked finds one port: the one that the instance had, else the first free one from a place
// that depends on the instance, so that it tends to get the same port. A port that the descriptor
// names is given or refused: the program listens on no other.
func (p *Pool) oneLocked(id wire.InstanceID, port *api.Port, had int) (int, error) {
	name := state.PortName(port)
	usable := func(n int) bool {
		_, taken := p.held[n]
		return !taken && p.free(n)
	}
	if n := port.Number; n != 0 {
		if owner, taken := p.held[n]; taken {
			return 0, fmt.Errorf("port %d, which the descriptor names for port %q, is that of %s: without the "+
				"service network the instances of a worker share its ports", n, name, owner)
		}
		if !p.free(n) {
			return 0, fmt.Errorf("port %d, which the descriptor names for port %q, is taken on this machine: without "+
				"the service network an instance shares its ports", n, name)
		}
		return n, nil
	}
	if had >= firstPort && had <= lastPort && usable(had) {
		return had, nil
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.seed + "\x00" + id + "\x00" + name)) // a hash never fails
	const span = lastPort - firstPort + 1
	at := int(h.Sum32() % span)
	for i := range span {
		if n := firstPort + (at+i)%span; usable(n) {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no port between %d and %d is free on this worker for port %q", firstPort, lastPort, name)
}

// Release gives back all ports of an instance.
func (p *Pool) Release(id wire.InstanceID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.releaseLocked(id)
}

func (p *Pool) releaseLocked(id wire.InstanceID) {
	for n, owner := range p.held {
		if owner == id {
			delete(p.held, n)
		}
	}
}

// Bindable tries whether a port of the loopback can be listened on.
func Bindable(port int) bool {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return false
	}
	return l.Close() == nil
}

// Own are the ports of an instance with a network of its own.
func Own(ports []api.Port) map[string]int {
	out := make(map[string]int, len(ports))
	for i := range ports {
		out[state.PortName(&ports[i])] = wire.NetworkPort(ports, i)
	}
	return out
}
