package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) cordonCommand() *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "cordon worker/NAME | cluster/NAME",
		Short: "Keep new instances away from a worker or cluster",
		Long: `Keep new instances away from a worker or cluster.

What runs there continues, and is updated and restarted there. Cordon a worker with
a context of its cluster, or of the root, which passes the command on if the cluster
was started with --share-details. Cordon a cluster with a context of the root.`,
		Example: "  verge cordon worker/w1 --reason 'disk is failing'\n  verge cordon cluster/edge",
		Args:    oneOrTwoArgs("worker/NAME or cluster/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.outOfUse(cmd.Context(), args, func(ctx context.Context, c *client.Client, t target) error {
				if _, err := t.cordon(ctx, c, rpc.CordonRequest{Reason: reason}); err != nil {
					return err
				}
				return a.printf("%s cordoned", t)
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, shown to others")
	return cmd
}

func (a *app) uncordonCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "uncordon worker/NAME | cluster/NAME",
		Short: "Use a worker or cluster again, and cancel a drain of it",
		Long: `Use a worker or cluster again, and cancel a drain of it.

What has moved away by then stays where it is.`,
		Args: oneOrTwoArgs("worker/NAME or cluster/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.outOfUse(cmd.Context(), args, func(ctx context.Context, c *client.Client, t target) error {
				if err := t.uncordon(ctx, c); err != nil {
					return err
				}
				return a.printf("%s uncordoned", t)
			})
		},
	}
}

// target is a cluster, or a worker of it.
type target struct{ cluster, worker string }

// String is the target as people write it.
func (t target) String() string {
	if t.worker == "" {
		return "cluster/" + t.cluster
	}
	return "worker/" + t.cluster + "/" + t.worker
}

func (t target) cordon(ctx context.Context, c *client.Client, q rpc.CordonRequest) (wire.Cordon, error) {
	if t.worker == "" {
		return c.Clusters.Cordon(ctx, t.cluster, q)
	}
	return c.Workers.Cordon(ctx, t.cluster, t.worker, q)
}

func (t target) uncordon(ctx context.Context, c *client.Client) error {
	if t.worker == "" {
		return c.Clusters.Uncordon(ctx, t.cluster)
	}
	return c.Workers.Uncordon(ctx, t.cluster, t.worker)
}

// outOfUse does something to the worker or cluster that args name.
func (a *app) outOfUse(ctx context.Context, args []string,
	do func(context.Context, *client.Client, target) error) error {
	kind, name, err := ref(args)
	if err != nil {
		return err
	}
	if name == "" || kind != kindWorker && kind != kindCluster {
		return &userError{what: "not possible for this kind", why: strings.Join(args, " "),
			next: "write worker/NAME or cluster/NAME"}
	}
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if kind == kindCluster {
		return do(ctx, c, target{cluster: name})
	}
	v, err := findWorker(ctx, c, name)
	if err != nil {
		return err
	}
	return do(ctx, c, target{v.Cluster, v.Name})
}
