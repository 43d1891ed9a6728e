package promises

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim/autoscale"
)

// ScaleRandom is the experiment scale-random.
var ScaleRandom = experiment.Experiment{
	Name: "scale-random", Source: "no paper: loads that nothing was tuned on",
	Shows:   "steps, ramps, spikes, noise and days drawn at random, with services, objectives and starts drawn as well: pods and requests within the objective, by verge with its defaults and by Knative's autoscaler (in virtual time)",
	Virtual: runScaleRandom,
}

// loadKinds of traces, one after the other.
var loadKinds = []string{"steps", "ramps", "spikes", "noise", "daily"}

// randomRates is a trace of this kind with a mean of about 1, by second.
func randomRates(r *rand.Rand, kind string, seconds int) []float64 {
	out := make([]float64, seconds)
	noise := func(x, cv float64) float64 { return max(0, x*(1+cv*r.NormFloat64())) }
	switch kind {
	case "steps":
		level, until := 1.0, 0
		for i := range out {
			if i >= until {
				level, until = between(r, 0.1, 3), i+int(between(r, 20, 300))
			}
			out[i] = level
		}
	case "ramps":
		from, to, began, until := 1.0, 1.0, 0, 0
		for i := range out {
			if i >= until {
				from, to, began, until = to, between(r, 0.1, 3), i, i+int(between(r, 30, 400))
			}
			out[i] = from + (to-from)*float64(i-began)/float64(until-began)
		}
	case "spikes":
		height, until := 0.0, 0
		for i := range out {
			if i >= until && r.Float64() < 1.0/90 {
				height, until = between(r, 2, 12), i+int(between(r, 3, 40))
			}
			if out[i] = 0.5; i < until {
				out[i] = height
			}
		}
	case "noise": // each second near the one before, and all of it near 1
		x, cv := 0.0, between(r, 0.05, 0.4)
		for i := range out {
			x = 0.8*x + cv*r.NormFloat64()
			out[i] = math.Exp(x - cv*cv/0.72)
		}
	case "daily": // a day is ten minutes; what is asked at night differs
		night, noon := between(r, 0.02, 0.6), between(r, 0.5, 2)
		for i := range out {
			day := math.Pow(0.5-0.5*math.Cos(2*math.Pi*float64(i)/600), noon)
			out[i] = noise(night+(2-night)*day, 0.1)
		}
	}
	return out
}

// What is required of all scenes together, in the median: what was measured (0.79, and
// as many in time), and a little.
const (
	mostScaledPods = 0.85
	mostScaledLess = 0.75 // points
)

func runScaleRandom(ctx context.Context, e *experiment.Env) error {
	type result struct {
		kind                 string
		within, better, pods float64
		worse                int
	}
	var results []result
	for i := range experiment.Quickly(e.Quick, 10, 100) {
		r := rand.New(rand.NewPCG(e.Seed^randomSeed, uint64(i)))
		kind := loadKinds[i%len(loadKinds)]
		exec := between(r, 0.02, 1)
		places := oneOf(r, 1, 2, 4, 10)
		set := autoscale.Setting{
			Places: places, QueueMax: 100, Exec: time.Duration(exec * 1e9),
			SLO:   time.Duration(exec * between(r, 3, 20) * 1e9),
			Start: time.Duration(between(r, 0.1, 10) * 1e9), Seed: e.Seed + uint64(i),
		}
		// A mean load of two to twenty pods, but no more than virtual time is quick with.
		mean := min(between(r, 2, 20)*float64(places)/exec, 300)
		rates := randomRates(r, kind, experiment.Quickly(e.Quick, 300, 1800))
		for k := range rates {
			rates[k] *= mean
		}
		got := map[autoscale.Algorithm]autoscale.Result{}
		params := map[string]any{"scene": i, "kind": kind}
		for _, how := range []autoscale.Algorithm{autoscale.Ours, autoscale.OursNaive, autoscale.RPS, autoscale.Concurrency} {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("scale-random: %w", err)
			}
			x := autoscale.Run(set, how, rates)[0]
			got[how] = x
			e.Row(experiment.Row{Params: experiment.With(params, "algorithm", string(how)), Metric: "within_slo", Unit: "%", Measured: experiment.Rounded(100 * x.Share())})
			e.Row(experiment.Row{Params: experiment.With(params, "algorithm", string(how)), Metric: "pods", Unit: "1", Measured: experiment.Rounded(x.Pods)})
		}
		o := got[autoscale.Ours]
		x := result{kind: kind, within: 100 * o.Share(), better: 100 * (o.Share() - got[autoscale.RPS].Share()), pods: o.Pods / got[autoscale.RPS].Pods}
		for _, how := range []autoscale.Algorithm{autoscale.RPS, autoscale.Concurrency} {
			if k := got[how]; o.Share() < k.Share() && o.Pods > k.Pods {
				x.worse++
			}
		}
		results = append(results, x)
	}
	for _, kind := range append([]string{"all"}, loadKinds...) {
		var within, better, pods []float64
		worse := 0
		for _, x := range results {
			if kind == "all" || x.kind == kind {
				within, better, pods = append(within, x.within), append(better, x.better), append(pods, x.pods)
				worse += x.worse
			}
		}
		params := map[string]any{"kind": kind, "scenes": len(within), "algorithm": string(autoscale.Ours)}
		for _, s := range []struct {
			metric, unit string
			of           []float64
		}{{"within_slo", "%", within}, {"within_slo_over_kpa_rps", "points", better}, {"pods_by_kpa_rps", "1", pods}} {
			slices.Sort(s.of)
			for _, q := range []struct {
				name string
				at   float64
			}{{"least", 0}, {"median", 0.5}, {"most", 1}} {
				r := e.Row(experiment.Row{Params: params, Metric: q.name + "_" + s.metric, Unit: s.unit, Measured: experiment.Rounded(s.of[int(q.at*float64(len(s.of)-1))])})
				switch {
				case kind != "all":
				case r.Metric == "median_pods_by_kpa_rps" && r.Measured > mostScaledPods:
					r.Short = fmt.Sprintf("at most %.4g of the pods of Knative by requests", mostScaledPods)
				case r.Metric == "median_within_slo_over_kpa_rps" && r.Measured < -experiment.Quickly(e.Quick, 2*mostScaledLess, mostScaledLess):
					r.Short = fmt.Sprintf("at most %.4g points fewer in time than Knative by requests", experiment.Quickly(e.Quick, 2*mostScaledLess, mostScaledLess))
				}
			}
		}
		r := e.Row(experiment.Row{Params: params, Metric: "worse_in_both", Unit: "scenes", Measured: float64(worse)})
		if kind == "all" && worse > 0 {
			r.Short = "no scene is to have fewer requests in time and more pods than one of Knative's"
		}
	}
	return nil
}
