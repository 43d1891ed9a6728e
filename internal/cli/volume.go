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
	cmd.AddCommand(ls, rm, a.volumeMove(), a.volumeSnapshot(), a.volumeRestore())
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

func (a *app) volumeSnapshot() *cobra.Command {
	object := ""
	cmd := &cobra.Command{
		Use: "snapshot CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME", Short: "Put what is in a named volume into an object",
		Long: `Put what is in a named volume into an object of the object store of its cluster.
Its instance is stopped by its stop rule meanwhile, so that nothing changes while it
is read, and is started again then. The name of the object is printed; verge volume
restore takes it back, verge object get copies it (it is a tar archive), verge
object rm removes it.`,
		Example: "  verge volume snapshot edge/w1/default/shop.db.0/data\n  verge volume snapshot edge/w1/default/shop.db.0/data --as snapshots/before-upgrade", Args: oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := wire.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge volume ls -o name lists them", err)
			}
			if object == "" {
				object = "snapshots/" + v.Instance + "/" + v.Name + "/" + a.opts.Now().UTC().Format("20060102T150405Z")
			}
			return a.withClient(func(c *rest.Client) error {
				err := a.awaitVolume(cmd.Context(), c, v, func() error {
					return c.SnapshotVolume(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef, wire.VolumeSnapshotRequest{Object: object})
				})
				if err != nil {
					return err
				}
				return a.printf("%s", object)
			})
		},
	}
	cmd.Flags().StringVar(&object, "as", "", "name of the object (default snapshots/INSTANCE/NAME/TIME)")
	return cmd
}

func (a *app) volumeRestore() *cobra.Command {
	object := ""
	cmd := &cobra.Command{
		Use: "restore CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME --from OBJECT", Short: "Make a named volume what is in an object",
		Long: `Make a named volume what is in an object that verge volume snapshot has made. Its
instance is stopped by its stop rule meanwhile, and started again then. What is in
the volume now is lost as soon as all of the object has arrived and was compared; if
that may be needed, take a snapshot first.`,
		Example: "  verge volume restore edge/w1/default/shop.db.0/data --from snapshots/before-upgrade", Args: oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := wire.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge volume ls -o name lists them", err)
			}
			if object == "" {
				return usageError(cmd, "--from is missing: the name of an object, as verge volume snapshot has printed it")
			}
			return a.withClient(func(c *rest.Client) error {
				err := a.awaitVolume(cmd.Context(), c, v, func() error {
					return c.RestoreVolume(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef, wire.VolumeSnapshotRequest{Object: object})
				})
				if err != nil {
					return err
				}
				return a.printf("volume/%s is as in object %s", v.ID(), object)
			})
		},
	}
	cmd.Flags().StringVar(&object, "from", "", "name of the object, in the namespace of the volume")
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
			return &userError{what: "the volume is not there yet", why: said, next: "it goes on; look with: verge describe instance/" + v.Instance}
		case err != nil:
			return err
		case i.Volumes == nil && i.Worker == to && i.State == wire.Running:
			return a.printf("volume/%s/%s/%s: %s runs there; the former copy: verge volume rm %s", v.Cluster, to, v.VolumeRef, v.Instance, v.ID())
		case i.Volumes == nil && i.Worker != to:
			return &userError{what: "the volume was not moved", why: i.Reason, next: "it is where it was: verge describe instance/" + v.Instance}
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
			return cell{"no", yellow}
		}},
		{name: "changed", cell: func(v view) cell { return text(a.since(v.Changed)) }},
	}}
}
