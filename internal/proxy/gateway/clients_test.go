package gateway

import (
	"net"
	"net/netip"
	"testing"
)

// A few clients that take all the connections they can leave some to others.
func TestClientsLeaveConnectionsToOthers(t *testing.T) {
	const all = 900
	client := func(n byte) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, n)} }
	for hogs, want := range map[int]int{1: all / 2, 2: all - all/9, 3: all - all/13} {
		c := clients{most: all / 2, all: all, open: map[netip.Addr]int{}}
		var gives []func()
		taken := 0
		for range all {
			for h := range hogs {
				if give, ok := c.take(client(byte(h))); ok {
					taken++
					gives = append(gives, give)
				}
			}
		}
		if taken < want-2 || taken > want+2 {
			t.Errorf("%d clients have %d of %d connections, want about %d", hogs, taken, all, want)
		}
		if _, ok := c.take(client(200)); !ok {
			t.Errorf("%d clients keep another one out", hogs)
		}
		for _, give := range gives {
			give()
		}
		if c.total != 1 || len(c.open) != 1 {
			t.Errorf("%d connections of %d clients are left", c.total, len(c.open))
		}
	}
}
