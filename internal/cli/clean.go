package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/leftover"
)

func (a *app) workerCleanCommand() *cobra.Command {
	var o leftover.Options
	dry := false
	cmd := &cobra.Command{
		Use: "clean", Short: "Remove what a worker of this machine left behind",
		Long: `Find and remove what a worker of this machine left behind when somebody removed its
data directory while part of it still ran: its engine, processes of instances,
containers, control groups, mounts, network namespaces, devices and the nftables table.

A running worker is not touched. A stopped worker that still has its data directory is
left alone unless --data-dir names it: when it starts again, it continues with its
instances. Run this as the worker's user, in the worker's network namespace.`,
		Example: "  verge worker clean --dry-run\n  verge worker clean\n  verge worker clean --data-dir /srv/verge",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			list, err := leftover.Find(cmd.Context(), o)
			if err != nil && len(list) == 0 {
				return err
			}
			if err != nil {
				a.notef("some could not be checked: %v", err)
			}
			if len(list) == 0 {
				return a.printf("no worker left anything on this machine")
			}
			var errs []error
			for i := range list {
				w := &list[i]
				keep := w.Intact && o.Dir == ""
				if err := a.leftovers(w); err != nil {
					return err
				}
				switch {
				case keep:
					a.notef("not removed: its data directory exists. verge worker stop --data-dir %s ends it", w.Dir)
				case dry:
				default:
					if err := leftover.Remove(cmd.Context(), o, w); err != nil {
						errs = append(errs, err)
						continue
					}
					if err := a.printf("removed: %s", w.Summary()); err != nil {
						return err
					}
				}
			}
			if dry {
				a.notef("nothing was removed (--dry-run)")
			}
			return errors.Join(errs...)
		},
	}
	fl := cmd.Flags()
	fl.BoolVar(&dry, "dry-run", false, "only list it")
	fl.StringVar(&o.Dir, "data-dir", "",
		"only what the worker of this directory left, even if the directory exists (default: all workers whose "+
			"directory was removed)")
	fl.StringVar(&o.Containerd, "containerd", "", "socket of containerd (default: /run/containerd/containerd.sock)")
	return cmd
}

// leftovers prints what a worker has left.
func (a *app) leftovers(w *leftover.Worker) error {
	if err := a.printf("%s, left:", clean(w.String())); err != nil {
		return err
	}
	for i := range w.Items {
		it := &w.Items[i]
		if err := a.printf("  %-14s %s  %s", it.Kind, clean(it.Name), clean(firstRunes(it.Detail))); err != nil {
			return err
		}
	}
	return nil
}

// maxDetail is how much of a command line is shown.
const maxDetail = 80

func firstRunes(s string) string {
	if r := []rune(s); len(r) > maxDetail {
		return string(r[:maxDetail]) + "…"
	}
	return s
}
