package cli

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// addresses of an instance, "" for none.
func addresses(list []netip.Addr) string {
	out := make([]string, len(list))
	for i, a := range list {
		out[i] = a.String()
	}
	return strings.Join(out, ", ")
}

// appNumber is an application in addresses, "" where it has no number.
func appNumber(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d (%06x in addresses)", n, n)
}

func relayCount(n int) string {
	if n == 0 {
		return ""
	}
	return ", " + wire.Count(n, "relay")
}

// networkOf says how the instances of a worker are connected, "" where it has not said.
func networkOf(v rpc.WorkerView) string {
	switch n := v.Network; {
	case n == nil:
		return ""
	case n.Why != "":
		return n.Mode + ": " + n.Why
	default:
		return n.Mode
	}
}

// workerNetwork says what a worker has and does of the service network.
func workerNetwork(d *details, v rpc.WorkerView) {
	if n := v.Network; n != nil {
		mode := n.Mode
		if n.WireGuard != "" {
			mode += ", WireGuard in the " + map[string]string{"kernel": "kernel", "user": "engine"}[n.WireGuard]
		}
		if n.Why != "" {
			mode += ": " + n.Why
		}
		d.add("Network", mode)
		if n.Port != 0 {
			bound := "no --uplink, so unlimited"
			if n.Uplink != 0 {
				bound = "at most " + n.Uplink.String() + " upstream"
			}
			d.addf("Tunnel", "UDP port %d, MTU %d, %s", n.Port, n.MTU, bound)
		}
		if n.Relay != nil {
			d.add("Relay", strings.Join(n.Relay.Addresses, ", "))
		}
		d.add("Reached by relay", n.Via)
	}
	l := v.Lease
	if l == nil {
		return
	}
	d.addf("Number", "%d (%s)", l.Number, workerPrefix(l))
	ipv4 := "none left in " + l.Pool.String()
	if l.IPv4.IsValid() {
		ipv4 = l.IPv4.String()
	}
	d.add("IPv4", ipv4)
}

// workerPrefix is where the addresses of a worker's instances are in.
func workerPrefix(l *wire.Lease) netip.Prefix {
	b := l.Prefix.Addr().As16()
	b[6], b[7], b[8], b[9] = byte(l.Number>>24), byte(l.Number>>16), byte(l.Number>>8), byte(l.Number)
	return netip.PrefixFrom(netip.AddrFrom16(b), 80)
}
