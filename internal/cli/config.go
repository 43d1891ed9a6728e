package cli

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v4"
)

func (a *app) configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Show how a daemon is configured", RunE: group, Args: cobra.ArbitraryArgs}
	printing := &cobra.Command{Use: "print", Short: "Print the settings a daemon would start with, and where each comes from", RunE: group, Args: cobra.ArbitraryArgs}
	printing.AddCommand(configPrint(a, a.rootRole), configPrint(a, a.clusterRole), configPrint(a, a.workerRole))
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

// configPrint takes the flags of a role and prints what comes of them.
func configPrint[F any](a *app, build func() *role[F]) *cobra.Command {
	r := build()
	mode := ""
	r.cmd.Short = "Print the settings of verge " + r.cmd.Name()
	r.cmd.RunE = func(*cobra.Command, []string) error {
		// Whether they make sense is said after they have been printed.
		bad := r.settle(a)
		var all []setting
		for _, f := range sortedFlags(r.cmd) {
			from := r.origin[f.Name]
			if from == "" {
				from = "default"
			}
			all = append(all, setting{f.Name, textOf(f), from})
		}
		if err := a.printSettings(all, mode); err != nil {
			return err
		}
		return bad
	}
	outputFlag(r.cmd, &mode, "yaml", "json")
	return r.cmd
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
