package mu

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/sim/autoscale"
	"github.com/verge-edge/verge/internal/sim/trace"
)

// Predictor is the experiment mu-predictor.
var Predictor = experiment.Experiment{
	Name: "mu-predictor", Source: "Mu fig. 2",
	Shows:   "50 models against the naive one on calls per minute of 50 functions (Azure 2019): how many are predicted better, and by how much",
	Virtual: runMuPredictor,
}

// Autoscaler is the experiment mu-autoscaler.
var Autoscaler = experiment.Experiment{
	Name: "mu-autoscaler", Source: "Mu table 3, fig. 3",
	Shows:   "pods and requests within the objective, by autoscaler and trace (mean of 339 req/s, a minute as a second; starts take 2 s, grace is 2 epochs: the paper names neither)",
	Virtual: runMuAutoscaler,
	Plot:    &experiment.Plot{X: "trace", Series: "algorithm", Metric: "pods", Title: "pods on average, by trace (the burstier the further right)"},
}

// Overall is the experiment mu-overall.
var Overall = experiment.Experiment{
	Name: "mu-overall", Source: "Mu table 5, fig. 8-10",
	Shows:   "two workloads contend for 48 pods: smooth ones, then bursty ones (starts take 2 s)",
	Virtual: runMuOverall,
}

func runMuPredictor(ctx context.Context, e *experiment.Env) error {
	traces, err := trace.Azure()
	if err != nil {
		return fmt.Errorf("mu-predictor: %w", err)
	}
	better, worse, n := 0, 0, 0
	betterBy, worseBy := 0.0, 0.0
	for i := 0; i < len(traces); i += experiment.Quickly(e.Quick, 10, 1) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("mu-predictor: %w", err)
		}
		p, ours, naive, said, last := scale.NewPredictor(), 0.0, 0.0, 0.0, 0.0
		for k, v := range traces[i] {
			if k > 0 {
				ours, naive = ours+math.Abs(v-said), naive+math.Abs(v-last)
			}
			said, last = p.Observe(v, 1).Rate, v
		}
		n++
		less := 100 * (1 - ours/naive)
		e.Row(experiment.Row{Params: map[string]any{"trace": i}, Metric: "error_reduction", Unit: "%", Measured: less})
		if less > 0 {
			better, betterBy = better+1, betterBy+less
		} else if less < 0 {
			worse, worseBy = worse+1, worseBy-less
		}
	}
	all := map[string]any{"traces": n}
	r := e.Row(experiment.Row{Params: all, Metric: "better", Unit: "%", Paper: experiment.Known(84.5), Measured: 100 * float64(better) / float64(n)})
	experiment.Require(e, r, r.Measured >= 88, "at least 88 % are to be better than naive")
	r = e.Row(experiment.Row{Params: all, Metric: "better_by", Unit: "%", Paper: experiment.Known(19.01), Measured: betterBy / float64(max(1, better))})
	experiment.Require(e, r, r.Measured >= 23, "they are to be better by at least 23 %")
	r = e.Row(experiment.Row{Params: all, Metric: "worse_by", Unit: "%", Paper: experiment.Known(1.53), Measured: worseBy / float64(max(1, worse))})
	experiment.Require(e, r, r.Measured <= 3, "the others are to be worse by at most 3 %")
	return nil
}

func runMuAutoscaler(ctx context.Context, e *experiment.Env) error {
	traces, err := trace.Azure()
	if err != nil {
		return fmt.Errorf("mu-autoscaler: %w", err)
	}
	set := autoscale.Setting{Places: 10, QueueMax: 100, Exec: 100 * time.Millisecond, SLO: time.Second, Start: 2 * time.Second, Grace: 2, Seed: e.Seed}
	var within, ratio []float64
	dominated := 0
	for i := 0; i < len(traces); i += experiment.Quickly(e.Quick, 25, 1) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("mu-autoscaler: %w", err)
		}
		v := traces[i]
		if e.Quick {
			v = v[300:420]
		}
		v = trace.Scaled(v, 339)
		got := map[autoscale.Algorithm]autoscale.Result{}
		for _, how := range autoscale.All() {
			r := autoscale.Run(set, how, v)[0]
			got[how] = r
			params := map[string]any{"trace": i, "algorithm": string(how)}
			e.Row(experiment.Row{Params: params, Metric: "within_slo", Unit: "%", Measured: 100 * r.Share()})
			e.Row(experiment.Row{Params: params, Metric: "pods", Unit: "1", Measured: r.Pods})
			e.Row(experiment.Row{Params: params, Metric: "max_pods", Unit: "1", Measured: float64(r.MaxPods)})
		}
		o := got[autoscale.Ours]
		within = append(within, 100*o.Share())
		ratio = append(ratio, o.Pods/max(got[autoscale.RPS].Pods, 1e-9))
		for _, how := range []autoscale.Algorithm{autoscale.RPS, autoscale.Concurrency} {
			if k := got[how]; o.Share() < k.Share() && o.Pods > k.Pods {
				dominated++
			}
		}
	}
	slices.Sort(within)
	slices.Sort(ratio)
	all := map[string]any{"traces": len(within), "algorithm": string(autoscale.Ours)}
	r := e.Row(experiment.Row{Params: all, Metric: "median_within_slo", Unit: "%", Paper: experiment.Known(95.6), Measured: within[len(within)/2]})
	experiment.Require(e, r, r.Measured >= 95.5, "95.5 % are to be within the objective")
	r = e.Row(experiment.Row{Params: all, Metric: "median_pods_by_kpa_rps", Unit: "1", Paper: experiment.Known(0.724), Measured: ratio[len(ratio)/2]})
	experiment.Require(e, r, r.Measured <= 0.75, "at most 0.75 of the pods of Knative by requests")
	r = e.Row(experiment.Row{Params: all, Metric: "worse_in_both", Unit: "traces", Measured: float64(dominated)})
	experiment.Require(e, r, dominated == 0, "no trace is to have fewer requests in time and more pods")
	return nil
}

func runMuOverall(ctx context.Context, e *experiment.Env) error {
	traces, err := trace.Azure()
	if err != nil {
		return fmt.Errorf("mu-overall: %w", err)
	}
	set := autoscale.Setting{Places: 4, QueueMax: 100, Exec: 500 * time.Millisecond, SLO: 5 * time.Second, Start: 2 * time.Second, Most: 48, Grace: 16, Seed: e.Seed}
	for _, x := range []struct {
		kind string
		pair [2]int
	}{{"smooth", [2]int{1, 3}}, {"smooth", [2]int{4, 8}}, {"bursty", [2]int{30, 36}}, {"bursty", [2]int{33, 39}}} {
		a, b := traces[x.pair[0]], traces[x.pair[1]]
		if e.Quick {
			a, b = a[300:480], b[300:480]
		}
		worst := map[autoscale.Algorithm]float64{}
		var mine *experiment.Row
		for _, how := range []autoscale.Algorithm{autoscale.Concurrency, autoscale.RPS, autoscale.Ours} {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("mu-overall: %w", err)
			}
			worst[how] = 100
			for k, r := range autoscale.Run(set, how, trace.Scaled(a, 154), trace.Scaled(b, 146)) {
				params := map[string]any{"load": x.kind, "traces": fmt.Sprint(x.pair[0], "+", x.pair[1]), "workload": k + 1, "algorithm": string(how)}
				share := 100 * r.Share()
				worst[how] = min(worst[how], share)
				e.Row(experiment.Row{Params: params, Metric: "pods", Unit: "1", Measured: r.Pods})
				late := e.Row(experiment.Row{Params: params, Metric: "p99", Unit: "ms", Measured: 1e3 * r.P99.Seconds()})
				ours := how == autoscale.Ours
				experiment.Require(e, late, !ours || x.kind != "smooth" || r.P99 <= set.SLO, "the objective is 5 s")
				mine = e.Row(experiment.Row{Params: params, Metric: "within_slo", Unit: "%", Measured: share})
				experiment.Require(e, mine, !ours || x.kind != "smooth" || share >= 96.5, "96.5 % are to be within the objective")
			}
		}
		experiment.Require(e, mine, x.kind != "bursty" || worst[autoscale.Ours] > max(worst[autoscale.RPS], worst[autoscale.Concurrency]),
			"the workload that is served worst is to be served better than by Knative")
	}
	return nil
}
