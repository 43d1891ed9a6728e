package cli

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
)

// batch is a fake with two jobs: one by a schedule, and one that has failed.
func batch() *resttest.Fake {
	nightly := &apiv1.JobView{Completions: 3, Completed: 3, Outcome: wire.JobComplete, Why: "3 of 3 completed", Run: 7,
		Schedule: "30 2 * * *", Zone: "Europe/Berlin",
		Next: noon.Add(3 * time.Hour), Missed: 2, Skipped: 1, Runs: []wire.ClusterRun{
			{Cluster: "edge", JobRun: wire.JobRun{N: 7, Asked: "admin/ann: the data of today",
				Began: ago(5 * time.Minute), Ended: ago(4 * time.Minute), Outcome: wire.JobComplete,
				Why: "3 of 3 completed", Completed: 3}},
			{Cluster: "edge", JobRun: wire.JobRun{N: 6, Scheduled: ago(9 * time.Hour), Began: ago(9 * time.Hour),
				Ended: ago(8 * time.Hour), Outcome: wire.JobFailed, Why: "2 of 3 completed, 1 failed", Completed: 2,
				Failed: 1}},
		}}
	resize := &apiv1.JobView{Completions: 5, Completed: 4, Failed: 1, Outcome: wire.JobFailed,
		Why: "4 of 5 completed; index 2: exited with code 3"}
	return &resttest.Fake{ApplicationData: resttest.ApplicationData{Apps: []apiv1.AppView{{Name: "shop", Revision: 2, Services: []apiv1.ServiceView{
		{Name: "nightly", Wanted: 3, Placed: 3, Clusters: []string{"edge"}, Job: nightly},
		{Name: "resize", Wanted: 5, Placed: 5, Clusters: []string{"edge", "fog"}, Job: resize,
			Message: "its job failed: " + resize.Why},
		{Name: "web", Wanted: 1, Placed: 1, Running: 1, Ready: 1, Clusters: []string{"edge"}},
	}}}}}
}

func TestJobsAreShown(t *testing.T) {
	f := newFixture(t, batch())
	for name, args := range map[string][]string{
		"get-jobs":         {"get", "jobs", "-o", "wide"},
		"describe-cron":    {"describe", "job/shop.nightly"},
		"wait-job-failed":  {"wait", "job/shop.resize"},
		"job-run-no-wait":  {"job", "run", "shop/nightly", "--no-wait"},
		"job-run-failed":   {"job", "run", "job/shop.resize"},
		"job-run-no-job":   {"job", "run", "shop"},
		"job-run-missing":  {"job", "run", "shop.nightlie"},
		"job-stop":         {"job", "stop", "shop/nightly"},
		"job-suspend-args": {"job", "suspend"},
	} {
		f.golden(name, f.run(args...), args...)
	}
}

// A run is watched until it has ended, and not taken for the one before.
func TestJobRun(t *testing.T) {
	fake := batch()
	job := fake.Apps[0].Services[0].Job
	asked := 0
	fake.Hook = func(_ *resttest.Fake, op string) error {
		if op != "application" {
			return nil
		}
		switch asked++; asked {
		case 1:
			job.Outcome, job.Why, job.Completed = "", "another run has been asked for", 0
		case 2:
			job.Active = 2
		case 4:
			job.Active, job.Completed, job.Outcome, job.Why = 0, 3, wire.JobComplete, "3 of 3 completed"
		}
		return nil
	}
	fake.JobAnswer = apiv1.JobResult{N: 4, Message: "it begins when run 7 has ended (concurrency: forbid)"}
	f := newFixture(t, fake)
	args := []string{"job", "run", "shop/nightly", "--reason", "the data of today"}
	f.golden("job-run", f.run(args...), args...)
	if len(fake.Jobs) != 1 || fake.Jobs[0] != (apiv1.JobRequest{Action: apiv1.JobRunNow, Reason: "the data of today"}) {
		t.Errorf("asked for %+v", fake.Jobs)
	}
	fake.JobAnswer = apiv1.JobResult{Revision: 3}
	args = []string{"job", "suspend", "shop.nightly", "--reason", "the database moves"}
	f.golden("job-suspend", f.run(args...), args...)
}
