package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
)

func (a *app) removeCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "remove worker/NAME | cluster/NAME",
		Short: "Remove a worker or cluster for good",
		Long: `Remove a worker or cluster for good: its record goes, its certificate and credentials
are revoked, its connection is closed, and its name is free. Remove a worker with a
context of its cluster, a cluster with one of the root. To come back, it joins with
a new token.

This is refused while something runs there, or may be placed there: drain it first.
With --force its instances are placed elsewhere; when the node learns of it, it ends
what it still runs.`,
		Example: "  verge remove worker/w1\n  verge remove cluster/edge --force",
		Args:    oneOrTwoArgs("worker/NAME or cluster/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.outOfUse(cmd.Context(), args, func(ctx context.Context, c *client.Client, t target) error {
				if err := t.remove(ctx, c, force); err != nil {
					return err
				}
				return a.printf("%s removed", t)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "even if something runs there")
	return cmd
}

func (a *app) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke worker/NAME | cluster/NAME | plugin/NAME",
		Short: "Revoke the key of a worker, cluster or scheduler plugin",
		Long: `Revoke the key of a worker or cluster, because somebody else may have it. Its
connection is closed at once, and no worker talks to it any more.

The worker or cluster itself stays: it joins again with a new token, under its name
and with a new key, and what runs there is its own again. Until then it is away, and
its instances are placed elsewhere as after any loss.

For a scheduler plugin on the bus (with a context of its cluster) this revokes the
keys of all processes that joined as it.`,
		Example: "  verge revoke worker/w1",
		Args:    oneOrTwoArgs("worker/NAME or cluster/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name, ok := strings.CutPrefix(args[0], "plugin/"); ok && name != "" && len(args) == 1 {
				return a.revokePlugin(cmd.Context(), name)
			}
			return a.outOfUse(cmd.Context(), args, func(ctx context.Context, c *client.Client, t target) error {
				if err := t.revoke(ctx, c); err != nil {
					return err
				}
				next := "verge token create --worker"
				if t.worker == "" {
					next = "verge token create --cluster " + t.cluster
				}
				a.notef("to let it join again: %s, and start it with that token", next)
				return a.printf("the key of %s is revoked", t)
			})
		},
	}
}

func (t target) remove(ctx context.Context, c *client.Client, force bool) error {
	if t.worker == "" {
		return c.Clusters.Remove(ctx, t.cluster, force)
	}
	return c.Workers.Remove(ctx, t.cluster, t.worker, force)
}

func (t target) revoke(ctx context.Context, c *client.Client) error {
	if t.worker == "" {
		return c.Clusters.Revoke(ctx, t.cluster)
	}
	return c.Workers.Revoke(ctx, t.cluster, t.worker)
}
