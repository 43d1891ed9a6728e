package route

import (
	"cmp"
	"hash/fnv"
	"slices"
	"time"
)

// Endpoint is one replica of a service as a policy sees it.
type Endpoint struct {
	// ID is unique among the endpoints of a service.
	ID string
	// Ready: it may be used. False for endpoints that are not ready, draining, or unreachable.
	Ready bool
	// Suspect: its worker does not report.
	Suspect bool
	// Ejected: it failed and no probe has succeeded since (see package eject).
	Ejected bool
	// Spare: it is used after all others but ejected ones.
	Spare bool
	// Local: it is on the router's own worker.
	Local bool
	// RTT is the round trip to its worker, if Source says that it is known. Values of zero or less
	// count as unknown.
	RTT time.Duration
	// Source says where RTT comes from.
	Source Source
	// Ordinal of the replica, for the policy instance.
	Ordinal int
	// Weight is its relative capacity in any unit, for the policy weighted; values that are not
	// positive and finite count as unknown.
	Weight float64
	// Load is the state of its requests, for routing by request.
	Load Load
	// Group numbers, from 1 on, the clusters in which a new revision is tried on a share of the
	// requests; 0: no trial in its cluster. New: it runs that revision, and Share (0 to 1) is the
	// share of its group's requests that all new endpoints of the group get. See Split.
	Group int
	New   bool
	Share float64
}

// Source says where a distance comes from.
type Source uint8

// Sources of a distance, the worst first.
const (
	Unknown   Source = iota // unknown
	Estimated               // from coordinates: good enough to decide whom to measure
	Measured                // by probes of the path
)

// String is the name for people.
func (s Source) String() string {
	return [...]string{"unknown", "estimated", "measured"}[min(s, Measured)]
}

// OwnRTT is the assumed round trip to a replica on the own worker, if none was measured.
const OwnRTT = 100 * time.Microsecond

// source is the source of the distance; Unknown if RTT is invalid.
func (e *Endpoint) source() Source {
	if e.RTT <= 0 || e.Source > Measured {
		return Unknown
	}
	return e.Source
}

// distance in nanoseconds; false if unknown.
func (e *Endpoint) distance() (float64, bool) {
	switch {
	case e.source() != Unknown:
		return float64(e.RTT), true
	case e.Local:
		return float64(OwnRTT), true
	}
	return 0, false
}

// View is what a router knows about the endpoints of a service. NewView makes it; Set changes an
// endpoint.
type View struct {
	Endpoints []Endpoint
	// places of the endpoints on the ring of a rotation, ascending.
	places []uint64
	// changes counts calls of Set.
	changes uint64
	// side is the subset of endpoints that may be chosen, see Split.
	side side
}

// Set replaces endpoint i, whose ID and Ordinal must stay the same. It keeps its Load; SetLoad
// changes that.
func (v *View) Set(i int, e Endpoint) {
	e.Load = v.Endpoints[i].Load
	if v.Endpoints[i] == e {
		return
	}
	v.Endpoints[i] = e
	v.changes++
}

// NewView sorts endpoints into the order in which a router with this seed uses them, which depends
// only on seed and IDs. Orders of different seeds are unrelated: routers neither start at the same
// endpoint nor send the requests of a failed one to the same neighbour. Of endpoints with the same
// ID, the one of the best class is kept.
func NewView(seed uint64, endpoints []Endpoint) View {
	type placed struct {
		at uint64
		Endpoint
	}
	all := make([]placed, len(endpoints))
	for i, e := range endpoints {
		all[i] = placed{place(seed, e.ID), e}
	}
	slices.SortFunc(all, func(a, b placed) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.ID, b.ID), cmp.Compare(a.class(), b.class()))
	})
	all = slices.CompactFunc(all, func(a, b placed) bool { return a.ID == b.ID })
	v := View{Endpoints: make([]Endpoint, len(all)), places: make([]uint64, len(all))}
	for i, e := range all {
		v.Endpoints[i], v.places[i] = e.Endpoint, e.at
	}
	return v
}

// after returns the index of the first endpoint beyond a position; it may be
// len(v.Endpoints).
func (v View) after(at uint64, id string) int {
	i, found := slices.BinarySearch(v.places, at)
	// Endpoints share a place only by a 64-bit collision; the ID decides.
	for i < len(v.places) && v.places[i] == at && v.Endpoints[i].ID < id {
		i++
	}
	if found && i < len(v.places) && v.places[i] == at && v.Endpoints[i].ID == id {
		i++
	}
	return i
}

// class of endpoint i; unusable if it is not on the view's side. Smaller is better.
func (v *View) class(i int) class {
	e := &v.Endpoints[i]
	if v.side != both && !v.side.has(e) {
		return unusable
	}
	return e.class()
}

// class of an endpoint; smaller is better.
type class uint8

const (
	healthy class = iota
	suspect
	spare
	ejected
	unusable
)

func (e *Endpoint) class() class {
	switch {
	case !e.Ready:
		return unusable
	case e.Ejected:
		return ejected
	case e.Spare:
		return spare
	case e.Suspect:
		return suspect
	}
	return healthy
}

// Request is the request for which an endpoint is chosen.
type Request struct {
	// Tried are the IDs of endpoints that have failed this request; they are not chosen again.
	Tried []string
	// Bytes of its body, and of the expected Answer; 0: unknown. A caller that does not distinguish
	// the directions puts both into Bytes.
	Bytes, Answer int64
	// Now is the time of the request; with the zero value no report is stale.
	Now time.Time
}

// Policy distributes connections or requests over the endpoints of a service. Its answers depend
// only on its seed, earlier calls and the arguments. A value belongs to one service of one router
// and is not safe for concurrent use.
type Policy interface {
	// Weights returns each endpoint's share of new connections, in the order of v.Endpoints: each
	// in [0, 1], their sum 1, or all 0 if no endpoint is usable. It is for data paths that cannot
	// call Pick for each connection.
	Weights(v View) []float64
	// Pick chooses the endpoint for a request or connection and returns its index in v.Endpoints;
	// false if none is left.
	Pick(v View, r Request) (int, bool)
}

// place of an ID on the ring of the router with this seed.
func place(seed uint64, id string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(id)) // a hash never fails
	return mix(h.Sum64() ^ mix(seed))
}

// mix is a bijection in which every bit of x influences every bit of the result
// (the finaliser of SplitMix64): FNV alone leaves similar IDs near each other.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
