package labcmd

import (
	"context"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/cli"
)

// tool is one run of the command line.
type tool struct {
	cli.Tool
	lab *Lab
	sim *Sim
}

// Main runs the command line args (without the program's name) and returns the exit code.
func Main(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, version string) int {
	o := cli.Options{Version: version, Getenv: os.Getenv}
	return runMain(ctx, args, stdin, stdout, stderr, o, testBed(os.Getenv), virtualTime())
}

func runMain(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, o cli.Options, l *Lab,
	s *Sim) int {
	// verge sim starts this program, too.
	if len(args) > 0 && args[0] == "sim" {
		return cli.RunTool(ctx, args[1:], stdin, stdout, stderr, o,
			func(t cli.Tool) *cobra.Command { return (&tool{t, l, s}).simCommand() })
	}
	return cli.RunTool(ctx, args, stdin, stdout, stderr, o,
		func(t cli.Tool) *cobra.Command { return (&tool{t, l, s}).labCommand() })
}

// Commands are the trees of commands, for whoever writes a manual of them.
func Commands() []*cobra.Command {
	t := &tool{}
	return []*cobra.Command{t.labCommand(), t.simCommand()}
}
