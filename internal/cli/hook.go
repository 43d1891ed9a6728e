package cli

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/atomicfile"
	"github.com/verge-edge/verge/internal/event"
	"github.com/verge-edge/verge/internal/wire"
)

const kindHook = "hook"

func (a *app) hookCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "hook", Aliases: []string{"hooks"},
		Short: "Manage webhooks: notify others of events, or ask them before changes", Args: cobra.ArbitraryArgs,
		RunE: group,
		Long: `Manage webhooks: notify others of events, or ask them before changes.

A hook belongs to a namespace, receives its events, and is managed by its developers.
One with --all-namespaces receives all events, also those of clusters, and is managed
by administrators.

The root has hooks, and so has each cluster: make those with a context of the
cluster. A cluster's hooks receive events of its workers and of changes at the site,
and work without the root.

Notices (--on) are delivered at least once and in order; one that its receiver has
not taken (2xx) is kept and retried. Questions (--before) hold up a change until the
answer: {"allow": true}, or {"allow": false, "reason": "..."}.

Every message is signed with a secret as in Standard Webhooks: webhook-id,
webhook-timestamp and webhook-signature, for which most languages have libraries.`,
	}
	cmd.AddCommand(a.hookSet(), a.hookList(), a.hookDescribe(), a.hookTest(), a.hookPause(), a.hookResume(),
		a.hookRotate(), a.hookRemove())
	return cmd
}

// hookScope chooses the namespace of one hook.
type hookScope struct{ namespaceFlags }

func (f *hookScope) add(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&f.namespace, "namespace", "n", "",
		"namespace of the hook (default: that of the context, else default)")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false,
		"the hook is for all namespaces, and for what belongs to none")
}

// of is the namespace of a hook, "" for all.
func (f *hookScope) of(a *app) (string, error) {
	if f.all && f.namespace == "" {
		return "", nil
	}
	return f.one(a)
}

// hookOne is a command about one hook.
func (a *app) hookOne(cmd *cobra.Command,
	do func(ctx context.Context, c *client.Client, namespace, name string) error) *cobra.Command {
	f := &hookScope{}
	cmd.Args = oneArg("NAME")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		namespace, err := f.of(a)
		if err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error { return do(cmd.Context(), c, namespace, args[0]) })
	}
	f.add(cmd)
	return cmd
}

func (a *app) hookSet() *cobra.Command {
	var q apiv1.HookRequest
	var wait, keep time.Duration
	var secret, ca string
	cmd := a.hookOne(&cobra.Command{
		Use:   "set NAME --url URL (--on KINDS | --before OPERATIONS) --secret-file FILE",
		Short: "Create or replace a hook",
		Long: fmt.Sprintf(`Create or replace a hook; flags left out get their defaults. An existing hook keeps
its secret if you give none.

--on takes kinds, "instance.*", or "*" for all:
%s
--before takes operations: apply (of another revision), delete, scale, undo (verge
rollout undo), restart, and wave: each wave of a rollout, asked by the cluster that
is rolling out. At a cluster they are the changes made there. All hooks that are
asked must agree.

Addresses of the server's own machine, of its link and of cloud metadata are refused
unless the root or cluster is started with --hooks-allow.`, kindTable()),
		Example: "  printf 'whsec_%s' \"$(openssl rand -base64 32)\" > hook.secret\n" +
			"  verge hook set pager --url https://pager.example/verge --on instance.failed,job.failed --secret-file " +
			"hook.secret\n" +
			"  verge hook set reviewer -A --url https://review.example/verge --before apply,delete --on-failure " +
			"closed --secret-file hook.secret",
	}, func(ctx context.Context, c *client.Client, namespace, name string) (err error) {
		if q.Secret, err = a.hookSecret(secret); err != nil {
			return err
		}
		if ca != "" {
			pem, err := atomicfile.ReadBounded(ca, wire.MaxHookBytes/2)
			if err != nil {
				return &userError{what: "the authorities cannot be read", why: err.Error(),
					next: "give the path of a file in PEM"}
			}
			q.CA = string(pem)
		}
		q.WaitSeconds, q.KeepSeconds = seconds(wait), seconds(keep)
		v, err := c.Hooks.Set(ctx, namespace, name, q)
		if err != nil {
			return err
		}
		if err := a.printf("hook/%s set", wire.HookLabel(v.Namespace, v.Name)); err != nil {
			return err
		}
		a.notef("try it: verge hook test %s%s", v.Name, scopeFlag(v.Namespace))
		return nil
	})
	fl := cmd.Flags()
	fl.StringVar(&q.URL, "url", "", "URL of the receiver, https://...")
	fl.StringSliceVar(&q.On, "on", nil, "events to send: kinds, \"instance.*\", or \"*\"")
	fl.StringSliceVar(&q.Before, "before", nil, "operations to ask about first: "+strings.Join(wire.Gates, ", "))
	fl.StringVar(&q.OnFailure, "on-failure", "",
		"what no answer to a question means: closed (refuse; the default) or open (allow)")
	fl.StringVar(&secret, "secret-file", "",
		"file with the secret that signs (whsec_ and base64), - for standard input")
	fl.DurationVar(&wait, "wait", wire.HookWait*time.Second,
		fmt.Sprintf("how long an answer may take, %ds at most", wire.MaxHookWait))
	fl.DurationVar(&keep, "keep", wire.HookKeep*time.Second, "how long undelivered notices are kept, a week at most")
	fl.StringVar(&ca, "ca", "", "file (PEM) with the authorities of the receiver's certificate (default: the system's)")
	fl.BoolVar(&q.Plain, "plain-http", false,
		"allow a URL without TLS: others can read notices and change answers on the way")
	return cmd
}

func seconds(d time.Duration) int { return int(d / time.Second) }

func kindTable() string {
	var b strings.Builder
	for _, k := range event.Kinds() {
		if !k.Told("") {
			continue
		}
		means := k.Means()
		if h := k.Hooks(); h != event.AllHooks {
			means += " (hooks of a " + string(h) + ")"
		}
		fmt.Fprintf(&b, "  %-22s%s\n", k, means)
	}
	return b.String()
}

// scopeFlag is the flag that names the namespace of a hook.
func scopeFlag(namespace string) string {
	if namespace == "" {
		return " -A"
	}
	return " -n " + namespace
}

// hookSecret reads the secret of a hook, "" where none is given.
func (a *app) hookSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	value, err := a.secretValue(file)
	return strings.TrimSpace(string(value)), err
}

func (a *app) hookRotate() *cobra.Command {
	var secret string
	var overlap time.Duration
	cmd := a.hookOne(&cobra.Command{
		Use: "rotate NAME --secret-file FILE", Short: "Give a hook another secret to sign with",
		Long: `Give a hook another secret to sign with. The old one signs too for --overlap, so that
you can change the receiver meanwhile; --overlap 0 ends it at once.`,
	}, func(ctx context.Context, c *client.Client, namespace, name string) error {
		if secret == "" {
			return &userError{what: "hook rotate",
				why:  "--secret-file is missing: a file with the secret, or - for standard input",
				next: "verge hook rotate --help"}
		}
		text, err := a.hookSecret(secret)
		if err != nil {
			return err
		}
		s := seconds(overlap)
		if s == 0 {
			s = -1
		}
		v, err := c.Hooks.Rotate(ctx, namespace, name, text, s)
		if err != nil {
			return err
		}
		if v.Overlap.IsZero() {
			return a.printf("hook/%s has a new secret", wire.HookLabel(v.Namespace, v.Name))
		}
		return a.printf("hook/%s has a new secret; the old one signs too until %s", wire.HookLabel(v.Namespace, v.Name),
			v.Overlap.Format(time.RFC3339))
	})
	cmd.Flags().StringVar(&secret, "secret-file", "",
		"file with the secret that signs (whsec_ and base64), - for standard input")
	cmd.Flags().DurationVar(&overlap, "overlap", wire.HookOverlap*time.Second,
		"how long the old secret signs too, 30 days at most")
	return cmd
}

func (a *app) hookTest() *cobra.Command {
	return a.hookOne(&cobra.Command{
		Use: "test NAME", Short: "Test a hook",
		Long: "Send a hook a test now, ahead of what waits, and show the result: a notice of kind hook.test or, if " +
			"the hook is asked\nquestions, one whose operation is test.",
	}, func(ctx context.Context, c *client.Client, namespace, name string) error {
		t, err := c.Hooks.Test(ctx, namespace, name)
		if err != nil {
			return err
		}
		if !t.OK {
			return &userError{what: "hook/" + t.Name + " was tested", why: t.What,
				next: "repair its receiver, then test it again; what waits for it: verge hook describe " + name +
					scopeFlag(namespace)}
		}
		return a.printf("hook/%s: %s, in %s", t.Name, t.What,
			time.Duration(t.TookSeconds*float64(time.Second)).Round(time.Millisecond))
	})
}

func (a *app) hookPause() *cobra.Command {
	return a.hookOne(&cobra.Command{
		Use: "pause NAME", Short: "Pause a hook",
		Long: "Pause a hook until you resume it. Its notices wait, as long as they are kept; changes are made " +
			"without asking it.",
	}, func(ctx context.Context, c *client.Client, namespace, name string) error {
		v, err := c.Hooks.Pause(ctx, namespace, name)
		if err != nil {
			return err
		}
		return a.printf("hook/%s is paused", wire.HookLabel(v.Namespace, v.Name))
	})
}

func (a *app) hookResume() *cobra.Command {
	return a.hookOne(&cobra.Command{
		Use: "resume NAME", Short: "Resume a hook and deliver what waits",
	}, func(ctx context.Context, c *client.Client, namespace, name string) error {
		v, err := c.Hooks.Resume(ctx, namespace, name)
		if err != nil {
			return err
		}
		return a.printf("hook/%s resumed, %s", wire.HookLabel(v.Namespace, v.Name),
			wire.Count(v.Waiting, "notice")+" waiting")
	})
}

func (a *app) hookRemove() *cobra.Command {
	cmd := a.hookOne(&cobra.Command{
		Use: "rm NAME", Short: "Remove a hook and its waiting notices",
	}, func(ctx context.Context, c *client.Client, namespace, name string) error {
		v, err := c.Hooks.Remove(ctx, namespace, name)
		if err != nil {
			return err
		}
		if v.Waiting > 0 {
			a.notef("note: %s waiting for it will not be delivered", wire.Count(v.Waiting, "notice"))
		}
		return a.printf("hook/%s removed", wire.HookLabel(v.Namespace, v.Name))
	})
	cmd.Aliases = []string{"delete"}
	return cmd
}

func (a *app) hookList() *cobra.Command {
	mode, f := "", namespaceFlags{}
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List hooks and their state", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.resolve(a, ""); err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				list, err := c.Hooks.List(cmd.Context())
				kept := list[:0]
				for _, v := range list {
					// Those of all namespaces are of this one too.
					if f.namespace == "" || v.Namespace == "" || v.Namespace == f.namespace {
						kept = append(kept, v)
					}
				}
				return show(a, a.hooks(), mode, "", false)(kept, err)
			})
		},
	}
	f.add(cmd)
	outputFlag(cmd, &mode, "table", "wide", "json", "yaml", "name")
	return cmd
}

func (a *app) hooks() listing[apiv1.HookView] {
	type view = apiv1.HookView
	return listing[view]{kind: kindHook, name: func(v view) string { return wire.HookLabel(v.Namespace, v.Name) },
		columns: []column[view]{
			{name: "hook", cell: func(v view) cell { return text(v.Name) }},
			{name: "namespace", cell: func(v view) cell {
				if v.Namespace == "" {
					return text("(all)")
				}
				return text(v.Namespace)
			}},
			{name: "state", cell: hookState},
			{name: "waiting", cell: func(v view) cell { return text(fmt.Sprint(v.Waiting)) }},
			{name: "dropped", cell: func(v view) cell {
				c := text(fmt.Sprint(v.Dropped))
				if v.Dropped > 0 {
					c.colour = red
				}
				return c
			}},
			{name: "events", cell: func(v view) cell { return text(strings.Join(v.On, ",")) }},
			{name: "asked before", cell: func(v view) cell { return text(strings.Join(v.Before, ",")) }},
			{name: "url", wide: true, cell: func(v view) cell { return text(v.URL) }},
			{name: "by", wide: true, cell: func(v view) cell { return text(v.By) }},
			{name: "why", cell: func(v view) cell { return text(v.Why) }},
		}}
}

func hookState(v apiv1.HookView) cell {
	c := text(v.State)
	switch v.State {
	case "failing", "broken":
		c.colour = red
	case "paused":
		c.colour = yellow
	}
	return c
}

func (a *app) hookDescribe() *cobra.Command {
	return a.hookOne(&cobra.Command{Use: "describe NAME",
		Short: "Show a hook, its events and questions, and its deliveries"},
		func(ctx context.Context, c *client.Client, namespace, name string) error {
			list, err := c.Hooks.List(ctx)
			if err != nil {
				return err
			}
			for _, v := range list {
				if v.Namespace == namespace && v.Name == name {
					return a.describeHook(v)
				}
			}
			return &userError{what: "no such hook", why: wire.HookLabel(namespace, name) +
				" does not exist, or you may not see it", next: "verge hook ls"}
		})
}

func (a *app) describeHook(v apiv1.HookView) error {
	d := &details{}
	d.add("Hook", v.Name)
	d.add("Namespace", v.Namespace)
	if v.Namespace == "" {
		d.add("Namespace", "(all)")
	}
	d.add("URL", v.URL)
	d.add("State", v.State)
	d.add("Why", v.Why)
	d.add("Told of", strings.Join(v.On, ", "))
	d.add("Asked before", strings.Join(v.Before, ", "))
	d.add("If it does not answer", v.OnFailure)
	d.addf("Answer within", "%s", time.Duration(v.WaitSeconds)*time.Second)
	d.addf("Kept for", "%s", time.Duration(v.KeepSeconds)*time.Second)
	d.add("Made", a.moment(v.Created))
	d.add("By", v.By)
	d.add("Secret set", a.moment(v.SecretSet))
	if !v.Overlap.IsZero() {
		d.addf("Secret before", "signs too until %s", v.Overlap.Format(time.RFC3339))
	}
	d.addf("Waiting", "%d", v.Waiting)
	if v.Waiting > 0 {
		d.addf("Oldest", "%s", time.Duration(v.OldestSeconds*float64(time.Second)).Round(time.Second))
	}
	d.addf("Delivered", "%d, with %s, since it started", v.Delivered,
		wire.Count(int(min(v.Failures, 1<<30)), "failed attempt")) //nolint:gosec // bounded
	if len(v.Before) > 0 {
		d.addf("Asked", "allowed %d, refused %d, did not answer %d", v.Allowed, v.Refused, v.Silent)
	}
	if v.Dropped > 0 {
		d.addf("Dropped", "%d, last %s ago: %s", v.Dropped, a.since(v.DroppedAt), v.DropWhy)
	}
	if v.Last != "" {
		d.addf("Last attempt", "%s ago: %s", a.since(v.LastAt), v.Last)
	}
	if !v.Next.IsZero() {
		d.add("Next attempt", v.Next.Format(time.RFC3339))
	}
	return d.print(a)
}
