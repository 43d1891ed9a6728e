package peer_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/overlay/link"
	"github.com/verge-edge/verge/internal/wire"
)

// Instances send packets as large as leave the machine, once one so large has been
// answered; until then, and to a worker to which they do not get through, small ones.
func TestLargePacketsWhereTheyArrive(t *testing.T) {
	w := newWorld(t)
	ha, ipA := w.machine()
	hb, ipB := w.machine()
	hc, ipC := w.machine()
	// On the way to c what is larger than 1400 bytes goes in fragments, which are lost.
	w.net.Run("ip", "link", "set", fmt.Sprintf("to%d", w.links), "mtu", "1400")
	hc.NFT(`
table ip narrow {
	chain before {
		type filter hook prerouting priority -450
		ip frag-off & 0x3fff != 0 drop
	}
}
`)
	a, b, c := w.network("a", ha), w.network("b", hb), w.network("c", hc)
	addrB, addrC := b.say("addr"), c.say("addr")
	a.say("route b " + ipB + ":" + dataPort + " " + addrB)
	b.say("route a " + ipA + ":" + dataPort + " " + a.say("addr"))
	a.awaitPath(b, wire.PathDirect)
	b.awaitPath(a, wire.PathDirect)
	tick, deadline := time.NewTicker(20*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for routeMTU(a, addrB) != 0 {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the route to b stays narrow")
		}
	}
	a.say("route c " + ipC + ":" + dataPort + " " + addrC)
	c.say("route a " + ipA + ":" + dataPort + " " + a.say("addr"))
	a.awaitPath(c, wire.PathDirect)
	for _, to := range []string{addrB, addrC} {
		if got := a.say("echo " + to); got != "ok" {
			t.Errorf("to %s: %s", to, got)
		}
	}
	if mtu := routeMTU(a, addrC); mtu != link.DefaultMTU {
		t.Errorf("the route to c has MTU %d", mtu)
	}
	if got := a.host.Run("sh", "-c", "cat /sys/class/net/vg*i*/mtu"); strings.TrimSpace(got) != "1420" {
		t.Errorf("MTU of the instance's device: %s", got)
	}
}

// routeMTU is what the route to an address says, 0 if nothing.
func routeMTU(n *node, to string) (mtu int) {
	out := n.host.Run("ip", "-6", "route", "get", to)
	if _, rest, ok := strings.Cut(out, " mtu "); ok {
		_, _ = fmt.Sscan(rest, &mtu)
	}
	return mtu
}
