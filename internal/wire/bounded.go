package wire

import (
	"cmp"
	"slices"
)

// MaxRouteBytes bounds the size of one route's endpoints in a record. It has room for some
// seven thousand instances, is below the limit of a stored value (bus.MaxValueBytes), and fits
// into one message when packed.
const MaxRouteBytes = 3 << 20

// Sort sorts the endpoints and drops those that exceed MaxRouteBytes: suspect ones first, then
// those of clusters other than own.
func (r *Route) Sort(own string) {
	order := func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Worker, b.Worker))
	}
	slices.SortFunc(r.Endpoints, order)
	r.Beyond = 0
	if over(r.Endpoints) < 0 {
		return
	}
	slices.SortStableFunc(r.Endpoints, func(a, b Endpoint) int {
		return cmp.Or(cmp.Compare(last(a.Suspect), last(b.Suspect)), cmp.Compare(last(a.Cluster != own), last(b.Cluster != own)))
	})
	n := over(r.Endpoints)
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

// over is the index of the first endpoint for which a route has no room, -1 for none.
func over(list []Endpoint) int {
	size := 0
	return slices.IndexFunc(list, func(e Endpoint) bool {
		size += e.bytes()
		return size > MaxRouteBytes
	})
}

// bytes is an upper bound of the endpoint's size in JSON.
func (e *Endpoint) bytes() int {
	const (
		names  = 266 // of all fields, with their numbers, quotes and commas
		addr   = 50  // of an address, with its quotes
		escape = 6   // the longest form of one byte
	)
	n := names + addr*len(e.Addrs) + 12*len(e.At) + len(e.Instance) + len(e.Cluster) + len(e.Worker)
	return n + len(e.Address) + len(e.Relay) + escape*len(e.ServesBy)
}
