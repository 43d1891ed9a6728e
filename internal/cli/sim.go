package cli

import (
	"context"

	"github.com/spf13/cobra"
)

// Sim are the experiments in virtual time; see verge sim. It is never nil in the
// program: it needs nothing of the machine.
type Sim struct {
	// List of the experiments; Run runs some, as Lab.Run does.
	List func() Sheet
	Run  func(ctx context.Context, p LabProcess, r LabRun) (rows Sheet, short error, err error)
	// Place asks schedulers, none: all, to place what a file or one of the embedded data
	// describes.
	Place func(ctx context.Context, file string, schedulers []string, seed uint64) (Sheet, error)
	// Plot draws panels over the same time, whose unit has so many steps, as SVG.
	Plot func(unit string, steps float64, panels ...PlotPanel) string
}

func (a *app) simCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "sim", Short: "Experiments in virtual time, for what one machine cannot hold",
		Long: `Experiments in virtual time: the decisions are those of the running system, only
clocks, networks and work are imagined. It runs on any system and needs no rights.
verge lab runs experiments with real requests; some have both forms.`,
		Args: cobra.ArbitraryArgs, RunE: group,
	}
	cmd.AddCommand(
		a.experimentList("List the experiments in virtual time, and which of them verge lab has too", func() (Sheet, error) { return a.opts.Sim.List(), nil }),
		a.experimentRun("sim", "mu-lb", "study-lb", func(ctx context.Context, r LabRun) (Sheet, error, error) {
			return a.opts.Sim.Run(ctx, a.labProcess(), r)
		}),
		a.simPlace(),
	)
	return cmd
}

func (a *app) simPlace() *cobra.Command {
	mode, seed := "", uint64(1)
	var schedulers []string
	cmd := &cobra.Command{
		Use: "place FILE", Short: "Ask every scheduler to place services on an infrastructure, and compare",
		Long: `Ask every scheduler to place services on an infrastructure that a file describes, and
compare what comes of it. Instead of a file one of the embedded data can be named:
continuum, openb or planetlab. Nothing is deployed.`,
		Example: "  verge sim place continuum\n  verge sim place sites.yaml --scheduler rom,spread -o json", Args: oneArg("the file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := a.opts.Sim.Place(cmd.Context(), args[0], schedulers, seed)
			if err != nil {
				return err
			}
			return a.sheet(mode, s)
		},
	}
	cmd.Flags().StringSliceVar(&schedulers, "scheduler", nil, "only these (default: all)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "of everything that is drawn by chance")
	outputFlag(cmd, &mode, "table", "json", "csv")
	return cmd
}
