package labcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/verge-edge/verge/internal/cli"
	"github.com/verge-edge/verge/internal/lab/experiment"
	"github.com/verge-edge/verge/internal/lab/experiments"
	"github.com/verge-edge/verge/internal/lab/experiments/promises"
	"github.com/verge-edge/verge/internal/obs"
)

// virtualTime are the experiments in virtual time, which run on any system.
func virtualTime() *Sim {
	return &Sim{
		List: func() cli.Sheet { return experiments.Virtual() },
		Run: func(ctx context.Context, say io.Writer, r Run) (cli.Sheet, error, error) {
			var todo []experiment.Experiment
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
			return runExperiments(ctx, todo, r, experiment.Options{Say: sayTo(say)})
		},
		Place: func(ctx context.Context, file string, schedulers []string, seed uint64) (cli.Sheet, error) {
			return promises.Place(ctx, file, schedulers, seed)
		},
	}
}

// runExperiments one after the other; short names the requirements that were not met, and the
// experiments that failed, which stop none of those after them.
func runExperiments(ctx context.Context, todo []experiment.Experiment, r Run, o experiment.Options) (_ cli.Sheet, short,
	err error) {
	o.Quick, o.Seed = r.Quick, r.Seed
	rows := experiment.Rows{}
	for _, x := range todo {
		record := experiment.Begin(o, obs.Version())
		got, missed, failed := x.Run(ctx, o)
		if ctx.Err() != nil {
			return nil, nil, cmp.Or(failed, ctx.Err())
		}
		record.End(failed)
		if r.Dir != "" {
			if err := errors.Join(x.Save(r.Dir, got), x.SaveRecord(r.Dir, record)); err != nil {
				return nil, nil, err
			}
		}
		rows, short = append(rows, got...), errors.Join(short, missed, failed)
	}
	return rows, short, nil
}

func sayTo(w io.Writer) func(string, ...any) {
	return func(format string, args ...any) {
		_, _ = fmt.Fprintf(w, format+"\n", args...) // nobody is left to be told
	}
}
