package experiments

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

// virtual are the experiments in virtual time. Where the lab has one of the same
// name, it is another form of that.
var virtual = []Experiment{
	muLB, muAgility, studyLB, studyCallMethod, studyDataSource, studyBandwidth, studyGateway,
	{Name: kubeLocalName, Source: "KubeEdge local scheduling fig. 7", Shows: kubeLocalShows, virtual: runKubeLocalVirtually, plot: kubeLocalPlot},
	routeCities, routeMixed, routeRandom, muPredictor, muAutoscaler, muOverall, scaleRandom,
	placeQuality, placeRoot, oakestraSplit, oakestraSchedulers, muPlacement, studyPlacement,
}

// named is a policy by its name, with its defaults.
func named(name string) api.Policy { return api.Policy{Name: name}.Filled() }

// outcome of a run: times in ms.
type outcome struct{ mean, p99, throughput float64 }

func outcomeOf(s *sim.Stats, until time.Duration) outcome {
	return outcome{1e3 * s.Mean(), 1e3 * s.Percentile(0.99), s.Throughput(until)}
}

// seeds of repetitions: chance must not decide which policy is better.
func (e *env) repetitions(quick, full int) []uint64 {
	out := make([]uint64, quickly(e.Quick, quick, full))
	for i := range out {
		out[i] = e.Seed + uint64(i)*1000
	}
	return out
}

// mean of the outcomes of several seeds.
func meanOf(all []outcome) (m outcome) {
	n := float64(len(all))
	for _, o := range all {
		m.mean += o.mean / n
		m.p99 += o.p99 / n
		m.throughput += o.throughput / n
	}
	return m
}

// with adds to params.
func with(params map[string]any, more ...any) map[string]any {
	out := map[string]any{}
	for k, v := range params {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// times adds the rows of the mean and the 99th percentile.
func (e *env) times(params map[string]any, o outcome) {
	e.row(Row{Params: params, Metric: "mean", Unit: "ms", Measured: rounded(o.mean)})
	e.row(Row{Params: params, Metric: "p99", Unit: "ms", Measured: rounded(o.p99)})
}

func rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// ratio adds a row of one value over another, which is to be at most (or, where most
// is negative, at least) so much.
func (e *env) ratio(params map[string]any, metric string, ours, theirs, most float64) *Row {
	r := e.row(Row{Params: params, Metric: metric, Unit: "1", Measured: rounded(ours / theirs)})
	if slack := e.slack(); most > 0 {
		most *= slack
	} else {
		most /= slack
	}
	switch {
	case most > 0 && !(ours <= most*theirs):
		r.Short = fmt.Sprintf("%.4g is more than %.3g × %.4g", ours, most, theirs)
	case most < 0 && !(ours >= -most*theirs):
		r.Short = fmt.Sprintf("%.4g is less than %.3g × %.4g", ours, -most, theirs)
	}
	return r
}

// slack is by how much a ratio of real requests may be off from what is required of it
// in virtual time: they are few, and other programs have the processors too.
func (e *env) slack() float64 {
	if e.by != "lab" {
		return 1
	}
	return quickly(e.Quick, 1.3, 1.1)
}

// atMost is what routing by fastest may take next to the winner of a paper; a quick
// run has too few requests for the last percent.
func (e *env) atMost() float64 { return quickly(e.Quick, 1.15, 1.05) }

// winner is the policy with the lowest mean.
func winner(by map[string]outcome, names []string) string {
	best := names[0]
	for _, n := range names[1:] {
		if by[n].mean < by[best].mean {
			best = n
		}
	}
	return best
}

// overWinner adds fastest's mean and p99 over those of the winner among names, as
// requirements.
func (e *env) overWinner(params map[string]any, by map[string]outcome, names []string) {
	w := winner(by, names)
	ours := by[api.PolicyFastest]
	params = with(params, "policy", api.PolicyFastest, "winner", w)
	e.ratio(params, "mean_over_winner", ours.mean, by[w].mean, e.atMost())
	e.ratio(params, "p99_over_winner", ours.p99, by[w].p99, e.atMost())
}

// quickly chooses.
func quickly[T any](quick bool, short, full T) T {
	if quick {
		return short
	}
	return full
}

func joined(list []int, by string) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", by), "[]")
}
