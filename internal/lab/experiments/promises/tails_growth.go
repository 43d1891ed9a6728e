package promises

import (
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// growth is how the times of fastest develop next to those of another policy, to which the same requests
// came. All times in seconds.
type growth struct {
	// ours and theirs are the means of the requests that were due in each quarter of the run.
	ours, theirs [4]float64
	// over is by how much more ours grew than theirs did: last quarter over first, over the same of
	// theirs. mean is the mean of all requests over theirs.
	over, mean float64
}

// growthOf compares the answers to the same requests, which were due from some time on and until another.
func growthOf(ours, theirs []bed.Answer, from, until time.Duration) growth {
	g := growth{ours: quarters(ours, from, until), theirs: quarters(theirs, from, until)}
	g.mean = meanTook(ours) / meanTook(theirs)
	g.over = g.ours[3] / g.ours[0] / (g.theirs[3] / g.theirs[0])
	return g
}

// quarters are the means of what was due in each quarter of a span; not a number of none.
func quarters(of []bed.Answer, from, until time.Duration) (mean [4]float64) {
	var in [4][]bed.Answer
	for _, a := range of {
		k := int(4 * (a.At - from) / (until - from))
		in[min(3, max(0, k))] = append(in[min(3, max(0, k))], a)
	}
	for k := range in {
		mean[k] = meanTook(in[k])
	}
	return mean
}

func meanTook(of []bed.Answer) (mean float64) {
	if len(of) == 0 {
		return math.NaN()
	}
	for _, a := range of {
		mean += a.Took.Seconds() / float64(len(of))
	}
	return mean
}

// p99Took is the 99th percentile in seconds; not a number of none.
func p99Took(of []bed.Answer) float64 {
	if len(of) == 0 {
		return math.NaN()
	}
	took := make([]float64, len(of))
	for i, a := range of {
		took[i] = a.Took.Seconds()
	}
	slices.Sort(took)
	return took[int(math.Ceil(0.99*float64(len(took))))-1]
}

// rows of a run, with virtual time's as what is expected.
func (g growth) rows(e *experiment.Env, virtual growth, params map[string]any, ours, theirs string) {
	for _, x := range []struct {
		policy         string
		real, expected [4]float64
	}{{ours, g.ours, virtual.ours}, {theirs, g.theirs, virtual.theirs}} {
		for k := range x.real {
			both(e, experiment.With(params, "policy", x.policy, "quarter", k+1), "mean_of_quarter", "ms", 1e3*x.real[k], 1e3*x.expected[k])
		}
	}
	const chance = "three standard deviations of chance in virtual time"
	params = experiment.With(params, "policy", ours, "than", theirs)
	e.AtMost(both(e, params, "growth_over", "1", g.over, virtual.over), mostGrowth, chance)
	e.AtMost(both(e, params, "mean_over", "1", g.mean, virtual.mean), mostOver, chance)
}

// both adds a row of what was measured and of what virtual time says.
func both(e *experiment.Env, params map[string]any, metric, unit string, real, virtual float64) *experiment.Row {
	return e.Row(experiment.Row{
		Params: params, Metric: metric, Unit: unit,
		Expected: experiment.Known(experiment.Rounded(virtual)), Measured: experiment.Rounded(real),
	})
}
