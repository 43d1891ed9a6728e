package experiments

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

var muAgility = Experiment{
	Name: "mu-agility", Source: "Mu fig. 5",
	Shows:   "two fast and two slow pods on the verge of overload, and a fast one more: times of the requests in the ten seconds before and after it (in virtual time)",
	virtual: runMuAgility,
	plot:    &plot{x: "second", series: "policy", metric: "second_mean", title: "mean time in ms of the requests that came in a second; the pod comes at 0"},
}

// What the pods get until the new one comes, of what they can do, and how long.
const (
	agilityLoad  = 1.04
	agilityUntil = 30 * time.Second
	agilityShown = 10 * time.Second
)

func runMuAgility(ctx context.Context, e *env) error {
	by := map[string]agility{}
	for _, policy := range append([]string{api.PolicyFastest}, muPolicies...) {
		var sum agility
		seeds := e.repetitions(5, 40)
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
		e.row(Row{Params: params, Metric: "mean_before", Unit: "ms", Measured: rounded(sum.before.mean)})
		e.row(Row{Params: params, Metric: "mean_after", Unit: "ms", Measured: rounded(sum.after.mean)})
		e.row(Row{Params: params, Metric: "p99_after", Unit: "ms", Measured: rounded(sum.after.p99)})
		for i, mean := range sum.seconds {
			e.row(Row{Params: with(params, "second", i-10), Metric: "second_mean", Unit: "ms", Measured: rounded(mean)})
		}
	}
	ours := by[api.PolicyFastest].after
	// What the paper calls least connection is p2c; the mean of the true one cannot be
	// beaten while all pods are busy.
	for i, mean := range []float64{1, 1.05} {
		other := muPolicies[i]
		params := map[string]any{"policy": api.PolicyFastest, "than": other}
		e.ratio(params, "mean_after_over", ours.mean, by[other].after.mean, mean)
		e.ratio(params, "p99_after_over", ours.p99, by[other].after.p99, 1)
	}
	return nil
}

// agility is what the requests around a new pod took.
type agility struct {
	before, after outcome
	seconds       [20]float64
}

func (a *agility) add(b agility, n float64) {
	a.before.mean += b.before.mean / n
	a.after.mean += b.after.mean / n
	a.after.p99 += b.after.p99 / n
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
	r, err := sim.NewRouter(w, "router", named(policy), func(string) *sim.Link { return &sim.Link{RTT: time.Millisecond} })
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
	a := agility{before: outcomeOf(before, 0), after: outcomeOf(after, 0)}
	for i, s := range parts {
		if s != nil {
			a.seconds[i] = 1e3 * s.Mean()
		}
	}
	return a, nil
}
