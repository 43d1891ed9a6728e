package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) volumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "volume", Short: "Manage named volumes", Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Manage named volumes.

The contents of a named volume stay on its worker when the instance ends and when its
application is deleted. Verge never removes them by itself.`,
	}
	mode, unused := "", false
	ls := &cobra.Command{
		Use: "ls [worker/NAME]", Aliases: []string{"list"}, Short: "List named volumes, of all workers or of one",
		Args:    cobra.MaximumNArgs(1),
		Example: "  verge volume ls --unused\n  verge volume ls worker/w1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				list, err := a.volumes(cmd.Context(), c, strings.Join(args, ""), unused)
				return show(a, a.volumeColumns(), mode, "", false)(list, err)
			})
		},
	}
	ls.Flags().BoolVar(&unused, "unused", false, "only volumes without an instance")
	outputFlag(ls, &mode, "table", "wide", "json", "yaml", "name")
	rm := &cobra.Command{
		Use: "rm CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME…", Aliases: []string{"delete"},
		Short: "Remove unused named volumes with their contents",
		Long: `Remove unused named volumes with their contents, for good. One that an instance names
is refused. Use a context of the cluster, as its operator.`,
		Example: "  verge volume rm edge/w1/default/shop.db.0/data", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				for _, arg := range args {
					v, err := rpc.ParseVolumeID(strings.TrimPrefix(arg, "volume/"))
					if err != nil {
						return usageError(cmd, "%v; verge volume ls -o name lists them", err)
					}
					if err := c.Volumes.Remove(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef); err != nil {
						return err
					}
					if err := a.printf("volume/%s removed", v.ID()); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.AddCommand(ls, rm, a.volumeForget(), a.volumeMove(), a.volumeSnapshot(), a.volumeRestore())
	return cmd
}

func (a *app) volumeForget() *cobra.Command {
	q := apiv1.VolumeForgetRequest{}
	cmd := &cobra.Command{
		Use:   "forget CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME --confirm INSTANCE",
		Short: "Give up the volumes of an instance whose worker is gone for good",
		Long: `Give up all named volumes of an instance whose worker is gone for good. The instance
begins on another worker with empty ones (or with a snapshot: verge volume restore).
Repeat the id of the instance to confirm. To give up the whole worker, use verge remove
worker/NAME.

If the worker comes back after all, it ends what it runs of the instance and keeps the
data: verge volume ls lists it as not used, with the reason. The instance is not placed
there before somebody has removed it (verge volume rm).`,
		Example: "  verge volume forget edge/w1/default/shop.db.0/data --confirm shop.db.0",
		Args:    oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := rpc.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge get instances -o wide says what is where", err)
			}
			return a.withClient(func(c *client.Client) error {
				if err := c.Volumes.Forget(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef, q); err != nil {
					return err
				}
				return a.printf("%s begins elsewhere with empty volumes: verge describe instance/%s", v.Instance,
					v.Instance)
			})
		},
	}
	cmd.Flags().StringVar(&q.Confirm, "confirm", "", "id of the instance, to confirm")
	return cmd
}

func (a *app) volumeMove() *cobra.Command {
	to, cancel, noWait := "", false, false
	timeout := 10 * time.Minute
	cmd := &cobra.Command{
		Use:   "move CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME (--to WORKER | --cancel)",
		Short: "Move the named volumes of an instance to another worker",
		Long: `Move all named volumes of an instance to another worker of its cluster. The instance is
stopped by its stop rule. Its worker copies the volumes to the cluster's object store,
and the other worker copies them from there and compares its disk with what was packed.
Only then does the instance start there. Until then you can cancel: it continues where
it was, with its data. So it does if a step fails; workers that are away are waited for.

The former copy stays until somebody removes it (verge volume rm), and the copy in the
object store (verge object ls) until the next move. Use a context of the cluster, as its
operator.`,
		Example: "  verge volume move edge/w1/default/shop.db.0/data --to w2",
		Args:    oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := rpc.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge volume ls -o name lists them", err)
			}
			to = strings.TrimPrefix(strings.TrimPrefix(to, "worker/"), v.Cluster+"/")
			if (to == "") == !cancel {
				return usageError(cmd, "give one of --to WORKER and --cancel")
			}
			return a.withClient(func(c *client.Client) error {
				if cancel {
					if err := c.Volumes.Cancel(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef); err != nil {
						return err
					}
					return a.printf("%s continues on worker %s", v.Instance, v.Worker)
				}
				if err := c.Volumes.Move(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef,
					apiv1.VolumeMoveRequest{To: to}); err != nil {
					return err
				}
				if noWait {
					return a.printf("%s is being moved to worker %s: verge describe instance/%s", args[0], to,
						v.Instance)
				}
				ctx, done := context.WithTimeout(cmd.Context(), timeout)
				defer done()
				return a.awaitMove(ctx, c, v, to)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "the new worker, of the same cluster")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "cancel a move: the instance continues where it was")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once it has begun")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "wait at most this long; it continues after that")
	return cmd
}

// awaitVolume lets begin begin something with a volume, and waits until that is over.
func (a *app) awaitVolume(ctx context.Context, c *client.Client, v rpc.VolumeView, begin func() error) error {
	before, err := c.Instances.Get(ctx, v.Instance)
	if err == nil {
		err = begin()
	}
	if err != nil {
		return err
	}
	said := ""
	for {
		i, err := c.Instances.Get(ctx, v.Instance)
		if err != nil {
			return err
		}
		if e := i.VolumesEnded; i.Volumes == nil && e != nil &&
			(before.VolumesEnded == nil || e.Key != before.VolumesEnded.Key) {
			if e.Why != "" {
				return &userError{what: "it failed", why: e.Why,
					next: "the volume is as it was: verge describe instance/" + v.Instance}
			}
			return nil
		}
		if i.Reason != "" && i.Reason != said {
			said = i.Reason
			a.notef("%s", clean(said))
		}
		look := time.NewTimer(movePoll)
		select {
		case <-ctx.Done():
			look.Stop()
			return ctx.Err()
		case <-look.C:
		}
	}
}

// awaitMove shows the steps of a move until it is over.
func (a *app) awaitMove(ctx context.Context, c *client.Client, v rpc.VolumeView, to string) error {
	said := ""
	for {
		i, err := c.Instances.Get(ctx, v.Instance)
		switch {
		case ctx.Err() != nil:
			return &userError{what: "the move is not done yet", why: clean(said),
				next: "it continues; see: verge describe instance/" + v.Instance}
		case err != nil:
			return err
		case i.Volumes == nil && i.Worker == to && i.State == wire.Running:
			return a.printf("volume/%s/%s/%s: %s runs there; the former copy: verge volume rm %s", v.Cluster, to,
				v.VolumeRef, v.Instance, v.ID())
		case i.Volumes == nil && i.Worker != to:
			return &userError{what: "the volume was not moved", why: clean(i.Reason),
				next: "it is where it was: verge describe instance/" + v.Instance}
		}
		if i.Reason != "" && i.Reason != said {
			said = i.Reason
			a.notef("%s", clean(said))
		}
		look := time.NewTimer(movePoll)
		select {
		case <-ctx.Done():
		case <-look.C:
		}
		look.Stop()
	}
}

// movePoll is how often a move is looked at.
const movePoll = 300 * time.Millisecond

// volumes of one worker ("" is all). A worker that does not answer does not hide
// those of others.
func (a *app) volumes(ctx context.Context, c *client.Client, of string, unused bool) ([]rpc.VolumeView, error) {
	workers, err := c.Workers.List(ctx)
	if err != nil {
		return nil, err
	}
	of = strings.TrimPrefix(of, "worker/")
	out, found := []rpc.VolumeView{}, false
	for _, w := range workers {
		if of != "" && of != w.Name && of != w.Cluster+"/"+w.Name {
			continue
		}
		found = true
		list, err := c.Volumes.List(ctx, w.Cluster, w.Name)
		if err != nil {
			if of != "" {
				return nil, err
			}
			a.notef("worker %s/%s: %s", clean(w.Cluster), clean(w.Name), firstLine(err))
			continue
		}
		for _, v := range list {
			if !unused || !v.InUse {
				out = append(out, v)
			}
		}
	}
	if !found && of != "" {
		return nil, &userError{what: "no such worker", why: of, next: "list them with: verge get workers"}
	}
	return out, nil
}

func (a *app) volumeColumns() listing[rpc.VolumeView] {
	type view = rpc.VolumeView
	return listing[view]{kind: "volume", name: view.ID, columns: []column[view]{
		{name: "worker", cell: func(v view) cell { return text(v.Cluster + "/" + v.Worker) }},
		{name: "namespace", cell: func(v view) cell { return text(v.Namespace) }},
		{name: "instance", cell: func(v view) cell { return text(v.Instance) }},
		{name: "volume", cell: func(v view) cell { return text(v.Name) }},
		{name: "used", cell: func(v view) cell {
			if v.InUse {
				return text("yes")
			}
			if v.Left != "" {
				return cell{"no: " + v.Left, yellow}
			}
			return cell{"no", yellow}
		}},
		{name: "size", cell: func(v view) cell {
			if v.Partial {
				return text("> " + bytesText(v.Bytes))
			}
			return text(bytesText(v.Bytes))
		}},
		{name: "changed", cell: func(v view) cell { return text(a.since(v.Changed)) }},
	}}
}
