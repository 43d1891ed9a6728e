package route

import "slices"

// side is a part of a view's endpoints: 0 is all, oldOnes those that are not new, newOnes the new
// ones, and above 0 the new ones of that group.
type side int

const (
	both    side = 0
	oldOnes side = -1
	newOnes side = -2
)

func (s side) has(e *Endpoint) bool {
	switch s {
	case both:
		return true
	case oldOnes:
		return !e.New
	case newOnes:
		return e.New
	}
	return e.New && e.Group == int(s)
}

// of is v restricted to one side.
func (v View) of(s side) View { v.side = s; return v }

// Split gives a share of the requests to the new revision of a service while it is tried. It
// combines policies:
//
//  1. A policy chooses among the endpoints that are not new, as if there were no others: near ones
//     stay near, and the share of each cluster does not change.
//  2. Of the requests that would go to a cluster in which a new revision is tried, Share go to its
//     new endpoints, chosen by another value of the same policy. Each request is drawn separately;
//     the draws are a low-discrepancy sequence: of n requests the new ones get Share·n, give or
//     take a few.
//  3. A new endpoint with all places taken gets no request while the one chosen first has a free
//     place: a share is no reason to queue.
//  4. A retry goes to an endpoint that is not new, if there is one.
//  5. If there are only new ones, or these are of a better class (reachable while the others are
//     not), they get the requests: an answer is better than none.
//
// The share is by request, not by client: a client meets both.
type Split struct {
	old, lone Policy // among those not new; among new ones, if there are no others
	make      func() Policy
	tries     map[int]*try // by group

	// identify the view of shares, as in candidates
	of      *Endpoint
	n       int
	changes uint64
	shares  map[int]float64 // by group
}

// try is a group in which a new revision is tried.
type try struct {
	policy Policy
	next   uint64
}

// silver is 2^64 times (√2 - 1). spread steps by the golden ratio: with the same steps, the same
// endpoint would give all of a share.
const silver = 0x6a09e667f3bcc908

var _ Policy = (*Split)(nil)

// NewSplit returns a Split of policies made by newPolicy.
func NewSplit(newPolicy func() Policy) *Split {
	return &Split{old: newPolicy(), lone: newPolicy(), make: newPolicy, tries: map[int]*try{}}
}

// Tries says whether a new revision is tried among these endpoints.
func Tries(list []Endpoint) bool {
	return slices.ContainsFunc(list, func(e Endpoint) bool { return e.New })
}

// Try is what a route says of an endpoint, for Group.
type Try struct {
	// Cluster of the endpoint; New and Share as in Endpoint.
	Cluster string
	New     bool
	Share   float64
}

// Group sets the fields that Split uses. If endpoints of a cluster disagree about the share, the
// smallest counts; a value outside 0 to 1 is 0.
func Group(list []Endpoint, of func(i int) Try) {
	var groups map[string]int
	var shares map[string]float64
	for i := range list {
		t := of(i)
		if !t.New {
			continue
		}
		if groups == nil {
			groups, shares = map[string]int{}, map[string]float64{}
		}
		if !(t.Share >= 0 && t.Share <= 1) {
			t.Share = 0
		}
		if had, ok := shares[t.Cluster]; !ok {
			groups[t.Cluster], shares[t.Cluster] = len(groups)+1, t.Share
		} else {
			shares[t.Cluster] = min(had, t.Share)
		}
	}
	for i := range list {
		t := of(i)
		list[i].Group, list[i].New, list[i].Share = groups[t.Cluster], t.New, 0
		if t.New {
			list[i].Share = shares[t.Cluster]
		}
	}
}

// look updates the shares if the view has changed.
func (p *Split) look(v View) {
	if len(v.Endpoints) == 0 || p.of == &v.Endpoints[0] && p.n == len(v.Endpoints) && p.changes == v.changes {
		return
	}
	p.of, p.n, p.changes = &v.Endpoints[0], len(v.Endpoints), v.changes
	p.shares = map[int]float64{}
	for i := range v.Endpoints {
		if e := &v.Endpoints[i]; e.New {
			p.shares[e.Group] = e.Share
			if p.tries[e.Group] == nil {
				p.tries[e.Group] = &try{policy: p.make(), next: mix(uint64(e.Group))} //nolint:gosec // above 0
			}
		}
	}
}

// Pick implements Policy.
func (p *Split) Pick(v View, r Request) (int, bool) {
	p.look(v)
	i, ok := p.old.Pick(v.of(oldOnes), r)
	if !ok || v.class(i) > healthy {
		if k, any := p.lone.Pick(v.of(newOnes), r); any && (!ok || v.class(k) < v.class(i)) {
			return k, true
		}
		return i, ok
	}
	e := &v.Endpoints[i]
	t, share := p.tries[e.Group], p.shares[e.Group]
	if t == nil || share <= 0 || len(r.Tried) > 0 {
		return i, true
	}
	t.next += silver
	if float64(t.next>>11)/(1<<53) >= share {
		return i, true
	}
	k, ok := t.policy.Pick(v.of(side(e.Group)), r)
	if !ok || v.class(k) > healthy || v.Endpoints[k].full(&r) && !e.full(&r) {
		return i, true
	}
	return k, true
}

// full says whether all places of an endpoint are known to be taken.
func (e *Endpoint) full(r *Request) bool {
	return e.Load.Concurrency > 0 && e.Load.There(r.Now) >= float64(e.Load.Concurrency)
}

// Weights implements Policy.
func (p *Split) Weights(v View) []float64 {
	p.look(v)
	w := p.old.Weights(v.of(oldOnes))
	best := unusable
	for i, x := range w {
		if x > 0 {
			best = min(best, v.class(i))
		}
	}
	if best > healthy {
		lone := p.lone.Weights(v.of(newOnes))
		for i, x := range lone {
			if x > 0 && v.class(i) < best {
				return lone
			}
		}
		return w
	}
	for g, share := range p.shares {
		t := p.tries[g].policy.Weights(v.of(side(g)))
		usable := slices.IndexFunc(t, func(x float64) bool { return x > 0 })
		if share <= 0 || usable < 0 || v.class(usable) > healthy {
			continue
		}
		total := 0.0
		for i := range w {
			if e := &v.Endpoints[i]; e.Group == g && !e.New {
				total += w[i]
				w[i] *= 1 - share
			}
		}
		for i, x := range t {
			w[i] += x * share * total
		}
	}
	return w
}
