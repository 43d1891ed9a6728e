package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// condition is what can be waited for of a kind: it says whether it is so, and how
// it is instead.
type condition func(ctx context.Context, c *client.Client, name string) (ok bool, how string, err error)

// waits are the conditions by kind and name; "ready" is the default.
var waits = map[string]map[string]condition{
	kindApplication: {"ready": applicationReady, "deleted": applicationDeleted},
	kindService:     {"ready": serviceReady},
	kindJob:         {wire.JobComplete: jobIs(wire.JobComplete), wire.JobFailed: jobIs(wire.JobFailed)},
	kindInstance:    {"ready": instanceReadyNow, "running": instanceRunning, "terminated": instanceTerminated},
	kindCluster:     {"ready": clusterReady},
	kindWorker:      {"ready": workerReady},
}

func (a *app) waitCommand() *cobra.Command {
	what, timeout := "", 5*time.Minute
	cmd := &cobra.Command{
		Use:   "wait KIND/NAME --for CONDITION",
		Short: "Wait for a condition",
		Long: `Wait for a condition:

  application  ready (everything, at its newest revision), deleted
  service      ready
  job          complete (the default), failed
  instance     ready, running, terminated
  cluster      ready (connected to the root)
  worker       ready

A cluster or worker that has not joined yet is waited for too. A job that ended the
other way ends the wait.

Exit code 0: the condition holds; 1: it cannot come true; 2: not in time.`,
		Example: "  verge wait application/guestbook --for ready --timeout 2m\n" +
			"  verge wait instance/guestbook.front.0 --for running\n" +
			"  verge wait job/shop.resize --for complete --timeout 1h\n  verge wait worker/edge/first",
		Args: oneOrTwoArgs("KIND/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := ref(args)
			if err != nil {
				return err
			}
			all := waits[kind]
			if kind == kindJob && !cmd.Flags().Changed("for") {
				what = wire.JobComplete
			}
			switch {
			case all == nil:
				return &userError{what: "not possible for this kind", why: kind,
					next: "it works for application, service, job, instance, cluster and worker"}
			case name == "":
				return usageError(cmd, "write it as %s/NAME", kind)
			case all[what] == nil:
				return usageError(cmd, "--for %s: of this kind it can be %s", what,
					strings.Join(conditions(kind), ", "))
			}
			return a.withClient(func(c *client.Client) error {
				return a.waitFor(cmd.Context(), c, kind, name, what,
					timeout)
			})
		},
	}
	cmd.Flags().StringVar(&what, "for", "ready",
		"what to wait for: ready; deleted of an application; complete or failed of a job; running or terminated of "+
			"an instance")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait")
	// The flag is there, see above.
	_ = cmd.RegisterFlagCompletionFunc("for",
		func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				if kind, _, err := ref(args); err == nil {
					return conditions(kind), cobra.ShellCompDirectiveNoFileComp
				}
			}
			return []string{"ready", "deleted", "complete", "failed", "running", "terminated"},
				cobra.ShellCompDirectiveNoFileComp
		})
	return cmd
}

// conditions that a kind has.
func conditions(kind string) []string {
	var out []string
	for name := range waits[kind] {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func (a *app) waitFor(ctx context.Context, c *client.Client, kind, name, what string, timeout time.Duration) error {
	if kind == kindInstance {
		i, err := findInstance(ctx, c, name)
		switch {
		case err == nil:
			name = i.ID
		case errors.Is(err, errNoInstance) && what == "terminated" && strings.Count(name, ".") == 2:
			// It is gone.
		default:
			return err
		}
	}
	how := ""
	err := a.poll(ctx, timeout, func() (ok bool, err error) {
		ok, how, err = waits[kind][what](ctx, c, name)
		return ok, err
	})
	switch {
	case errors.Is(err, errTimeout):
		next := fmt.Sprintf("verge describe %s/%s", kind, name)
		return &incompleteError{userError{what: fmt.Sprintf("%s/%s is not %s after %s", kind, name, what, timeout),
			why: how, next: next}}
	case err != nil:
		return err
	}
	return a.printf("%s/%s is %s", kind, clean(name), what)
}

func applicationReady(ctx context.Context, c *client.Client, name string) (ok bool, how string, err error) {
	v, err := c.Applications.Get(ctx, name)
	if err == nil && v.Deleting {
		err = &userError{what: "it will not become ready", why: name + " is being deleted",
			next: "verge wait application/" + name + " --for deleted"}
	}
	return v.Holds, v.Message, err
}

func applicationDeleted(ctx context.Context, c *client.Client, name string) (ok bool, how string, err error) {
	v, err := c.Applications.Get(ctx, name)
	switch {
	case notFound(err):
		return true, "", nil
	case !v.Deleting:
		how = "nobody has deleted it"
	default:
		how = v.Message
	}
	return false, how, err
}

func serviceReady(ctx context.Context, c *client.Client, name string) (ok bool, how string, err error) {
	s, err := findService(ctx, c, name)
	if err != nil {
		return false, "", err
	}
	how = s.Message
	if how == "" && s.Job == nil {
		how = fmt.Sprintf("%d of %d are ready", s.Ready, s.Wanted)
	}
	// A service that is as it was promised has nothing to say.
	return s.Message == "", how, nil
}

// instanceIs asks for an instance; is says whether it is as waited for.
func instanceIs(ctx context.Context, c *client.Client, id string, is func(apiv1.InstanceView) bool) (ok bool,
	how string, err error) {
	v, err := c.Instances.Get(ctx, id)
	if err != nil {
		return false, "", err
	}
	how = "it is " + instanceState(v).text
	if v.Reason != "" {
		how += ": " + v.Reason
	}
	return is(v), how, nil
}

func instanceReadyNow(ctx context.Context, c *client.Client, id string) (ok bool, how string, err error) {
	return instanceIs(ctx, c, id,
		func(v apiv1.InstanceView) bool { return v.State == wire.Running && v.Ready && !v.Unreachable })
}

func instanceRunning(ctx context.Context, c *client.Client, id string) (ok bool, how string, err error) {
	return instanceIs(ctx, c, id, func(v apiv1.InstanceView) bool { return v.State == wire.Running && !v.Unreachable })
}

func instanceTerminated(ctx context.Context, c *client.Client, id string) (ok bool, how string, err error) {
	ok, how, err = instanceIs(ctx, c, id, func(v apiv1.InstanceView) bool { return v.State == wire.Terminated })
	if notFound(err) {
		return true, "", nil
	}
	return ok, how, err
}

func clusterReady(ctx context.Context, c *client.Client, name string) (ok bool, how string, err error) {
	list, err := c.Clusters.List(ctx)
	for _, v := range list {
		if v.Name == name {
			return v.Connected, "it is disconnected, its last report: " + agoOf(v.AgeSeconds), err
		}
	}
	return false, "it has not joined", err
}

func workerReady(ctx context.Context, c *client.Client, name string) (ok bool, how string, err error) {
	list, err := c.Workers.List(ctx)
	for _, v := range list {
		if workerName(v) == name || v.Name == name {
			return v.Status == "ready", "it is " + v.Status + ", its last report: " + agoOf(v.AgeSeconds), err
		}
	}
	return false, "it has not joined", err
}
