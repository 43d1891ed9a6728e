package labcmd

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/cli"
)

// Sim are the experiments in virtual time; see verge sim. It needs nothing
// of the machine.
type Sim struct {
	// List of the experiments; Run runs some, as Lab.Run does.
	List func() cli.Sheet
	Run  func(ctx context.Context, say io.Writer, r Run) (rows cli.Sheet, short error, err error)
	// Place asks schedulers, none: all, to place what a file or one of the embedded data
	// describes.
	Place func(ctx context.Context, file string, schedulers []string, seed uint64) (cli.Sheet, error)
}

func (t *tool) simCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "verge-lab-sim", Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: "verge sim"},
		Short: "Run experiments in virtual time",
		Long: `Run experiments in virtual time: the decisions are those of the running system; clocks,
networks and work are simulated. It runs on any system and needs no rights. verge lab
runs experiments with real requests; some have both forms.`,
		Args: cobra.ArbitraryArgs, RunE: cli.Group,
	}
	cmd.AddCommand(
		t.experimentList("List the experiments, and which of them verge lab has too",
			func() (cli.Sheet, error) { return t.sim.List(), nil }),
		t.experimentRun("sim", "mu-lb", "study-lb", func(ctx context.Context, r Run) (cli.Sheet, error, error) {
			return t.sim.Run(ctx, t.Stderr(), r)
		}),
		t.simPlace(),
	)
	return cmd
}

func (t *tool) simPlace() *cobra.Command {
	mode, seed := "", uint64(1)
	var schedulers []string
	cmd := &cobra.Command{
		Use: "place FILE", Short: "Compare schedulers on an infrastructure",
		Long: `Run the same workload through each scheduler and compare the results. A file describes
the infrastructure and the services; continuum, openb and planetlab are built in.
Nothing is deployed.`,
		Example: "  verge sim place continuum\n  verge sim place sites.yaml --scheduler rom,spread -o json",
		Args:    cli.OneArg("the file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := t.sim.Place(cmd.Context(), args[0], schedulers, seed)
			if err != nil {
				return err
			}
			return t.Print(mode, s)
		},
	}
	cmd.Flags().StringSliceVar(&schedulers, "scheduler", nil, "only these (default: all)")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of all random draws")
	cli.OutputFlag(cmd, &mode, "table", "json", "csv")
	return cmd
}
