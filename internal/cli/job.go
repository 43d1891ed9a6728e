package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// isJob says whether a service is a job.
func isJob(v serviceItem) bool { return v.Job != nil }

// listJobs are the services that run to completion.
func listJobs(ctx context.Context, c *rest.Client, app, namespace string) ([]serviceItem, error) {
	list, err := listServices(ctx, c, app, namespace)
	return slices.DeleteFunc(list, func(v serviceItem) bool { return !isJob(v) }), err
}

func jobs() listing[serviceItem] {
	return listing[serviceItem]{kind: kindJob, name: func(v serviceItem) string { return v.App + "." + v.Name }, columns: []column[serviceItem]{
		{name: "job", cell: func(v serviceItem) cell { return text(v.App + "." + v.Name) }},
		{name: "completed", cell: func(v serviceItem) cell { return textf("%d/%d", v.Job.Completed, v.Job.Completions) }},
		{name: "active", cell: func(v serviceItem) cell { return textf("%d", v.Job.Active) }},
		{name: "failed", cell: func(v serviceItem) cell {
			if v.Job.Failed > 0 {
				return cell{fmt.Sprint(v.Job.Failed), yellow}
			}
			return text("0")
		}},
		{name: "status", cell: func(v serviceItem) cell { return jobStatus(v.Job) }},
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

// jobStatus is how a job stands, in a word.
func jobStatus(j *wire.JobView) cell {
	switch {
	case j.Outcome == wire.JobFailed:
		return cell{j.Outcome, yellow}
	case j.Outcome != "":
		return text(j.Outcome)
	case j.Suspended:
		return cell{"suspended", yellow}
	case j.Active > 0:
		return text("running")
	}
	return text("waiting")
}

// describeJob adds what is to be said of a job.
func (d *details) describeJob(j *wire.JobView) {
	if j == nil {
		return
	}
	d.addf("Job", "%s: %d of %d completed, %d at work, %d failed", jobStatus(j).text, j.Completed, j.Completions, j.Active, j.Failed)
	d.add("Because", j.Why)
}

// jobIs asks for a job, and says whether it ended as want says. One that ended otherwise
// is not waited for.
func jobIs(want string) condition {
	return func(ctx context.Context, c *rest.Client, name string) (ok bool, how string, err error) {
		v, err := findService(ctx, c, name)
		if err != nil {
			return false, "", err
		}
		j := v.Job
		switch {
		case j == nil:
			return false, "", &userError{what: "it is no job", why: name + " goes on: its descriptor does not say job", next: "verge wait service/" + name}
		case j.Outcome == want:
			return true, "", nil
		case j.Outcome != "":
			return false, "", &userError{what: "it will not be " + want, why: name + " is " + j.Outcome + ": " + j.Why, next: "verge describe job/" + name}
		}
		return false, fmt.Sprintf("%d of %d completed, %d at work", j.Completed, j.Completions, j.Active), nil
	}
}

// findService is one service by APPLICATION.SERVICE.
func findService(ctx context.Context, c *rest.Client, name string) (wire.ServiceView, error) {
	app, service, ok := strings.Cut(name, ".")
	if !ok {
		return wire.ServiceView{}, &userError{what: "not a name of a service", why: name, next: "write service/APPLICATION.SERVICE"}
	}
	v, err := c.Application(ctx, app)
	if err != nil {
		return wire.ServiceView{}, err
	}
	i := slices.IndexFunc(v.Services, func(s wire.ServiceView) bool { return s.Name == service })
	if i < 0 {
		return wire.ServiceView{}, &userError{what: "no such service", why: name, next: "list what there is with: verge get services --app " + app}
	}
	return v.Services[i], nil
}
