package oakestra

import (
	"context"
	"errors"
	"maps"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// Idle is the experiment oakestra-idle.
var Idle = experiment.Experiment{
	Name: "oakestra-idle", Source: "Oakestra fig. 5b", Emulated: true,
	Shows: "processor time and memory of an idle worker (agent and engine), cluster and root, by the number of workers",
	Lab:   runIdle,
	Plot:  &experiment.Plot{X: "workers", Series: "tier", Metric: "cpu", Title: "processor time in a minute, ms"},
}

func runIdle(ctx context.Context, e *experiment.Env) error {
	sizes, window := []int{2, 6, 10}, time.Minute
	if e.Quick {
		sizes, window = []int{2}, 4*time.Second
	}
	for _, n := range sizes {
		if err := idle(ctx, e, n, window); err != nil {
			return err
		}
	}
	return nil
}

func idle(ctx context.Context, e *experiment.Env, workers int, window time.Duration) (err error) {
	s, err := bed.NewSite(ctx, e, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	settle := 20 * time.Second // after what it takes to start
	if e.Quick {
		settle = time.Second
	}
	if err := experiment.Pause(ctx, settle); err != nil {
		return err
	}
	return load(ctx, e, s, window, nil, idleMost)
}

// load measures what the processes of each tier take in a time in which nothing is asked
// of them; more are further parameters of the rows, and most says what a tier may take.
func load(ctx context.Context, e *experiment.Env, s *bed.Site, window time.Duration, more map[string]any,
	most func(tier string, workers int) (use, string)) error {
	st, err := s.Stats()
	if err != nil {
		return err
	}
	tiers := map[string][]string{tierRoot: {"root"}, tierCluster: {"edge"}, tierWorker: s.Workers}
	before := map[string]bed.Use{}
	for _, hosts := range tiers {
		for _, h := range hosts {
			if before[h], err = s.Used(h); err != nil {
				return err
			}
		}
	}
	if err := experiment.Pause(ctx, window); err != nil {
		return err
	}
	from := len(e.Rows)
	for _, tier := range []string{tierRoot, tierCluster, tierWorker} {
		var sum bed.Use
		for _, h := range tiers[tier] {
			u, err := s.Used(h)
			if err != nil {
				return err
			}
			sum.Cpu += u.Cpu - before[h].Cpu
			sum.Pss += u.Pss
		}
		n := float64(len(tiers[tier]))
		p := map[string]any{"tier": tier, "workers": len(s.Workers)}
		maps.Copy(p, more)
		limit, source := most(tier, len(s.Workers))
		useRows(e, p, use{lab.Milliseconds(sum.Cpu) * float64(time.Minute) / float64(window) / n, sum.Pss / n}, limit, source)
	}
	end, err := s.Stats()
	if err != nil {
		return err
	}
	e.Measured(from, lab.Lateness(st, end))
	return nil
}
