package wire

import (
	"cmp"
	"slices"
)

// MaxRouteBytes bounds what the endpoints of one route may take in a record: that of some seven
// thousand instances, below what a store takes in one value (bus.MaxValueBytes) and,
// packed, what fits into one message.
const MaxRouteBytes = 3 << 20

// Sort brings the endpoints in order, and leaves out what there is no room for: of
// suspect ones first, then of those of other clusters than own.
func (r *Route) Sort(own string) {
	order := func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Worker, b.Worker))
	}
	slices.SortFunc(r.Endpoints, order)
	r.Beyond = 0
	if total(r.Endpoints) <= MaxRouteBytes {
		return
	}
	slices.SortStableFunc(r.Endpoints, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(last(a.Suspect), last(b.Suspect)), cmp.Compare(last(a.Cluster != own), last(b.Cluster != own)))
	})
	n, size := 0, 0
	for ; n < len(r.Endpoints); n++ {
		if size += r.Endpoints[n].bytes(); size > MaxRouteBytes {
			break
		}
	}
	r.Beyond = len(r.Endpoints) - n
	r.Endpoints = slices.Clone(r.Endpoints[:n])
	slices.SortFunc(r.Endpoints, order)
}

func last(b bool) int {
	if b {
		return 1
	}
	return 0
}

func total(list []Endpoint) (n int) {
	for i := range list {
		n += list[i].bytes()
	}
	return n
}

// bytes of an endpoint as JSON, at most.
func (e *Endpoint) bytes() int {
	const (
		names  = 260 // of all fields, with their numbers, quotes and commas
		addr   = 50  // of an address, with its quotes
		escape = 6   // the longest form of one byte
	)
	n := names + addr*len(e.Addrs) + len(e.Instance) + len(e.Cluster) + len(e.Worker)
	return n + len(e.Address) + len(e.Relay) + escape*len(e.ServesBy)
}
