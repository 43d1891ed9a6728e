package health

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
)

// ProbeHosts probes an instance in the service network at its addresses in order, since a program
// may listen on one family alone. answered gets the address that answered, which is probed first
// from then on.
func ProbeHosts(ctx context.Context, p Prober, c *Check, pid int, answered func(netip.Addr)) error {
	var first error
	for i, host := range c.Hosts {
		one := *c
		one.host = host.String()
		err := p.Probe(ctx, one)
		if err == nil {
			if i > 0 {
				rest := slices.DeleteFunc(slices.Clone(c.Hosts), func(a netip.Addr) bool { return a == host })
				c.Hosts = append([]netip.Addr{host}, rest...)
			}
			answered(host)
			return nil
		}
		if first == nil {
			first = err
		}
		if !errors.Is(err, syscall.ECONNREFUSED) {
			return err
		}
	}
	if loopbackOnly(pid, c.port) {
		return fmt.Errorf("%w: it listens on the loopback alone, where nobody else reaches it; let it listen on "+
			"$VERGE_LISTEN", first)
	}
	return first
}

// maxListeners bounds how much of a list of sockets is read.
const maxListeners = 1 << 20

// loopbackOnly reports whether the programs in the network of a process listen on a port of the
// loopback and of no other address.
func loopbackOnly(pid, port int) bool {
	looped := false
	for _, file := range []string{"tcp", "tcp6"} {
		f, err := os.Open(fmt.Sprintf("/proc/%d/net/%s", pid, file))
		if err != nil {
			return false
		}
		on, other := listening(io.LimitReader(f, maxListeners), port)
		_ = f.Close() // it was read
		if other {
			return false
		}
		looped = looped || on
	}
	return looped
}

// listening looks for a port in a list of sockets as the kernel formats it.
func listening(r io.Reader, port int) (looped, other bool) {
	const listens = "0A"
	end := fmt.Sprintf(":%04X", port)
	for lines := bufio.NewScanner(r); lines.Scan(); {
		f := strings.Fields(lines.Text())
		if len(f) < 4 || f[3] != listens || !strings.HasSuffix(f[1], end) {
			continue
		}
		// Words in the order of bytes of the machine: 127.x.y.z ends or begins with it.
		switch addr := strings.TrimSuffix(f[1], end); {
		case len(addr) == 8 && (strings.HasSuffix(addr, "7F") || strings.HasPrefix(addr, "7F")),
			addr == "00000000000000000000000001000000", addr == "00000000000000000000000000000001":
			looped = true
		default:
			other = true
		}
	}
	return looped, other
}
