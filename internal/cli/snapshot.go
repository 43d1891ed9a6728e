package cli

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func (a *app) volumeSnapshot() *cobra.Command {
	object, keep := "", 0
	cmd := &cobra.Command{
		Use: "snapshot CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME", Short: "Save a named volume as an object",
		Long: `Save a named volume as an object in its cluster's object store. The instance is stopped
by its stop rule meanwhile, so that nothing changes, and then started again. The command
prints the name of the object: verge volume restore restores it, verge object get copies
it (a tar archive). The cluster keeps its digest, and refuses to restore one that was
changed or truncated.`,
		Example: "  verge volume snapshot edge/w1/default/shop.db.0/data\n" +
			"  verge volume snapshot edge/w1/default/shop.db.0/data --as snapshots/before-upgrade\n" +
			"  verge volume snapshot edge/w1/default/shop.db.0/data --keep 7",
		Args: oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := rpc.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge volume ls -o name lists them", err)
			}
			if cmd.Flags().Changed("keep") && keep < 1 {
				return usageError(cmd, "--keep is at least 1")
			}
			object := cmp.Or(object, snapshotName(v.Instance, v.Name, a.opts.Now()))
			return a.withClient(func(c *client.Client) error {
				err := a.awaitVolume(cmd.Context(), c, v, func() error {
					return c.Volumes.Snapshot(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef,
						apiv1.VolumeSnapshotRequest{Object: object})
				})
				if err != nil {
					return err
				}
				if err := a.printf("%s", object); err != nil || keep == 0 {
					return err
				}
				return a.keepSnapshots(cmd.Context(), c, v, object, keep)
			})
		},
	}
	cmd.Flags().StringVar(&object, "as", "",
		"name of the object, beginning with snapshots/ (default snapshots/INSTANCE/NAME/TIME)")
	cmd.Flags().IntVar(&keep, "keep", 0,
		"keep this many snapshots of this volume and remove older ones; 0 removes none")
	cmd.AddCommand(a.snapshotList(), a.snapshotRemove())
	return cmd
}

// keepSnapshots removes the oldest snapshots of a volume, so that keep of them are left
// that are whole. The one that was taken is never among those.
func (a *app) keepSnapshots(ctx context.Context, c *client.Client, v rpc.VolumeView, taken string, keep int) error {
	all, err := c.Volumes.Snapshots(ctx)
	if err != nil {
		return err
	}
	for _, s := range beyond(all, v, taken, keep) {
		if _, err := c.Objects.Remove(ctx, s.Namespace, s.Object); err != nil {
			return err
		}
		a.notef("%s of %s ago removed", clean(s.Object), a.since(s.Taken))
	}
	return nil
}

// beyond are the snapshots of a volume that are too many, of all of a cluster by their
// time.
func beyond(all []apiv1.SnapshotView, v rpc.VolumeView, taken string, keep int) (out []apiv1.SnapshotView) {
	kept := 1
	for _, s := range slices.Backward(all) { // the newest are last
		switch {
		case s.Namespace != v.Namespace || s.Instance != v.Instance || s.Volume != v.Name || s.Object == taken:
		case kept >= keep:
			out = append(out, s)
		case s.State == wire.SnapshotWhole:
			kept++ // a damaged one is somebody's to look at
		}
	}
	return out
}

func (a *app) snapshotList() *cobra.Command {
	mode := ""
	cmd := &cobra.Command{
		Use: "ls [INSTANCE]", Aliases: []string{"list"}, Short: "List snapshots of volumes",
		Args: cobra.MaximumNArgs(1),
		Long: `List the snapshots of volumes that a cluster has taken (with a context of it), of all
instances or of one, oldest first. A whole snapshot has the digest that was packed;
changed and lost ones cannot be restored.`,
		Example: "  verge volume snapshot ls shop.db.0",
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.withClient(func(c *client.Client) error {
				of := strings.TrimPrefix(strings.Join(args, ""), "instance/")
				list, err := c.Volumes.Snapshots(cmd.Context())
				list = slices.DeleteFunc(list, func(s apiv1.SnapshotView) bool { return of != "" && s.Instance != of })
				return show(a, a.snapshotColumns(), mode, "", false)(list, err)
			})
		},
	}
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) snapshotColumns() listing[apiv1.SnapshotView] {
	type view = apiv1.SnapshotView
	return listing[view]{kind: "snapshot", name: func(v view) string { return v.Namespace + "/" + v.Object },
		columns: []column[view]{
			{name: "namespace", cell: func(v view) cell { return text(v.Namespace) }},
			{name: "instance", cell: func(v view) cell { return text(v.Instance) }},
			{name: "volume", cell: func(v view) cell { return text(v.Volume) }},
			{name: "object", cell: func(v view) cell { return text(v.Object) }},
			{name: "size", cell: func(v view) cell { return text(bytesText(v.Size)) }},
			{name: "taken", cell: func(v view) cell { return text(a.since(v.Taken)) }},
			{name: "state", cell: func(v view) cell {
				if v.State == wire.SnapshotWhole {
					return text(v.State)
				}
				return cell{v.State, red}
			}},
			{name: "by", wide: true, cell: func(v view) cell { return text(v.By) }},
			{name: "digest", wide: true, cell: func(v view) cell { return text(short("sha256:" + v.Digest)) }},
		}}
}

func (a *app) snapshotRemove() *cobra.Command {
	f := namespaceFlags{}
	cmd := &cobra.Command{
		Use: "rm OBJECT…", Aliases: []string{"delete"}, Short: "Remove snapshots of volumes",
		Args:    cobra.MinimumNArgs(1),
		Long:    `Remove snapshots of volumes for good, by the names of their objects.`,
		Example: "  verge volume snapshot rm snapshots/before-upgrade",
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace, err := f.one(a)
			if err != nil {
				return err
			}
			for _, name := range args {
				if !strings.HasPrefix(name, wire.SnapshotsPrefix) {
					return usageError(cmd, "%q is not the name of a snapshot; verge volume snapshot ls lists them",
						name)
				}
			}
			return a.withClient(func(c *client.Client) error {
				for _, name := range args {
					if _, err := c.Objects.Remove(cmd.Context(), namespace, name); err != nil {
						return err
					}
					if err := a.printf("%s removed", name); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	f.ofObject(cmd)
	return cmd
}

func (a *app) volumeRestore() *cobra.Command {
	q := apiv1.VolumeSnapshotRequest{}
	cmd := &cobra.Command{
		Use:   "restore CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME --from OBJECT",
		Short: "Restore a named volume from an object",
		Long: `Restore a named volume from an object of verge volume snapshot. The instance is stopped
by its stop rule meanwhile, and then started again. The present contents are lost once
the whole object has arrived and was checked: take a snapshot first if you may need
them. The snapshot may be of another volume of the same namespace. An object that is no
snapshot of this cluster needs its digest.`,
		Example: "  verge volume restore edge/w1/default/shop.db.0/data --from snapshots/before-upgrade",
		Args:    oneArg("CLUSTER/WORKER/NAMESPACE/INSTANCE/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			v, err := rpc.ParseVolumeID(strings.TrimPrefix(args[0], "volume/"))
			if err != nil {
				return usageError(cmd, "%v; verge volume ls -o name lists them", err)
			}
			if q.Object == "" {
				return usageError(cmd, "--from is missing: the name of an object, as verge volume snapshot "+
					"has printed it")
			}
			q.Digest = strings.TrimPrefix(q.Digest, "sha256:")
			return a.withClient(func(c *client.Client) error {
				err := a.awaitVolume(cmd.Context(), c, v, func() error {
					return c.Volumes.Restore(cmd.Context(), v.Cluster, v.Worker, v.VolumeRef, q)
				})
				if err != nil {
					return err
				}
				return a.printf("volume/%s restored from object %s", v.ID(), q.Object)
			})
		},
	}
	cmd.Flags().StringVar(&q.Object, "from", "", "name of the object, in the namespace of the volume")
	cmd.Flags().StringVar(&q.Digest, "sha256", "", "digest that the object must have, in hexadecimal")
	return cmd
}

// snapshotName is the default name of a snapshot's object.
func snapshotName(instance wire.InstanceID, volume string, at time.Time) string {
	return fmt.Sprintf("%s%s/%s/%s", wire.SnapshotsPrefix, instance, volume, at.UTC().Format("20060102T150405Z"))
}
