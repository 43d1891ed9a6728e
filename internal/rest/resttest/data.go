package resttest

import (
	"context"

	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// ApplicationData is what the fake has and was asked of applications, their rollouts and jobs.
type ApplicationData struct {
	Apps         []apiv1.AppView
	Explanations map[string]apiv1.Explanation
	ApplyAnswer  apiv1.ApplyResult
	PlanAnswer   apiv1.Plan
	// RestartAnswer is what Restart says.
	RestartAnswer apiv1.RestartResult
	// Jobs are what was asked for of jobs, JobAnswer what Job says.
	Jobs      []apiv1.JobRequest
	JobAnswer apiv1.JobResult
	// Local are the local changes and conflicts; MeantLocal says whether the last
	// change that was asked for was meant for one site.
	Local      apiv1.LocalView
	MeantLocal bool
	// Planned are the descriptors that Plan got.
	Planned [][]byte
	// Applied are the descriptors that Apply got, dry runs too.
	Applied [][]byte
	// Restarts are the requests that Restart got.
	Restarts []apiv1.RestartRequest
	// RolloutAnswer is what Rollout says, RevisionList the history, Rollouts are the
	// requests to change one.
	RolloutAnswer apiv1.RolloutView
	RevisionList  []apiv1.AppRevision
	Rollouts      []apiv1.RolloutRequest
}

// InstanceData is what the fake has of instances, their logs and sessions.
type InstanceData struct {
	InstanceList []apiv1.InstanceView
	LogText      map[string]string
	// LogTimes are when LogText was written, FormerLogs where an instance was before, the
	// latest first, and PreviousLogs what the run before the present one wrote.
	LogTimes     map[wire.InstanceID][]rpc.LogTime
	FormerLogs   map[wire.InstanceID][]FakeLog
	PreviousLogs map[wire.InstanceID]string
	// LogSince is where a log begins for who asks for what is new.
	LogSince map[string]int64
	// ExecStep answers steps of sessions; nil knows none.
	ExecStep func(ctx context.Context, q rpc.ExecAsk) (rpc.ExecAnswer, error)
}

// NodeData is what the fake has and was asked of clusters, workers, plugins and certificates.
type NodeData struct {
	ClusterList []apiv1.ClusterView
	WorkerList  []rpc.WorkerView
	// EntryLists by "cluster/worker".
	EntryLists map[string][]rpc.EntryView
	PluginList []apiv1.PluginView
	JoinAnswer rpc.JoinReply
	// Drain is how far drains are.
	Drain rpc.DrainView
	// Recovering is what Recovery says.
	Recovering apiv1.RecoveryView
	// Archive is what Backup writes.
	Archive []byte
	// CAState is what CA says, Rotations what RotateCA got.
	CAState   apiv1.CAView
	Rotations []apiv1.CARotateRequest
	// Renewals are the requests to Renew.
	Renewals []rpc.RenewRequest
	// Left are the workers that left.
	Left []string
	// UpgradeAnswer is what Upgrade says, Upgrades and UpgradeActions what was asked for.
	UpgradeAnswer  apiv1.UpgradeView
	Upgrades       []apiv1.UpgradeRequest
	UpgradeActions []string
}

// StorageData is what the fake has of volumes, snapshots, objects and secrets.
type StorageData struct {
	// VolumeList are the named volumes of all workers.
	VolumeList []rpc.VolumeView
	// SnapshotList are the snapshots of the cluster.
	SnapshotList []apiv1.SnapshotView
	SecretList   []apiv1.SecretView
	ObjectList   []apiv1.ObjectView
	// SecretValues that were set, by "namespace.name".
	SecretValues map[string]string
	// ObjectContents are those of ObjectList, by "namespace/name".
	ObjectContents map[string][]byte
}

// UserData is what the fake has of namespaces, users, tokens and the audit log.
type UserData struct {
	Spaces       []apiv1.NamespaceView
	UserList     []apiv1.UserView
	TokenList    []apiv1.TokenView
	AuditEntries []apiv1.AuditEntry
	TokenAnswer  apiv1.TokenReply
	// Bearer is the valid bearer token of an administrator, "" none.
	Bearer string
	// People are those who may ask, by their bearer token.
	People map[string]rest.Principal
	// NoRecord is why nothing can be written to the audit log.
	NoRecord error
	// TokenRequests are what CreateToken got.
	TokenRequests []apiv1.TokenRequest
}

// MetricData is what the fake has measured.
type MetricData struct {
	// Figures of workers by "cluster/worker".
	Figures map[string]string
	// What is measured.
	InstanceTops []rpc.InstanceTop
	WorkerTops   []rpc.WorkerTopView
	Routes       []rpc.RouteReport
	Scales       []rpc.ScaleReport
	Nets         []rpc.NetReport
	ClusterTops  []apiv1.ClusterTop
}

// HookData is what the fake has of hooks.
type HookData struct {
	// HookList are the hooks, HookSecret the secret that was set last, HookAnswer what a
	// test says.
	HookList   []apiv1.HookView
	HookSecret string
	HookAnswer apiv1.HookTested
}

// FakeLog is a log on a worker where an instance was.
type FakeLog struct {
	Text  string
	Times []rpc.LogTime
}
