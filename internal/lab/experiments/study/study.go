package study

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

// The testbed of the edge-to-cloud study (tables I to V), in virtual time: what its
// nodes answer in a minute, the way between its tiers, and where its pods are. A pod
// works on one request at a time, with work that varies by three tenths; as many
// clients as there are pods send the next request when the one before is answered.

// studyNodes are the nodes of the study: the requests that six pods of each answered
// in 60 s, by an edge gateway.
var studyNodes = map[string]float64{
	"edge-arm-1": 37.667, "edge-arm-2": 37.333, "edge-arm-3": 33.333, "edge-vm-1": 172.333, "edge-vm-2": 183.333,
	"fog-1": 271.333, "fog-2": 257.000, "cloud-1": 169.000,
}

const (
	studyPods   = 6       // of a node at most
	studyImage  = 243_500 // bytes
	studyAnswer = 1_000   // bytes
	studyWork   = 0.3     // coefficient of variation
	studyUp     = 17 * experiment.Mbps
	studyDown   = 100 * experiment.Mbps
)

// studyOrder are the placements of table V: three pods in each of the 16 iterations.
var studyOrder = map[string][]string{
	"throughput": strings.Fields(strings.Repeat("fog-1 ", 6) + strings.Repeat("fog-2 ", 6) + strings.Repeat("edge-vm-2 ", 6) + strings.Repeat("edge-vm-1 ", 6) +
		strings.Repeat("cloud-1 ", 6) + strings.Repeat("edge-arm-1 ", 6) + strings.Repeat("edge-arm-2 ", 6) + strings.Repeat("edge-arm-3 ", 6)),
	"kubernetes": strings.Fields(`edge-arm-1 edge-arm-3 edge-arm-2 edge-vm-1 cloud-1 fog-1 edge-vm-2 fog-2 edge-arm-3 edge-arm-2 edge-arm-1 fog-2
		cloud-1 fog-1 edge-vm-2 edge-vm-1 edge-arm-3 edge-arm-1 edge-arm-2 edge-vm-1 edge-vm-2 fog-2 cloud-1 fog-1 edge-arm-2 edge-arm-1 edge-arm-3
		fog-1 cloud-1 edge-vm-1 edge-vm-2 fog-2 edge-arm-3 edge-arm-2 edge-arm-1 fog-1 edge-vm-2 cloud-1 edge-vm-1 fog-2 edge-arm-2 edge-arm-3
		edge-arm-1 edge-vm-2 edge-vm-1 fog-1 fog-2 cloud-1`),
}

// studyRTT is the round trip between tiers.
func studyRTT(a, b string) time.Duration {
	if a > b {
		a, b = b, a
	}
	switch a + " " + b {
	case "cloud edge":
		return 250 * time.Millisecond
	case "cloud fog":
		return 209 * time.Millisecond
	case "edge fog":
		return 32 * time.Millisecond
	}
	return 2 * time.Millisecond
}

func studyTier(place string) string { return strings.SplitN(place, "-", 2)[0] }

// studyCase is one run of the study.
type studyCase struct {
	policy, placement string
	iteration         int
	// gateway is the tier of the router. The clients are at the edge.
	gateway string
	// source is the tier that the pods fetch images from; "" sends them along. Kept:
	// it is the same image each time, which workers keep.
	source string
	kept   bool
	// limit of each node's bandwidth in bytes per second; 0: none but that of the edge.
	limit float64
	// pods by their nodes, instead of those of placement and iteration; nil: those.
	pods []string
}

// order is the nodes of the pods.
func (c studyCase) order() []string {
	if c.pods != nil {
		return c.pods
	}
	return studyOrder[c.placement][:3*c.iteration]
}

func (c studyCase) params() map[string]any {
	return map[string]any{"policy": c.policy, "placement": c.placement, "pods": len(c.order())}
}

// studyNet is the network of a run: the edge has one line to the outside, and with a
// limit every node one of its own.
type studyNet struct {
	up, down *sim.Pipe
	limit    float64
	nodes    map[string]*sim.Pipe // what a node receives, by its name
	links    map[string]*sim.Link
}

func newStudyNet(limit float64) *studyNet {
	n := &studyNet{limit: limit, up: &sim.Pipe{Rate: studyUp}, down: &sim.Pipe{Rate: studyDown}, nodes: map[string]*sim.Pipe{}, links: map[string]*sim.Link{}}
	if limit > 0 {
		n.up.Rate, n.down.Rate = min(studyUp, limit), min(studyDown, limit)
	}
	return n
}

// link from a place to another, each a tier or a node. The narrowest of the lines on
// the way counts.
func (n *studyNet) link(from, to string) *sim.Link {
	if l := n.links[from+" "+to]; l != nil {
		return l
	}
	a, b := studyTier(from), studyTier(to)
	l := &sim.Link{RTT: studyRTT(a, b)}
	switch {
	case a == b:
		if n.limit > 0 { // a line of its own
			l.Up, l.Down = n.node(to), n.node(from)
		}
	case a == "edge":
		l.Up, l.Down = n.up, n.down
	case b == "edge":
		l.Up, l.Down = n.down, n.up
	case n.limit > 0:
		l.Up, l.Down = n.node(to), n.node(from)
	}
	n.links[from+" "+to] = l
	return l
}

func (n *studyNet) node(name string) *sim.Pipe {
	if n.nodes[name] == nil {
		n.nodes[name] = &sim.Pipe{Rate: n.limit}
	}
	return n.nodes[name]
}

// studyService is how long a pod of a node works on an image: what a minute's
// throughput leaves when the way to it from the edge is taken off.
func studyService(node string) time.Duration {
	each := time.Duration(studyPods * 60 / studyNodes[node] * float64(time.Second))
	way := studyRTT("edge", studyTier(node))
	if studyTier(node) != "edge" {
		way += transfer(studyImage, studyUp)
	}
	return each - way
}

// study is one run.
func study(e *experiment.Env, c studyCase) (experiment.Outcome, error) {
	var all []experiment.Outcome
	for _, seed := range e.Repetitions(1, 5) {
		o, err := c.run(seed, experiment.Quickly(e.Quick, 2*time.Minute, 10*time.Minute))
		if err != nil {
			return experiment.Outcome{}, err
		}
		all = append(all, o)
	}
	return experiment.MeanOf(all), nil
}

func (c studyCase) run(seed uint64, span time.Duration) (experiment.Outcome, error) {
	s, err := c.stats(seed, span)
	if err != nil {
		return experiment.Outcome{}, err
	}
	return experiment.OutcomeOf(s, span), nil
}

// stats of a run. What is under way at its end is not in them.
func (c studyCase) stats(seed uint64, span time.Duration) (*sim.Stats, error) {
	w := sim.New(seed)
	net := newStudyNet(c.limit)
	r, err := sim.NewRouter(w, c.gateway, experiment.Named(c.policy), func(to string) *sim.Link { return net.link(c.gateway, to) })
	if err != nil {
		return nil, err
	}
	order := c.order()
	on := map[string]int{}
	for _, node := range order {
		on[node]++
	}
	var pods []*sim.Pod
	for i, node := range order {
		p := &sim.Pod{
			ID: fmt.Sprintf("%s-%d", node, i), Place: node, Slots: 1, Service: studyService(node),
			// The study's weights: what the node answers, divided among its pods.
			Weight: studyNodes[node] / float64(on[node]),
		}
		if c.source != "" && !c.kept {
			p.Before = func(*sim.Request) time.Duration {
				// A connection is made first.
				return studyRTT(studyTier(p.Place), c.source) + net.link(p.Place, c.source).Call(w, studyImage)
			}
		}
		pods = append(pods, p.Start(w))
	}
	r.Use(pods)
	var to sim.Sender = r
	if c.gateway != "edge" {
		to = sim.Through(w, net.link("edge", c.gateway), r)
	}
	body := int64(studyImage)
	if c.source != "" {
		body = 500
	}
	s := &sim.Stats{From: span / 5}
	sim.Closed(w, "clients", to, sim.Works(sim.Lognormal(studyWork), body, studyAnswer), len(pods), span, s)
	w.Run(span)
	return s, nil
}

// studyShares of the tiers in what pods answered, by their names, which begin with
// their nodes.
func studyShares(by map[string]int) map[string]float64 {
	out, sum := map[string]float64{}, 0.0
	for pod, n := range by {
		out[studyTier(pod)] += float64(n)
		sum += float64(n)
	}
	for tier := range out {
		out[tier] /= sum
	}
	return out
}

// studyIterations of a run: all of them, or a few.
func studyIterations(e *experiment.Env) []int {
	if e.Quick {
		return []int{2, 9, 16}
	}
	out := make([]int, 16)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

var studyPlacements = []string{"kubernetes", "throughput"}

// studyPolicies are the five of the study.
var studyPolicies = []string{api.PolicyRandom, api.PolicyRoundRobin, api.PolicyWeighted, api.PolicyBilliard, api.PolicyLeastConnections}

// studyForm is how the cases of a sweep are run: in virtual time, or in the lab.
type studyForm struct {
	placements []string
	cases      func(placement string) []studyCase
	run        func(ctx context.Context, c studyCase) (studyResult, error)
	// least is what a ratio must have of what it should have: of 1 where the paper has
	// it above that, or of what was expected of the same cases if that is less.
	least float64
	// few: of the values of a sweep the first and the last are enough.
	few bool
}

// studyResult of a case.
type studyResult struct {
	throughput float64
	expected   *float64         // nil for nothing
	more       []experiment.Row // without what was varied
}

// some of the values of a sweep.
func (f studyForm) some(values ...string) []string {
	if f.few {
		return []string{values[0], values[len(values)-1]}
	}
	return values
}

// virtually is the form in virtual time.
func virtually(e *experiment.Env) studyForm {
	return studyForm{
		placements: studyPlacements, least: 1,
		cases: func(placement string) (out []studyCase) {
			for _, iteration := range studyIterations(e) {
				out = append(out, studyCase{placement: placement, iteration: iteration})
			}
			return out
		},
		run: func(_ context.Context, c studyCase) (studyResult, error) {
			o, err := study(e, c)
			return studyResult{throughput: o.Throughput}, err
		},
	}
}

// studySweep runs cases that differ in one thing over all placements and iterations
// by least connections, as the paper does, and returns the mean throughput of each.
func studySweep(ctx context.Context, e *experiment.Env, f studyForm, what string, values []string, make func(c *studyCase, value string)) (studyMeans, error) {
	sums := studyMeans{}
	for _, placement := range f.placements {
		cases := f.cases(placement)
		for _, base := range cases {
			for _, value := range values {
				if err := ctx.Err(); err != nil {
					return nil, err
				}
				c := base
				c.policy, c.gateway = api.PolicyLeastConnections, "edge"
				make(&c, value)
				got, err := f.run(ctx, c)
				if err != nil {
					return nil, fmt.Errorf("%s %s, %d pods placed by %s: %w", what, value, len(c.order()), placement, err)
				}
				for _, r := range append([]experiment.Row{{Metric: "throughput", Unit: "1/s", Expected: got.expected, Measured: experiment.Rounded(got.throughput)}}, got.more...) {
					r.Params = experiment.With(c.params(), what, value)
					e.Row(r)
				}
				mean, n := sums[placement+" "+value], float64(len(cases))
				mean.measured += got.throughput / n
				if got.expected != nil {
					mean.expected += *got.expected / n
				}
				sums[placement+" "+value] = mean
			}
		}
	}
	return sums, nil
}

// studyMeans of a sweep by placement and value; expected is 0 where nothing was.
type studyMeans map[string]struct{ measured, expected float64 }

// over adds the row of one mean throughput over another, which must have at least so
// much of what it should have.
func over(e *experiment.Env, sums studyMeans, params map[string]any, more, less string, least float64) *experiment.Row {
	a, b := sums[more], sums[less]
	if b.expected == 0 {
		return e.Ratio(params, "throughput_over", a.measured, b.measured, -least)
	}
	expected := a.expected / b.expected
	r := e.Ratio(params, "throughput_over", a.measured, b.measured, -least*min(1, expected))
	r.Expected = experiment.Known(experiment.Rounded(expected))
	return r
}

// ordered adds the rows of one mean throughput over another, which the paper has in
// this order.
func ordered(e *experiment.Env, f studyForm, sums studyMeans, what string, values ...string) {
	for _, placement := range f.placements {
		for i := 1; i < len(values); i++ {
			more, less := values[i-1], values[i]
			over(e, sums, map[string]any{"placement": placement, what: more, "than": less}, placement+" "+more, placement+" "+less, f.least)
		}
	}
}

// transfer of so many bytes at a rate.
func transfer(bytes, rate float64) time.Duration {
	return time.Duration(bytes / rate * float64(time.Second))
}
