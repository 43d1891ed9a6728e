package cli

import (
	"context"
	"strings"

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
	cmd.AddCommand(ls, rm)
	return cmd
}

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
