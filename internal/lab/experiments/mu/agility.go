package mu

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// Agility is the experiment mu-agility.
var Agility = experiment.Experiment{
	Name: "mu-agility", Source: "Mu fig. 5",
	Shows:   "two fast and two slow pods on the verge of overload, and a fast one more: times of the requests in the ten seconds before and after it (in virtual time)",
	Virtual: runMuAgility,
	Plot:    &experiment.Plot{X: "second", Series: "policy", Metric: "second_mean", Title: "mean time in ms of the requests that came in a second; the pod comes at 0"},
}

// What the pods get until the new one comes, of what they can do, and how long.
const (
	agilityLoad  = 1.04
	agilityUntil = 30 * time.Second
	agilityShown = 10 * time.Second
)

func runMuAgility(ctx context.Context, e *experiment.Env) error {
	by := map[string]agility{}
	for _, policy := range append([]string{api.PolicyFastest}, muPolicies...) {
		var sum agility
		seeds := e.Repetitions(5, 40)
		for _, seed := range seeds {
			if err := ctx.Err(); err != nil {
				return err
			}
			a, err := muNewPod(seed, policy)
			if err != nil {
				return err
			}
			sum.add(a, float64(len(seeds)))
		}
		by[policy] = sum
		params := map[string]any{"policy": policy}
		e.Row(experiment.Row{Params: params, Metric: "mean_before", Unit: "ms", Measured: experiment.Rounded(sum.before.Mean)})
		e.Row(experiment.Row{Params: params, Metric: "mean_after", Unit: "ms", Measured: experiment.Rounded(sum.after.Mean)})
		e.Row(experiment.Row{Params: params, Metric: "p99_after", Unit: "ms", Measured: experiment.Rounded(sum.after.P99)})
		for i, mean := range sum.seconds {
			e.Row(experiment.Row{Params: experiment.With(params, "second", i-10), Metric: "second_mean", Unit: "ms", Measured: experiment.Rounded(mean)})
		}
	}
	ours := by[api.PolicyFastest].after
	// What the paper calls least connection is p2c; the mean of the true one cannot be
	// beaten while all pods are busy.
	for i, mean := range []float64{1, 1.05} {
		other := muPolicies[i]
		params := map[string]any{"policy": api.PolicyFastest, "than": other}
		e.Ratio(params, "mean_after_over", ours.Mean, by[other].after.Mean, mean)
		e.Ratio(params, "p99_after_over", ours.P99, by[other].after.P99, experiment.Quickly(e.Quick, 1.05, 1.0))
	}
	return nil
}

// agility is what the requests around a new pod took.
type agility struct {
	before, after experiment.Outcome
	seconds       [20]float64
}

func (a *agility) add(b agility, n float64) {
	a.before.Mean += b.before.Mean / n
	a.after.Mean += b.after.Mean / n
	a.after.P99 += b.after.P99 / n
	for i := range a.seconds {
		a.seconds[i] += b.seconds[i] / n
	}
}

func muNewPod(seed uint64, policy string) (agility, error) {
	w := sim.New(seed)
	var pods []*sim.Pod
	for i, service := range []time.Duration{100, 100, 200, 200} {
		pods = append(pods, muPod(fmt.Sprint("pod-", i), service*time.Millisecond, muWorks[0]).Start(w))
	}
	r, err := sim.NewRouter(w, "router", experiment.Named(policy), func(string) *sim.Link { return &sim.Link{RTT: time.Millisecond} })
	if err != nil {
		return agility{}, err
	}
	r.Use(pods)
	parts := make([]*sim.Stats, 20)
	seconds := func(q *sim.Request) *sim.Stats {
		at := (q.Came - agilityUntil + agilityShown) / time.Second
		if q.Came < agilityUntil-agilityShown || int(at) >= len(parts) {
			return nil
		}
		if parts[at] == nil {
			parts[at] = &sim.Stats{}
		}
		return parts[at]
	}
	before, after := &sim.Stats{}, &sim.Stats{}
	rate := sim.Steady(agilityLoad * muCapacity)
	sim.Open(w, "clients", sim.Watch(w, r, func(q *sim.Request) []*sim.Stats {
		if q.Came < agilityUntil {
			return []*sim.Stats{before, seconds(q)}
		}
		return []*sim.Stats{after, seconds(q)}
	}), sim.Works(sim.Exponential, 0, 0), rate, agilityLoad*muCapacity, agilityUntil+agilityShown, &sim.Stats{})
	w.Run(agilityUntil)
	r.Use(append(slices.Clone(pods), muPod("pod-new", 100*time.Millisecond, muWorks[0]).Start(w)))
	w.Run(agilityShown + time.Minute)
	a := agility{before: experiment.OutcomeOf(before, 0), after: experiment.OutcomeOf(after, 0)}
	for i, s := range parts {
		if s != nil {
			a.seconds[i] = 1e3 * s.Mean()
		}
	}
	return a, nil
}
