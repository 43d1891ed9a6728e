package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) recoveryCommand() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use:   "recovery",
		Short: "Show the recovery of a restored root or cluster",
		Long: `Show the recovery of a root or cluster that was restored from a backup, or whose data
directory was replaced by an older copy of itself, as by a snapshot of the machine. The
second needs no command: a cluster or worker that has seen a later state proves it when
it connects, and the recovery begins before anything is sent to it.

Such a root asks each cluster for its state before it sends it anything, and takes over
what it does not know. It decides nothing until all have answered or count as dead.
verge recovery finish CLUSTER continues without one; without a name it ends the
recovery: clusters that connect later get the state of the root.

A cluster asks its root first and then each of its workers, in the same way. So does a
role whose unreadable records were dropped (verge records).`,
		Example: "  verge recovery\n  verge recovery finish edge",
		Args:    cobra.ArbitraryArgs,
	}
	cmd.RunE = func(c *cobra.Command, args []string) error {
		if len(args) > 0 {
			return group(c, args)
		}
		return a.recovery(c.Context(), mode)
	}
	outputFlag(cmd, &mode, "table", "json", "yaml")
	cmd.AddCommand(&cobra.Command{
		Use:   "finish [CLUSTER|WORKER|root]",
		Short: "Continue without one of them, or end the recovery",
		Args:  cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = strings.TrimPrefix(strings.TrimPrefix(args[0], kindCluster+"/"), kindWorker+"/")
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if err := c.System.FinishRecovery(cmd.Context(), name); err != nil {
				return err
			}
			if name == "" {
				return a.printf("the recovery has ended")
			}
			return a.printf("%s is no longer asked", name)
		},
	})
	return cmd
}

func (a *app) recovery(ctx context.Context, mode string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	v, err := c.System.Recovery(ctx)
	if err != nil {
		return err
	}
	if mode == "json" || mode == "yaml" {
		return a.encode(mode, v)
	}
	if v.Restored.IsZero() {
		a.notef("no recovery is under way")
		return nil
	}
	d := &details{}
	switch {
	case len(v.Dropped) > 0:
		d.add("Dropped", strings.Join(v.Dropped, ", ")+" at "+a.moment(v.Restored))
	case v.Ahead != "":
		d.add("Cause", v.Why())
		d.add("Differs since", a.moment(v.Restored))
	default:
		d.add("Restored", a.moment(v.Restored))
		d.add("Backup of", a.moment(v.Made))
	}
	d.add("Decides", map[bool]string{true: "nothing yet: it is waiting for them", false: "as always"}[v.Holding])
	if err := d.print(a); err != nil {
		return err
	}
	if err := a.section("Asked"); err != nil {
		return err
	}
	rows := make([][]cell, len(v.Peers))
	for i, p := range v.Peers {
		said := cell{"not yet", yellow}
		if !p.Asked.IsZero() {
			said = text(a.since(p.Asked) + " ago")
		}
		rows[i] = []cell{text(p.Name), said, text(p.Problem)}
	}
	if err := a.table([]string{"NAME", "ANSWERED", "PROBLEM"}, rows); err != nil {
		return err
	}
	return a.recoveredTable(v.Applications)
}

func (a *app) recoveredTable(apps map[string]wire.Recovered) error {
	if len(apps) == 0 {
		return nil
	}
	if err := a.section("Recovered from clusters (their descriptors as written are lost: apply " +
		"them again)"); err != nil {
		return err
	}
	var rows [][]cell
	for _, name := range records.SortedKeys(apps) {
		rows = append(rows, []cell{text(name), text(strings.Join(apps[name].From, ",")),
			text(a.since(apps[name].At) + " ago")})
	}
	return a.table([]string{"APPLICATION", "FROM", "WHEN"}, rows)
}
