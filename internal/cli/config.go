package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"

	"github.com/verge-edge/verge/internal/cli/daemonflags"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show how a daemon is configured", RunE: group,
		Args: cobra.ArbitraryArgs}
	printing := &cobra.Command{Use: "print",
		Short: "Print the settings a daemon would start with, and where each comes from", RunE: group,
		Args: cobra.ArbitraryArgs}
	for _, s := range a.daemonLine().Settings() {
		printing.AddCommand(configPrint(a, s))
	}
	cmd.AddCommand(printing)
	return cmd
}

// setting is one line of what config print says.
type setting struct {
	Name  string `json:"name"`
	Value any    `json:"value"`
	// From is "default", "command line", a variable or FILE:LINE.
	From string `json:"from"`
}

// daemonLine is the command line of daemons.
func (a *app) daemonLine() *daemonflags.Line {
	return &daemonflags.Line{Version: a.opts.Version, Stdin: a.in, Stdout: a.out, Stderr: a.err, Getenv: a.opts.Getenv,
		ConfigDir: a.opts.ConfigDir, Usage: usageError}
}

func (a *app) daemonCommands() []*cobra.Command {
	all, worker := a.daemonLine().Commands(a.opts.Daemons)
	worker.AddCommand(a.allowGatewayCommand(), a.denyGatewayCommand(), a.workerCleanCommand())
	return all
}

// configPrint takes the flags of a role and prints what comes of them.
func configPrint(a *app, r daemonflags.Settings) *cobra.Command {
	mode := ""
	r.Cmd.Short = "Print the settings of verge " + r.Cmd.Name()
	r.Cmd.RunE = func(*cobra.Command, []string) error {
		// Whether they make sense is checked after they have been printed.
		bad := r.Settle()
		var all []setting
		for _, f := range daemonflags.SortedFlags(r.Cmd) {
			from := r.Origin[f.Name]
			if from == "" {
				from = "default"
			}
			all = append(all, setting{f.Name, daemonflags.TextOf(f), from})
		}
		if err := a.printSettings(all, mode); err != nil {
			return err
		}
		return bad
	}
	outputFlag(r.Cmd, &mode, "yaml", "json")
	return r.Cmd
}

func (a *app) printSettings(all []setting, mode string) error {
	if mode == "json" {
		b, err := json.MarshalIndent(all, "", "  ")
		if err != nil {
			return fmt.Errorf("encode the settings: %w", err)
		}
		return a.printf("%s", b)
	}
	// In the form of a file, so that it can be the beginning of one.
	for _, s := range all {
		b, err := yaml.Marshal(map[string]any{s.Name: s.Value})
		if err != nil {
			return fmt.Errorf("encode %s: %w", s.Name, err)
		}
		if err := a.printf("# %s\n%s", s.From, b[:len(b)-1]); err != nil {
			return err
		}
	}
	return nil
}
