package experiments

import (
	"context"
	"fmt"
	"time"

	"github.com/verge-edge/verge/api"
)

var muLBReal = Experiment{
	Name: muLB.Name, Source: muLB.Source, Emulated: true,
	Shows: "two pods of 100 ms and two of 200 ms, four places each, at a worker that is 1 ms away from those with the routers: fastest against the policies of the paper (real requests, synthetic pods; expected is the same in virtual time)",
	run:   runMuLBReal, plot: muLB.plot,
}

func runMuLBReal(ctx context.Context, e *env) error {
	hosts := []string{"router-0", "router-1", "router-2", muSite}
	return e.played(ctx, hosts, func(f *fleet) error {
		works := quickly(e.Quick, muWorks[:1], []muWork{muWorks[0], muWorks[2]})
		for _, work := range works {
			for _, routers := range quickly(e.Quick, []int{1}, []int{1, 3}) {
				for _, rps := range quickly(e.Quick, []float64{80}, []float64{80, 100}) {
					if err := e.muCell(ctx, f, work, routers, rps); err != nil {
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
func muScene(hosts []string, work muWork, routers int, rps float64, slow int, warm, span time.Duration, seed uint64) scene {
	s := scene{
		hosts: hosts, rtt: func(string, string) time.Duration { return time.Duration(slow) * time.Millisecond },
		slots: 4, law: work.law, answer: 1, warm: warm, span: span, seed: seed,
	}
	for _, service := range []time.Duration{100, 100, 200, 200} {
		s.pods = append(s.pods, scenePod{muSite, service * time.Duration(slow) * time.Millisecond})
	}
	for k := range routers {
		s.loads = append(s.loads, sceneLoad{host: hosts[k], rps: rps / float64(routers*slow)})
	}
	return s
}

func (e *env) muCell(ctx context.Context, f *fleet, work muWork, routers int, rps float64) error {
	slow := quickly(e.Quick, 3, 2)
	warm, span := quickly(e.Quick, time.Second, 20*time.Second), quickly(e.Quick, 8*time.Second, 100*time.Second)
	s := muScene(f.hosts, work, routers, rps, slow, warm, span, e.Seed)
	policies := append([]string{api.PolicyFastest}, muPolicies...)
	from := len(e.rows)
	real, virtual, acc, err := f.together(ctx, s, policies)
	if err != nil {
		return err
	}
	params := map[string]any{"rps": rps, "work": work.name, "routers": routers}
	for _, policy := range policies {
		real[policy], virtual[policy] = real[policy].faster(float64(slow)), virtual[policy].faster(float64(slow))
		e.beside(with(params, "policy", policy), real[policy], virtual[policy])
	}
	e.muRequirements(params, real, rps, work.name, routers)
	for i := range e.rows[from:] {
		e.rows[from+i].Note = fmt.Sprintf("all took %d times as long, and figures are converted", slow)
	}
	e.measured(from, acc)
	return nil
}
