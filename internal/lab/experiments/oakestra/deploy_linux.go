package oakestra

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/verge-edge/verge/internal/lab"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments/bed"
)

// Deploy is the experiment oakestra-deploy.
var Deploy = experiment.Experiment{
	Name: "oakestra-deploy", Source: "Oakestra fig. 5a, 7", Emulated: true,
	Shows: "time from apply to all instances ready, one for each worker, by the number of workers, the delay and the loss between cluster and workers",
	Lab:   runDeploy,
	Plot:  &experiment.Plot{X: "delay_ms", Series: "loss", Metric: "deploy_time", Title: "deploy time, ms, by the delay between cluster and workers"},
}

func deployCases(quick bool) (out []deployCase) {
	if quick {
		return []deployCase{{2, 0, 0}, {2, mostDelay, 0}, {2, 0, 0.2}}
	}
	for n := 2; n <= 10; n += 2 {
		out = append(out, deployCase{n, 0, 0})
	}
	for _, ms := range []int{50, 100, 150, 200, 250} {
		out = append(out, deployCase{4, time.Duration(ms) * time.Millisecond, 0})
	}
	return append(out, deployCase{4, 0, 0.2}, deployCase{4, 0, 0.5}, deployCase{4, mostDelay, 0.2})
}

func runDeploy(ctx context.Context, e *experiment.Env) error {
	var s *bed.Site
	defer func() {
		if s != nil {
			if err := s.Down(); err != nil {
				e.Say("%v", err)
			}
		}
	}()
	var all []deployed
	var worst lab.Accuracy
	for _, c := range deployCases(e.Quick) {
		if s == nil || len(s.Workers) != c.workers {
			if s != nil {
				if err := s.Down(); err != nil {
					return err
				}
			}
			var err error
			if s, err = bed.NewSite(ctx, e, c.workers); err != nil {
				return err
			}
		}
		took, a, err := deployOften(ctx, e, s, c)
		if err != nil {
			return err
		}
		all = append(all, deployed{c, took})
		if worst.Pings == 0 || a.ErrorP99 > worst.ErrorP99 {
			worst = a
		}
	}
	from := len(e.Rows)
	deployRatios(e, all)
	e.Measured(from, worst)
	return nil
}

// deployOften deploys a few times under the same conditions, and returns the shortest time,
// which other work of the machine delays least, and the emulator's error at its worst.
func deployOften(ctx context.Context, e *experiment.Env, s *bed.Site, c deployCase) (_ time.Duration, worst lab.Accuracy, err error) {
	times, timeout := 5, 3*time.Minute
	if e.Quick {
		times = 1
	}
	var took []time.Duration
	late := 0
	for range times {
		if err := s.Links(time.Millisecond+c.delay, c.loss); err != nil {
			return 0, worst, err
		}
		meter, err := s.Measure(s.Pairs())
		if err != nil {
			return 0, worst, err
		}
		d, done, err := s.Deploy(ctx, c.workers, timeout)
		a, merr := meter.Stop()
		if err := errors.Join(err, merr); err != nil {
			return 0, worst, err
		}
		if worst.Pings == 0 || a.ErrorP99 > worst.ErrorP99 {
			worst = a
		}
		if !done {
			late++
		}
		took = append(took, d)
		// What comes between is not measured: the links are well meanwhile.
		if err := s.Links(time.Millisecond, 0); err != nil {
			return 0, worst, err
		}
		if err := s.Remove(ctx, time.Minute); err != nil {
			return 0, worst, err
		}
	}
	slices.Sort(took)
	params := map[string]any{"workers": c.workers, "delay_ms": float64(c.delay.Milliseconds()), "loss": c.loss}
	from := len(e.Rows)
	e.Row(experiment.Row{Params: params, Metric: "deploy_time", Unit: "ms", Measured: lab.Milliseconds(took[len(took)/2])})
	e.Row(experiment.Row{Params: params, Metric: "deploy_time_max", Unit: "ms", Measured: lab.Milliseconds(took[len(took)-1])})
	r := e.Row(experiment.Row{Params: params, Metric: "deployed_share", Unit: "1", Measured: 1 - float64(late)/float64(times)})
	if late > 0 && c.loss <= 0.2 {
		r.Short = fmt.Sprintf("%d of %d deployments were not done after %v", late, times, timeout)
	}
	e.Measured(from, worst)
	return took[0], worst, nil
}
