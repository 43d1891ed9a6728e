package promises

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// RouteRandom is the experiment route-random.
var RouteRandom = experiment.Experiment{
	Name: "route-random", Source: "no paper: scenes that nothing was tuned on",
	Shows:   "scenes drawn at random (pods, their speeds, places and processors, distances, lines, kinds of work, routers, loads up to 85 %): fastest against the best in each of the papers' policies (in virtual time)",
	Virtual: runRouteRandom,
}

// randomPolicies are those of the papers, each with its defaults; proximity by
// distance alone. Weights are what each pod can do.
var randomPolicies = []string{
	api.PolicyRoundRobin, api.PolicyBilliard, api.PolicyLeastConnections, api.PolicyTwoChoices,
	api.PolicyLeastResponse, api.PolicyLocal, api.PolicyProximity, api.PolicyClosest,
}

// randomKinds of scenes, one after the other.
var randomKinds = []string{"site", "far", "shared", "unbounded", "lines", "closed"}

// randomSeed is not one that anything was tuned with; what is drawn depends on it, on
// the seed of the run and on the number of the scene.
const randomSeed = 0x7e57

// randomScene is a scene.
type randomScene struct {
	kind    string
	pods    []sim.Pod
	routers []string           // places
	shares  []float64          // of the load, by router
	at      map[string]spot    // of each place, in ms of a round trip
	own     time.Duration      // round trip within a place
	lines   map[string]float64 // bytes per second into a place; 0: no limit
	body    int64
	law     sim.Law
	rps     float64 // of an open loop
	clients int     // of a closed one, of each router
	load    float64
	span    time.Duration
}

type spot struct{ x, y float64 }

// between is a number from low to high, as many from low to 2·low as from high/2 to high.
func between(r *rand.Rand, low, high float64) float64 {
	return low * math.Exp(r.Float64()*math.Log(high/low))
}

func oneOf[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

// newRandomScene draws the scene with this number; requests is how many come, about.
func newRandomScene(seed uint64, number, requests int) *randomScene {
	r := rand.New(rand.NewPCG(seed^randomSeed, uint64(number)))
	s := &randomScene{kind: randomKinds[number%len(randomKinds)], at: map[string]spot{}, lines: map[string]float64{}}
	places := oneOf(r, 1, 2, 3)
	area := 2.0 // ms across
	if s.kind == "far" || s.kind == "lines" {
		places, area = 2+r.IntN(4), between(r, 10, 150)
	}
	s.own = time.Duration(between(r, 0.1, 1) * 1e6)
	names := make([]string, places)
	for i := range names {
		names[i] = fmt.Sprint("place-", i)
		s.at[names[i]] = spot{r.Float64() * area, r.Float64() * area}
	}
	s.law = oneOf(r, sim.Fixed, sim.Exponential, sim.Lognormal(between(r, 0.3, 2)))
	if s.kind == "lines" {
		s.body = int64(between(r, 20e3, 1e6))
		for _, n := range names[1:] {
			s.lines[n] = between(r, 5, 200) * experiment.Mbps
		}
	}

	typical, spread := between(r, 5, 500), oneOf(r, 1, 2, 4, 8)
	slots := oneOf(r, 1, 2, 4, 8, 16)
	by := map[string]float64{} // requests a second that each place can do
	n := 2 + r.IntN(9)
	for i := range n {
		took := typical * between(r, 1, float64(spread)+1e-9)
		p := sim.Pod{ID: fmt.Sprint("pod-", i), Place: oneOf(r, names...), Slots: slots, Service: time.Duration(took * 1e6)}
		can := float64(slots)
		switch s.kind {
		case "shared": // places beyond the processors
			p.Cores = math.Ceil(float64(slots) / oneOf(r, 1.0, 2, 4))
			can = p.Cores
		case "unbounded": // routers know of no places
			p.Hidden = true
			if oneOf(r, true, false) {
				p.Cores, p.Slots = float64(slots), 0
			}
		}
		p.Weight = can / (took / 1e3)
		by[p.Place] += p.Weight
		s.pods = append(s.pods, p)
	}
	full := 0.0
	for place, can := range by {
		if line := s.lines[place]; line > 0 {
			can = min(can, line/float64(s.body))
		}
		full += can
	}
	s.load = 0.2 + 0.65*r.Float64()
	routers, sum := 1+r.IntN(4), 0.0
	for i := range routers {
		s.routers = append(s.routers, names[i%places])
		s.shares = append(s.shares, -math.Log(1-r.Float64()))
		sum += s.shares[i]
	}
	for i := range s.shares {
		s.shares[i] /= sum
	}
	s.rps = s.load * full
	if s.kind == "closed" {
		s.clients = max(1, int(s.load*1.5*float64(n*slots)/float64(routers)))
		s.rps = full // about
	}
	s.span = time.Duration(float64(requests) / s.rps * float64(time.Second))
	return s
}

// run the scene by a policy. Not ok where requests stay behind: then the policy sends
// more to some pods or over some lines than they can do.
func (s *randomScene) run(seed uint64, policy string) (o experiment.Outcome, ok bool, err error) {
	w := sim.New(seed)
	pods := make([]*sim.Pod, len(s.pods))
	for i := range s.pods {
		p := s.pods[i]
		pods[i] = p.Start(w)
	}
	into := map[string]*sim.Pipe{}
	for place, rate := range s.lines {
		into[place] = &sim.Pipe{Rate: rate}
	}
	said := experiment.Named(policy)
	if policy == api.PolicyProximity {
		said.Alpha = 1
	}
	stats := &sim.Stats{From: s.span / 5}
	came := 0
	for k, place := range s.routers {
		r, err := sim.NewRouter(w, place, said, func(to string) *sim.Link {
			if to == place {
				return &sim.Link{RTT: s.own}
			}
			a, b := s.at[place], s.at[to]
			return &sim.Link{RTT: s.own + time.Duration(math.Hypot(a.x-b.x, a.y-b.y)*1e6), Up: into[to]}
		})
		if err != nil {
			return experiment.Outcome{}, false, err
		}
		r.Use(pods)
		next := sim.Works(s.law, s.body, 0)
		counted := func(r *rand.Rand) *sim.Request {
			if w.Elapsed() >= stats.From {
				came++
			}
			return next(r)
		}
		name := fmt.Sprint("router-", k)
		if s.clients > 0 {
			sim.Closed(w, name, r, counted, s.clients, s.span, stats)
			continue
		}
		rate := s.rps * s.shares[k]
		sim.Open(w, name, r, counted, sim.Steady(rate), rate, s.span, stats)
	}
	w.Run(s.span)
	// What is under way when the load ends may end, and no more than that.
	w.Run(max(s.span/20, 10*time.Second))
	return experiment.OutcomeOf(stats, s.span), float64(len(stats.Times)) > 0.99*float64(came), nil
}

// randomBounds are the most that fastest may take next to the best of the papers'
// policies in a scene, whichever that is there: in which share of the scenes 1.05 at
// most, in the median, and at worst.
type randomBounds struct{ within, median, worst float64 }

// What was measured (DESIGN.md of policy/route), and a little; a quick run has a dozen
// scenes, with too few requests for the last percent.
var (
	randomMean, quickMean = randomBounds{0.93, 1, 1.25}, randomBounds{0.6, 1.03, 1.3}
	randomTail, quickTail = randomBounds{0.88, 1, 2}, randomBounds{0.6, 1.05, 2}
)

func runRouteRandom(ctx context.Context, e *experiment.Env) error {
	type ratio struct {
		kind       string
		mean, tail float64
	}
	var all []ratio
	var behind []int // scenes in which requests stayed behind
	for i := range experiment.Quickly(e.Quick, 12, 300) {
		s := newRandomScene(e.Seed, i, experiment.Quickly(e.Quick, 6_000, 30_000))
		by := map[string]experiment.Outcome{}
		for _, policy := range append([]string{api.PolicyFastest}, randomPolicies...) {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("route-random: %w", err)
			}
			o, ok, err := s.run(e.Seed+uint64(i), policy)
			if err != nil {
				return fmt.Errorf("route-random, scene %d by %s: %w", i, policy, err)
			}
			if ok || policy == api.PolicyFastest {
				by[policy] = o
			}
			if !ok && policy == api.PolicyFastest {
				behind = append(behind, i)
			}
		}
		ours := by[api.PolicyFastest]
		delete(by, api.PolicyFastest)
		if len(by) == 0 {
			continue // none of them can do it
		}
		best := experiment.Winner(by, slices.Sorted(maps.Keys(by)))
		x := ratio{s.kind, ours.Mean / by[best].Mean, ours.P99 / by[best].P99}
		all = append(all, x)
		params := map[string]any{"scene": i, "kind": s.kind, "load": experiment.Rounded(s.load), "winner": best}
		e.Row(experiment.Row{Params: params, Metric: "mean_over_best", Unit: "1", Measured: experiment.Rounded(x.mean)})
		e.Row(experiment.Row{Params: params, Metric: "p99_over_best", Unit: "1", Measured: experiment.Rounded(x.tail)})
	}
	for _, kind := range append([]string{"all"}, randomKinds...) {
		var mean, tail []float64
		for _, x := range all {
			if kind == "all" || x.kind == kind {
				mean, tail = append(mean, x.mean), append(tail, x.tail)
			}
		}
		randomSummary(e, kind, "mean", mean, experiment.Quickly(e.Quick, quickMean, randomMean))
		randomSummary(e, kind, "p99", tail, experiment.Quickly(e.Quick, quickTail, randomTail))
	}
	r := e.Row(experiment.Row{Params: map[string]any{"kind": "all"}, Metric: "overrun", Unit: "scenes", Measured: float64(len(behind))})
	if len(behind) > 0 {
		r.Short = fmt.Sprintf("in %s requests stayed behind that another policy had answered", experiment.Joined(behind, ", "))
	}
	return nil
}

// randomSummary adds what the ratios of a kind of scenes come to; of all there are
// requirements.
func randomSummary(e *experiment.Env, kind, metric string, all []float64, most randomBounds) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	within := 0
	for _, x := range all {
		if x <= 1.05 {
			within++
		}
	}
	params := map[string]any{"kind": kind, "scenes": len(all)}
	for _, x := range []struct {
		metric       string
		value, bound float64
		met          bool
	}{
		{"_within_1.05", float64(within) / float64(len(all)), most.within, float64(within) >= most.within*float64(len(all))},
		{"_median", all[len(all)/2], most.median, all[len(all)/2] <= most.median},
		{"_worst", all[len(all)-1], most.worst, all[len(all)-1] <= most.worst},
	} {
		r := e.Row(experiment.Row{Params: params, Metric: metric + x.metric, Unit: "1", Measured: experiment.Rounded(x.value)})
		if kind == "all" && !x.met {
			r.Short = fmt.Sprintf("%.4g; the bound is %.4g", x.value, x.bound)
		}
	}
}
