package state

import (
	"net/netip"

	"github.com/verge-edge/verge/internal/overlay"
	"github.com/verge-edge/verge/internal/runtime"
	"github.com/verge-edge/verge/internal/wire"
)

// Snapshot is what is known of an instance at a moment. Its maps and lists are not changed
// once they are here.
type Snapshot struct {
	Busy  bool // there is a task, or there may be
	Phase wire.Phase
	Order wire.Order   // what it runs, or ran
	Task  runtime.Task // nil: none
	Ports map[string]int
	Addrs []netip.Addr // in the service network
	NetNS string       // path of its network namespace, "" for the machine's
	Host  netip.Addr   // the worker's own address in the service network
}

// ObjectsAddr is where an instance with a network of its own reaches the objects of its
// worker, "" for one that shares the machine's.
func (s *Snapshot) ObjectsAddr() string {
	if s.NetNS == "" || !s.Host.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(s.Host, overlay.ObjectsPort).String()
}
