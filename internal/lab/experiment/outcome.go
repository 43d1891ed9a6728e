package experiment

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

// Named is a policy by its name, with its defaults.
func Named(name string) api.Policy { return api.Policy{Name: name}.Filled() }

// Outcome of a run: times in ms.
type Outcome struct{ Mean, P99, Throughput float64 }

// OutcomeOf is what came of a run until then.
func OutcomeOf(s *sim.Stats, until time.Duration) Outcome {
	return Outcome{1e3 * s.Mean(), 1e3 * s.Percentile(0.99), s.Throughput(until)}
}

// Repetitions are the seeds of repetitions: chance must not decide which policy is better.
func (e *Env) Repetitions(quick, full int) []uint64 {
	out := make([]uint64, Quickly(e.Quick, quick, full))
	for i := range out {
		out[i] = e.Seed + uint64(i)*1000
	}
	return out
}

// MeanOf is the mean of the outcomes of several seeds.
func MeanOf(all []Outcome) (m Outcome) {
	n := float64(len(all))
	for _, o := range all {
		m.Mean += o.Mean / n
		m.P99 += o.P99 / n
		m.Throughput += o.Throughput / n
	}
	return m
}

// With adds to params.
func With(params map[string]any, more ...any) map[string]any {
	out := map[string]any{}
	for k, v := range params {
		out[k] = v
	}
	for i := 0; i < len(more); i += 2 {
		out[more[i].(string)] = more[i+1]
	}
	return out
}

// Times adds the rows of the mean and the 99th percentile.
func (e *Env) Times(params map[string]any, o Outcome) {
	e.Row(Row{Params: params, Metric: "mean", Unit: "ms", Measured: Rounded(o.Mean)})
	e.Row(Row{Params: params, Metric: "p99", Unit: "ms", Measured: Rounded(o.P99)})
}

// Rounded has three digits after the point.
func Rounded(v float64) float64 { return math.Round(v*1000) / 1000 }

// Ratio adds a row of one value over another, which is to be at most (or, where most
// is negative, at least) so much.
func (e *Env) Ratio(params map[string]any, metric string, ours, theirs, most float64) *Row {
	r := e.Row(Row{Params: params, Metric: metric, Unit: "1", Measured: Rounded(ours / theirs)})
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
func (e *Env) slack() float64 {
	if e.by != "lab" {
		return 1
	}
	return Quickly(e.Quick, 1.3, 1.1)
}

// atMost is what routing by fastest may take next to the winner of a paper; a quick
// run has too few requests for the last percent.
func (e *Env) atMost() float64 { return Quickly(e.Quick, 1.15, 1.05) }

// Winner is the policy with the lowest mean.
func Winner(by map[string]Outcome, names []string) string {
	best := names[0]
	for _, n := range names[1:] {
		if by[n].Mean < by[best].Mean {
			best = n
		}
	}
	return best
}

// OverWinner adds fastest's mean and p99 over those of the winner among names, as
// requirements: 1.05 at most, of p99 at most p99 where that is more.
func (e *Env) OverWinner(params map[string]any, by map[string]Outcome, names []string, p99 float64) {
	w := Winner(by, names)
	ours := by[api.PolicyFastest]
	params = With(params, "policy", api.PolicyFastest, "winner", w)
	e.Ratio(params, "mean_over_winner", ours.Mean, by[w].Mean, e.atMost())
	e.Ratio(params, "p99_over_winner", ours.P99, by[w].P99, max(p99, e.atMost()))
}

// Quickly chooses.
func Quickly[T any](quick bool, short, full T) T {
	if quick {
		return short
	}
	return full
}

// Joined is a list as text.
func Joined(list []int, by string) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", by), "[]")
}

// Median of values; 0 of none.
func Median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// Quantile of values, in their type; zero of none.
func Quantile[T int | time.Duration](of []T, q float64) T {
	if len(of) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(of))
	return s[int(q*float64(len(s)-1))]
}

// Require something of a row; quick forms are too small to require anything.
func Require(e *Env, r *Row, met bool, short string) {
	if !met && !e.Quick {
		r.Short = short
	}
}

// Faster is what it would be if everything took so many times less.
func (o Outcome) Faster(times float64) Outcome {
	return Outcome{o.Mean / times, o.P99 / times, o.Throughput * times}
}

// Mbps is bytes per second.
const Mbps = 1e6 / 8
