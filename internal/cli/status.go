package cli

import (
	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) statusCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "status", Short: "Show the tiers, how old what is known of them is, and what is wrong", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			v, err := c.Status(cmd.Context())
			if err != nil {
				return err
			}
			if mode == "json" || mode == "yaml" {
				return a.encode(mode, v)
			}
			return a.status(v, mode)
		},
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml")
	return cmd
}

func (a *app) status(v wire.StatusView, mode string) error {
	says := v.Role
	if v.Role != "root" {
		says = v.Role + "/" + v.Name
	}
	d := &details{}
	d.add("Says", says+", now")
	d.add("Name", v.Name)
	d.add("Version", v.Version)
	d.add("Up", age(v.Time.Sub(v.Started)))
	d.add("Root", v.Upstream)
	d.add("Counts", v.Tally.String())
	d.add("Since the root was lost", a.tallySince(v.SinceAway))
	if err := d.print(a); err != nil {
		return err
	}
	if len(v.Clusters) > 0 {
		if err := a.section("Clusters (each as it reported itself)"); err != nil {
			return err
		}
		if err := clusters().print(a, mode, v.Clusters, false); err != nil {
			return err
		}
	}
	if len(v.Workers) > 0 {
		if err := a.section("Workers (each as it reported itself)"); err != nil {
			return err
		}
		if err := workers().print(a, mode, v.Workers, false); err != nil {
			return err
		}
	}
	if len(v.Apps) > 0 {
		if err := a.section("Applications (by " + says + ")"); err != nil {
			return err
		}
		if err := a.applications().print(a, mode, v.Apps, false); err != nil {
			return err
		}
	}
	if err := a.tallies(v); err != nil {
		return err
	}
	if err := a.localSections(v.Local, v.Conflicts); err != nil {
		return err
	}
	if len(v.Problems) == 0 {
		return a.printf("\nNo problems.")
	}
	if err := a.section("Problems"); err != nil {
		return err
	}
	for _, p := range v.Problems {
		if err := a.printf("%s %s", a.paint(a.out, red, "!"), clean(p)); err != nil {
			return err
		}
	}
	return nil
}
