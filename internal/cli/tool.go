package cli

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"
)

// Tool is what commands of a program beside verge, like verge-lab, have of this one: they
// print and fail as its own do.
type Tool struct{ app *app }

// RunTool is Main for such a program: build makes its command with all below it.
func RunTool(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer, o Options,
	build func(Tool) *cobra.Command) int {
	a := newApp(stdin, stdout, stderr, o)
	cmd := build(Tool{a})
	cmd.SilenceErrors, cmd.SilenceUsage, cmd.Version = true, true, a.opts.Version
	cmd.CompletionOptions.DisableDefaultCmd = true // shells complete verge
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return UsageError(cmd, "%v", err) })
	return a.execute(ctx, cmd, args)
}

// Stdout is where results go.
func (t Tool) Stdout() io.Writer { return t.app.out }

// Stderr is where everything else goes.
func (t Tool) Stderr() io.Writer { return t.app.err }

// Getenv reads the environment.
func (t Tool) Getenv(name string) string { return t.app.opts.Getenv(name) }

// Printf writes a line to standard output.
func (t Tool) Printf(format string, args ...any) error { return t.app.printf(format, args...) }

// Print prints a sheet in the mode of OutputFlag.
func (t Tool) Print(mode string, s Sheet) error { return t.app.sheet(mode, s) }

// Error is an error for people: what failed, why, and the next step; "" leaves one out.
func Error(what, why, next string) error { return &userError{what: what, why: why, next: next} }

// UsageError is an error of how a command was written.
func UsageError(cmd *cobra.Command, format string, args ...any) error {
	return usageError(cmd, format, args...)
}

// OneArg wants exactly one argument, and says what belongs there.
func OneArg(what string) cobra.PositionalArgs { return oneArg(what) }

// NoArgs wants no arguments.
func NoArgs(cmd *cobra.Command, args []string) error { return noArgs(cmd, args) }

// Group is the RunE of a command that only has subcommands.
func Group(cmd *cobra.Command, args []string) error { return group(cmd, args) }

// OutputFlag adds -o; its default is the first mode.
func OutputFlag(cmd *cobra.Command, mode *string, modes ...string) { outputFlag(cmd, mode, modes...) }

// Sheet is what can be shown as a table, and is encoded as JSON or YAML.
type Sheet interface {
	Table() (head []string, rows [][]string)
}

// sheet prints s.
func (a *app) sheet(mode string, s Sheet) error {
	head, rows := s.Table()
	switch mode {
	case "json", "yaml":
		return a.encode(mode, s)
	case "csv":
		w := csv.NewWriter(a.out)
		if err := errors.Join(w.Write(head), w.WriteAll(rows)); err != nil {
			return fmt.Errorf("write to standard output: %w", err)
		}
		return nil
	}
	cells := make([][]cell, len(rows))
	for i, r := range rows {
		for _, c := range r {
			cells[i] = append(cells[i], text(c))
		}
	}
	if err := a.table(head, cells); err != nil {
		return err
	}
	if n, ok := s.(interface{ Note() string }); ok {
		a.notef("%s", n.Note())
	}
	return nil
}
