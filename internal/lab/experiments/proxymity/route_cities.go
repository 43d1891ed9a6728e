package proxymity

import (
	"context"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// RouteCities is the experiment route-cities.
var RouteCities = experiment.Experiment{
	Name: "route-cities", Source: "proxy-mity fig. 9, 10",
	Shows:   "a replica in each of the paper's eleven cities: proximity by alpha against fastest, with one sender as in the paper and with all, up to 85 % of what the replicas (or the one of the only sender) can do (in virtual time)",
	Virtual: runRouteCities,
	Plot:    &experiment.Plot{X: "load", Series: "policy", Metric: "mean", Title: "mean time in ms (one sender and all)"},
}

const (
	cityService = 10 * time.Millisecond
	citySlots   = 4
	cityLondon  = 5
)

func runRouteCities(ctx context.Context, e *experiment.Env) error {
	_, rtt, err := cities()
	if err != nil {
		return err
	}
	policies := map[string]api.Policy{api.PolicyFastest: experiment.Named(api.PolicyFastest)}
	var theirs []string
	for _, alpha := range []float64{0, 0.5, 0.8, 1} {
		name := "proximity " + strconv.FormatFloat(alpha, 'g', -1, 64)
		policies[name] = proximity(alpha, 0.5, api.DecayExponential, 0)
		theirs = append(theirs, name)
	}
	for _, senders := range []int{1, 3, len(rtt)} {
		for _, load := range []float64{0.3, 0.6, 0.85} {
			by := map[string]experiment.Outcome{}
			params := map[string]any{"senders": senders, "load": load}
			for _, name := range append([]string{api.PolicyFastest}, theirs...) {
				if err := ctx.Err(); err != nil {
					return err
				}
				o, err := cityLoad(e.Seed, policies[name], rtt, senders, load, experiment.Quickly(e.Quick, 15*time.Second, time.Minute))
				if err != nil {
					return err
				}
				by[name] = o
				e.Times(experiment.With(params, "policy", name), o)
			}
			e.OverWinner(params, by, theirs, 0)
		}
	}
	return nil
}

func cityLoad(seed uint64, p api.Policy, rtt [][]float64, senders int, load float64, span time.Duration) (experiment.Outcome, error) {
	w := sim.New(seed)
	var pods []*sim.Pod
	for i := range rtt {
		p := &sim.Pod{ID: "pod-" + strconv.Itoa(i), Place: strconv.Itoa(i), Slots: citySlots, Service: cityService}
		pods = append(pods, p.Start(w))
	}
	// What the replicas of the senders can do.
	each := load * citySlots / cityService.Seconds()
	s := &sim.Stats{From: span / 5}
	for k := range senders {
		from := (cityLondon + k) % len(rtt)
		r, err := sim.NewRouter(w, strconv.Itoa(from), p, func(to string) *sim.Link {
			i, _ := strconv.Atoi(to) // it is one of the above
			return &sim.Link{RTT: time.Duration(rtt[from][i] * float64(time.Millisecond))}
		})
		if err != nil {
			return experiment.Outcome{}, err
		}
		r.Use(pods)
		sim.Open(w, strconv.Itoa(from), r, sim.Works(sim.Exponential, 0, 0), sim.Steady(each), each, span, s)
	}
	w.Run(span + time.Minute)
	return experiment.OutcomeOf(s, span), nil
}
