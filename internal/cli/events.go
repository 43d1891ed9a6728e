package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) eventsCommand() *cobra.Command {
	follow, mode := false, ""
	cmd := &cobra.Command{
		Use: "events", Short: "Print what happened", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.events(cmd.Context(), follow, mode) },
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) events(ctx context.Context, follow bool, mode string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var after uint64
	var wait time.Duration
	all := []wire.Event{}
	for {
		asked := a.opts.Now()
		page, err := c.Events(ctx, after, wait)
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		if err != nil {
			return err
		}
		after = page.After
		if mode == "table" || follow {
			if err := a.printEvents(page.Events, mode); err != nil {
				return err
			}
		} else {
			all = append(all, page.Events...)
		}
		if len(page.Events) > 0 {
			continue
		}
		if !follow {
			break
		}
		wait = followWait
		a.pace(ctx, asked)
	}
	if mode == "table" {
		return nil
	}
	return a.encode(mode, struct {
		Items []wire.Event `json:"items"`
	}{all})
}

// printEvents writes one line, or one document, for each.
func (a *app) printEvents(list []wire.Event, mode string) error {
	for _, e := range list {
		var err error
		if mode == "table" {
			err = a.printf("%s  %-14s  %-28s  %s", a.clock(e.At), clean(e.Tier), clean(e.Subject), clean(e.What))
		} else {
			err = a.encode(mode, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
