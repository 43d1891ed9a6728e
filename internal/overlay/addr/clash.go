package addr

import (
	"fmt"
	"net/netip"
)

// HostNetwork is a network that the machine is in or has a route to.
type HostNetwork struct {
	Prefix netip.Prefix
	Device string
}

// Clash returns which networks of the machine overlap with a space: of IPv4, which a worker can
// do without, and of IPv6, which it needs. Both are nil without an overlap. Default routes do not
// count.
func (s Space) Clash(host []HostNetwork) (ipv4, ipv6 error) {
	for _, h := range host {
		if h.Prefix.Bits() == 0 {
			continue
		}
		where := fmt.Sprintf("%s, which this machine has on %s", h.Prefix.Masked(), h.Device)
		if h.Device == "" {
			where = fmt.Sprintf("%s, to which this machine has a route", h.Prefix.Masked())
		}
		switch {
		case ipv4 == nil && s.Pool.IsValid() && (s.Pool.Overlaps(h.Prefix) || s.Worker4.Overlaps(h.Prefix)):
			ipv4 = fmt.Errorf("the IPv4 addresses of instances, %s, overlap with %s: give the root another pool "+
				"(verge root --network-pool)", s.Pool, where)
		case ipv4 == nil && s.Services4.IsValid() && s.Services4.Overlaps(h.Prefix):
			ipv4 = fmt.Errorf("the IPv4 addresses of services, %s, overlap with %s: give the root others (verge root "+
				"--network-services)", s.Services4, where)
		case ipv6 == nil && s.Root.Overlaps(h.Prefix):
			ipv6 = fmt.Errorf("the prefix of the service network, %s, overlaps with %s: the root made it at random "+
				"and keeps it, so the other one has to go from this machine", s.Root, where)
		}
	}
	return ipv4, ipv6
}
