package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/verge-edge/verge/client"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
)

// isJob says whether a service is a job.
func isJob(v serviceItem) bool { return v.Job != nil }

// listJobs are the services that run to completion.
func listJobs(ctx context.Context, c *client.Client, app, namespace string) ([]serviceItem, error) {
	list, err := listServices(ctx, c, app, namespace)
	return slices.DeleteFunc(list, func(v serviceItem) bool { return !isJob(v) }), err
}

func (a *app) jobs() listing[serviceItem] {
	return listing[serviceItem]{kind: kindJob, name: func(v serviceItem) string { return v.App + "." + v.Name },
		columns: []column[serviceItem]{
			{name: "job", cell: func(v serviceItem) cell { return text(v.App + "." + v.Name) }},
			{name: "completed", cell: func(v serviceItem) cell {
				return textf("%d/%d", v.Job.Completed,
					v.Job.Completions)
			}},
			{name: "active", cell: func(v serviceItem) cell { return textf("%d", v.Job.Active) }},
			{name: "failed", cell: func(v serviceItem) cell {
				if v.Job.Failed > 0 {
					return cell{fmt.Sprint(v.Job.Failed), yellow}
				}
				return text("0")
			}},
			{name: "status", cell: func(v serviceItem) cell { return jobStatus(v.Job) }},
			{name: "last", cell: func(v serviceItem) cell { return a.lastRun(v.Job) }},
			{name: "next", cell: func(v serviceItem) cell {
				if v.Job.Next.IsZero() {
					return text("")
				}
				return text("in " + age(v.Job.Next.Sub(a.opts.Now())))
			}},
			{name: "schedule", wide: true, cell: func(v serviceItem) cell { return text(v.Job.Schedule) }},
			{name: "clusters", cell: func(v serviceItem) cell { return text(strings.Join(v.Clusters, ",")) }},
			{name: "namespace", wide: true, cell: func(v serviceItem) cell { return text(v.Namespace) }},
			{name: "message", cell: func(v serviceItem) cell {
				if v.Message == "" {
					return text(v.Job.Why)
				}
				return text(v.Message)
			}},
		}}
}

// lastRun is how the previous run ended, or the latest one if none is running.
func (a *app) lastRun(j *apiv1.JobView) cell {
	for _, r := range j.Runs {
		if r.Outcome == "" {
			continue
		}
		c := cell{text: r.Outcome + " " + a.since(r.Ended) + " ago"}
		if r.Outcome == wire.JobFailed {
			c.colour = yellow
		}
		return c
	}
	return text("")
}

// jobStatus is how a job stands, in a word.
func jobStatus(j *apiv1.JobView) cell {
	switch {
	case j.Suspended && j.Schedule != "" && j.Active == 0:
		return cell{"suspended", yellow}
	case j.Outcome == wire.JobFailed:
		return cell{j.Outcome, yellow}
	case j.Outcome != "":
		return text(j.Outcome)
	case j.Suspended:
		return cell{"suspended", yellow}
	case j.Active > 0:
		return text("running")
	case j.Schedule != "" && (len(j.Runs) == 0 || j.Runs[0].Outcome != ""):
		return text("scheduled")
	}
	return text("waiting")
}

// describeJob adds the details of a job.
func (a *app) describeJob(d *details, j *apiv1.JobView) {
	if j == nil {
		return
	}
	d.addf("Job", "%s: %d of %d completed, %d at work, %d failed", jobStatus(j).text, j.Completed, j.Completions,
		j.Active, j.Failed)
	d.add("Because", j.Why)
	if j.Schedule != "" {
		d.add("Schedule", strings.TrimSpace(j.Schedule+" "+j.Zone))
		if !j.Next.IsZero() {
			d.addf("Next run", "%s (in %s)", j.Next.In(a.opts.Now().Location()).Format(time.RFC3339),
				age(j.Next.Sub(a.opts.Now())))
		}
		d.addf("Times", "%d missed, %d skipped while a run went on", j.Missed, j.Skipped)
	}
}

// runSection lists the runs of a job.
func (a *app) runSection(j *apiv1.JobView) error {
	if j == nil || len(j.Runs) == 0 {
		return nil
	}
	if err := a.section("Runs"); err != nil {
		return err
	}
	return listing[wire.ClusterRun]{kind: "run", name: func(v wire.ClusterRun) string { return fmt.Sprint(v.N) },
		columns: []column[wire.ClusterRun]{
			{name: "run", cell: func(v wire.ClusterRun) cell { return textf("%d", v.N) }},
			{name: "for", cell: func(v wire.ClusterRun) cell {
				switch {
				case !v.Scheduled.IsZero():
					return text(v.Scheduled.In(a.opts.Now().Location()).Format("2006-01-02 15:04"))
				case v.Asked != "":
					return text(v.Asked)
				}
				return text("apply")
			}},
			{name: "began", cell: func(v wire.ClusterRun) cell { return text(a.since(v.Began) + " ago") }},
			{name: "took", cell: func(v wire.ClusterRun) cell {
				if v.Ended.IsZero() {
					return text("")
				}
				return text(age(v.Ended.Sub(v.Began)))
			}},
			{name: "outcome", cell: func(v wire.ClusterRun) cell {
				switch v.Outcome {
				case "":
					return text("running")
				case wire.JobFailed:
					return cell{v.Outcome, yellow}
				}
				return text(v.Outcome)
			}},
			{name: "cluster", cell: func(v wire.ClusterRun) cell { return text(v.Cluster) }},
			{name: "why", cell: func(v wire.ClusterRun) cell { return text(v.Why) }},
		}}.print(a, "table", j.Runs, false)
}

// jobIs asks for a job, and says whether it ended as want says. One that ended otherwise
// is not waited for.
func jobIs(want string) condition {
	return func(ctx context.Context, c *client.Client, name string) (ok bool, how string, err error) {
		v, err := findService(ctx, c, name)
		if err != nil {
			return false, "", err
		}
		j := v.Job
		switch {
		case j == nil:
			return false, "", &userError{what: "it is not a job",
				why: name + " runs without end: its descriptor has no job", next: "verge wait service/" + name}
		case j.Outcome == want:
			return true, "", nil
		case j.Outcome != "":
			return false, "", &userError{what: "it cannot become " + want,
				why: name + " is " + j.Outcome + ": " + j.Why, next: "verge describe job/" + name}
		}
		return false, fmt.Sprintf("%d of %d completed, %d at work", j.Completed, j.Completions, j.Active), nil
	}
}

// findService is one service by APPLICATION.SERVICE.
func findService(ctx context.Context, c *client.Client, name string) (apiv1.ServiceView, error) {
	app, service, ok := strings.Cut(name, ".")
	if !ok {
		return apiv1.ServiceView{},
			&userError{what: "not a name of a service", why: name, next: "write service/APPLICATION.SERVICE"}
	}
	v, err := c.Applications.Get(ctx, app)
	if err != nil {
		return apiv1.ServiceView{}, err
	}
	i := slices.IndexFunc(v.Services, func(s apiv1.ServiceView) bool { return s.Name == service })
	if i < 0 {
		return apiv1.ServiceView{},
			&userError{what: "no such service", why: name, next: "list them with: verge get services --app " + app}
	}
	return v.Services[i], nil
}
