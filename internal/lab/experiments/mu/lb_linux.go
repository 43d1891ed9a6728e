package mu

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// LBReal is an experiment.
var LBReal = experiment.Experiment{
	Name: LB.Name, Source: LB.Source, Emulated: true,
	Shows: "two pods of 100 ms and two of 200 ms, four places each, at a worker that is 1 ms away from those with the routers: fastest against the policies of the paper (real requests, synthetic pods; expected is the same in virtual time)",
	Lab:   runMuLBReal, Plot: LB.Plot,
}

func runMuLBReal(ctx context.Context, e *experiment.Env) error {
	hosts := []string{"router-0", "router-1", "router-2", muSite}
	return bed.Played(ctx, e, hosts, func(f *bed.Fleet) error {
		works := experiment.Quickly(e.Quick, muWorks[:1], []muWork{muWorks[0], muWorks[2]})
		for _, work := range works {
			for _, routers := range experiment.Quickly(e.Quick, []int{1}, []int{1, 3}) {
				for _, rps := range experiment.Quickly(e.Quick, []float64{80}, []float64{80, 100}) {
					if err := muCell(ctx, e, f, work, routers, rps); err != nil {
						return err
					}
				}
			}
		}
		return nil
	})
}

const muSite = "site"

// muScene is one cell of the experiment, without its policy. All that takes time takes
// slow times as long, and as much less comes: requests of all policies at the paper's
// pace are more than a small machine hands over without making them wait.
func muScene(hosts []string, work muWork, routers int, rps float64, slow int, warm, span time.Duration, seed uint64) bed.Scene {
	s := bed.Scene{
		Hosts: hosts, Rtt: func(string, string) time.Duration { return time.Duration(slow) * time.Millisecond },
		Slots: 4, Law: work.law, Answer: 1, Warm: warm, Span: span, Seed: seed,
	}
	for _, service := range []time.Duration{100, 100, 200, 200} {
		s.Pods = append(s.Pods, bed.ScenePod{Host: muSite, Service: service * time.Duration(slow) * time.Millisecond})
	}
	for k := range routers {
		s.Loads = append(s.Loads, bed.SceneLoad{Host: hosts[k], Rps: rps / float64(routers*slow)})
	}
	return s
}

func muCell(ctx context.Context, e *experiment.Env, f *bed.Fleet, work muWork, routers int, rps float64) error {
	slow := experiment.Quickly(e.Quick, 3, 2)
	warm, span := experiment.Quickly(e.Quick, time.Second, 20*time.Second), experiment.Quickly(e.Quick, 8*time.Second, 100*time.Second)
	s := muScene(f.Hosts, work, routers, rps, slow, warm, span, e.Seed)
	policies := append([]string{api.PolicyFastest}, muPolicies...)
	from := len(e.Rows)
	real, virtual, acc, err := f.Together(ctx, s, policies)
	if err != nil {
		return err
	}
	params := map[string]any{"rps": rps, "work": work.name, "routers": routers}
	for _, policy := range policies {
		real[policy], virtual[policy] = real[policy].Faster(float64(slow)), virtual[policy].Faster(float64(slow))
		bed.Beside(e, experiment.With(params, "policy", policy), real[policy], virtual[policy])
	}
	muRequirements(e, params, real, rps, work.name, routers)
	for i := range e.Rows[from:] {
		e.Rows[from+i].Note = fmt.Sprintf("all took %d times as long, and figures are converted", slow)
	}
	e.Measured(from, acc)
	return nil
}
