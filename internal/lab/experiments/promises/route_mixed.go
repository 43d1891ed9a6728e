package promises

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// RouteMixed is the experiment route-mixed.
var RouteMixed = experiment.Experiment{
	Name: "route-mixed", Source: "no paper: what each of them leaves out",
	Shows:   "near replicas that are loaded, fast ones far away, large bodies over a thin line, a slow newcomer with an empty queue each minute, and a router that hears little: fastest against the winner of each paper (in virtual time)",
	Virtual: runRouteMixed,
	Plot:    &experiment.Plot{X: "rps", Series: "policy", Metric: "mean", Title: "mean time in ms"},
}

// mixedWinners are the winners of the papers in their own scenarios: Mu, the study,
// KubeEdge and proxy-mity.
var mixedWinners = []string{api.PolicyLeastResponse, api.PolicyLeastConnections, api.PolicyLocal, api.PolicyProximity}

// mixedBetter is how much better than each of them fastest must be.
const mixedBetter = 1.5

func runRouteMixed(ctx context.Context, e *experiment.Env) error {
	for _, rps := range []float64{80, 140} {
		by := map[string]experiment.Outcome{}
		for _, policy := range append([]string{api.PolicyFastest}, mixedWinners...) {
			var all []experiment.Outcome
			for _, seed := range e.Repetitions(1, 5) {
				if err := ctx.Err(); err != nil {
					return err
				}
				o, err := mixedLoad(seed, policy, rps, experiment.Quickly(e.Quick, 4*time.Minute, 20*time.Minute))
				if err != nil {
					return err
				}
				all = append(all, o)
			}
			by[policy] = experiment.MeanOf(all)
			e.Times(map[string]any{"rps": rps, "policy": policy}, by[policy])
		}
		for _, other := range mixedWinners {
			e.Ratio(map[string]any{"rps": rps, "policy": api.PolicyFastest, "than": other}, "mean_over", by[api.PolicyFastest].Mean, by[other].Mean, 1/mixedBetter)
		}
	}
	return nil
}

// mixedPods: two sites, a branch behind a thin line, and a cloud.
var mixedPods = []struct {
	place   string
	count   int
	slots   int
	service time.Duration
}{
	{"site-a", 2, 4, 60 * time.Millisecond},
	{"site-b", 2, 4, 80 * time.Millisecond},
	{"branch", 3, 4, 60 * time.Millisecond},
	{"cloud", 3, 8, 30 * time.Millisecond},
}

// mixedShares are the parts of the load that come in at each site; the third router
// hears little of what the others do.
var mixedShares = map[string]float64{"site-a": 0.7, "site-b": 0.25, "site-c": 0.05}

// mixedRequest: most are small, a few have a picture of a megabyte with them.
func mixedRequest(r *rand.Rand) *sim.Request {
	q := &sim.Request{Work: sim.Lognormal(1)(r), Body: 2_000, Answer: 2_000}
	if r.Float64() < 0.15 {
		q.Body = 1_000_000
	}
	return q
}

// mixedNewcomer comes to site-a each minute, for a minute.
func mixedNewcomer(minute int) *sim.Pod {
	return &sim.Pod{ID: fmt.Sprint("newcomer-", minute), Place: "site-a", Slots: 2, Service: 1500 * time.Millisecond}
}

func mixedLoad(seed uint64, policy string, rps float64, span time.Duration) (experiment.Outcome, error) {
	w := sim.New(seed)
	var pods []*sim.Pod
	for _, p := range mixedPods {
		for k := range p.count {
			pods = append(pods, (&sim.Pod{ID: fmt.Sprintf("%s-%d", p.place, k), Place: p.place, Slots: p.slots, Service: p.service}).Start(w))
		}
	}
	thin := &sim.Pipe{Rate: 8 * experiment.Mbps} // to the branch, for all
	out := map[string]*sim.Pipe{}                // of each site to elsewhere
	said := experiment.Named(policy)
	if policy == api.PolicyProximity {
		said.Alpha = 1
	}
	s := &sim.Stats{From: span / 8}
	var routers []*sim.Router
	for _, place := range []string{"site-a", "site-b", "site-c"} {
		out[place] = &sim.Pipe{Rate: 200 * experiment.Mbps}
		r, err := sim.NewRouter(w, place, said, func(to string) *sim.Link {
			switch {
			case to == place:
				return &sim.Link{RTT: 200 * time.Microsecond}
			case to == "branch":
				return &sim.Link{RTT: 6 * time.Millisecond, Up: thin}
			case to == "cloud":
				return &sim.Link{RTT: 120 * time.Millisecond, Up: out[place]}
			}
			return &sim.Link{RTT: 8 * time.Millisecond, Up: out[place]}
		})
		if err != nil {
			return experiment.Outcome{}, err
		}
		r.Use(pods)
		routers = append(routers, r)
		rate := rps * mixedShares[place]
		sim.Open(w, place, r, mixedRequest, sim.Steady(rate), rate, span, s)
	}
	minute := 0
	w.Every(time.Minute, func() bool {
		minute++
		with := append(slices.Clone(pods), mixedNewcomer(minute).Start(w))
		for _, r := range routers {
			r.Use(with)
		}
		return w.Elapsed() < span
	})
	w.Run(span + 5*time.Minute)
	return experiment.OutcomeOf(s, span), nil
}
