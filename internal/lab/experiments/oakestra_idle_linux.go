package experiments

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/verge-edge/verge/internal/lab"
)

var oakestraIdle = Experiment{
	Name: "oakestra-idle", Source: "Oakestra fig. 5b", Emulated: true,
	Shows: "processor time and memory of an idle worker (agent and engine), cluster and root, by the number of workers",
	run:   runIdle,
	plot:  &plot{x: "workers", series: "tier", metric: "cpu", title: "processor time in a minute, ms"},
}

func runIdle(ctx context.Context, e *env) error {
	sizes, window := []int{2, 6, 10}, time.Minute
	if e.Quick {
		sizes, window = []int{2}, 4*time.Second
	}
	for _, n := range sizes {
		if err := e.idle(ctx, n, window); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) idle(ctx context.Context, workers int, window time.Duration) (err error) {
	s, err := e.newSite(ctx, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	settle := 20 * time.Second // after what it takes to start
	if e.Quick {
		settle = time.Second
	}
	if err := pause(ctx, settle); err != nil {
		return err
	}
	return e.load(ctx, s, window, nil)
}

// load measures what the processes of each tier take in a time in which nothing is asked
// of them; more are further parameters of the rows.
func (e *env) load(ctx context.Context, s *site, window time.Duration, more map[string]any) error {
	st, err := s.Stats()
	if err != nil {
		return err
	}
	tiers := map[string][]string{"root": {"root"}, "cluster": {"edge"}, "worker": s.workers}
	before := map[string]use{}
	for _, hosts := range tiers {
		for _, h := range hosts {
			if before[h], err = s.used(h); err != nil {
				return err
			}
		}
	}
	if err := pause(ctx, window); err != nil {
		return err
	}
	from := len(e.rows)
	for _, tier := range []string{"root", "cluster", "worker"} {
		var sum use
		for _, h := range tiers[tier] {
			u, err := s.used(h)
			if err != nil {
				return err
			}
			sum.cpu += u.cpu - before[h].cpu
			sum.pss += u.pss
		}
		n := float64(len(tiers[tier]))
		p := map[string]any{"tier": tier, "workers": len(s.workers)}
		maps.Copy(p, more)
		e.row(Row{Params: p, Metric: "cpu", Unit: "ms/min", Measured: lab.Milliseconds(sum.cpu) * float64(time.Minute) / float64(window) / n})
		e.row(Row{Params: p, Metric: "memory", Unit: "MB PSS", Measured: sum.pss / n})
	}
	end, err := s.Stats()
	if err != nil {
		return err
	}
	late := end.Late.Since(st.Late)
	e.measured(from, lab.Accuracy{LateP50: late.Percentile(0.5), LateP99: late.Percentile(0.99), Packets: late.Count, RealTime: end.RealTime})
	return nil
}
