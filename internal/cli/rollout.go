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
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// errStopped ends a wait for what does not go on by itself.
var errStopped = errors.New("the rollout has stopped")

// stopped says whether a rollout of an application has failed.
func stopped(v *wire.AppView) bool {
	for _, s := range v.Services {
		if s.Rollout == wire.RolloutFailed {
			return true
		}
	}
	return false
}

// rolling says whether one goes on.
func rolling(v *wire.AppView) bool {
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
		Short: "See, stop, resume and undo how applications become what was applied",
		Long: `See, stop, resume and undo how applications become what was applied.

Where the program of a service changes, some instances of the new revision start
beside the others first; when they are ready, the others are updated, some at a
time, so that as many as promised answer at every moment. Clusters come one after
the other. What the descriptor says under rollout sets the numbers.`,
	}
	cmd.AddCommand(a.rolloutStatusCommand(), a.rolloutHistoryCommand(), a.rolloutHoldCommand(true), a.rolloutHoldCommand(false), a.rolloutUndoCommand())
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
		return "", "", &userError{what: "not the name of an application or a service", why: arg, next: "write APPLICATION or APPLICATION/SERVICE; verge get services lists them"}
	}
	return app, service, nil
}

const rolloutArg = "APPLICATION or APPLICATION/SERVICE"

func (a *app) rolloutStatusCommand() *cobra.Command {
	mode, wait, timeout := "", false, defaultTimeout
	cmd := &cobra.Command{
		Use:   "status APPLICATION[/SERVICE]",
		Short: "Say how far a rollout is, and why it does not go on",
		Long: `Say how far a rollout is, and why it does not go on.

READY are the instances that answer, of whichever revision and with those of EXTRA,
UPDATED those that are of the new one, both of how many there are to be.

SHARE is the part of the requests that the new revision gets while it is tried
(rollout.canary), and which step of them that is. NEW and BEFORE are the requests
that the instances of both revisions were given since it began, those that failed,
and how long one takes; they are up to 10 seconds old.

Exit code 0: it is done; 2: it is not, or has failed; 1: an error.`,
		Example: "  verge rollout status shop\n  verge rollout status shop/web --wait",
		Args:    oneArg(rolloutArg),
		RunE: func(cmd *cobra.Command, args []string) error {
			if timeout <= 0 {
				return usageError(cmd, "--timeout must be more than 0")
			}
			return a.withClient(func(c *rest.Client) error {
				return a.rolloutStatus(cmd.Context(), c, args[0], mode, wait, timeout)
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it is done or has failed")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "wait at most this long")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) rolloutStatus(ctx context.Context, c *rest.Client, arg, mode string, wait bool, timeout time.Duration) error {
	app, service, err := rolloutRef(arg)
	if err != nil {
		return err
	}
	var v wire.RolloutView
	phase := ""
	look := func() error {
		now, err := c.Rollout(ctx, app)
		if err == nil {
			now.Services, err = only(now, service)
		}
		if err != nil {
			return err // what was seen last stays
		}
		v, phase = now, wire.RolloutDone
		for _, s := range v.Services {
			phase = wire.WorstPhase(phase, s.Phase)
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
	next := "it goes on by itself; verge rollout status " + arg + " --wait"
	switch phase {
	case wire.RolloutFailed:
		next = "apply another descriptor, verge rollout undo " + arg + ", or when the reason is gone: verge rollout resume " + arg
	case wire.RolloutPaused:
		next = "verge rollout resume " + arg
	}
	why := ""
	for _, s := range v.Services {
		if s.Phase == phase && s.Why != "" {
			why += "\n  " + s.Name + ": " + s.Why
		}
	}
	return &incompleteError{userError{what: "the rollout of " + arg + " is not done: it is " + phase + late, why: strings.TrimPrefix(why, "\n  "), next: next}}
}

// only are the services of a view, or the one that is named.
func only(v wire.RolloutView, service string) ([]wire.ServiceRollout, error) {
	if service == "" {
		return v.Services, nil
	}
	for _, s := range v.Services {
		if s.Name == service {
			return []wire.ServiceRollout{s}, nil
		}
	}
	return nil, &userError{what: "there is no such service", why: service + " is not in application " + v.Name, next: "verge get services --app " + v.Name}
}

func (a *app) printRollout(v wire.RolloutView) error {
	if err := a.printf("application/%s, revision %s", v.Name, revision(v.Revision)); err != nil {
		return err
	}
	var rows [][]cell
	head := []string{"SERVICE", "CLUSTER", "ROLLOUT", "FROM", "READY", "UPDATED", "EXTRA"}
	tried := slices.ContainsFunc(v.Services, func(s wire.ServiceRollout) bool {
		return slices.ContainsFunc(s.Clusters, func(r wire.RolloutReport) bool { return r.Trial || r.New != nil && r.Phase != wire.RolloutDone })
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
			row := []cell{text(s.Name), text(r.Cluster), phase, text(from), text(fmt.Sprintf("%d/%d", r.Ready, r.Promised)), text(fmt.Sprintf("%d/%d", r.Updated, r.Promised)), text(extra)}
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
		Short: "List the revisions of an application that can be brought back",
		Long: `List the revisions of an application that can be brought back.

The last 10 before the current one are kept, until the application is deleted.
HELD says whether all services were ready as applied; verge rollout undo goes back
to the last one of which that is so.
With --revision the descriptor of one of them is printed, as it was applied.`,
		Example: "  verge rollout history shop\n  verge rollout history shop --revision 3 > shop.yaml",
		Args:    oneArg("APPLICATION"),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, service, err := rolloutRef(args[0])
			if err == nil && service != "" {
				err = usageError(cmd, "the history is that of an application: write %s", app)
			}
			if err != nil {
				return err
			}
			return a.withClient(func(c *rest.Client) error { return a.rolloutHistory(cmd.Context(), c, app, number, mode) })
		},
	}
	cmd.Flags().Uint64Var(&number, "revision", 0, "print the descriptor of this revision")
	outputFlag(cmd, &mode, "table", "json", "yaml")
	return cmd
}

func (a *app) rolloutHistory(ctx context.Context, c *rest.Client, app string, number uint64, mode string) error {
	if number > 0 {
		r, err := c.Revision(ctx, app, number)
		switch {
		case err != nil:
			return err
		case mode == "json" || mode == "yaml":
			return a.encode(mode, r)
		}
		return a.printf("%s", strings.TrimRight(r.Descriptor, "\n"))
	}
	list, err := c.Revisions(ctx, app)
	if err != nil {
		return err
	}
	if mode == "json" || mode == "yaml" {
		return a.encode(mode, struct {
			Items []wire.AppRevision `json:"items"`
		}{list})
	}
	rows := make([][]cell, len(list))
	for n, r := range list {
		number := revision(r.Revision)
		if r.Current {
			number += " (current)"
		}
		rows[n] = []cell{text(number), text(heldWord(&r)), text(age(a.opts.Now().Sub(r.When))), text(cmp.Or(r.By, "-")), text(cmp.Or(strings.Join(r.Changed, "; "), "-")), text(cmp.Or(r.Why, "-"))}
	}
	return a.table([]string{"REVISION", "HELD", "AGE", "BY", "CHANGED", "WHY"}, rows)
}

// heldWord says whether a revision held, or which services of it did.
func heldWord(r *wire.AppRevision) string {
	var held []string
	for _, name := range slices.Sorted(maps.Keys(r.Held)) {
		if r.Held[name] {
			held = append(held, name)
		}
	}
	switch {
	case r.Held == nil:
		return "-"
	case r.HasHeld(""):
		return "yes"
	case len(held) == 0:
		return "no"
	}
	return "only " + strings.Join(held, ", ")
}

func (a *app) rolloutHoldCommand(pause bool) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:   "resume APPLICATION[/SERVICE]",
		Short: "Go on with a rollout that was paused or has failed",
		Long: `Go on with a rollout that was paused or has failed.

One that has failed tries again from where it is.`,
		Example: "  verge rollout resume shop/web",
		Args:    oneArg(rolloutArg),
	}
	if pause {
		cmd.Use, cmd.Short, cmd.Example = "pause APPLICATION[/SERVICE]", "Update no more instances for now", "  verge rollout pause shop/web --reason 'looking at it'"
		cmd.Long = `Update no more instances for now.

What is being updated becomes ready; nothing else is touched, also not by what is
applied later, until the rollout is resumed. A cluster that is away hears of it
when it is back.`
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		app, service, err := rolloutRef(args[0])
		if err != nil {
			return err
		}
		return a.withClient(func(c *rest.Client) error {
			q, do, did := wire.RolloutRequest{Service: service, Reason: reason}, c.Resume, "resumed"
			if pause {
				do, did = c.Pause, "paused"
			}
			if _, err := do(cmd.Context(), app, q); err != nil {
				return err
			}
			return a.printf("%s: rollout %s", args[0], did)
		})
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for those who come across it")
	return cmd
}

func (a *app) rolloutUndoCommand() *cobra.Command {
	var f waitFlags
	reason, to := "", uint64(0)
	cmd := &cobra.Command{
		Use:   "undo APPLICATION[/SERVICE]",
		Short: "Bring an earlier revision back, and watch until it holds",
		Long: `Bring an earlier revision back, and watch until it holds.

What the application, or the one service, was is applied as a new revision: the
last that was other than it is and that held, or the one that --to names (verge
rollout history shows which have held). It is rolled out like any other.
Exit code 0: it holds; 1: an error, nothing was changed; 2: it was accepted but
does not hold yet.`,
		Example: "  verge rollout undo shop\n  verge rollout undo shop/web --to 3",
		Args:    oneArg(rolloutArg),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, service, err := rolloutRef(args[0])
			if err != nil {
				return err
			}
			return a.withClient(func(c *rest.Client) error {
				return a.undo(cmd.Context(), c, app, wire.RolloutRequest{Service: service, Reason: reason, To: to}, f)
			})
		},
	}
	f.add(cmd, "accepted")
	cmd.Flags().Uint64Var(&to, "to", 0, "the revision to bring back (default: the last one that held)")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

func (a *app) undo(ctx context.Context, c *rest.Client, app string, q wire.RolloutRequest, f waitFlags) error {
	steps := newProgress(a)
	before, err := c.Instances(ctx, app, "")
	if err != nil && !notFound(err) {
		return err
	}
	steps.skip(before)
	start := a.opts.Now()
	r, err := c.Undo(ctx, app, q)
	if err != nil {
		return err
	}
	a.warn(r.Warnings, nil)
	if r.Change == "unchanged" {
		return a.printf("application/%s is as it was then already, revision %s", app, revision(r.Revision))
	}
	what := "an earlier revision"
	if r.Undo > 0 {
		what = "revision " + revision(r.Undo)
	}
	if err := a.printf("application/%s: %s is brought back as revision %s", app, what, revision(r.Revision)); err != nil || f.noWait {
		return err
	}
	view, err := a.await(ctx, c, r, f.timeout, steps)
	if err != nil {
		return err
	}
	return a.printf("application/%s holds: %s after %s", app, readyWords(view.Services), took(a.opts.Now().Sub(start)))
}
