package kubeedge

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/sim"
)

const (
	localName  = "kubeedge-local"
	localShows = "round robin, random, local and fastest at 15 ms between nodes, twelve clients spread like the 18 pods, and one load that is not (synthetic pods of one slot, fixed service time)"
	// kubeService is that of the lab's pods: 154 requests a second; the paper measures
	// 139.
	kubeService = 6500 * time.Microsecond
)

// localPlot is the picture of both forms.
var localPlot = &experiment.Plot{X: "load", Series: "policy", Metric: "throughput", Title: "requests a second of three nodes"}

// kubeCases are clients and pods of the three nodes: the paper's, and one in which
// the clients are where the pods are not.
var kubeCases = []struct{ clients, pods []int }{
	{[]int{4, 4, 4}, []int{6, 6, 6}}, {[]int{8, 3, 1}, []int{12, 5, 1}}, {[]int{10, 1, 1}, []int{16, 1, 1}}, {[]int{10, 1, 1}, []int{6, 6, 6}}, {[]int{24, 1, 1}, []int{6, 6, 6}},
}

// kubePaper is what the paper measured, in requests per second.
var kubePaper = map[string]float64{
	"round-robin 4:4:4 6-6-6": 871, "round-robin 10:1:1 16-1-1": 1050,
	"local 4:4:4 6-6-6": 1493, "local 8:3:1 12-5-1": 1646, "local 10:1:1 16-1-1": 1644,
}

// LocalVirtual is the experiment kubeedge-local in virtual time.
var LocalVirtual = experiment.Experiment{
	Name: localName, Source: "KubeEdge local scheduling fig. 7", Shows: localShows, Virtual: runLocalVirtually, Plot: localPlot,
}

func runLocalVirtually(ctx context.Context, e *experiment.Env) error {
	theirs := []string{api.PolicyRoundRobin, api.PolicyRandom, api.PolicyLocal}
	for _, c := range kubeCases {
		by := map[string]experiment.Outcome{}
		load := experiment.Joined(c.clients, ":")
		params := map[string]any{"load": load, "pods": experiment.Joined(c.pods, "-")}
		for _, policy := range append([]string{api.PolicyFastest}, theirs...) {
			if err := ctx.Err(); err != nil {
				return err
			}
			o, err := kubeVirtual(e.Seed, policy, c.clients, c.pods, experiment.Quickly(e.Quick, 20*time.Second, 5*time.Minute))
			if err != nil {
				return err
			}
			by[policy] = o
			r := e.Row(experiment.Row{Params: experiment.With(params, "policy", policy), Metric: "throughput", Unit: "1/s", Measured: experiment.Rounded(o.Throughput)})
			if paper := kubePaper[fmt.Sprintf("%s %s %s", policy, load, experiment.Joined(c.pods, "-"))]; paper > 0 {
				r.Paper = &paper
			}
			e.Times(experiment.With(params, "policy", policy), o)
		}
		skewed := c.clients[0] > c.pods[0]
		least := -1.5
		if c.pods[0] == 16 { // most requests stay at their node also by round robin
			least = -1
		}
		if !skewed {
			e.Ratio(experiment.With(params, "policy", api.PolicyLocal, "than", api.PolicyRoundRobin), "throughput_over", by[api.PolicyLocal].Throughput, by[api.PolicyRoundRobin].Throughput, least)
		}
		overLocal(e, params, by, skewed)
		e.OverWinner(params, by, theirs, 0)
	}
	return nil
}

// overLocal adds the row of fastest's throughput over that of local.
func overLocal(e *experiment.Env, params map[string]any, by map[string]experiment.Outcome, skewed bool) {
	r := e.Ratio(experiment.With(params, "policy", api.PolicyFastest, "than", api.PolicyLocal), "throughput_over", by[api.PolicyFastest].Throughput, by[api.PolicyLocal].Throughput, -experiment.Quickly(skewed, 1, 0.995))
	if !skewed && r.Short == "" {
		r.Note = "half a percent is left to chance"
	}
}

func kubeVirtual(seed uint64, policy string, clients, pods []int, span time.Duration) (experiment.Outcome, error) {
	w := sim.New(seed)
	var all []*sim.Pod
	for n, count := range pods {
		for k := range count {
			p := &sim.Pod{ID: fmt.Sprintf("pod-%d-%d", n, k), Place: fmt.Sprint("node-", n), Slots: 1, Service: kubeService}
			all = append(all, p.Start(w))
		}
	}
	said := experiment.Named(policy)
	if policy == api.PolicyLocal {
		said.Fallback = api.PolicyRoundRobin
	}
	s := &sim.Stats{From: span / 10}
	for n, count := range clients {
		place := fmt.Sprint("node-", n)
		r, err := sim.NewRouter(w, place, said, func(to string) *sim.Link {
			if to == place {
				return &sim.Link{RTT: 100 * time.Microsecond}
			}
			return &sim.Link{RTT: 15 * time.Millisecond}
		})
		if err != nil {
			return experiment.Outcome{}, err
		}
		r.Use(all)
		sim.Closed(w, place, r, sim.Works(sim.Fixed, 0, 0), count, span, s)
	}
	w.Run(span)
	return experiment.OutcomeOf(s, span), nil
}
