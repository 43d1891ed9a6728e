package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/wire"
)

// waitFlags of commands that change something and wait until it is so.
type waitFlags struct {
	noWait  bool
	timeout time.Duration
}

func (f *waitFlags) add(cmd *cobra.Command, returns string) {
	cmd.Flags().BoolVar(&f.noWait, "no-wait", false, "return once it is "+returns)
	cmd.Flags().DurationVar(&f.timeout, "timeout", defaultTimeout, "wait at most this long")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if f.timeout <= 0 {
			return usageError(cmd, "--timeout must be more than 0")
		}
		return run(cmd, args)
	}
}

func (a *app) scaleCommand() *cobra.Command {
	var f waitFlags
	replicas := -1
	cmd := &cobra.Command{
		Use:   "scale APPLICATION.SERVICE --replicas N",
		Short: "Change the number of instances of a service, and wait until ready",
		Long: `Change the number of instances of a service, and wait until ready.

The number is written into the application's descriptor at the root, as a new revision:
it stays until you apply a descriptor with another one. At a cluster, while its root is
away, it is the number at that site (see verge local).

Exit code 0: ready; 1: an error, nothing was changed; 2: accepted, but not ready yet.`,
		Example: "  verge scale shop.web --replicas 5\n  verge scale service/shop.web --replicas 0",
		Args:    oneOrTwoArgs("APPLICATION.SERVICE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if replicas < 0 {
				return usageError(cmd, "--replicas is missing, or less than 0")
			}
			app, service, err := serviceRef(args)
			if err != nil {
				return err
			}
			return a.scale(cmd.Context(), app, service, replicas, f)
		},
	}
	f.add(cmd, "accepted")
	a.localFlag(cmd)
	cmd.Flags().IntVar(&replicas, "replicas", -1, "the number of instances")
	return cmd
}

// oneOrTwoArgs wants KIND/NAME or KIND NAME.
func oneOrTwoArgs(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 || len(args) > 2 {
			return usageError(cmd, "give %s", what)
		}
		return nil
	}
}

// serviceRef reads "app.service", "service/app.service" or "service app.service".
func serviceRef(args []string) (app, service string, err error) {
	name := args[0]
	if len(args) == 2 || strings.Contains(name, "/") {
		var kind string
		if kind, name, err = ref(args); err != nil {
			return "", "", err
		}
		if kind != kindService {
			return "", "", &userError{what: "not possible for this kind", why: strings.Join(args, " "),
				next: "it works for service/APPLICATION.SERVICE"}
		}
	}
	app, service, ok := strings.Cut(name, ".")
	if !ok || app == "" || service == "" || strings.Contains(service, ".") {
		return "", "", &userError{what: "not a service name", why: name,
			next: "write APPLICATION.SERVICE; verge get services lists them"}
	}
	return app, service, nil
}

func (a *app) scale(ctx context.Context, app, service string, replicas int, f waitFlags) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	steps := newProgress(a)
	before, err := c.Instances.List(ctx, app, "")
	if err != nil && !notFound(err) {
		return err
	}
	steps.skip(before)
	start := a.opts.Now()
	result, err := c.Services.Scale(ctx, app, service, replicas)
	if err != nil {
		return err
	}
	did := "scaled to"
	if result.Change == "unchanged" {
		did = "is at"
	}
	if err := a.printf("service/%s.%s %s %d, revision %s", app, service, did, replicas,
		revision(result.Revision)); err != nil {
		return err
	}
	if f.noWait {
		return nil
	}
	view, err := a.await(ctx, c, result, f.timeout, steps)
	if err != nil {
		return err
	}
	if err := a.awaitGone(ctx, c, app, service, replicas, f.timeout-a.opts.Now().Sub(start), steps); err != nil {
		return err
	}
	return a.printf("application/%s ready: %s after %s", app, readyWords(view.Services), took(a.opts.Now().Sub(start)))
}

// awaitGone waits until no more than n instances of a service are left: those
// that were too many end in their orderly way, which takes longer than what
// remains takes to hold.
func (a *app) awaitGone(ctx context.Context, c *client.Client, app, service string, n int, timeout time.Duration,
	steps *progress) error {
	left := 0
	err := a.poll(ctx, timeout, func() (bool, error) {
		list, err := c.Instances.List(ctx, app, service)
		if err != nil {
			return false, err
		}
		steps.show(list)
		left = 0
		for _, i := range list {
			if i.State != wire.Terminated && !i.Unreachable {
				left++
			}
		}
		return left <= n, nil
	})
	if errors.Is(err, errTimeout) || errors.Is(err, context.Canceled) {
		return &incompleteError{userError{what: "service/" + app + "." + service + " was scaled but is not ready yet",
			why:  fmt.Sprintf("%d more than wanted, still ending", left-n),
			next: "it continues without this command; see: verge get instances --app " + app}}
	}
	return err
}
