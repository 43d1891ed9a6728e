package lease

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/internal/policy/lease/appnumber"
	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/wire"
)

// Defaults of the pools.
var (
	DefaultPool     = netip.MustParsePrefix("10.128.0.0/9")
	DefaultServices = netip.MustParsePrefix("10.30.0.0/16")
)

// Rest is a returned lease, which is not leased again before Until. A /24 or an index may be leased
// sooner than a number, of which there are many.
type Rest struct {
	// Its former owner, for people.
	Of      string       `json:"of"`
	Until   time.Time    `json:"until"`
	Index   uint32       `json:"index,omitempty"`
	Numbers []wire.Block `json:"numbers,omitempty"`
	Subnets []wire.Block `json:"subnets,omitempty"`
}

// RestSubnets bounds how long a /24 rests. The key of its former worker is revoked, so only peers
// that have heard nothing since still accept it.
const RestSubnets = 30 * 24 * time.Hour

// Rests are the parts of a lease whose owner's certificate is valid until a time.
func Rests(of string, index uint32, numbers, subnets []wire.Block, now, valid time.Time) []Rest {
	var out []Rest
	if len(numbers) > 0 {
		out = append(out, Rest{Of: of, Until: valid, Numbers: numbers})
	}
	if len(subnets) > 0 || index > 0 {
		until := now.Add(RestSubnets)
		if valid.Before(until) {
			until = valid
		}
		out = append(out, Rest{Of: of, Until: until, Index: index, Subnets: subnets})
	}
	return out
}

// Awake drops the rests that are over.
func Awake(rests []Rest, now time.Time) []Rest {
	var out []Rest
	for _, r := range rests {
		if r.Until.After(now) {
			out = append(out, r)
		}
	}
	return out
}

// CheckPools validates a pool for workers (/8 to /24) and one for services (/8 to /28).
func CheckPools(pool, services netip.Prefix) error {
	for _, p := range []struct {
		what     string
		prefix   netip.Prefix
		smallest int
	}{{"pool of workers", pool, 24}, {"pool of services", services, 28}} {
		a := p.prefix.Addr()
		switch {
		case !p.prefix.IsValid() || !a.Is4():
			return fmt.Errorf("the %s is no IPv4 prefix", p.what)
		case p.prefix != p.prefix.Masked():
			return fmt.Errorf("the %s %s has bits after its length: write %s", p.what, p.prefix, p.prefix.Masked())
		case p.prefix.Bits() < 8 || p.prefix.Bits() > p.smallest:
			return fmt.Errorf("the %s %s is not between a /8 and a /%d", p.what, p.prefix, p.smallest)
		case a.IsLoopback() || a.IsMulticast() || a.IsLinkLocalUnicast() || a.As4()[0] == 0 || a.As4()[0] >= 240:
			return fmt.Errorf("the %s %s cannot be used for hosts", p.what, p.prefix)
		}
	}
	if pool.Overlaps(services) {
		return errors.New("the pools of workers and of services overlap")
	}
	return nil
}

// SubnetsIn is how many /24s a pool has; 0 without a pool.
func SubnetsIn(pool netip.Prefix) int {
	if !pool.IsValid() || pool.Bits() > 24 {
		return 0
	}
	return 1 << (24 - pool.Bits())
}

// Subnet is the n-th /24 of a pool, counted from 0.
func Subnet(pool netip.Prefix, n uint32) netip.Prefix {
	a := pool.Addr().As4()
	x := uint32(a[0])<<24 | uint32(a[1])<<16 | uint32(a[2])<<8
	x += n << 8
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{byte(x >> 24), byte(x >> 16), byte(x >> 8), 0}), 24)
}

// SubnetNumber is the inverse of Subnet; false for anything but a /24 of the pool.
func SubnetNumber(pool, subnet netip.Prefix) (uint32, bool) {
	if !pool.IsValid() || !subnet.IsValid() || subnet.Bits() != 24 || !pool.Contains(subnet.Addr()) {
		return 0, false
	}
	p, a := pool.Addr().As4(), subnet.Addr().As4()
	of := func(b [4]byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
	return of(a) - of(p), true
}

// Parse splits an address of an instance into its parts; false outside the prefix.
func Parse(prefix netip.Prefix, a netip.Addr) (worker, app, instance uint32, ok bool) {
	if !prefix.IsValid() || !a.Is6() || a.Is4In6() || a.Zone() != "" || !prefix.Contains(a) {
		return 0, 0, 0, false
	}
	b := a.As16()
	worker = uint32(b[6])<<24 | uint32(b[7])<<16 | uint32(b[8])<<8 | uint32(b[9])
	app = uint32(b[10])<<16 | uint32(b[11])<<8 | uint32(b[12])
	instance = uint32(b[13])<<16 | uint32(b[14])<<8 | uint32(b[15])
	return worker, app, instance, true
}

// MaxAddrs is how many addresses an instance may have.
const MaxAddrs = 2

// Mine filters the addresses of an instance for those that its worker may assign; a worker that
// reports others is wrong or lies.
func Mine(l *wire.Lease, app uint32, addrs []netip.Addr) []netip.Addr {
	if l == nil {
		return nil
	}
	return only(addrs, func(a netip.Addr) bool {
		if a.Is4() {
			return l.IPv4.IsValid() && l.IPv4.Contains(a)
		}
		w, n, _, ok := Parse(l.Prefix, a)
		return ok && w == l.Number && n == app && app > 0
	})
}

// Ours filters the addresses of an instance for those that workers of its cluster may assign.
func Ours(l *wire.ClusterLease, app uint32, addrs []netip.Addr) []netip.Addr {
	if l == nil {
		return nil
	}
	return only(addrs, func(a netip.Addr) bool {
		if a.Is4() {
			n, ok := SubnetNumber(l.Pool, netip.PrefixFrom(a, 24).Masked())
			return ok && block.Has(l.Subnets, n)
		}
		// An application that the site began keeps its number for as long as it runs.
		w, n, _, ok := Parse(l.Prefix, a)
		return ok && block.Has(l.Numbers, w) && n > 0 && (n == app || appnumber.SiteOwns(l.Index, n))
	})
}

func only(addrs []netip.Addr, ok func(netip.Addr) bool) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if len(out) < MaxAddrs && ok(a) {
			out = append(out, a)
		}
	}
	return out
}
