package bed

import (
	"context"
	"errors"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
)

// Played makes a fleet of hosts and calls do with it.
func Played(ctx context.Context, e *experiment.Env, hosts []string, do func(*Fleet) error) (err error) {
	file := lab.File{Hosts: map[string]lab.Host{}}
	for _, h := range hosts {
		file.Hosts[h] = lab.Host{}
	}
	f, err := newFleet(ctx, e, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	return do(f)
}

// Together plays a scene by several policies at the same time. It returns also what
// comes of it in virtual time, and how exact the links were. All scenes of a fleet have
// the same links.
func (f *Fleet) Together(ctx context.Context, s Scene, policies []string) (real, virtual map[string]experiment.Outcome, acc lab.Accuracy, err error) {
	if !f.linked {
		if err = f.links(s.Rtt, s.Rate); err != nil {
			return nil, nil, acc, err
		}
		f.linked = true
	}
	meter, err := f.Measure(f.pairs())
	if err != nil {
		return nil, nil, acc, err
	}
	scenes := make([]Scene, len(policies))
	for i, policy := range policies {
		scenes[i] = s.named(policy)
	}
	stats, err := f.playAll(ctx, scenes)
	acc, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return nil, nil, acc, err
	}
	real, virtual = map[string]experiment.Outcome{}, map[string]experiment.Outcome{}
	for i, policy := range policies {
		st, err := scenes[i].virtually()
		if err != nil {
			return nil, nil, acc, err
		}
		real[policy], virtual[policy] = s.outcome(stats[i]), s.outcome(st)
	}
	return real, virtual, acc, nil
}

// Beside adds the rows of the mean and the 99th percentile of real requests, with those
// of virtual time as what is expected.
func Beside(e *experiment.Env, params map[string]any, real, virtual experiment.Outcome) {
	e.Row(experiment.Row{Params: params, Metric: "mean", Unit: "ms", Expected: experiment.Known(experiment.Rounded(virtual.Mean)), Measured: experiment.Rounded(real.Mean)})
	e.Row(experiment.Row{Params: params, Metric: "p99", Unit: "ms", Expected: experiment.Known(experiment.Rounded(virtual.P99)), Measured: experiment.Rounded(real.P99)})
}
