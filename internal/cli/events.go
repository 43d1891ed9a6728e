package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/event"
)

// eventLog prints events.
type eventLog struct {
	*app
	mode  string
	kinds []string // which to print; none: all
	after uint64   // what was printed last
}

func (a *app) eventsCommand() *cobra.Command {
	l, follow := &eventLog{app: a}, false
	cmd := &cobra.Command{
		Use: "events", Short: "Print events", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return l.run(cmd.Context(), follow) },
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow new events")
	cmd.Flags().BoolVarP(&follow, "watch", "w", false, "the same as --follow")
	cmd.Flags().StringSliceVar(&l.kinds, "kind", nil,
		"only these kinds: instance.failed, \"rollout.*\" (docs/events.md lists them)")
	var names []string
	for _, k := range event.Kinds() {
		names = append(names, k.String())
	}
	_ = cmd.RegisterFlagCompletionFunc("kind", cobra.FixedCompletions(names, cobra.ShellCompDirectiveNoFileComp))
	outputFlag(cmd, &l.mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (l *eventLog) run(ctx context.Context, follow bool) error {
	for _, name := range l.kinds {
		if !slices.ContainsFunc(event.Kinds(),
			func(k event.Kind) bool { return event.Matches([]string{name}, k.String()) }) {
			return &userError{what: "events", why: fmt.Sprintf("there is no kind of event %q", name),
				next: "see docs/events.md, or press Tab after --kind for a list"}
		}
	}
	c, err := l.client()
	if err != nil {
		return err
	}
	defer c.Close()
	all := []apiv1.Event{}
	for {
		page, err := c.Events.After(ctx, l.after, 0)
		if ctx.Err() != nil {
			return nil // the user has seen enough
		}
		if follow && len(all) > 0 && passing(err) {
			break // who follows has the rest, when it is back
		}
		if err != nil {
			return err
		}
		l.after, all = page.After, append(all, page.Events...)
		if len(page.Events) == 0 {
			break
		}
	}
	// They are numbered as the server heard of them. A server that was started again
	// hears of what happened before after it has begun to do something itself.
	slices.SortStableFunc(all, func(x, y apiv1.Event) int { return x.At.Compare(y.At) })
	if !follow && (l.mode == "json" || l.mode == "yaml") {
		all, err := l.wanted(all)
		if err != nil {
			return err
		}
		return l.encode(l.mode, struct {
			Items []apiv1.Event `json:"items"`
		}{all})
	}
	if err := l.print(all); err != nil || !follow {
		return err
	}
	return l.follow(ctx, c)
}

// widestKind is the width of the column of kinds.
func widestKind() int {
	n := 0
	for _, k := range event.Kinds() {
		n = max(n, len(k.String()))
	}
	return n
}

// wanted are those of the kinds that are asked for.
func (l *eventLog) wanted(list []apiv1.Event) ([]apiv1.Event, error) {
	if len(l.kinds) == 0 {
		return list, nil
	}
	out := []apiv1.Event{}
	for _, e := range list {
		if e.Kind == "" {
			return nil, &userError{what: "events", why: "the server has an older version, whose events have no kind",
				next: "upgrade the server, or repeat the command without --kind"}
		}
		if event.Matches(l.kinds, e.Kind) {
			out = append(out, e)
		}
	}
	return out, nil
}

// follow prints the events after those that were printed.
func (l *eventLog) follow(ctx context.Context, c *client.Client) error {
	var first []apiv1.Event // what there is, until all of it was told
	live, full := true, false
	return l.watch(ctx, c.WatchOn, "events", func(e apiv1.WatchEvent) error {
		switch e.Type {
		case apiv1.WatchBegin:
			live, full, first = !e.Full, e.Full, nil
		case apiv1.WatchSynced:
			live = true
			if n := len(first); n > 0 && first[n-1].Seq < l.after {
				l.after = 0 // the server was started again, with its clock set back
			}
			if full { // only the last of them are told
				if err := l.between(ctx, c); err != nil {
					return err
				}
			}
			return l.printNew(first)
		case apiv1.WatchPut:
			var v apiv1.Event
			if err := json.Unmarshal(e.Object, &v); err != nil {
				return fmt.Errorf("read an event: %w", err)
			}
			if !live {
				first = append(first, v)
				return nil
			}
			return l.printNew([]apiv1.Event{v})
		}
		return nil
	})
}

// between prints the events after those that were printed, as far as the server answers.
func (l *eventLog) between(ctx context.Context, c *client.Client) error {
	for {
		page, err := c.Events.After(ctx, l.after, 0)
		if err != nil || len(page.Events) == 0 {
			return nil //nolint:nilerr // the watch has most of them, and says who is away
		}
		if err := l.printNew(page.Events); err != nil {
			return err
		}
	}
}

// printNew prints those that were not printed before.
func (l *eventLog) printNew(list []apiv1.Event) error {
	list = slices.DeleteFunc(list, func(v apiv1.Event) bool { return v.Seq <= l.after })
	if len(list) > 0 {
		l.after = list[len(list)-1].Seq
	}
	return l.print(list)
}

// print writes one line, or one document, for each that is wanted.
func (l *eventLog) print(list []apiv1.Event) error {
	list, err := l.wanted(list)
	if err != nil {
		return err
	}
	kinds := widestKind()
	for _, e := range list {
		switch l.mode {
		case "table":
			err = l.printf("%s  %-14s  %-28s  %s", l.clock(e.At), clean(e.Tier), clean(e.Subject), clean(e.What))
		case "wide":
			at := e.At.In(l.opts.Now().Location()).Format(time.RFC3339)
			err = l.printf("%s  %-14s  %-28s  %-*s  %-12s  %s", at, clean(e.Tier), clean(e.Subject),
				kinds, orDash(clean(e.Kind)), orDash(clean(e.Namespace)), clean(e.What))
		case "name":
			err = l.printf("event/%d", e.Seq)
		default:
			err = l.encode(l.mode, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
