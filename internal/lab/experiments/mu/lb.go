package mu

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// LB is the experiment mu-lb.
var LB = experiment.Experiment{
	Name: "mu-lb", Source: "Mu fig. 4",
	Shows:   "two pods of 100 ms and two of 200 ms, four places each, by load, kind of work and number of routers: fastest against the policies of the paper (in virtual time; the paper's figures are of its own testbed)",
	Virtual: runMuLB,
	Plot:    &experiment.Plot{X: "rps", Series: "policy", Metric: "p99", Title: "99th percentile in ms, fixed work, one router"},
}

// muWork is a kind of work.
type muWork struct {
	name string
	law  sim.Law
	// shared: what runs shares four processors, instead of having one of four places.
	shared bool
}

var muWorks = []muWork{
	{"fixed", sim.Fixed, false}, {"exponential", sim.Exponential, false}, {"lognormal", sim.Lognormal(1), false}, {"shared", sim.Exponential, true},
}

// muPod is one of the paper's pods.
func muPod(name string, service time.Duration, w muWork) *sim.Pod {
	p := &sim.Pod{ID: name, Place: "site", Slots: 4, Service: service}
	if w.shared {
		p.Slots, p.Cores = 40, 4
	}
	return p
}

// muCapacity of two fast and two slow pods, in requests per second.
const muCapacity = 2*4/0.1 + 2*4/0.2

// The policies of the paper: what Knative does, which it calls least connection, what
// HAProxy calls so, and its own.
var muPolicies = []string{api.PolicyTwoChoices, api.PolicyLeastConnections, api.PolicyLeastResponse}

func runMuLB(ctx context.Context, e *experiment.Env) error {
	loads := experiment.Quickly(e.Quick, []float64{40, 80, 100}, []float64{20, 40, 60, 72, 80, 90, 102})
	for _, work := range muWorks {
		for _, routers := range []int{1, 3} {
			for _, rps := range loads {
				if err := ctx.Err(); err != nil {
					return err
				}
				by := map[string]experiment.Outcome{}
				params := map[string]any{"rps": rps, "work": work.name, "routers": routers}
				for _, policy := range append([]string{api.PolicyFastest}, muPolicies...) {
					var all []experiment.Outcome
					for _, seed := range e.Repetitions(1, 3) {
						o, err := muLoad(seed, work, policy, routers, rps, experiment.Quickly(e.Quick, 90*time.Second, 10*time.Minute))
						if err != nil {
							return err
						}
						all = append(all, o)
					}
					by[policy] = experiment.MeanOf(all)
					e.Times(experiment.With(params, "policy", policy), by[policy])
					if last := &e.Rows[len(e.Rows)-1]; rps == 80 && work.name == "fixed" && routers == 1 {
						switch policy {
						case api.PolicyTwoChoices:
							last.Paper, last.Note = experiment.Known(618), "the paper's testbed; in this model nothing is above 350 ms"
						case api.PolicyLeastResponse:
							last.Paper = experiment.Known(230)
						}
					}
				}
				muRequirements(e, params, by, rps, work.name, routers)
			}
		}
	}
	return nil
}

// muRequirements are the rows that must be as they are.
func muRequirements(e *experiment.Env, params map[string]any, by map[string]experiment.Outcome, rps float64, work string, routers int) {
	ours := by[api.PolicyFastest]
	// In one of 56 cells the 99th percentile is 1.15, in the others at most 1.02.
	e.OverWinner(params, by, muPolicies, 1.17)
	if rps < 0.6*muCapacity {
		return
	}
	for _, other := range muPolicies[:2] {
		most := 1.0
		if rps == 80 && work == "fixed" && routers == 1 && other == api.PolicyTwoChoices {
			most = 0.70
		}
		r := e.Ratio(experiment.With(params, "policy", api.PolicyFastest, "than", other), "p99_over", ours.P99, by[other].P99, most)
		if most < 1 {
			r.Paper, r.Expected = experiment.Known(0.37), experiment.Known(0.67)
		}
	}
}

// muLoad is one run.
func muLoad(seed uint64, work muWork, policy string, routers int, rps float64, span time.Duration) (experiment.Outcome, error) {
	w := sim.New(seed)
	var pods []*sim.Pod
	for i, service := range []time.Duration{100, 100, 200, 200} {
		pods = append(pods, muPod(fmt.Sprint("pod-", i), service*time.Millisecond, work).Start(w))
	}
	s := &sim.Stats{From: span / 5}
	for k := range routers {
		name := fmt.Sprint("router-", k)
		r, err := sim.NewRouter(w, name, experiment.Named(policy), func(string) *sim.Link { return &sim.Link{RTT: time.Millisecond} })
		if err != nil {
			return experiment.Outcome{}, err
		}
		r.Use(pods)
		each := rps / float64(routers)
		sim.Open(w, name, r, sim.Works(work.law, 0, 0), sim.Steady(each), each, span, s)
	}
	w.Run(span + time.Minute)
	return experiment.OutcomeOf(s, span), nil
}
