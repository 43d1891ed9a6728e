package cli

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
)

type auditFlags struct {
	since      time.Duration
	user, mode string
	limit      int
}

func (a *app) auditCommand() *cobra.Command {
	var f auditFlags
	cmd := &cobra.Command{
		Use: "audit", Short: "Show the audit log: who did what, from where, with what outcome", Args: noArgs,
		Long: `Show who did what, from where, with what outcome: every change, exec, port-forward
and copy, every use of secrets and tokens, and refusals (of many, some are left out).
Reads are not recorded. The root and each cluster have a log of their own, with the
last 10,000 entries.`,
		Example: "  verge audit --since 1h\n  verge audit --user bob -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.since < 0 || f.limit < 0 {
				return usageError(cmd, "--since and --limit must not be negative")
			}
			return a.withClient(func(c *client.Client) error {
				list, err := a.auditEntries(cmd.Context(), c, f)
				if err != nil {
					return err
				}
				if len(list) == 0 && (f.mode == "table" || f.mode == "wide") {
					a.notef("no such entries in the audit log")
					return nil
				}
				return a.auditEntry().print(a, f.mode, list, false)
			})
		},
	}
	cmd.Flags().DurationVar(&f.since, "since", 0, "only entries of this long, for example 1h")
	cmd.Flags().StringVar(&f.user, "user", "", "only entries of this user")
	cmd.Flags().IntVar(&f.limit, "limit", 200, "at most this many, the newest (0: all)")
	outputFlag(cmd, &f.mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

// auditPage is how many entries are asked for at once.
const auditPage = 1000

func (a *app) auditEntries(ctx context.Context, c *client.Client, f auditFlags) ([]apiv1.AuditEntry, error) {
	q := apiv1.AuditQuery{User: f.user}
	if f.since > 0 {
		q.Since = a.opts.Now().Add(-f.since)
	}
	var out []apiv1.AuditEntry
	for {
		q.Limit = auditPage
		if f.limit > 0 {
			q.Limit = min(auditPage, f.limit-len(out))
		}
		page, err := c.System.Audit(ctx, q)
		if err != nil {
			return nil, err
		}
		out = slices.Concat(page.Entries, out)
		if q.Before = page.Before; q.Before == 0 || (f.limit > 0 && len(out) >= f.limit) {
			return out, nil
		}
	}
}

func (a *app) auditEntry() listing[apiv1.AuditEntry] {
	type view = apiv1.AuditEntry
	return listing[view]{kind: "entry", name: func(v view) string { return fmt.Sprint(v.Seq) }, columns: []column[view]{
		{name: "at", cell: func(v view) cell { return text(v.At.In(a.opts.Now().Location()).Format(time.DateTime)) }},
		{name: "who", cell: func(v view) cell {
			if v.Who == "" {
				return text("nobody")
			}
			return text(v.Who)
		}},
		{name: "from", cell: func(v view) cell { return text(v.From) }},
		{name: "what", cell: func(v view) cell { return text(v.What) }},
		{name: "on", cell: func(v view) cell { return text(v.On) }},
		{name: "result", cell: func(v view) cell {
			if v.Result == "ok" || v.Result == "begun" {
				return text(v.Result)
			}
			return cell{v.Result, yellow}
		}},
		{name: "detail", cell: func(v view) cell { return text(v.Detail) }},
		{name: "number", wide: true, cell: func(v view) cell { return textf("%d", v.Seq) }},
	}}
}
