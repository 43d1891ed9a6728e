package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/rest"
)

func (a *app) removeCommand() *cobra.Command {
	force := false
	cmd := &cobra.Command{
		Use:   "remove worker/NAME | cluster/NAME",
		Short: "Take a worker or a cluster out for good",
		Long: `Take a worker or a cluster out for good: it is forgotten, its certificate and
its credentials do not count any more, its connection is closed, and its name is
free. A worker is removed at its cluster (with a context of it), a cluster at the
root. To come back, it joins with a new token.

It is refused where something runs there, or may be given to it at any moment:
drain it first. With --force what it runs is placed elsewhere; when the node
hears of it, it ends what it still runs.`,
		Example: "  verge remove worker/w1\n  verge remove cluster/edge --force",
		Args:    oneOrTwoArgs("worker/NAME or cluster/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.outOfUse(cmd.Context(), args, func(ctx context.Context, c *rest.Client, t target) error {
				if err := t.remove(ctx, c, force); err != nil {
					return err
				}
				return a.printf("%s removed", t)
			})
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "also where something runs there")
	return cmd
}

func (a *app) revokeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "revoke worker/NAME | cluster/NAME | plugin/NAME",
		Short: "Make a stolen key of a worker, a cluster or a scheduler plugin count no more",
		Long: `Make the key of a worker or a cluster count no more, because somebody else may
have it. Its connection is closed at once, and no worker talks to it any more.

The worker or cluster itself stays: it joins again with a new token, under its
name and with another key, and what runs there is its own again. Until then it is
away, and what it ran is placed elsewhere as after any loss.

Of a scheduler plugin on the bus (asked of its cluster) the keys of all processes
that joined as it count no more.`,
		Example: "  verge revoke worker/w1",
		Args:    oneOrTwoArgs("worker/NAME or cluster/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name, ok := strings.CutPrefix(args[0], "plugin/"); ok && name != "" && len(args) == 1 {
				return a.revokePlugin(cmd.Context(), name)
			}
			return a.outOfUse(cmd.Context(), args, func(ctx context.Context, c *rest.Client, t target) error {
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

func (t target) remove(ctx context.Context, c *rest.Client, force bool) error {
	if t.worker == "" {
		return c.RemoveCluster(ctx, t.cluster, force)
	}
	return c.RemoveWorker(ctx, t.cluster, t.worker, force)
}

func (t target) revoke(ctx context.Context, c *rest.Client) error {
	if t.worker == "" {
		return c.RevokeCluster(ctx, t.cluster)
	}
	return c.RevokeWorker(ctx, t.cluster, t.worker)
}
