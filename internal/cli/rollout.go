package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// errStopped ends a wait for a rollout that needs somebody to continue.
var errStopped = errors.New("the rollout has stopped")

// stopped says whether a rollout of an application has failed.
func stopped(v *apiv1.AppView) bool {
	for _, s := range v.Services {
		if s.Rollout == wire.RolloutFailed {
			return true
		}
	}
	return false
}

// rolling says whether a rollout is in progress.
func rolling(v *apiv1.AppView) bool {
	for _, s := range v.Services {
		if s.Rollout == wire.RolloutRolling || s.Rollout == wire.RolloutWaiting {
			return true
		}
	}
	return false
}

func (a *app) rolloutCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Show, pause, resume and undo rollouts",
		Long: `Show, pause, resume and undo rollouts.

When the program of a service changes, some instances of the new revision first start
beside the others. When they are ready, the others are updated, some at a time, so that
the promised number answers at every moment. Clusters are updated one after the other.
The descriptor sets the numbers under rollout.`,
	}
	cmd.AddCommand(a.rolloutStatusCommand(), a.rolloutHistoryCommand(), a.rolloutHoldCommand(true),
		a.rolloutHoldCommand(false), a.rolloutUndoCommand())
	return cmd
}

// rolloutRef reads "shop", "shop/web", "shop.web", "application/shop" or
// "service/shop.web".
func rolloutRef(arg string) (app, service string, err error) {
	kind, name, two := strings.Cut(arg, "/")
	switch {
	case two && kind == kindApplication:
		app = name
	case two && kind == kindService:
		app, service, _ = strings.Cut(name, ".")
	case two:
		app, service = kind, name
	default:
		app, service, _ = strings.Cut(arg, ".")
	}
	if app == "" || strings.ContainsAny(app+service, "./") || two && service == "" && kind != kindApplication {
		return "", "", &userError{what: "not an application or service", why: arg,
			next: "write APPLICATION or APPLICATION/SERVICE; verge get services lists them"}
	}
	return app, service, nil
}

const rolloutArg = "APPLICATION or APPLICATION/SERVICE"

func (a *app) rolloutStatusCommand() *cobra.Command {
	mode, wait, timeout := "", false, defaultTimeout
	cmd := &cobra.Command{
		Use:   "status APPLICATION[/SERVICE]",
		Short: "Show the progress of a rollout, and what it waits for",
		Long: `Show the progress of a rollout, and what it waits for.

READY are the instances that answer, of any revision and with the surge (EXTRA);
UPDATED are those of the new revision. Both are out of the wanted number.

SHARE is the share of the requests that the new revision gets in a canary
(rollout.canary), and its step. NEW and BEFORE are the requests to both revisions since
the rollout began, failures, and the time of one; they are up to 10 seconds old.

Exit code 0: done; 1: an error; 2: not done, or failed.`,
		Example: "  verge rollout status shop\n  verge rollout status shop/web --wait",
		Args:    oneArg(rolloutArg),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return usageError(cmd, "--timeout must be more than 0")
			}
			return a.withClient(func(c *client.Client) error {
				return a.rolloutStatus(cmd.Context(), c, args[0], mode, wait, timeout)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done or has failed")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "wait at most this long")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) rolloutStatus(ctx context.Context, c *client.Client, arg, mode string, wait bool,
	timeout time.Duration) error {
	app, service, err := rolloutRef(arg)
	if err != nil {
		return err
	}
	var v apiv1.RolloutView
	phase := ""
	look := func() error {
		now, err := c.Rollouts.Get(ctx, app)
		if err == nil {
			now.Services, err = only(now, service)
		}
		if err != nil {
			return err // what was seen last stays
		}
		v, phase = now, wire.RolloutDone
		for _, s := range v.Services {
			phase = apiv1.WorstPhase(phase, s.Phase)
		}
		return nil
	}
	if err := look(); err != nil {
		return err
	}
	late := ""
	if wait && phase != wire.RolloutDone && phase != wire.RolloutFailed {
		err := a.poll(ctx, timeout, func() (bool, error) {
			err := look()
			return phase == wire.RolloutDone || phase == wire.RolloutFailed, err
		})
		switch {
		case errors.Is(err, errTimeout):
			late = " after " + api.Duration(timeout).String()
		case err != nil && !errors.Is(err, context.Canceled):
			return err
		}
	}
	if mode == "json" || mode == "yaml" {
		if err := a.encode(mode, v); err != nil {
			return err
		}
	} else if err := a.printRollout(v); err != nil {
		return err
	}
	if phase == wire.RolloutDone {
		return nil
	}
	next := "it continues without this command; verge rollout status " + arg + " --wait"
	switch phase {
	case wire.RolloutFailed:
		next = "apply another descriptor, verge rollout undo " + arg +
			", or, once the reason is gone: verge rollout resume " + arg
	case wire.RolloutPaused:
		next = "verge rollout resume " + arg
	}
	why := ""
	for _, s := range v.Services {
		if s.Phase == phase && s.Why != "" {
			why += "\n  " + s.Name + ": " + s.Why
		}
	}
	return &incompleteError{userError{what: "the rollout of " + arg + " is not done: it is " + phase + late,
		why: strings.TrimPrefix(why, "\n  "), next: next}}
}

// only are the services of a view, or the one that is named.
func only(v apiv1.RolloutView, service string) ([]apiv1.ServiceRollout, error) {
	if service == "" {
		return v.Services, nil
	}
	for _, s := range v.Services {
		if s.Name == service {
			return []apiv1.ServiceRollout{s}, nil
		}
	}
	return nil, &userError{what: "no such service", why: service + " is not in application " + v.Name,
		next: "verge get services --app " + v.Name}
}

func (a *app) printRollout(v apiv1.RolloutView) error {
	if err := a.printf("application/%s, revision %s", v.Name, revision(v.Revision)); err != nil {
		return err
	}
	var rows [][]cell
	head := []string{"SERVICE", "CLUSTER", "ROLLOUT", "FROM", "READY", "UPDATED", "EXTRA"}
	tried := slices.ContainsFunc(v.Services, func(s apiv1.ServiceRollout) bool {
		return slices.ContainsFunc(s.Clusters,
			func(r wire.RolloutReport) bool { return r.Trial || r.New != nil && r.Phase != wire.RolloutDone })
	})
	if tried {
		head = append(head, "SHARE", "NEW", "BEFORE")
	}
	for _, s := range v.Services {
		for _, r := range s.Clusters {
			phase := text(r.Phase)
			switch r.Phase {
			case wire.RolloutFailed:
				phase.colour = red
			case wire.RolloutDone:
			default:
				phase.colour = yellow
			}
			from := "-"
			if r.From > 0 && r.Phase != wire.RolloutDone {
				from = revision(r.From)
			}
			extra := "-"
			if r.Surge > 0 {
				extra = fmt.Sprintf("+%d", r.Surge)
			}
			row := []cell{text(s.Name), text(r.Cluster), phase, text(from),
				text(fmt.Sprintf("%d/%d", r.Ready, r.Promised)), text(fmt.Sprintf("%d/%d", r.Updated, r.Promised)),
				text(extra)}
			if tried {
				row = append(row, text(shareOf(&r)), text(side(&r, r.New)), text(side(&r, r.Old)))
			}
			rows = append(rows, append(row, text(cmp.Or(r.Why, "-"))))
		}
	}
	if err := a.table(append(head, "WHY"), rows); err != nil {
		return err
	}
	for _, s := range v.Services {
		for _, r := range s.Clusters {
			for _, said := range r.Said {
				if err := a.printf("%s in %s, %s", s.Name, r.Cluster, said); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// shareOf is the share of the requests that the new revision gets: "5% (1/3)".
func shareOf(r *wire.RolloutReport) string {
	switch {
	case !r.Trial:
		return "-"
	case r.Steps > 0:
		return fmt.Sprintf("%s (%d/%d)", r.Share, r.Step, r.Steps)
	}
	return r.Share.String()
}

// side says how the instances of one revision have answered: "1200, 3 failed, 12ms".
func side(r *wire.RolloutReport, s *wire.RolloutSide) string {
	if s == nil || r.Phase == wire.RolloutDone {
		return "-"
	}
	out := fmt.Sprintf("%d, %d failed", s.Requests, s.Failed)
	if s.Exec > 0 {
		out += ", " + took(s.Exec.Std())
	}
	return out
}

func (a *app) rolloutHistoryCommand() *cobra.Command {
	mode, number := "", uint64(0)
	cmd := &cobra.Command{
		Use:   "history APPLICATION",
		Short: "List earlier revisions of an application",
		Long: `List earlier revisions of an application.

The last 10 before the current one are kept, until the application is deleted. GOOD
says whether all services were ready as applied; verge rollout undo goes back to the
last good revision. --revision prints the descriptor of one as it was applied.`,
		Example: "  verge rollout history shop\n  verge rollout history shop --revision 3 > shop.yaml",
		Args:    oneArg("APPLICATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, service, err := rolloutRef(args[0])
			if err == nil && service != "" {
				err = usageError(cmd, "the history belongs to the application: write %s", app)
			}
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				return a.rolloutHistory(cmd.Context(), c, app, number,
					mode)
			})
		},
	}
	cmd.Flags().Uint64Var(&number, "revision", 0, "print the descriptor of this revision")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) rolloutHistory(ctx context.Context, c *client.Client, app string, number uint64, mode string) error {
	if number > 0 {
		r, err := c.Rollouts.Revision(ctx, app, number)
		switch {
		case err != nil:
			return err
		case mode == "json" || mode == "yaml":
			return a.encode(mode, r)
		}
		return a.printf("%s", strings.TrimRight(r.Descriptor, "\n"))
	}
	list, err := c.Rollouts.Revisions(ctx, app)
	if err != nil {
		return err
	}
	if mode == "json" || mode == "yaml" {
		return a.encode(mode, struct {
			Items []apiv1.AppRevision `json:"items"`
		}{list})
	}
	rows := make([][]cell, len(list))
	for n, r := range list {
		number := revision(r.Revision)
		if r.Current {
			number += " (current)"
		}
		rows[n] = []cell{text(number), text(goodWord(&r)), text(age(a.opts.Now().Sub(r.When))), text(cmp.Or(r.By, "-")),
			text(cmp.Or(strings.Join(r.Changed, "; "), "-")), text(cmp.Or(r.Why, "-"))}
	}
	return a.table([]string{"REVISION", "GOOD", "AGE", "BY", "CHANGED", "WHY"}, rows)
}

// goodWord says whether a revision was good, or which services of it were.
func goodWord(r *apiv1.AppRevision) string {
	var good []string
	for _, name := range slices.Sorted(maps.Keys(r.Held)) {
		if r.Held[name] {
			good = append(good, name)
		}
	}
	switch {
	case r.Held == nil:
		return "-"
	case r.HasHeld(""):
		return "yes"
	case len(good) == 0:
		return "no"
	}
	return "only " + strings.Join(good, ", ")
}

func (a *app) rolloutHoldCommand(pause bool) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "resume APPLICATION[/SERVICE]",
		Short: "Resume a rollout that was paused or has failed",
		Long: `Resume a rollout that was paused or has failed.

A failed one tries again from where it is.`,
		Example: "  verge rollout resume shop/web",
		Args:    oneArg(rolloutArg),
	}
	if pause {
		cmd.Use, cmd.Short, cmd.Example = "pause APPLICATION[/SERVICE]", "Pause a rollout",
			"  verge rollout pause shop/web --reason 'looking at it'"
		cmd.Long = `Pause a rollout: no more instances are updated.

Instances that are being updated become ready. Nothing else is touched until you resume,
not even by later applies. A cluster that is away pauses when it is back.`
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		app, service, err := rolloutRef(args[0])
		if err != nil {
			return err
		}
		return a.withClient(func(c *client.Client) error {
			q, do, did := apiv1.RolloutRequest{Service: service, Reason: reason}, c.Rollouts.Resume, "resumed"
			if pause {
				do, did = c.Rollouts.Pause, "paused"
			}
			if _, err := do(cmd.Context(), app, q); err != nil {
				return err
			}
			return a.printf("%s: rollout %s", args[0], did)
		})
	}
	cmd.Flags().StringVar(&reason, "reason", "", "the reason, shown to others")
	return cmd
}

func (a *app) rolloutUndoCommand() *cobra.Command {
	var f waitFlags
	reason, to := "", uint64(0)
	cmd := &cobra.Command{
		Use:   "undo APPLICATION[/SERVICE]",
		Short: "Go back to an earlier revision, and wait until ready",
		Long: `Go back to an earlier revision, and wait until ready.

The application, or the one service, becomes what it was: the last good revision
that differs from the present one, or the one that --to names (see verge rollout
history). It is applied as a new revision and rolled out like any other.

Exit code 0: ready; 1: an error, nothing was changed; 2: accepted, but not ready yet or
has failed.`,
		Example: "  verge rollout undo shop\n  verge rollout undo shop/web --to 3",
		Args:    oneArg(rolloutArg),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, service, err := rolloutRef(args[0])
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				return a.undo(cmd.Context(), c, app, apiv1.RolloutRequest{Service: service, Reason: reason, To: to}, f)
			})
		},
	}
	f.add(cmd, "accepted")
	cmd.Flags().Uint64Var(&to, "to", 0, "the revision to go back to (default: the last good one)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

func (a *app) undo(ctx context.Context, c *client.Client, app string, q apiv1.RolloutRequest, f waitFlags) error {
	steps := newProgress(a)
	before, err := c.Instances.List(ctx, app, "")
	if err != nil && !notFound(err) {
		return err
	}
	steps.skip(before)
	start := a.opts.Now()
	r, err := c.Rollouts.Undo(ctx, app, q)
	if err != nil {
		return err
	}
	a.warn(r.Warnings, nil)
	if r.Change == "unchanged" {
		return a.printf("application/%s is already as it was then, revision %s", app, revision(r.Revision))
	}
	what := "an earlier revision"
	if r.Undo > 0 {
		what = "revision " + revision(r.Undo)
	}
	if err := a.printf("application/%s: %s is applied again as revision %s", app, what,
		revision(r.Revision)); err != nil || f.noWait {
		return err
	}
	view, err := a.await(ctx, c, r, f.timeout, steps)
	if err != nil {
		return err
	}
	return a.printf("application/%s ready: %s after %s", app, readyWords(view.Services), took(a.opts.Now().Sub(start)))
}
