package experiments

import (
	"context"
	"errors"

	"github.com/verge-edge/verge/internal/lab"
)

// played makes a fleet of hosts and calls do with it.
func (e *env) played(ctx context.Context, hosts []string, do func(*fleet) error) (err error) {
	file := lab.File{Hosts: map[string]lab.Host{}}
	for _, h := range hosts {
		file.Hosts[h] = lab.Host{}
	}
	f, err := e.fleet(ctx, file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	return do(f)
}

// together plays a scene by several policies at the same time. It returns also what
// comes of it in virtual time, and how exact the links were. All scenes of a fleet have
// the same links.
func (f *fleet) together(ctx context.Context, s scene, policies []string) (real, virtual map[string]outcome, acc lab.Accuracy, err error) {
	if !f.linked {
		if err = f.links(s.rtt, s.rate); err != nil {
			return nil, nil, acc, err
		}
		f.linked = true
	}
	meter, err := f.Measure(f.pairs())
	if err != nil {
		return nil, nil, acc, err
	}
	scenes := make([]scene, len(policies))
	for i, policy := range policies {
		scenes[i] = s.named(policy)
	}
	stats, err := f.playAll(ctx, scenes)
	acc, merr := meter.Stop()
	if err := errors.Join(err, merr); err != nil {
		return nil, nil, acc, err
	}
	real, virtual = map[string]outcome{}, map[string]outcome{}
	for i, policy := range policies {
		st, err := scenes[i].virtually()
		if err != nil {
			return nil, nil, acc, err
		}
		real[policy], virtual[policy] = s.outcome(stats[i]), s.outcome(st)
	}
	return real, virtual, acc, nil
}

// beside adds the rows of the mean and the 99th percentile of real requests, with those
// of virtual time as what is expected.
func (e *env) beside(params map[string]any, real, virtual outcome) {
	e.row(Row{Params: params, Metric: "mean", Unit: "ms", Expected: known(rounded(virtual.mean)), Measured: rounded(real.mean)})
	e.row(Row{Params: params, Metric: "p99", Unit: "ms", Expected: known(rounded(virtual.p99)), Measured: rounded(real.p99)})
}
