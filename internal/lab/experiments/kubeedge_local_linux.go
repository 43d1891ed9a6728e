package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/sim"
)

var kubeedgeLocal = Experiment{
	Name: kubeLocalName, Source: "KubeEdge local scheduling fig. 7", Emulated: true, Shows: kubeLocalShows,
	run: runKubeLocal, plot: kubeLocalPlot,
}

// kubeSlow is how many times slower than in the paper everything is that takes time,
// pods and links: so that what is measured is how requests are routed, and not how many
// a second this machine can carry.
const kubeSlow = 10

func runKubeLocal(ctx context.Context, e *env) error {
	hosts := []string{"node-0", "node-1", "node-2"}
	policies := []string{api.PolicyRoundRobin, api.PolicyRandom, api.PolicyLocal, api.PolicyFastest}
	return e.played(ctx, hosts, func(f *fleet) error {
		for i, c := range kubeCases {
			if e.Quick && i%4 != 0 {
				continue // the first, and the most skewed
			}
			s := kubeScene(hosts, c.clients, c.pods)
			s.warm, s.span, s.seed = quickly(e.Quick, time.Second, 3*time.Second), quickly(e.Quick, 3500*time.Millisecond, 23*time.Second), e.Seed
			from := len(e.rows)
			real, virtual, acc, err := f.together(ctx, s, policies)
			if err != nil {
				return err
			}
			for _, p := range policies {
				real[p], virtual[p] = real[p].faster(kubeSlow), virtual[p].faster(kubeSlow)
			}
			e.kubeRows(c.clients, c.pods, policies, real, virtual)
			e.measured(from, acc)
		}
		return nil
	})
}

// kubeScene is a case, without its policy and its times.
func kubeScene(hosts []string, clients, pods []int) scene {
	s := scene{
		hosts: hosts, rtt: func(string, string) time.Duration { return kubeSlow * 15 * time.Millisecond },
		slots: 1, law: sim.Fixed, answer: 1,
	}
	for i, host := range hosts {
		for range pods[i] {
			s.pods = append(s.pods, scenePod{host, kubeSlow * kubeService})
		}
		s.loads = append(s.loads, sceneLoad{host: host, clients: clients[i]})
	}
	return s
}

// faster is what it would be if everything took so many times less.
func (o outcome) faster(times float64) outcome {
	return outcome{o.mean / times, o.p99 / times, o.throughput * times}
}

// kubeRows are those of one case.
func (e *env) kubeRows(clients, pods []int, policies []string, real, virtual map[string]outcome) {
	load := joined(clients, ":")
	params := map[string]any{"load": load, "pods": joined(pods, "-"), "slots": 1, "rtt_ms": 15.0}
	for _, policy := range policies {
		p := with(params, "policy", policy)
		e.row(Row{Params: p, Metric: "response_time", Unit: "ms", Expected: known(rounded(virtual[policy].mean)), Measured: rounded(real[policy].mean)})
		r := e.row(Row{Params: p, Metric: "throughput", Unit: "1/s", Expected: known(rounded(virtual[policy].throughput)), Measured: rounded(real[policy].throughput)})
		r.Note = fmt.Sprintf("pods and links were %d times slower, and figures are converted", kubeSlow)
		if paper := kubePaper[fmt.Sprintf("%s %s %s", policy, load, joined(pods, "-"))]; paper > 0 {
			r.Paper = &paper
		}
	}
	e.overRobin(params, real, virtual)
	e.overLocal(params, real, clients[0] > pods[0])
	e.overWinner(params, real, policies[:3])
}

// wantOverRobin is what local is to have at least where the load is as the pods are.
const wantOverRobin = 1.5

// overRobin adds the row of local's throughput over that of round robin. It is a
// requirement; where computation says that it cannot be, what was computed is, within
// a tenth.
func (e *env) overRobin(params map[string]any, real, virtual map[string]outcome) {
	over := func(by map[string]outcome) float64 {
		return by[api.PolicyLocal].throughput / by[api.PolicyRoundRobin].throughput
	}
	expected, want := over(virtual), wantOverRobin
	r := e.row(Row{Params: with(params, "policy", api.PolicyLocal), Metric: "over_round_robin", Unit: "1", Expected: known(rounded(expected)), Measured: rounded(over(real))})
	name := fmt.Sprintf(" %s %s", params["load"], params["pods"])
	if local, robin := kubePaper[api.PolicyLocal+name], kubePaper[api.PolicyRoundRobin+name]; local > 0 && robin > 0 {
		r.Paper = known(local / robin)
	}
	if expected < wantOverRobin/0.9 {
		want = 0.9 * expected
		r.Note = fmt.Sprintf("%g × cannot be reached with these service times and this load, or only just: %.2f × is what was computed", wantOverRobin, expected)
	}
	if r.Measured < want {
		r.Short = fmt.Sprintf("local has less than %.2f × round robin's throughput", want)
	}
}
