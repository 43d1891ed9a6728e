package throughput

import "math"

// Profiled is a node and its profile.
type Profiled struct {
	// Kind of the machine, "" if unknown: nodes of one kind have similar throughput.
	Kind string
	// Serves is the profiled throughput in requests per second, CPU its processors in any unit; values
	// that are not positive and finite are unknown.
	Serves, CPU float64
}

// Estimate of the throughput of a node.
type Estimate struct {
	// Serves is 0 if nothing is known about it.
	Serves float64
	From   Evidence
}

// Evidence is where an estimate comes from.
type Evidence uint8

// Evidence, the best first.
const (
	ByProfile    Evidence = iota // it was measured
	ByKind                       // the mean of the measured nodes of its kind
	ByProcessors                 // its processors times the measured throughput of one
	ByNothing                    // none was measured, or its processors are unknown
)

// Estimates returns the throughput of nodes: as profiled, else the mean of the profiled ones of
// their kind, else by their processors.
func Estimates(nodes []Profiled) []Estimate {
	e := NewEstimator(nodes)
	out := make([]Estimate, len(nodes))
	for i, n := range nodes {
		out[i] = e.Of(n)
	}
	return out
}

// Estimator knows the profiled nodes.
type Estimator struct {
	kinds map[string]mean
	// perCPU is the profiled throughput per processor; 0 if unknown.
	perCPU float64
}

// mean of n numbers.
type mean struct{ value, n float64 }

// NewEstimator learns from the profiled ones of nodes.
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

// Of estimates what a node serves.
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

// positive says whether a number is valid: above zero and finite.
func positive(x float64) bool { return x > 0 && x <= math.MaxFloat64 }
