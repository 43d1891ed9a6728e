package route

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
)

// Endpoint is one replica of a service as a policy sees it.
type Endpoint struct {
	// ID is unique among the endpoints of a service.
	ID string
	// Ready: it may be used at all. False for what is not ready, draining, or
	// without a path to it.
	Ready bool
	// Suspect: its worker is not heard of.
	Suspect bool
	// Ejected: it failed and no probe has succeeded since (see Health).
	Ejected bool
}

// View is what a router knows about the endpoints of one service. NewView makes
// it; Ready, Suspect and Ejected may be changed in place, ID may not.
type View struct {
	Endpoints []Endpoint
	// places of the endpoints on the circle of a rotation, ascending.
	places []uint64
}

// NewView puts endpoints into the order in which a router with this seed uses
// them. The order depends on seed and IDs alone. Routers with different seeds
// have unrelated orders, so that many routers neither start at the same endpoint
// nor send what a failed one leaves to the same neighbour. Of endpoints with the
// same ID one is kept: the first in the class order of a choice.
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
	// Two endpoints share a place only by a collision of 64 bits; the ID decides.
	for i < len(v.places) && v.places[i] == at && v.Endpoints[i].ID < id {
		i++
	}
	if found && i < len(v.places) && v.places[i] == at && v.Endpoints[i].ID == id {
		i++
	}
	return i
}

// class of an endpoint; smaller is better.
type class uint8

const (
	healthy class = iota
	suspect
	ejected
	unusable
)

func (e *Endpoint) class() class {
	switch {
	case !e.Ready:
		return unusable
	case e.Ejected:
		return ejected
	case e.Suspect:
		return suspect
	}
	return healthy
}

// Request is what a choice is made for.
type Request struct {
	// Tried are the IDs of endpoints that were chosen for this request already
	// and did not take it; they are not chosen again.
	Tried []string
}

// Policy is a way to spread connections or requests over the endpoints of one
// service. Its answers depend on its seed, its former calls and the arguments
// alone. A value belongs to one service of one router and is not safe for
// concurrent use.
type Policy interface {
	// Weights returns the share of new connections that each endpoint is to get,
	// in the order of v.Endpoints: each in [0, 1], their sum 1, or all 0 where no
	// endpoint is usable. For routing by connection in a data path that cannot
	// ask each time.
	Weights(v View) []float64
	// Pick chooses the endpoint for one request or connection and returns its
	// index in v.Endpoints; false if there is none (left).
	Pick(v View, r Request) (int, bool)
}

// Names of policies as a descriptor writes them.
const (
	// RoundRobinName selects RoundRobin; it is also the default.
	RoundRobinName = "round-robin"
)

// New returns the policy with the given name; "" is the default.
func New(name string) (Policy, error) {
	switch name {
	case "", RoundRobinName:
		return &RoundRobin{}, nil
	}
	return nil, fmt.Errorf("routing policy %q is not known here: use %q", name, RoundRobinName)
}

// place of an ID on the circle of the router with this seed.
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
