package cli

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) caCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ca", Short: "Show and replace the certificate authority", Args: cobra.ArbitraryArgs,
		RunE: group}
	cmd.AddCommand(a.caStatus(), a.caRotate())
	return cmd
}

func (a *app) caStatus() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "status", Short: "Show who trusts which authority, and when certificates expire", Args: noArgs,
		Long: `Show the root's authority and who trusts it: clusters at the root, workers at
their cluster.`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.withClient(func(c *client.Client) error {
				v, err := c.System.CA(cmd.Context())
				if err != nil {
					return err
				}
				return a.ca(v, mode)
			})
		},
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml")
	return cmd
}

func (a *app) caRotate() *cobra.Command {
	mode, finish, abort, force := "", false, false, false
	cmd := &cobra.Command{
		Use:   "rotate [--finish [--force] | --abort]",
		Short: "Replace the root's authority, without interrupting anything",
		Long: `Replace the root's authority, without interrupting anything.

The first step makes a second authority. From then on every new certificate leads
to both, and every node learns to trust both; verge ca status shows which do.
Meanwhile, distribute the new context files of the root and of each cluster. The
last step, --finish, retires the old authority and its key. A node that trusts only
the old one is then locked out and has to join again, so --finish is refused until
all nodes follow; --force overrides.

Before the last step, --abort goes back; nothing is lost.`,
		Example: "  verge ca rotate\n  verge ca status\n  verge ca rotate --finish",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q := apiv1.CARotateRequest{Step: "start", Force: force}
			switch {
			case finish && abort:
				return usageError(cmd, "give --finish or --abort, not both")
			case finish:
				q.Step = "finish"
			case abort:
				q.Step = "abort"
			}
			if force && !finish {
				return usageError(cmd, "--force goes with --finish")
			}
			return a.withClient(func(c *client.Client) error {
				v, err := c.System.RotateCA(cmd.Context(), q)
				if err != nil {
					return err
				}
				if err := a.ca(v, mode); err != nil {
					return err
				}
				switch q.Step {
				case "start":
					a.notef("next: when verge ca status says that all nodes follow, verge ca rotate --finish")
				case "finish":
					a.notef("context files from before the rotation no longer work: use those that root and clusters " +
						"have written")
				}
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&finish, "finish", false, "retire the old authority")
	cmd.Flags().BoolVar(&abort, "abort", false, "drop the new authority")
	cmd.Flags().BoolVar(&force, "force", false, "with --finish: also if nodes are locked out")
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml")
	return cmd
}

// ca prints who trusts what.
func (a *app) ca(v apiv1.CAView, mode string) error {
	if mode == "json" || mode == "yaml" {
		return a.encode(mode, v)
	}
	day := func(t time.Time) cell {
		if t.IsZero() {
			return text("")
		}
		left := t.Sub(a.opts.Now())
		c := textf("%s (%s)", t.In(a.opts.Now().Location()).Format(time.DateOnly), age(left))
		if left <= 0 {
			return cell{t.In(a.opts.Now().Location()).Format(time.DateOnly) + " (expired)", red}
		}
		return c
	}
	rows := make([][]cell, 0, len(v.Authorities))
	for n, x := range v.Authorities {
		role := "current"
		if n > 0 {
			role = "next"
		}
		rows = append(rows, []cell{text(x.ID), text(role),
			text(x.Made.In(a.opts.Now().Location()).Format(time.DateOnly)), day(x.Expires)})
	}
	if err := a.table([]string{"AUTHORITY", "ROLE", "MADE", "EXPIRES"}, rows); err != nil {
		return err
	}
	if err := a.section("Who trusts it (as each reported itself)"); err != nil {
		return err
	}
	rows = [][]cell{{text("this server"), text("yes"), day(v.Server), text("")}}
	for _, m := range v.Members {
		trust, note := text("yes"), ""
		if !m.Current {
			trust = cell{"not yet", yellow}
			if !v.Rotating {
				trust = cell{"no", red}
			}
		}
		if m.Behind > 0 {
			note = wire.Count(m.Behind, "worker") + " behind"
		}
		if m.Away {
			if note != "" {
				note += ", "
			}
			note += "away"
		}
		rows = append(rows, []cell{text(clean(m.Name)), trust, day(m.Expires), text(note)})
	}
	if err := a.table([]string{"NODE", "TRUSTS", "EXPIRES", "NOTE"}, rows); err != nil {
		return err
	}
	switch {
	case v.Rotating && len(v.Behind) == 0:
		return a.printf("\nThe authority is being rotated, and all nodes follow.")
	case v.Rotating:
		if err := a.section("The authority is being rotated; these do not follow yet"); err != nil {
			return err
		}
		for _, b := range v.Behind {
			if err := a.printf("%s", clean(b)); err != nil {
				return err
			}
		}
	}
	return nil
}
