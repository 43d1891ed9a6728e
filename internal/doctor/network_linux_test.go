package doctor

import (
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/hostnet/claim"
	"github.com/verge-edge/verge/internal/overlay/nstest"
	"github.com/verge-edge/verge/internal/wire"
)

// Who has the service network of a machine already, and whose rules are in the way,
// is said before a worker is started.
func TestOthersOnTheMachine(t *testing.T) {
	nstest.Need(t)
	n := Node{Role: "worker", Dir: t.TempDir()}
	look := func(h *nstest.Host, mode string) (first Finding) {
		t.Helper()
		n.Network = mode
		h.Do(func() { first = n.network()[0] })
		return first
	}
	want := func(f Finding, status Status, words ...string) {
		t.Helper()
		for _, w := range words {
			if f.Status != status || !strings.Contains(f.Detail+" "+f.Remedy, w) {
				t.Errorf("%+v, want %s and %q", f, status, w)
			}
		}
	}
	h := nstest.New(t)
	want(look(h, wire.NetworkAuto), OK, "addresses of their own")
	want(look(h, wire.NetworkLoopback), OK, "not asked for")

	taken := func(dir string) *claim.Claim {
		t.Helper()
		var c *claim.Claim
		var err error
		h.Do(func() { c, err = claim.Take("worker edge/first, in " + dir) })
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := taken("/srv/first")
	want(look(h, wire.NetworkAuto), Note, "worker edge/first, in /srv/first", "goes without it", "--network loopback")
	want(look(h, wire.NetworkOverlay), Warn, "worker edge/first, in /srv/first")
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	c = taken(n.Dir) // itself
	defer c.Close()
	want(look(h, wire.NetworkAuto), OK, "addresses of their own")

	h.NFT(`table ip filter { chain FORWARD { type filter hook forward priority 0; policy drop; }; }`)
	want(look(h, wire.NetworkAuto), Warn, "will not work", "iptables -I FORWARD -i vg+")
}
