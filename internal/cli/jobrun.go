package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

func (a *app) jobCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "job",
		Short: "Run, stop, suspend and resume jobs",
		Long: `Run, stop, suspend and resume jobs: services that run to completion, once or on a
schedule. verge get jobs lists them, verge describe job/APPLICATION.SERVICE shows the
last runs and the next one, and verge wait job/APPLICATION.SERVICE waits for the end.`,
	}
	cmd.AddCommand(a.jobRunCommand(),
		a.jobActionCommand(apiv1.JobStop, "Stop the current run of a job", `Stop the current run of a job. Its instances are stopped by their stop rule, and no
more of this run start. A schedule continues with its next time.`),
		a.jobActionCommand(apiv1.JobSuspend, "Suspend a job", `Suspend a job: running instances continue, and no more start. Times of a schedule that
pass meanwhile are skipped for good. This changes the descriptor (job.suspend); the
next apply may change it again.`),
		a.jobActionCommand(apiv1.JobResume, "Resume a suspended job", "Resume a suspended job."))
	return cmd
}

const jobArg = "APPLICATION/SERVICE"

// jobRef reads "shop/nightly", "shop.nightly" or "job/shop.nightly".
func jobRef(arg string) (app, service string, err error) {
	kind, name := "", arg
	if k, n, err := ref([]string{arg}); err == nil && (k == kindJob || k == kindService) {
		kind, name = k, n
	}
	if kind != "" {
		app, service, err = rolloutRef(kindService + "/" + name)
	} else {
		app, service, err = rolloutRef(name)
	}
	if err != nil || service == "" {
		return "", "", &userError{what: "not a job name", why: arg,
			next: "write " + jobArg + "; verge get jobs lists them"}
	}
	return app, service, nil
}

func (a *app) jobActionCommand(action, short, long string) *cobra.Command {
	reason := ""
	cmd := &cobra.Command{
		Use:     action + " " + jobArg,
		Short:   short,
		Long:    long,
		Example: "  verge job " + action + " shop/nightly",
		Args:    oneArg(jobArg),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, service, err := jobRef(args[0])
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				r, err := c.Jobs.Do(cmd.Context(), app, service, apiv1.JobRequest{Action: action, Reason: reason})
				if err != nil {
					return err
				}
				said := "job/" + r.Name + ": " + action + " accepted"
				if r.Revision > 0 {
					said += fmt.Sprintf(", revision %d", r.Revision)
				}
				return a.printf("%s", withMessage(said, r.Message))
			})
		},
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

func withMessage(said, message string) string {
	if message == "" {
		return said
	}
	return said + "; " + message
}

func (a *app) jobRunCommand() *cobra.Command {
	var f waitFlags
	reason := ""
	cmd := &cobra.Command{
		Use:   "run " + jobArg,
		Short: "Run a job now and wait until it has ended",
		Long: `Run a job now and wait until it has ended: a scheduled job at once, a finished one
again from its first index.

The request is stored at the root, and is carried out even if the root or a cluster
restarts meanwhile. A current run is stopped first, unless the schedule has
concurrency: forbid; then the new run begins when the current one has ended.

Exit code 0: complete; 1: an error, or the run failed or was stopped; 2: it has not
ended yet, and continues.`,
		Example: "  verge job run shop/nightly\n  verge job run shop/resize --no-wait --reason 'new pictures'",
		Args:    oneArg(jobArg),
		RunE: func(cmd *cobra.Command, args []string) error {
			app, service, err := jobRef(args[0])
			if err != nil {
				return err
			}
			return a.withClient(func(c *client.Client) error {
				return a.runJob(cmd.Context(), c, app, service, reason, f)
			})
		},
	}
	f.add(cmd, "accepted")
	a.localFlag(cmd)
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the history")
	return cmd
}

// runJob asks for a run, and waits for its end.
func (a *app) runJob(ctx context.Context, c *client.Client, app, service, reason string, f waitFlags) error {
	start := a.opts.Now()
	r, err := c.Jobs.Do(ctx, app, service, apiv1.JobRequest{Action: apiv1.JobRunNow, Reason: reason})
	if err != nil {
		return err
	}
	if err := a.printf("%s", withMessage("job/"+r.Name+": run accepted", r.Message)); err != nil || f.noWait {
		return err
	}
	how, said := "", ""
	var v apiv1.ServiceView
	err = a.poll(ctx, f.timeout, func() (bool, error) {
		if v, err = findService(ctx, c, r.Name); err != nil {
			return false, err
		}
		if v.Job == nil {
			return false, wire.NoJob(r.Name)
		}
		how = fmt.Sprintf("%d of %d completed, %d at work", v.Job.Completed, v.Job.Completions, v.Job.Active)
		if v.Message != "" {
			how += "; " + v.Message
		}
		if how != said && v.Job.Outcome == "" {
			a.notef("%s  %s", a.clock(a.opts.Now()), how)
			said = how
		}
		return v.Job.Outcome != "", nil
	})
	switch {
	case errors.Is(err, errTimeout), errors.Is(err, context.Canceled):
		return &incompleteError{userError{
			what: "job/" + r.Name + " has not ended", why: how + ", after " +
				api.Duration(a.opts.Now().Sub(start).Round(time.Second)).String(),
			next: "it continues without this command; wait with: verge wait job/" + r.Name,
		}}
	case err != nil:
		return err
	case v.Job.Outcome != wire.JobComplete:
		return &userError{what: "job/" + r.Name + " is " + v.Job.Outcome, why: v.Job.Why,
			next: "verge logs " + r.Name + "; verge describe job/" + r.Name}
	}
	return a.printf("job/%s: %s after %s", r.Name, v.Job.Why, took(a.opts.Now().Sub(start)))
}
