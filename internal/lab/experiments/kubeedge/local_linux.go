package kubeedge

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
	"github.com/verge-edge/verge/internal/sim"
)

// Local is an experiment.
var Local = experiment.Experiment{
	Name: localName, Source: "KubeEdge local scheduling fig. 7", Emulated: true, Shows: localShows,
	Lab: runKubeLocal, Plot: localPlot,
}

// kubeSlow is how many times slower than in the paper everything is that takes time,
// pods and links: so that what is measured is how requests are routed, and not how many
// a second this machine can carry.
const kubeSlow = 10

func runKubeLocal(ctx context.Context, e *experiment.Env) error {
	hosts := []string{"node-0", "node-1", "node-2"}
	policies := []string{api.PolicyRoundRobin, api.PolicyRandom, api.PolicyLocal, api.PolicyFastest}
	return bed.Played(ctx, e, hosts, func(f *bed.Fleet) error {
		for i, c := range kubeCases {
			if e.Quick && i%4 != 0 {
				continue // the first, and the most skewed
			}
			s := kubeScene(hosts, c.clients, c.pods)
			s.Warm, s.Span, s.Seed = experiment.Quickly(e.Quick, time.Second, 3*time.Second), experiment.Quickly(e.Quick, 3500*time.Millisecond, 23*time.Second), e.Seed
			from := len(e.Rows)
			real, virtual, acc, err := f.Together(ctx, s, policies)
			if err != nil {
				return err
			}
			for _, p := range policies {
				real[p], virtual[p] = real[p].Faster(kubeSlow), virtual[p].Faster(kubeSlow)
			}
			kubeRows(e, c.clients, c.pods, policies, real, virtual)
			e.Measured(from, acc)
		}
		return nil
	})
}

// kubeScene is a case, without its policy and its times.
func kubeScene(hosts []string, clients, pods []int) bed.Scene {
	s := bed.Scene{
		Hosts: hosts, Rtt: func(string, string) time.Duration { return kubeSlow * 15 * time.Millisecond },
		Slots: 1, Law: sim.Fixed, Answer: 1,
	}
	for i, host := range hosts {
		for range pods[i] {
			s.Pods = append(s.Pods, bed.ScenePod{Host: host, Service: kubeSlow * kubeService})
		}
		s.Loads = append(s.Loads, bed.SceneLoad{Host: host, Clients: clients[i]})
	}
	return s
}

// kubeRows are those of one case.
func kubeRows(e *experiment.Env, clients, pods []int, policies []string, real, virtual map[string]experiment.Outcome) {
	load := experiment.Joined(clients, ":")
	params := map[string]any{"load": load, "pods": experiment.Joined(pods, "-"), "slots": 1, "rtt_ms": 15.0}
	for _, policy := range policies {
		p := experiment.With(params, "policy", policy)
		e.Row(experiment.Row{Params: p, Metric: "response_time", Unit: "ms", Expected: experiment.Known(experiment.Rounded(virtual[policy].Mean)), Measured: experiment.Rounded(real[policy].Mean)})
		r := e.Row(experiment.Row{Params: p, Metric: "throughput", Unit: "1/s", Expected: experiment.Known(experiment.Rounded(virtual[policy].Throughput)), Measured: experiment.Rounded(real[policy].Throughput)})
		r.Note = fmt.Sprintf("pods and links were %d times slower, and figures are converted", kubeSlow)
		if paper := kubePaper[fmt.Sprintf("%s %s %s", policy, load, experiment.Joined(pods, "-"))]; paper > 0 {
			r.Paper = &paper
		}
	}
	overRobin(e, params, real, virtual)
	overLocal(e, params, real, clients[0] > pods[0])
	e.OverWinner(params, real, policies[:3], 0)
}

// wantOverRobin is what local is to have at least where the load is as the pods are.
const wantOverRobin = 1.5

// overRobin adds the row of local's throughput over that of round robin. It is a
// requirement; where computation says that it cannot be, what was computed is, within
// a tenth.
func overRobin(e *experiment.Env, params map[string]any, real, virtual map[string]experiment.Outcome) {
	over := func(by map[string]experiment.Outcome) float64 {
		return by[api.PolicyLocal].Throughput / by[api.PolicyRoundRobin].Throughput
	}
	expected, want := over(virtual), wantOverRobin
	r := e.Row(experiment.Row{Params: experiment.With(params, "policy", api.PolicyLocal), Metric: "over_round_robin", Unit: "1", Expected: experiment.Known(experiment.Rounded(expected)), Measured: experiment.Rounded(over(real))})
	name := fmt.Sprintf(" %s %s", params["load"], params["pods"])
	if local, robin := kubePaper[api.PolicyLocal+name], kubePaper[api.PolicyRoundRobin+name]; local > 0 && robin > 0 {
		r.Paper = experiment.Known(local / robin)
	}
	if expected < wantOverRobin/0.9 {
		want = 0.9 * expected
		r.Note = fmt.Sprintf("%g × cannot be reached with these service times and this load, or only just: %.2f × is what was computed", wantOverRobin, expected)
	}
	if r.Measured < want {
		r.Short = fmt.Sprintf("local has less than %.2f × round robin's throughput", want)
	}
}
