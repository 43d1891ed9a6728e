package client

import (
	"context"

	"github.com/verge-edge/verge/internal/rest"
)

// Applications are what was applied.
type Applications struct{ group }

// Apply makes what a descriptor says so. It returns when that is stored; Get says how far it
// is. dryRun checks it and changes nothing.
func (a Applications) Apply(ctx context.Context, descriptor []byte, dryRun bool) (ApplyResult, error) {
	return call(ctx, a.group, rest.Apply, rest.ApplyIn{App: "-", DryRun: dryRun, RawBody: descriptor})
}

// Plan says what Apply would do with the same descriptor, and refuses what it would refuse.
func (a Applications) Plan(ctx context.Context, descriptor []byte) (Plan, error) {
	return call(ctx, a.group, rest.Plan, rest.PlanIn{RawBody: descriptor})
}

// List is all that may be seen.
func (a Applications) List(ctx context.Context) ([]Application, error) {
	return callList(ctx, a.group, rest.ListApplications, rest.None{})
}

// Get is one of them, with its descriptor.
func (a Applications) Get(ctx context.Context, app string) (Application, error) {
	return call(ctx, a.group, rest.GetApplication, rest.AppIn{App: app})
}

// Delete starts the end of one.
func (a Applications) Delete(ctx context.Context, app string) error {
	return callNone(ctx, a.group, rest.DeleteApplication, rest.DeleteIn{App: app})
}

// Services are the parts of applications.
type Services struct{ group }

// Scale changes how many replicas a service has, until a descriptor says otherwise.
func (s Services) Scale(ctx context.Context, app, service string, replicas int) (ApplyResult, error) {
	return call(ctx, s.group, rest.ScaleService, rest.ScaleIn{App: app, Service: service, Body: ScaleRequest{Replicas: replicas}})
}

// ExplainScale says for each cluster that has to do with a service how many instances run
// there, and why.
func (s Services) ExplainScale(ctx context.Context, app, service string) ([]ScaleReport, error) {
	return callList(ctx, s.group, rest.ExplainScale, rest.ServiceIn{App: app, Service: service})
}

// Restart starts what the request names again, one instance after the other.
func (s Services) Restart(ctx context.Context, app string, q RestartRequest) (RestartResult, error) {
	return call(ctx, s.group, rest.Restart, rest.RestartIn{App: app, Body: q})
}

// Rollouts are how applications become what was applied, and what they were.
type Rollouts struct{ group }

// Get says how far an application is in becoming what was applied.
func (r Rollouts) Get(ctx context.Context, app string) (Rollout, error) {
	return call(ctx, r.group, rest.GetRollout, rest.AppIn{App: app})
}

// Pause stops the rollouts of what the request names, until Resume.
func (r Rollouts) Pause(ctx context.Context, app string, q RolloutRequest) (Rollout, error) {
	return call(ctx, r.group, rest.PauseRollout, rest.RolloutIn{App: app, Body: q})
}

// Resume lets them go on; one that has failed tries again.
func (r Rollouts) Resume(ctx context.Context, app string, q RolloutRequest) (Rollout, error) {
	return call(ctx, r.group, rest.ResumeRollout, rest.RolloutIn{App: app, Body: q})
}

// Undo applies what an application, or one service of it, was in an earlier revision.
func (r Rollouts) Undo(ctx context.Context, app string, q RolloutRequest) (ApplyResult, error) {
	return call(ctx, r.group, rest.UndoRollout, rest.RolloutIn{App: app, Body: q})
}

// Revisions are those that are known of an application, from the newest on, without their
// descriptors.
func (r Rollouts) Revisions(ctx context.Context, app string) ([]Revision, error) {
	return callList(ctx, r.group, rest.ListRevisions, rest.AppIn{App: app})
}

// Revision is one of them, with its descriptor.
func (r Rollouts) Revision(ctx context.Context, app string, n uint64) (Revision, error) {
	return call(ctx, r.group, rest.GetRevision, rest.RevisionIn{App: app, Revision: n})
}

// Jobs are services that come to an end.
type Jobs struct{ group }

// Do runs, stops, suspends or resumes a job.
func (j Jobs) Do(ctx context.Context, app, service string, q JobRequest) (JobResult, error) {
	return call(ctx, j.group, rest.OperateJob, rest.JobIn{App: app, Service: service, Body: q})
}

// Profiles are measurements of how much each worker does with a service. A run has a key of at
// least 8 characters that whoever starts it makes up.
type Profiles struct{ group }

// Start keeps the instances of a service busy; load.Key names the run. It ends when nobody
// looks at it for some seconds.
func (p Profiles) Start(ctx context.Context, app, service string, load ProfileLoad) (ProfileReport, error) {
	return call(ctx, p.group, rest.StartProfile, rest.StartProfileIn{App: app, Service: service, Body: load})
}

// Look says how far a run is.
func (p Profiles) Look(ctx context.Context, app, service, run string) (ProfileReport, error) {
	return call(ctx, p.group, rest.LookAtProfile, rest.ProfileRunIn{App: app, Service: service, Run: run})
}

// Keep stores what a run has measured: it counts from now on.
func (p Profiles) Keep(ctx context.Context, app, service, run string) (ProfileReport, error) {
	return call(ctx, p.group, rest.KeepProfile, rest.ProfileRunIn{App: app, Service: service, Run: run})
}

// End ends a run; nothing is stored.
func (p Profiles) End(ctx context.Context, app, service, run string) error {
	_, err := call(ctx, p.group, rest.EndProfile, rest.ProfileRunIn{App: app, Service: service, Run: run})
	return err
}

// Get is what is stored.
func (p Profiles) Get(ctx context.Context, app, service string) (ProfileReport, error) {
	return call(ctx, p.group, rest.ShowProfile, rest.ProfileIn{App: app, Service: service})
}

// Forget removes what is stored.
func (p Profiles) Forget(ctx context.Context, app, service string) error {
	_, err := call(ctx, p.group, rest.ForgetProfile, rest.ProfileIn{App: app, Service: service})
	return err
}
