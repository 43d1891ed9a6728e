package route

import "slices"

// Capable is what is known of the node of an endpoint.
type Capable struct {
	// Node is its name.
	Node string
	// Serves is what the endpoints of the service there do together, in requests per
	// second, as they were profiled; what is not above zero and finite is not known.
	Serves float64
	// CPU that it has, in any unit; the same holds.
	CPU float64
}

// Weigh sets the weight of each endpoint of a service: what its node serves, divided
// among the endpoints there, next to the most that any node serves, which is 256 (the
// edge-to-cloud study). What a node serves that was not profiled follows from its
// processors, by what the profiled ones do with theirs; where none was, the processors
// alone count. Where neither is known the weight is 0.
func Weigh(list []Endpoint, of func(i int) Capable) {
	here, at := map[string]int{}, map[string]int{}
	var nodes []Profiled
	for i := range list {
		c := of(i)
		if here[c.Node]++; here[c.Node] == 1 {
			at[c.Node] = len(nodes)
			nodes = append(nodes, Profiled{Serves: c.Serves, CPU: c.CPU})
		}
	}
	serves, most := Estimates(nodes), 0.0
	profiled := slices.ContainsFunc(serves, func(e Estimate) bool { return e.Serves > 0 })
	for k := range serves {
		if !profiled && positive(nodes[k].CPU) {
			serves[k].Serves = nodes[k].CPU
		}
		most = max(most, serves[k].Serves)
	}
	for i := range list {
		name := of(i).Node
		list[i].Weight = 0
		if w := serves[at[name]].Serves; w > 0 {
			list[i].Weight = w / float64(here[name]) / most * 256
		}
	}
}

// Profiled is a node as far as a profile matters.
type Profiled struct {
	// Kind of the machine, "" where it is not known: nodes of one kind do alike.
	Kind string
	// Serves and CPU as in Capable.
	Serves, CPU float64
}

// Estimate of what a node serves.
type Estimate struct {
	// Serves is 0 where nothing says anything about it.
	Serves float64
	From   Evidence
}

// Evidence is where an estimate comes from.
type Evidence uint8

// Evidence, the best first.
const (
	ByProfile    Evidence = iota // it was measured
	ByKind                       // the mean of those of its kind that were
	ByProcessors                 // what the measured do with a processor, times its own
	ByNothing                    // none was measured, or its processors are not known
)

// Estimates are what nodes serve: those that were profiled as they were, each other one
// like the mean of those of its kind, or by its processors where none of its kind was.
func Estimates(nodes []Profiled) []Estimate {
	e := NewEstimator(nodes)
	out := make([]Estimate, len(nodes))
	for i, n := range nodes {
		out[i] = e.Of(n)
	}
	return out
}

// Estimator knows what profiled nodes do.
type Estimator struct {
	kinds map[string]mean
	// perCPU is what the profiled do with a processor; 0 where that is not known.
	perCPU float64
}

// mean of so many numbers.
type mean struct{ value, n float64 }

// NewEstimator learns from those of nodes that were profiled.
func NewEstimator(nodes []Profiled) *Estimator {
	e := &Estimator{kinds: map[string]mean{}}
	var serves, cpu float64
	for _, n := range nodes {
		if !positive(n.Serves) {
			continue
		}
		k := e.kinds[n.Kind]
		k.n++
		k.value += (n.Serves - k.value) / k.n // which does not overflow
		e.kinds[n.Kind] = k
		if positive(n.CPU) {
			serves += n.Serves
			cpu += n.CPU
		}
	}
	delete(e.kinds, "")
	if positive(cpu) {
		e.perCPU = serves / cpu
	}
	return e
}

// Of is what a node serves.
func (e *Estimator) Of(n Profiled) Estimate {
	if positive(n.Serves) {
		return Estimate{n.Serves, ByProfile}
	}
	if k := e.kinds[n.Kind]; positive(k.value) {
		return Estimate{k.value, ByKind}
	}
	if serves := e.perCPU * n.CPU; positive(serves) && positive(n.CPU) {
		return Estimate{serves, ByProcessors}
	}
	return Estimate{0, ByNothing}
}
