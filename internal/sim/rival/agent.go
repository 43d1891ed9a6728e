package rival

import (
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim"
)

// The paper takes the median of recent latencies at or near the present number of requests in flight, and
// gives no numbers. With fewer in the median, noise makes a pod look fast to all clients.
const (
	recent = 256 // latencies kept
	near   = 32  // in the median
)

// agent is the side of Prequal at a pod, for all its clients: it measures latencies and estimates those of
// new requests (section 4, "Load signals").
type agent struct {
	samples []sample // the newest last
}

// sample is the latency at the pod, from arrival to end, of a request that found so many in flight.
type sample struct {
	rif  int
	took time.Duration
}

// agentOf returns the agent of a pod.
func agentOf(p *sim.Pod) *agent {
	if a, ok := p.Agent.(*agent); ok {
		return a
	}
	a := &agent{}
	p.Agent = a
	return a
}

// inFlight counts the requests of a pod, waiting ones as well.
func inFlight(p *sim.Pod) int { return p.Waiting() + p.Running() }

// take is Pod.Take with a measurement.
func (a *agent) take(w *sim.World, p *sim.Pod, q *sim.Request, done func(sim.End, scale.Report)) {
	rif, came := inFlight(p), w.Elapsed()
	p.Take(q, func(end sim.End, said scale.Report) {
		if end == sim.Answered {
			a.add(sample{rif, w.Elapsed() - came})
		}
		done(end, said)
	})
}

func (a *agent) add(s sample) { a.samples = last(recent, append(a.samples, s)) }

// estimate returns the median latency of the requests that found about so many in flight; 0, so that it
// is tried, if there were none.
func (a *agent) estimate(rif int) time.Duration {
	if len(a.samples) == 0 {
		return 0
	}
	took := make([]time.Duration, 0, near)
	for d, next := 0, math.MaxInt; len(took) < min(near, len(a.samples)); d, next = next, math.MaxInt {
		for _, s := range slices.Backward(a.samples) { // of those equally near, the newest
			switch far := max(s.rif-rif, rif-s.rif); {
			case far == d && len(took) < near:
				took = append(took, s.took)
			case far > d:
				next = min(next, far)
			}
		}
	}
	slices.Sort(took)
	return took[len(took)/2]
}
