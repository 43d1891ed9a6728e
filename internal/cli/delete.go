package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
)

func (a *app) deleteCommand() *cobra.Command {
	noWait, timeout := false, defaultTimeout
	cmd := &cobra.Command{
		Use:   "delete application/NAME",
		Short: "Delete an application and wait until it is gone",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 || len(args) > 2 {
				return usageError(cmd, "give application/NAME")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			// A bare name could be meant for anything: deleting wants the kind.
			if len(args) == 1 && !strings.Contains(args[0], "/") {
				return usageError(cmd, "%q has no kind: write application/%s", args[0], args[0])
			}
			kind, name, err := ref(args)
			if err == nil && (kind != kindApplication || name == "") {
				err = usageError(cmd, "only application/NAME can be deleted")
			}
			if err != nil {
				return err
			}
			return a.delete(cmd.Context(), name, noWait, timeout)
		},
	}
	a.localFlag(cmd)
	cmd.Flags().BoolVar(&noWait, "no-wait", false, "return once the deletion is accepted")
	cmd.Flags().DurationVar(&timeout, "timeout", defaultTimeout, "wait at most this long")
	return cmd
}

func (a *app) delete(ctx context.Context, name string, noWait bool, timeout time.Duration) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	defer c.Close()
	steps := newProgress(a)
	before, err := c.Instances.List(ctx, name, "")
	if err != nil && !notFound(err) {
		return err
	}
	steps.skip(before)
	start := a.opts.Now()
	if err := c.Applications.Delete(ctx, name); err != nil {
		return err
	}
	if noWait {
		return a.printf("application/%s is being deleted", name)
	}
	var last *apiv1.AppView
	err = a.poll(ctx, timeout, func() (bool, error) {
		list, err := c.Instances.List(ctx, name, "")
		if err != nil && !notFound(err) {
			return false, err
		}
		steps.show(list)
		v, err := c.Applications.Get(ctx, name)
		if notFound(err) {
			return true, nil
		}
		last = &v
		return false, err
	})
	switch {
	case err == nil:
		return a.printf("application/%s deleted after %s", name, took(a.opts.Now().Sub(start)))
	case errors.Is(err, errTimeout), errors.Is(err, context.Canceled):
		why := "after " + api.Duration(timeout).String()
		if errors.Is(err, context.Canceled) {
			why = "the wait was interrupted"
		}
		if last != nil && last.Message != "" {
			why += ": " + last.Message
		}
		return &incompleteError{userError{what: "application/" + name + " is being deleted but is not gone yet",
			why:  why,
			next: "it continues without this command; see: verge get instances --app " + name}}
	}
	return err
}
