package route

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
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
	// Spare: it is used before what is ejected, and after all else.
	Spare bool
	// Local: it is on the worker that asks.
	Local bool
	// RTT is the round trip to its worker, where Source says that it is known.
	// What is not above zero is taken for not known.
	RTT time.Duration
	// Source says where RTT comes from.
	Source Source
	// Ordinal of the replica, for the policy instance.
	Ordinal int
	// Weight is the load that it can take next to the others, in any unit, for the
	// policy weighted; what is not above zero and finite is taken for not known.
	Weight float64
	// Load is what is known of the requests there, for routing by request.
	Load Load
	// Group tells apart the clusters in which another revision is being tried on a share of
	// the requests, from 1 on; 0: not in this one. New: it is of that revision, and Share
	// is the part, from 0 to 1, of the requests of its group that all the new ones of it
	// are to get. See Split.
	Group int
	New   bool
	Share float64
}

// Source says where a distance comes from.
type Source uint8

// Sources of a distance, the worst first.
const (
	Unknown   Source = iota // there is none
	Estimated               // from coordinates: enough to say whom to measure
	Measured                // by probes of the path
)

// String is the word that people are shown.
func (s Source) String() string {
	return [...]string{"unknown", "estimated", "measured"}[min(s, Measured)]
}

// View is what a router knows about the endpoints of one service. NewView makes
// it; Set changes an endpoint of it.
type View struct {
	Endpoints []Endpoint
	// places of the endpoints on the circle of a rotation, ascending.
	places []uint64
	// changes counts calls of Set.
	changes uint64
	// side is the part of the endpoints that may be chosen, see Split.
	side side
}

// Set replaces endpoint i, whose ID and Ordinal must be the same as before. Its
// Load stays what it is; SetLoad changes that.
func (v *View) Set(i int, e Endpoint) {
	e.Load = v.Endpoints[i].Load
	if v.Endpoints[i] == e {
		return
	}
	v.Endpoints[i] = e
	v.changes++
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

// class of endpoint i as far as it may be chosen; smaller is better.
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

// Request is what a choice is made for.
type Request struct {
	// Tried are the IDs of endpoints that were chosen for this request already
	// and did not take it; they are not chosen again.
	Tried []string
	// Bytes of its body, and of the Answer that is to be expected; 0: not known. Who does
	// not tell one direction from the other puts both into Bytes.
	Bytes, Answer int64
	// Now is the time of the request; the zero value makes no report stale.
	Now time.Time
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

// New returns the policy that p describes. The seed makes routers differ; with the
// same seed and the same calls the answers are the same.
func New(p api.Policy, seed uint64) (Policy, error) {
	p = p.Filled()
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("routing: %w", err)
	}
	switch p.Name {
	case api.PolicyRoundRobin:
		return &RoundRobin{}, nil
	case api.PolicyBilliard:
		return &billiard{}, nil
	case api.PolicyLeastConnections:
		return &leastConnections{}, nil
	case api.PolicyTwoChoices:
		return &twoChoices{next: mix(seed)}, nil
	case api.PolicyLeastResponse:
		return &leastResponse{}, nil
	case api.PolicyFastest:
		return &fastest{}, nil
	}
	s := &spread{rule: ruleOf(p), next: mix(seed), even: p.Name != api.PolicyRandom}
	if p.Name == api.PolicyInstance {
		s.only = func(e *Endpoint) bool { return e.Ordinal == p.Ordinal }
	}
	return s, nil
}

// NewForConnections is New for connections, of which nobody sees what they cost, nor
// how many there are: policies by load give their shares. Round robin stays exact.
func NewForConnections(p api.Policy, seed uint64) (Policy, error) {
	policy, err := New(p, seed)
	switch policy.(type) {
	case *leastConnections, *twoChoices:
		return &spread{rule: equal, next: mix(seed), even: true}, nil
	case *leastResponse:
		return &spread{rule: capable, next: mix(seed), even: true}, nil
	case *fastest:
		return &spread{rule: swift, next: mix(seed), even: true}, nil
	}
	return policy, err
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
