package cli

import (
	"context"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

func (a *app) statusCommand() *cobra.Command {
	mode, watch := "", false
	cmd := &cobra.Command{
		Use: "status", Short: "Show the state of all tiers, its age, and what is wrong", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			defer c.Close()
			if watch {
				return a.statusWatch(cmd.Context(), c, mode)
			}
			v, err := c.System.Status(cmd.Context())
			if err != nil {
				return err
			}
			return a.printStatus(v, mode)
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "show it again after each change")
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml")
	return cmd
}

func (a *app) printStatus(v apiv1.StatusView, mode string) error {
	if mode == "json" || mode == "yaml" {
		return a.encode(mode, v)
	}
	return a.status(v, mode)
}

// statusPause is the shortest time between two showings.
const statusPause = time.Second

// statusWatch shows the status, and again when anything in it has changed.
func (a *app) statusWatch(ctx context.Context, c *client.Client, mode string) error {
	first, err := c.System.Status(ctx)
	if err != nil {
		return err
	}
	kinds := "applications,instances,clusters"
	if first.Role != "root" {
		kinds = "applications,instances,workers"
	}
	// What comes while it is shown, or within the pause, is shown together.
	ctx, stop := context.WithCancel(ctx)
	news, ended := make(chan struct{}, 1), make(chan error, 1)
	var watching sync.WaitGroup
	defer watching.Wait()
	defer stop()
	watching.Go(func() {
		live := false
		ended <- a.watch(ctx, c.WatchOn, kinds, func(e apiv1.WatchEvent) error {
			live = live && e.Type != apiv1.WatchBegin || e.Type == apiv1.WatchSynced
			if live {
				select {
				case news <- struct{}{}:
				default:
				}
			}
			return nil
		})
	})
	for {
		select {
		case err := <-ended:
			return err
		case <-news:
		}
		v, err := c.System.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil // the user has seen enough
		case passing(err):
			// A lost watch wakes this too; otherwise there would be no events.
			if a.opts.Sleep(ctx, statusPause) != nil {
				return nil
			}
			select {
			case news <- struct{}{}:
			default:
			}
			continue
		case err != nil:
			return err
		}
		if err := a.redraw(mode); err != nil {
			return err
		}
		if err := a.printStatus(v, mode); err != nil {
			return err
		}
		if a.opts.Sleep(ctx, statusPause) != nil {
			return nil
		}
	}
}

func (a *app) status(v apiv1.StatusView, mode string) error {
	says := v.Role
	if v.Role != "root" {
		says = v.Role + "/" + v.Name
	}
	d := &details{}
	d.add("Says", says+", now")
	d.add("Name", v.Name)
	d.add("Version", v.Version)
	d.add("Up", age(v.Time.Sub(v.Started)))
	if upstream := v.Upstream; !v.UpstreamAt.IsZero() {
		d.add("Root", upstream+", answered "+age(v.Time.Sub(v.UpstreamAt))+" ago")
	} else {
		d.add("Root", upstream)
	}
	if n := v.Network; n != nil {
		d.addf("Network", "%s, IPv4 %s (%d of %d networks given), services %s", n.Prefix, n.Pool, n.Given, n.Subnets,
			n.Services)
	}
	d.add("Counts", v.Tally.String())
	d.add("Since the root was lost", a.countsSince(v.SinceAway))
	if err := d.print(a); err != nil {
		return err
	}
	if len(v.Clusters) > 0 {
		if err := a.section("Clusters (each as it reported itself)"); err != nil {
			return err
		}
		if err := clusters().print(a, mode, v.Clusters, false); err != nil {
			return err
		}
	}
	if len(v.Workers) > 0 {
		if err := a.section("Workers (each as it reported itself)"); err != nil {
			return err
		}
		if err := workers().print(a, mode, v.Workers, false); err != nil {
			return err
		}
	}
	if len(v.Apps) > 0 {
		if err := a.section("Applications (by " + says + ")"); err != nil {
			return err
		}
		if err := a.applications().print(a, mode, v.Apps, false); err != nil {
			return err
		}
	}
	if err := a.counts(v); err != nil {
		return err
	}
	if err := a.localSections(v.Local, v.Conflicts); err != nil {
		return err
	}
	if len(v.Problems) == 0 {
		return a.printf("\nNo problems.")
	}
	if err := a.section("Problems"); err != nil {
		return err
	}
	for _, p := range v.Problems {
		if err := a.printf("%s %s", a.paint(a.out, red, "!"), clean(p)); err != nil {
			return err
		}
	}
	return nil
}
