package lease

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Defaults of the pools.
var (
	DefaultPool     = netip.MustParsePrefix("10.128.0.0/9")
	DefaultServices = netip.MustParsePrefix("10.30.0.0/16")
)

// Rest is what was given back, and is given to nobody before Until. What counts
// as a /24 or an index may be given sooner than a number, of which there are many.
type Rest struct {
	// Of whom it was, for people.
	Of      string       `json:"of"`
	Until   time.Time    `json:"until"`
	Index   uint32       `json:"index,omitempty"`
	Numbers []wire.Block `json:"numbers,omitempty"`
	Subnets []wire.Block `json:"subnets,omitempty"`
}

// RestSubnets is how long a /24 rests at most. Its former worker's key is revoked
// when it is removed, so only those believe it longer that heard of nothing since.
const RestSubnets = 30 * 24 * time.Hour

// Rests are the parts of what somebody had, whose certificate is valid until then.
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

// Awake are the rests that are not over.
func Awake(rests []Rest, now time.Time) []Rest {
	var out []Rest
	for _, r := range rests {
		if r.Until.After(now) {
			out = append(out, r)
		}
	}
	return out
}

// CheckPools says what is wrong with a pool for workers (from /8 to /24) and one
// for services (from /8 to /28); nil for nothing.
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

// SubnetsIn is how many /24s a pool has; 0 without one.
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

// SubnetNumber is the inverse of Subnet; false for what is not a /24 of the pool.
func SubnetNumber(pool, subnet netip.Prefix) (uint32, bool) {
	if !pool.IsValid() || !subnet.IsValid() || subnet.Bits() != 24 || !pool.Contains(subnet.Addr()) {
		return 0, false
	}
	p, a := pool.Addr().As4(), subnet.Addr().As4()
	of := func(b [4]byte) uint32 { return uint32(b[0])<<16 | uint32(b[1])<<8 | uint32(b[2]) }
	return of(a) - of(p), true
}

// Parse takes an address of an instance apart; false where it is not of the prefix.
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

// Mine are those of an instance's addresses that its worker may give it. Whoever
// says others is wrong or lies; the rest is not touched by that.
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

// Ours are those of an instance's addresses that workers of its cluster may give.
func Ours(l *wire.ClusterLease, app uint32, addrs []netip.Addr) []netip.Addr {
	if l == nil {
		return nil
	}
	return only(addrs, func(a netip.Addr) bool {
		if a.Is4() {
			n, ok := SubnetNumber(l.Pool, netip.PrefixFrom(a, 24).Masked())
			return ok && Has(l.Subnets, n)
		}
		// One that the site began has its number for as long as it runs.
		w, n, _, ok := Parse(l.Prefix, a)
		return ok && Has(l.Numbers, w) && n > 0 && (n == app || SiteOwns(l.Index, n))
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
