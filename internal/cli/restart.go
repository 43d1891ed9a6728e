package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) restartCommand() *cobra.Command {
	var f waitFlags
	reason := ""
	cmd := &cobra.Command{
		Use:   "restart APPLICATION | APPLICATION.SERVICE | instance/ID",
		Short: "Restart instances one after the other, and wait until ready",
		Long: `Restart instances one after the other, and wait until ready.

Each stays where it is and begins its next incarnation, and only while the others of
its service are ready. The request is stored at the root: it is carried out even if
the root, a cluster or a worker restarts meanwhile, and a cluster that is away carries
it out when it is back. At a cluster, while its root is away, it restarts what runs at
that site.

Exit code 0: all are ready again; 1: an error, nothing was changed; 2: accepted, but
not all are ready yet.`,
		Example: "  verge restart shop\n  verge restart shop.web --reason 'new certificate'\n" +
			"  verge restart instance/shop.web.1",
		Args: oneOrTwoArgs("APPLICATION, APPLICATION.SERVICE or instance/ID"),
		RunE: func(cmd *cobra.Command, args []string) error {
			args, err := a.wholeInstance(cmd.Context(), args)
			if err != nil {
				return err
			}
			app, q, err := restartRef(args)
			if err != nil {
				return err
			}
			q.Reason = reason
			return a.restart(cmd.Context(), app, q, f)
		},
	}
	f.add(cmd, "accepted")
	a.localFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history of the instances")
	return cmd
}

// wholeInstance replaces the beginning of the id of an instance by all of it.
func (a *app) wholeInstance(ctx context.Context, args []string) ([]string, error) {
	if len(args) == 1 && !strings.Contains(args[0], "/") {
		return args, nil
	}
	kind, name, err := ref(args)
	if err != nil || kind != kindInstance || name == "" || strings.Count(name, ".") > 1 &&
		!strings.HasSuffix(name, ".") {
		return args, err
	}
	err = a.withClient(func(c *client.Client) error {
		i, err := findInstance(ctx, c, name)
		args = []string{kindInstance + "/" + i.ID}
		return err
	})
	return args, err
}

// restartRef reads what is to be restarted: "shop", "application/shop",
// "shop.web", "service/shop.web", "shop.web.1" or "instance/shop.web.1".
func restartRef(args []string) (app string, q apiv1.RestartRequest, err error) {
	kind, name := "", args[0]
	if len(args) == 2 || strings.Contains(name, "/") {
		if kind, name, err = ref(args); err != nil {
			return "", q, err
		}
	}
	parts := strings.Split(name, ".")
	byParts := map[int]string{1: kindApplication, 2: kindService, 3: kindInstance}
	if kind == "" {
		kind = byParts[len(parts)]
	}
	if kind == "" || byParts[len(parts)] != kind || slices.Contains(parts, "") {
		return "", q, &userError{what: "not possible", why: strings.Join(args, " "),
			next: "write APPLICATION, APPLICATION.SERVICE or instance/APPLICATION.SERVICE.ORDINAL"}
	}
	if len(parts) > 1 {
		q.Service = parts[1]
	}
	if len(parts) > 2 {
		n, err := strconv.Atoi(parts[2])
		if err != nil || n < 0 {
			return "", q, &userError{what: "not an instance id", why: name, next: "list them with: verge get instances"}
		}
		q.Ordinal = &n
	}
	return parts[0], q, nil
}

func (a *app) restart(ctx context.Context, app string, q apiv1.RestartRequest, f waitFlags) error {
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
	result, err := c.Services.Restart(ctx, app, q)
	if err != nil {
		return err
	}
	if err := a.printf("application/%s: restart of %s accepted", app, instancesOf(len(result.Instances))); err != nil {
		return err
	}
	if f.noWait || len(result.Instances) == 0 {
		return nil
	}
	if err := a.awaitRestart(ctx, c, result, f.timeout, steps); err != nil {
		return err
	}
	return a.printf("application/%s: %s restarted and ready after %s", app, instancesOf(len(result.Instances)),
		took(a.opts.Now().Sub(start)))
}

func instancesOf(n int) string {
	if n == 1 {
		return "1 instance"
	}
	return fmt.Sprintf("%d instances", n)
}

// awaitRestart polls until every instance of r that is still there has been
// started again and is ready, or has completed.
func (a *app) awaitRestart(ctx context.Context, c *client.Client, r apiv1.RestartResult, timeout time.Duration,
	steps *progress) error {
	var left []string
	err := a.poll(ctx, timeout, func() (bool, error) {
		list, err := c.Instances.List(ctx, r.Name, "")
		if err != nil && !notFound(err) {
			return false, err
		}
		steps.show(list)
		left = nil
		for _, i := range list {
			if slices.Contains(r.Instances, i.ID) && !i.Draining {
				if why := unrestarted(i, r.N); why != "" {
					left = append(left, i.ID+" "+why)
				}
			}
		}
		return len(left) == 0, nil
	})
	var why string
	switch {
	case errors.Is(err, errTimeout):
		why = "after " + api.Duration(timeout).String()
	case errors.Is(err, context.Canceled):
		why = "the wait was interrupted"
	default:
		return err
	}
	slices.Sort(left)
	return &incompleteError{userError{
		what: "application/" + r.Name + " is restarting, and not all of it is ready yet",
		why:  why + "\n  " + strings.Join(left, "\n  "),
		next: "it continues without this command; see: verge get instances --app " + r.Name,
	}}
}

// unrestarted says what an instance lacks to have been restarted by mark n.
func unrestarted(i apiv1.InstanceView, n uint64) string {
	var what string
	switch {
	case i.State == wire.Terminated && i.Restarted >= n:
		return ""
	case i.Unreachable:
		what = "is unreachable"
	case i.Restarted < n:
		what = "has not restarted yet"
	case !i.Ready:
		what = "is not ready yet (" + string(i.State) + ")"
	default:
		return ""
	}
	if i.Reason != "" {
		what += ": " + i.Reason
	}
	return what
}
