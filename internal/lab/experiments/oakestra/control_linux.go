package oakestra

import (
	"context"
	"errors"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/emul"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// Control is the experiment oakestra-control.
var Control = experiment.Experiment{
	Name: "oakestra-control", Source: "Oakestra fig. 11", Emulated: true,
	Shows: "control messages between a cluster and each worker, idle and deploying, counted on the emulated links: packets that carry something, and all bytes",
	Lab:   runControl,
	Plot:  &experiment.Plot{X: "workers", Series: "phase", Metric: "messages", Title: "control messages per worker: in a minute idle, per instance deployed"},
}

func runControl(ctx context.Context, e *experiment.Env) error {
	sizes, idle := []int{2, 6, 10}, time.Minute
	if e.Quick {
		sizes, idle = []int{2}, 4*time.Second
	}
	for _, n := range sizes {
		if err := control(ctx, e, n, idle); err != nil {
			return err
		}
	}
	return nil
}

func control(ctx context.Context, e *experiment.Env, workers int, idle time.Duration) (err error) {
	s, err := bed.NewSite(ctx, e, workers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Down()) }()
	// Who has just joined says more than who is idle.
	settle := 10 * time.Second
	if e.Quick {
		settle = time.Second
	}
	if err := experiment.Pause(ctx, settle); err != nil {
		return err
	}
	count := func() (c emul.Count, err error) {
		st, err := s.Stats()
		return s.Between(st, []string{"edge"}, s.Workers).Add(s.Between(st, s.Workers, []string{"edge"})), err
	}
	before, err := count()
	if err != nil {
		return err
	}
	// A meter's pings would count as messages: the error is that of the packets
	// themselves.
	st, err := s.Stats()
	if err != nil {
		return err
	}
	if err := experiment.Pause(ctx, idle); err != nil {
		return err
	}
	quiet, err := count()
	if err != nil {
		return err
	}
	if _, _, err := s.Deploy(ctx, workers, time.Minute); err != nil {
		return err
	}
	busy, err := count()
	if err != nil {
		return err
	}
	end, err := s.Stats()
	if err != nil {
		return err
	}
	from := len(e.Rows)
	controlRows(e, workers, idle, traffic{before, quiet}, traffic{quiet, busy})
	e.Measured(from, lab.Lateness(st, end))
	return nil
}
