package lease

import "github.com/verge-edge/verge/internal/wire"

// App is a number for an application of the root, from next on, that is not used;
// 0 if all are. then is where the next look begins, so that one that became free
// comes back as late as possible.
func App(next uint32, used func(uint32) bool) (n, then uint32) {
	return turn(1, wire.MaxRootApp, next, used)
}

// SiteApp is the same for an application that begins at the site of the cluster
// with an index (0: none can), counted from 0.
func SiteApp(index, next uint32, used func(uint32) bool) (n, then uint32) {
	if index == 0 || index > wire.MaxClusterIndex {
		return 0, next
	}
	base := siteBase(index)
	n, then = turn(base, wire.SiteApps, base+next%wire.SiteApps, used)
	return n, then - base
}

// SiteOwns says whether a number is one of those that the cluster with an index
// gives.
func SiteOwns(index, n uint32) bool {
	return index > 0 && index <= wire.MaxClusterIndex && n >= siteBase(index) && n < siteBase(index)+wire.SiteApps
}

// SiteOf is the index of the cluster whose number this is, 0 for those of the root.
func SiteOf(n uint32) uint32 {
	if n <= wire.MaxRootApp || n >= 1<<24 {
		return 0
	}
	return n / wire.SiteApps & wire.MaxClusterIndex
}

func siteBase(index uint32) uint32 { return wire.MaxRootApp + 1 | index*wire.SiteApps }

// turn goes once around count numbers from base on.
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
