package daemon

import (
	"context"
	"errors"
	"fmt"

	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/lab/experiments"
)

// simCommands puts the experiments in virtual time behind the command line, on any
// system.
func simCommands() *cli.Sim {
	return &cli.Sim{
		List: func() cli.Sheet { return experiments.Virtual() },
		Run: func(ctx context.Context, p cli.LabProcess, r cli.LabRun) (cli.Sheet, error, error) {
			var todo []experiments.Experiment
			for _, name := range r.Names {
				x, err := experiments.Find(name)
				if err == nil {
					x, err = x.InVirtualTime()
				}
				if err != nil {
					return nil, nil, err
				}
				todo = append(todo, x)
			}
			return runExperiments(ctx, todo, r, experiments.Options{Say: labSay(p)})
		},
		Place: func(ctx context.Context, file string, schedulers []string, seed uint64) (cli.Sheet, error) {
			return experiments.Place(ctx, file, schedulers, seed)
		},
		Plot: func(unit string, steps float64, panels ...cli.PlotPanel) string {
			drawn := make([]experiments.Panel, len(panels))
			for i, p := range panels {
				drawn[i] = experiments.Panel(p)
			}
			return experiments.OverTime(unit, steps, drawn...)
		},
	}
}

// runExperiments one after the other; short names the requirements that were not met.
func runExperiments(ctx context.Context, todo []experiments.Experiment, r cli.LabRun, o experiments.Options) (_ cli.Sheet, short, err error) {
	o.Quick, o.Seed = r.Quick, r.Seed
	rows := experiments.Rows{}
	for _, x := range todo {
		got, missed, err := x.Run(ctx, o)
		if err == nil && r.Dir != "" {
			err = x.Save(r.Dir, got)
		}
		if err != nil {
			return nil, nil, err
		}
		rows, short = append(rows, got...), errors.Join(short, missed)
	}
	return rows, short, nil
}

func labSay(p cli.LabProcess) func(string, ...any) {
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(p.Stderr, format+"\n", args...) // nobody is left to be told
	}
}
