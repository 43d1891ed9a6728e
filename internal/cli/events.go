package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) eventsCommand() *cobra.Command {
	follow, mode := false, ""
	cmd := &cobra.Command{
		Use: "events", Short: "Print events", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.events(cmd.Context(), follow, mode) },
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow new events")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "the same as --follow")
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) events(ctx context.Context, follow bool, mode string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	var after uint64
	all := []wire.Event{}
	lines := mode != "json" && mode != "yaml"
	for {
		page, err := c.Events.After(ctx, after, 0)
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		if follow && len(all) > 0 && passing(err) {
			break // who follows has the rest, when it is back
		}
		if err != nil {
			return err
		}
		after, all = page.After, append(all, page.Events...)
		if len(page.Events) == 0 {
			break
		}
	}
	// They are numbered as the server heard of them. A server that was started again
	// hears of what happened before after it has begun to do something itself.
	slices.SortStableFunc(all, func(x, y wire.Event) int { return x.At.Compare(y.At) })
	if lines || follow {
		if err := a.printEvents(all, mode); err != nil || !follow {
			return err
		}
		return a.followEvents(ctx, c, after, mode)
	}
	return a.encode(mode, struct {
		Items []wire.Event `json:"items"`
	}{all})
}

// followEvents prints what comes after an event.
func (a *app) followEvents(ctx context.Context, c *client.Client, after uint64, mode string) error {
	var first []wire.Event // what there is, until all of it was told
	live, full := true, false
	return a.watch(ctx, c.WatchOn, "events", func(e wire.WatchEvent) error {
		switch e.Type {
		case wire.WatchBegin:
			live, full, first = !e.Full, e.Full, nil
		case wire.WatchSynced:
			live = true
			if full { // only the last of them are told
				if err := a.eventsBetween(ctx, c, &after, mode); err != nil {
					return err
				}
			}
			if n := len(first); n > 0 && first[n-1].Seq < after {
				after = 0 // the server was started again, with its clock set back
			}
			return a.eventsAfter(first, &after, mode)
		case wire.WatchPut:
			var v wire.Event
			if err := json.Unmarshal(e.Object, &v); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			if !live {
				first = append(first, v)
				return nil
			}
			return a.eventsAfter([]wire.Event{v}, &after, mode)
		}
		return nil
	})
}

// eventsBetween prints those that there are after an event, as far as the server answers.
func (a *app) eventsBetween(ctx context.Context, c *client.Client, after *uint64, mode string) error {
	for {
		page, err := c.Events.After(ctx, *after, 0)
		if err != nil || len(page.Events) == 0 {
			return nil //nolint:nilerr // the watch has most of them, and says who is away
		}
		if err := a.eventsAfter(page.Events, after, mode); err != nil {
			return err
		}
	}
}

// eventsAfter prints those that were not printed before.
func (a *app) eventsAfter(list []wire.Event, after *uint64, mode string) error {
	list = slices.DeleteFunc(list, func(v wire.Event) bool { return v.Seq <= *after })
	if len(list) > 0 {
		*after = list[len(list)-1].Seq
	}
	return a.printEvents(list, mode)
}

// printEvents writes one line, or one document, for each.
func (a *app) printEvents(list []wire.Event, mode string) error {
	for _, e := range list {
		var err error
		switch mode {
		case "table":
			err = a.printf("%s  %-14s  %-28s  %s", a.clock(e.At), clean(e.Tier), clean(e.Subject), clean(e.What))
		case "wide":
			at := e.At.In(a.opts.Now().Location()).Format(time.RFC3339)
			err = a.printf("%s  %-14s  %-28s  %-12s  %s", at, clean(e.Tier), clean(e.Subject), orDash(e.Namespace), clean(e.What))
		case "name":
			err = a.printf("event/%d", e.Seq)
		default:
			err = a.encode(mode, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
