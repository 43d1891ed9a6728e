package lease

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

func TestAddresses(t *testing.T) {
	pool := DefaultPool
	for _, n := range []uint32{0, 1, 255, 256, 32767} {
		if got, ok := SubnetNumber(pool, Subnet(pool, n)); !ok || got != n {
			t.Errorf("/24 %d is %s and back %d", n, Subnet(pool, n), got)
		}
	}
	if Subnet(pool, 32767).String() != "10.255.255.0/24" || SubnetsIn(pool) != 32768 {
		t.Errorf("the last of %d is %s", SubnetsIn(pool), Subnet(pool, 32767))
	}
	l := &wire.Lease{Prefix: netip.MustParsePrefix("fd01:203:405::/48"), Number: 0x10203, IPv4: netip.MustParsePrefix("10.128.1.0/24"), Pool: pool}
	mine := netip.MustParseAddr("fd01:203:405:1:203:5:0:1") // worker 00010203, application 000500, instance 000001
	if w, a, i, ok := Parse(l.Prefix, mine); !ok || w != 0x10203 || a != 0x500 || i != 1 {
		t.Errorf("%s is worker %x, application %x, instance %x", mine, w, a, i)
	}
	v4, foreign := netip.MustParseAddr("10.128.1.7"), netip.MustParseAddr("10.128.2.7")
	got := Mine(l, 0x500, []netip.Addr{foreign, netip.MustParseAddr("fd01:203:405:1:204:5:0:1"), netip.MustParseAddr("::ffff:10.128.1.7"), mine, v4, v4})
	if !slices.Equal(got, []netip.Addr{mine, v4}) {
		t.Errorf("of what it says these are its own: %v", got)
	}
	if got := Mine(l, 0x501, []netip.Addr{mine}); got != nil {
		t.Errorf("an address of another application: %v", got)
	}
	c := &wire.ClusterLease{Prefix: l.Prefix, Pool: pool, Index: 3, Numbers: []wire.Block{{From: 0x10200, N: 8}}, Subnets: []wire.Block{{From: 1, N: 1}}}
	if got := Ours(c, 0x500, []netip.Addr{mine, v4, foreign}); !slices.Equal(got, []netip.Addr{mine, v4}) {
		t.Errorf("of what a cluster says these are its own: %v", got)
	}
	if Mine(nil, 1, []netip.Addr{mine}) != nil || Ours(nil, 1, []netip.Addr{mine}) != nil {
		t.Error("addresses without a lease")
	}
}

func TestPoolsAreChecked(t *testing.T) {
	for _, tc := range [][3]string{
		{"10.128.0.0/9", "10.30.0.0/16", ""}, {"10.128.0.1/9", "10.30.0.0/16", "bits"}, {"10.0.0.0/9", "10.30.0.0/16", "overlap"},
		{"fd00::/48", "10.30.0.0/16", "IPv4"}, {"10.128.0.0/25", "10.30.0.0/16", "between"}, {"10.128.0.0/9", "127.0.0.0/8", "hosts"},
		{"10.128.0.0/9", "10.0.0.0/7", "between"},
	} {
		pool, _ := netip.ParsePrefix(tc[0])
		services, _ := netip.ParsePrefix(tc[1])
		err := CheckPools(pool, services)
		if (err == nil) != (tc[2] == "") || err != nil && !strings.Contains(err.Error(), tc[2]) {
			t.Errorf("%s and %s: %v", tc[0], tc[1], err)
		}
	}
	if err := CheckPools(netip.Prefix{}, DefaultServices); err == nil {
		t.Error("no pool was accepted")
	}
}
