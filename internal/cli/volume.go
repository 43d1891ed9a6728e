package cli

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) volumeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "volume", Short: "Look after the named volumes of workers", Args: cobra.ArbitraryArgs, RunE: group,
		Long: `Look after the named volumes of workers.

What an instance stores in a named volume is kept on its worker when the instance
ends, and when its application is deleted. Verge never removes it by itself.`,
	}
	mode, unused := "", false
	ls := &cobra.Command{
		Use: "ls [worker/NAME]", Aliases: []string{"list"}, Short: "List named volumes, of all workers or of one", Args: cobra.MaximumNArgs(1),
		Example: "  verge volume ls --unused\n  verge volume ls worker/w1",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *rest.Client) error {
				list, err := a.volumes(cmd.Context(), c, strings.Join(args, ""), unused)
				return show(a, a.volumeColumns(), mode, "", false)(list, err)
			})
		},
	}
	ls.Flags().BoolVar(&unused, "unused", false, "only those that no instance names any more")
	outputFlag(ls, &mode, "table", "wide", "json", "yaml", "name")
	rm := &cobra.Command{
		Use: "rm CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME…", Aliases: []string{"delete"}, Short: "Remove named volumes that nothing uses, with all that is in them",
		Long: `Remove named volumes that nothing uses, with all that is in them. Nobody can bring
that back. One that an instance names is refused; a volume is removed at its
cluster (with a context of it), by the cluster's operator.`,
		Example: "  verge volume rm edge/w1/default/shop.db.0/data", Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *rest.Client) error {
				for _, arg := range args {
					v, err := wire.ParseVolumeID(strings.TrimPrefix(arg, "volume/"))
					if err != nil {
						return usageError(cmd, "%v; verge volume ls -o name lists them", err)
					}
					if err := c.RemoveVolume(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef); err != nil {
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
	q := wire.VolumeForgetRequest{}
	cmd := &cobra.Command{
		Use: "forget CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME --confirm INSTANCE", Short: "Give the volumes of an instance up whose worker is away for good",
		Long: `Give the named volumes of an instance up, all of them, whose worker is away for good,
and let it begin on another worker with empty ones (or with a snapshot: verge volume
restore). The id of the instance, once more, says that it is meant. If only the worker
is to go, with all that is on it, use verge remove worker/NAME.

Where the worker comes back after all, it ends what it runs of the instance, and what
is stored there stays: verge volume ls lists it as not used, with the reason. The
instance is not placed there before somebody has removed it (verge volume rm).`,
		Example: "  verge volume forget edge/w1/default/shop.db.0/data --confirm shop.db.0", Args: oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := wire.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge get instances -o wide says what is where", err)
			}
			return a.withClient(func(c *rest.Client) error {
				if err := c.ForgetVolumes(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef, q); err != nil {
					return err
				}
				return a.printf("%s begins elsewhere with empty volumes: verge describe instance/%s", v.Instance, v.Instance)
			})
		},
	}
	cmd.Flags().StringVar(&q.Confirm, "confirm", "", "id of the instance, to say that it is meant")
	return cmd
}

func (a *app) volumeMove() *cobra.Command {
	to, cancel, noWait := "", false, false
	timeout := 10 * time.Minute
	cmd := &cobra.Command{
		Use: "move CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME (--to WORKER | --cancel)", Short: "Move the named volumes of an instance to another worker",
		Long: `Move the named volumes of an instance, all of them, to another worker of its
cluster. The instance is stopped by its stop rule, its worker copies them to the
object store of the cluster, the other worker from there, and compares what is on
its disk with what was packed. Only then it starts there. Until that it can be
cancelled: it goes on where it was, with what it had. So it does where a step
fails; whoever is away is waited for.

The former copy stays where it was until somebody removes it (verge volume rm), and
the copy in the object store (verge object ls) until the next move. It is done at
the cluster (with a context of it), by the cluster's operator.`,
		Example: "  verge volume move edge/w1/default/shop.db.0/data --to w2", Args: oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := wire.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge volume ls -o name lists them", err)
			}
			to = strings.TrimPrefix(strings.TrimPrefix(to, "worker/"), v.Cluster+"/")
			if (to == "") == !cancel {
				return usageError(cmd, "give one of --to WORKER and --cancel")
			}
			return a.withClient(func(c *rest.Client) error {
				if cancel {
					if err := c.CancelVolumes(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef); err != nil {
						return err
					}
					return a.printf("%s goes on on worker %s", v.Instance, v.Worker)
				}
				if err := c.MoveVolumes(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef, wire.VolumeMoveRequest{To: to}); err != nil {
					return err
				}
				if noWait {
					return a.printf("%s is being moved to worker %s: verge describe instance/%s", args[0], to, v.Instance)
				}
				ctx, done := context.WithTimeout(cmd.Context(), timeout)
				defer done()
				return a.awaitMove(ctx, c, v, to)
			})
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "worker of the same cluster that is to have them")
	cmd.Flags().BoolVar(&cancel, "cancel", false, "let an instance whose volumes are being moved go on where it was")
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return when it has begun")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait; it goes on after that")
	return cmd
}

// awaitVolume lets begin begin something with a volume, and waits until that is over.
func (a *app) awaitVolume(ctx context.Context, c *rest.Client, v wire.VolumeView, begin func() error) error {
	before, err := c.Instance(ctx, v.Instance)
	if err == nil {
		err = begin()
	}
	if err != nil {
		return err
	}
	said := ""
	for {
		i, err := c.Instance(ctx, v.Instance)
		if err != nil {
			return err
		}
		if e := i.VolumesEnded; i.Volumes == nil && e != nil && (before.VolumesEnded == nil || e.Key != before.VolumesEnded.Key) {
			if e.Why != "" {
				return &userError{what: "that came to nothing", why: e.Why, next: "the volume is as it was: verge describe instance/" + v.Instance}
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
func (a *app) awaitMove(ctx context.Context, c *rest.Client, v wire.VolumeView, to string) error {
	said := ""
	for {
		i, err := c.Instance(ctx, v.Instance)
		switch {
		case ctx.Err() != nil:
			return &userError{what: "the volume is not there yet", why: clean(said), next: "it goes on; look with: verge describe instance/" + v.Instance}
		case err != nil:
			return err
		case i.Volumes == nil && i.Worker == to && i.State == wire.Running:
			return a.printf("volume/%s/%s/%s: %s runs there; the former copy: verge volume rm %s", v.Cluster, to, v.VolumeRef, v.Instance, v.ID())
		case i.Volumes == nil && i.Worker != to:
			return &userError{what: "the volume was not moved", why: clean(i.Reason), next: "it is where it was: verge describe instance/" + v.Instance}
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
func (a *app) volumes(ctx context.Context, c *rest.Client, of string, unused bool) ([]wire.VolumeView, error) {
	workers, err := c.Workers(ctx)
	if err != nil {
		return nil, err
	}
	of = strings.TrimPrefix(of, "worker/")
	out, found := []wire.VolumeView{}, false
	for _, w := range workers {
		if of != "" && of != w.Name && of != w.Cluster+"/"+w.Name {
			continue
		}
		found = true
		list, err := c.Volumes(ctx, w.Cluster, w.Name)
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
		return nil, &userError{what: "no such worker", why: of, next: "list what there is with: verge get workers"}
	}
	return out, nil
}

func (a *app) volumeColumns() listing[wire.VolumeView] {
	type view = wire.VolumeView
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
