package rest

import (
	"context"

	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Applications is the part of a backend that is about what was applied.
type Applications interface {
	// Apply parses, checks and durably stores a descriptor. dryRun changes nothing.
	Apply(ctx context.Context, source []byte, dryRun bool) (apiv1.ApplyResult, error)
	// Plan says what Apply would do with the same descriptor, and refuses what it would
	// refuse. It changes nothing.
	Plan(ctx context.Context, source []byte) (apiv1.Plan, error)
	// Delete starts the end of an application; durable when it returns.
	Delete(ctx context.Context, app string) error
	Applications(ctx context.Context) ([]apiv1.AppView, error)
	Application(ctx context.Context, app string) (apiv1.AppView, error)
	// Rollout says how far an application is in becoming what was applied.
	Rollout(ctx context.Context, app string) (apiv1.RolloutView, error)
}

// Services is the part of a backend that changes what runs already. Caller says who asks.
type Services interface {
	// Scale changes how many replicas a service has, as an apply would that says
	// nothing else new; durable when it returns.
	Scale(ctx context.Context, app, service string, replicas int) (apiv1.ApplyResult, error)
	// ScaleReports say for each cluster that has to do with a service how many of its
	// instances run there, and why. A cluster that cannot be asked says so in Problem.
	ScaleReports(ctx context.Context, app, service string) ([]rpc.ScaleReport, error)
	// Restart asks for a new run of what the request names; durable when it
	// returns.
	Restart(ctx context.Context, app string, r apiv1.RestartRequest) (apiv1.RestartResult, error)
	// Job does what the request says about a job; durable when it returns.
	Job(ctx context.Context, app, service string, r apiv1.JobRequest) (apiv1.JobResult, error)
}

// Rollouts is the part of a backend that is about how applications become what was
// applied, and what they were.
type Rollouts interface {
	// Pause stops the rollouts of what the request names, until Resume, by which one that
	// has failed tries again; durable when they return.
	Pause(ctx context.Context, app string, q apiv1.RolloutRequest) (apiv1.RolloutView, error)
	Resume(ctx context.Context, app string, q apiv1.RolloutRequest) (apiv1.RolloutView, error)
	// Undo applies what an application, or one service of it, was in an earlier revision.
	Undo(ctx context.Context, app string, q apiv1.RolloutRequest) (apiv1.ApplyResult, error)
	// Revisions that are known of an application, from the newest on, without their
	// descriptors; Revision is one with it.
	Revisions(ctx context.Context, app string) ([]apiv1.AppRevision, error)
	Revision(ctx context.Context, app string, n uint64) (apiv1.AppRevision, error)
}

// What the operations take.
type (
	// AppIn is what GetApplication, GetRollout and ListRevisions take.
	AppIn struct {
		App string `path:"app" maxLength:"63" doc:"name of the application"`
	}
	// DeleteIn is what DeleteApplication takes.
	DeleteIn struct {
		App   string `path:"app" maxLength:"63" doc:"name of the application"`
		Local bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
	}
	// ApplyIn is what Apply takes.
	ApplyIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application, or - to take it from the descriptor"`
		DryRun  bool   `query:"dry_run" doc:"check only, change nothing"`
		Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
		RawBody []byte `contentType:"application/yaml"`
	}
	// PlanIn is what Plan takes.
	PlanIn struct {
		Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
		RawBody []byte `contentType:"application/yaml"`
	}
	// ServiceIn is what ExplainScale takes.
	ServiceIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
	}
	// ScaleIn is what ScaleService takes.
	ScaleIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
		Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
		Body    apiv1.ScaleRequest
	}
	// RestartIn is what Restart takes.
	RestartIn struct {
		App   string `path:"app" maxLength:"63" doc:"name of the application"`
		Local bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
		Body  apiv1.RestartRequest
	}
	// JobIn is what OperateJob takes.
	JobIn struct {
		App     string `path:"app" maxLength:"63" doc:"name of the application"`
		Service string `path:"service" maxLength:"63" doc:"name of the service"`
		Local   bool   `query:"local" doc:"at a cluster whose root is connected: the change is meant for this site alone"`
		Body    apiv1.JobRequest
	}
	// RevisionIn is what GetRevision takes.
	RevisionIn struct {
		App      string `path:"app" maxLength:"63" doc:"name of the application"`
		Revision uint64 `path:"revision" minimum:"1" doc:"number of the revision"`
	}
	// RolloutIn is what PauseRollout, ResumeRollout and UndoRollout take.
	RolloutIn struct {
		App  string `path:"app" maxLength:"63" doc:"name of the application"`
		Body apiv1.RolloutRequest
	}
)

func (in *ApplyIn) descriptor() []byte { return in.RawBody }
func (in *PlanIn) descriptor() []byte  { return in.RawBody }

// Rehearsal implements Rehearsed.
func (in *ApplyIn) Rehearsal() bool { return in.DryRun }

// Operations on applications, services and rollouts.
var (
	Apply = define[Applications, ApplyIn, apiv1.ApplyResult]("apply", "PUT /v1/applications/{app}", "Apply a descriptor",
		may(access.Apply, inDescriptor), apply)
	Plan = define("plan", "POST /v1/plan", "What applying a descriptor would do", may(access.Plan, inDescriptor),
		func(ctx context.Context, b Applications, in *PlanIn) (apiv1.Plan, error) {
			return b.Plan(WithLocal(ctx, in.Local), in.RawBody)
		})
	ListApplications = define("list-applications", "GET /v1/applications", "List applications", each(OfApp),
		func(ctx context.Context, b Applications, _ *None) (Items[apiv1.AppView], error) {
			return list(b.Applications(ctx))
		})
	GetApplication = define("get-application", "GET /v1/applications/{app}", "An application and how far it is", may(access.See, app("app")),
		func(ctx context.Context, b Applications, in *AppIn) (apiv1.AppView, error) {
			return b.Application(ctx, in.App)
		})
	DeleteApplication = define("delete-application", "DELETE /v1/applications/{app}", "Start the end of an application",
		may(access.Delete, app("app")),
		func(ctx context.Context, b Applications, in *DeleteIn) (None, error) {
			return None{}, b.Delete(WithLocal(ctx, in.Local), in.App)
		})
	GetRollout = define("get-rollout", "GET /v1/applications/{app}/rollout", "How far an application is in becoming what was applied",
		may(access.See, app("app")),
		func(ctx context.Context, b Applications, in *AppIn) (apiv1.RolloutView, error) {
			return b.Rollout(ctx, in.App)
		})

	ScaleService = define("scale-service", "PUT /v1/applications/{app}/services/{service}/replicas", "Change how many replicas a service has",
		may(access.Scale, app("app")),
		func(ctx context.Context, b Services, in *ScaleIn) (apiv1.ApplyResult, error) {
			return b.Scale(WithLocal(ctx, in.Local), in.App, in.Service, in.Body.Replicas)
		})
	ExplainScale = define("explain-scale", "GET /v1/applications/{app}/services/{service}/scale",
		"How many instances of a service run, and why", may(access.See, app("app")),
		func(ctx context.Context, b Services, in *ServiceIn) (Items[rpc.ScaleReport], error) {
			return list(b.ScaleReports(ctx, in.App, in.Service))
		})
	Restart = define("restart-application", "POST /v1/applications/{app}/restart", "Start instances again, one after the other",
		may(access.Restart, app("app")),
		func(ctx context.Context, b Services, in *RestartIn) (apiv1.RestartResult, error) {
			return b.Restart(WithLocal(ctx, in.Local), in.App, in.Body)
		})
	OperateJob = define("operate-job", "POST /v1/applications/{app}/jobs/{service}", "Run, stop, suspend or resume a job",
		may(access.Restart, app("app")),
		func(ctx context.Context, b Services, in *JobIn) (apiv1.JobResult, error) {
			return b.Job(WithLocal(ctx, in.Local), in.App, in.Service, in.Body)
		})

	PauseRollout = define("pause-rollout", "POST /v1/applications/{app}/rollout/pause", "Update no more instances for now",
		may(access.Apply, app("app")),
		func(ctx context.Context, b Rollouts, in *RolloutIn) (apiv1.RolloutView, error) {
			return b.Pause(ctx, in.App, in.Body)
		})
	ResumeRollout = define("resume-rollout", "POST /v1/applications/{app}/rollout/resume",
		"Go on with a rollout that was paused or has failed", may(access.Apply, app("app")),
		func(ctx context.Context, b Rollouts, in *RolloutIn) (apiv1.RolloutView, error) {
			return b.Resume(ctx, in.App, in.Body)
		})
	UndoRollout = define("undo-rollout", "POST /v1/applications/{app}/rollout/undo", "Bring an earlier revision back",
		may(access.Apply, app("app")),
		func(ctx context.Context, b Rollouts, in *RolloutIn) (apiv1.ApplyResult, error) {
			return b.Undo(ctx, in.App, in.Body)
		})
	ListRevisions = define("list-revisions", "GET /v1/applications/{app}/revisions",
		"What an application was, from the newest revision on", may(access.See, app("app")),
		func(ctx context.Context, b Rollouts, in *AppIn) (Items[apiv1.AppRevision], error) {
			return list(b.Revisions(ctx, in.App))
		})
	GetRevision = define("get-revision", "GET /v1/applications/{app}/revisions/{revision}", "A revision with its descriptor",
		may(access.See, app("app")),
		func(ctx context.Context, b Rollouts, in *RevisionIn) (apiv1.AppRevision, error) {
			return b.Revision(ctx, in.App, in.Revision)
		})
)

// apply checks the name of the path before anything is changed; "-" saves clients that have
// parsed the descriptor the second look.
func apply(ctx context.Context, b Applications, in *ApplyIn) (apiv1.ApplyResult, error) {
	ctx = WithLocal(ctx, in.Local)
	if in.App != "-" {
		r, err := b.Apply(ctx, in.RawBody, true)
		if err != nil || (in.DryRun && r.Name == in.App) {
			return r, err
		}
		if r.Name != in.App {
			return r, wire.Problemf(422, "wrong-name", "send it to /v1/applications/"+r.Name,
				"the descriptor is of another application", "the path says %q, the descriptor %q", in.App, r.Name)
		}
	}
	return b.Apply(ctx, in.RawBody, in.DryRun)
}

// OfApp is what an application is for who may see it.
func OfApp(v apiv1.AppView) access.Object {
	return access.Object{Kind: access.Application, Name: v.Name, Namespace: v.Namespace}
}
