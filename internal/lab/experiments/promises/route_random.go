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
	"github.com/verge-edge/verge/internal/sim/rival"
)

// RouteRandom is the experiment route-random.
var RouteRandom = experiment.Experiment{
	Name: "route-random", Source: "no paper: scenes that nothing was tuned on",
	Shows: "scenes drawn at random (pods, their speeds, places and processors, distances, lines, kinds of work up to a " +
		"coefficient of variation of 8, hangs, 1 to 50 routers, loads up to 85 %): fastest against the best in each of the " +
		"papers' policies, C3 and Prequal (in virtual time)",
	Virtual: runRouteRandom,
}

// randomPolicies are those of the papers, each with its defaults, C3 and Prequal; proximity by distance
// alone. Weights are what each pod can do.
var randomPolicies = []string{
	api.PolicyRoundRobin, api.PolicyBilliard, api.PolicyLeastConnections, api.PolicyTwoChoices,
	api.PolicyLeastResponse, api.PolicyLocal, api.PolicyProximity, api.PolicyClosest, rivalC3, rivalPrequal,
}

// Rivals outside the API.
const (
	rivalC3      = "c3"
	rivalPrequal = "prequal"
)

// user is a sender that is told of its pods.
type user interface {
	sim.Sender
	Use(pods []*sim.Pod)
}

// randomKinds of scenes, one after the other.
var randomKinds = []string{"site", "far", "shared", "unbounded", "lines", "closed", "many", "hang"}

// randomSeed is not one that anything was tuned with; what is drawn depends on it, on
// the seed of the run and on the number of the scene.
const randomSeed = 0xb5d3

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
	work    string  // the name of the law
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
	if s.kind == "far" || s.kind == "lines" || s.kind == "many" && r.IntN(2) == 0 {
		places, area = 2+r.IntN(4), between(r, 10, 200)
	}
	s.own = time.Duration(between(r, 0.1, 1) * 1e6)
	names := make([]string, places)
	for i := range names {
		names[i] = fmt.Sprint("place-", i)
		s.at[names[i]] = spot{r.Float64() * area, r.Float64() * area}
	}
	s.work, s.law = randomLaw(r)
	if s.kind == "lines" {
		s.body = int64(between(r, 20e3, 1e6))
		for _, n := range names[1:] {
			s.lines[n] = between(r, 5, 200) * experiment.Mbps
		}
	}

	typical, spread := between(r, 5, 500), oneOf(r, 1, 2, 4, 8)
	slots := oneOf(r, 1, 2, 4, 8, 16)
	by := map[string]float64{} // requests a second that each place can do
	n, form := 2+r.IntN(9), r.IntN(3)
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
		case "many", "hang":
			switch form {
			case 1:
				p.Hidden = true
			case 2:
				p.Hidden, p.Cores, p.Slots = true, float64(slots), 0
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
	if s.kind == "many" || r.IntN(4) == 0 {
		routers = int(between(r, 5, 51))
	}
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
	if s.kind == "hang" {
		// Once in each fifth of the time, and long beside a request.
		p := &s.pods[r.IntN(n)]
		for k := range 5 {
			from := time.Duration((float64(k) + 0.7*r.Float64()) / 5 * float64(s.span))
			last := time.Duration(typical * between(r, 10, 300) * 1e6)
			p.Hangs = append(p.Hangs, sim.Hang{From: from, To: from + min(last, s.span/20, 10*time.Second)})
		}
	}
	return s
}

// randomLaw draws how the work of requests is distributed.
func randomLaw(r *rand.Rand) (string, sim.Law) {
	switch r.IntN(6) {
	case 0:
		return "fixed", sim.Fixed
	case 1:
		return "exponential", sim.Exponential
	case 2:
		cv := between(r, 0.3, 2)
		return fmt.Sprintf("lognormal %.2g", cv), sim.Lognormal(cv)
	case 3:
		cv := between(r, 2, 8)
		return fmt.Sprintf("lognormal %.2g", cv), sim.Lognormal(cv)
	case 4:
		return "1 % × 100", sim.Bimodal(0.01, 100)
	}
	return "2 % × 500", sim.Bimodal(0.02, 500)
}

// randomOutcome has, beside the percentile, the mean of the times about it, which does not jump where short
// requests end and long ones begin.
type randomOutcome struct {
	experiment.Outcome
	tail float64 // from the 98.5th to the 99.5th percentile, in ms
}

func randomOutcomeOf(st *sim.Stats, span time.Duration) randomOutcome {
	o := randomOutcome{Outcome: experiment.OutcomeOf(st, span)}
	times := slices.Sorted(slices.Values(st.Times))
	about := times[len(times)*985/1000 : len(times)*995/1000]
	for _, t := range about {
		o.tail += 1e3 * t / float64(len(about))
	}
	return o
}

// answers are those to the scene by a policy, in the order in which they came. Not ok where requests stay
// behind: then the policy sends more to some pods or over some lines than they can do.
func (s *randomScene) answers(seed uint64, policy string) (stats *sim.Stats, ok bool, err error) {
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
	stats = &sim.Stats{From: s.span / 5}
	came := 0
	for k, place := range s.routers {
		links := func(to string) *sim.Link {
			if to == place {
				return &sim.Link{RTT: s.own}
			}
			a, b := s.at[place], s.at[to]
			return &sim.Link{RTT: s.own + time.Duration(math.Hypot(a.x-b.x, a.y-b.y)*1e6), Up: into[to]}
		}
		var r user
		switch policy {
		case rivalC3:
			r = rival.NewC3(w, place, len(s.routers), links)
		case rivalPrequal:
			r = rival.NewPrequal(w, place, links)
		default:
			var err error
			if r, err = sim.NewRouter(w, place, said, links); err != nil {
				return nil, false, err
			}
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
	return stats, float64(len(stats.Times)) > 0.99*float64(came), nil
}

// randomBounds are the most that fastest may take next to the best of the others in a scene,
// whichever that is there: in which share of the scenes 1.05 at most (of the 99th percentile 1.10), in
// the median, and at worst.
type randomBounds struct{ within, median, worst float64 }

// randomNear is what counts as no worse.
var randomNear = map[string]float64{"mean": 1.05, "p99": 1.10, "tail": 1.10}

// randomMetrics in the order of rows. The 99th percentile has no bound at worst: with 1 % of long requests
// it is the last short or the first long one, and a few requests more or less make it up to a hundred times
// as long, whoever sends them. The tail has one.
var randomMetrics = []string{"mean", "p99", "tail"}

// What was measured (DESIGN.md of policy/route), and a little: next to all others, and next to those
// that, as fastest, know only what answers tell. A quick run has two scenes of each kind, with too few
// requests for the last percent.
var randomMost = map[string]map[string]randomBounds{
	"all": {
		"mean": {0.88, 1, 1.6}, "p99": {0.88, 1.01, math.Inf(1)}, "tail": {0.88, 1.01, 2.2},
	},
	"without probes": {
		"mean": {0.93, 0.98, 1.6}, "p99": {0.90, 1, math.Inf(1)}, "tail": {0.90, 1, 2.2},
	},
}

// quickMost is for quick runs.
var quickMost = map[string]randomBounds{
	"mean": {0.6, 1.03, 2.5}, "p99": {0.6, 1.05, math.Inf(1)}, "tail": {0.6, 1.05, 2.5},
}

// randomRatio is fastest over the best of the others in a scene.
type randomRatio struct {
	kind, against string
	of            map[string]float64 // by metric
}

func runRouteRandom(ctx context.Context, e *experiment.Env) error {
	var all []randomRatio
	var behind []int // scenes in which requests stayed behind
	for i := range experiment.Quickly(e.Quick, 16, 240) {
		s := newRandomScene(e.Seed, i, experiment.Quickly(e.Quick, 6_000, 20_000))
		by, outcomes := map[string]experiment.Outcome{}, map[string]randomOutcome{}
		for _, policy := range append([]string{api.PolicyFastest}, randomPolicies...) {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("route-random: %w", err)
			}
			stats, ok, err := s.answers(e.Seed+uint64(i), policy)
			if err != nil {
				return fmt.Errorf("route-random, scene %d by %s: %w", i, policy, err)
			}
			if ok || policy == api.PolicyFastest {
				outcomes[policy] = randomOutcomeOf(stats, s.span)
				by[policy] = outcomes[policy].Outcome
			}
			if !ok && policy == api.PolicyFastest {
				behind = append(behind, i)
			}
		}
		ours := outcomes[api.PolicyFastest]
		delete(by, api.PolicyFastest)
		for _, against := range []string{"all", "without probes"} {
			if against != "all" {
				delete(by, rivalPrequal)
			}
			if len(by) == 0 {
				break // none of them can do it
			}
			best := experiment.Winner(by, slices.Sorted(maps.Keys(by)))
			theirs := outcomes[best]
			x := randomRatio{s.kind, against, map[string]float64{
				"mean": ours.Mean / theirs.Mean, "p99": ours.P99 / theirs.P99, "tail": ours.tail / theirs.tail,
			}}
			all = append(all, x)
			params := map[string]any{"scene": i, "kind": s.kind, "work": s.work, "load": experiment.Rounded(s.load), "against": against, "winner": best}
			for _, metric := range randomMetrics {
				e.Row(experiment.Row{Params: params, Metric: metric + "_over_best", Unit: "1", Measured: experiment.Rounded(x.of[metric])})
			}
		}
	}
	for _, against := range []string{"all", "without probes"} {
		for _, kind := range append([]string{"all"}, randomKinds...) {
			for _, metric := range randomMetrics {
				var of []float64
				for _, x := range all {
					if x.against == against && (kind == "all" || x.kind == kind) {
						of = append(of, x.of[metric])
					}
				}
				params := map[string]any{"kind": kind, "against": against, "scenes": len(of)}
				randomSummary(e, params, metric, of, experiment.Quickly(e.Quick, quickMost, randomMost[against])[metric])
			}
		}
	}
	r := e.Row(experiment.Row{Params: map[string]any{"kind": "all"}, Metric: "overrun", Unit: "scenes", Measured: float64(len(behind))})
	if len(behind) > 0 {
		r.Short = fmt.Sprintf("in %s requests stayed behind that another policy had answered", experiment.Joined(behind, ", "))
	}
	return nil
}

// randomSummary adds what the ratios of a kind of scenes come to; of all there are requirements.
func randomSummary(e *experiment.Env, params map[string]any, metric string, all []float64, most randomBounds) {
	if len(all) == 0 {
		return
	}
	slices.Sort(all)
	within, near := 0, randomNear[metric]
	for _, x := range all {
		if x <= near {
			within++
		}
	}
	share := float64(within) / float64(len(all))
	for _, x := range []struct {
		metric       string
		value, bound float64
		met          bool
	}{
		{fmt.Sprintf("_within_%.2f", near), share, most.within, share >= most.within},
		{"_median", all[len(all)/2], most.median, all[len(all)/2] <= most.median},
		{"_worst", all[len(all)-1], most.worst, all[len(all)-1] <= most.worst},
	} {
		r := e.Row(experiment.Row{Params: params, Metric: metric + x.metric, Unit: "1", Measured: experiment.Rounded(x.value)})
		if params["kind"] == "all" && !x.met {
			r.Short = fmt.Sprintf("%.4g; the bound is %.4g", x.value, x.bound)
		}
	}
}
