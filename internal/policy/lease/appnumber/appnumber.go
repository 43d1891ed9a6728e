package appnumber

import "github.com/verge-edge/verge/internal/wire"

// Next returns an unused number for an application of the root, searching from next on; 0 if all are
// used. then is where the next search begins, so that a freed number is reused as late as possible.
func Next(next uint32, used func(uint32) bool) (n, then uint32) {
	return turn(1, wire.MaxRootApp, next, used)
}

// NextAtSite is Next for an application that begins at the site of the cluster with an index (0: no
// cluster, no number), counted from 0.
func NextAtSite(index, next uint32, used func(uint32) bool) (n, then uint32) {
	if index == 0 || index > wire.MaxClusterIndex {
		return 0, next
	}
	base := siteBase(index)
	n, then = turn(base, wire.SiteApps, base+next%wire.SiteApps, used)
	return n, then - base
}

// SiteOwns says whether a number is in the range of the cluster with an index.
func SiteOwns(index, n uint32) bool {
	return index > 0 && index <= wire.MaxClusterIndex && n >= siteBase(index) && n < siteBase(index)+wire.SiteApps
}

// SiteOf is the index of the cluster in whose range a number is, 0 for the root's.
func SiteOf(n uint32) uint32 {
	if n <= wire.MaxRootApp || n >= 1<<24 {
		return 0
	}
	return n / wire.SiteApps & wire.MaxClusterIndex
}

func siteBase(index uint32) uint32 { return wire.MaxRootApp + 1 | index*wire.SiteApps }

// turn returns the first unused of count numbers from base on, searching from next and around; then
// is where to search next time.
func turn(base, count, next uint32, used func(uint32) bool) (n, then uint32) {
	if next < base || next-base >= count {
		next = base
	}
	for range count {
		n, next = next, base+(next+1-base)%count
		if !used(n) {
			return n, next
		}
	}
	return 0, next
}
