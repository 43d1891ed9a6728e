package client

import (
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/rest/transport"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

// Problem is what went wrong: what, where and why, and what to do next. Code is stable. Status
// is the HTTP status, or 0 where nobody answered.
type Problem = wire.Problem

// Codes of problems that the client makes itself.
const (
	// CodeUnreachable: nobody answered, now; it may be worth trying again.
	CodeUnreachable = transport.CodeUnreachable
	// CodeTLS: the two sides do not trust each other.
	CodeTLS = transport.CodeTLS
)

// What operations answer.
type (
	// Application is an application and how far it is.
	Application = apiv1.AppView
	// ApplyResult is the answer to an apply.
	ApplyResult = apiv1.ApplyResult
	// AuditEntry is something that somebody did, or was refused.
	AuditEntry = apiv1.AuditEntry
	// AuditPage are entries, oldest first.
	AuditPage = apiv1.AuditPage
	// CA is who is trusted by whom, as the serving tier knows it.
	CA = apiv1.CAView
	// Cluster is a cluster as the root knows it.
	Cluster = apiv1.ClusterView
	// ClusterMetrics is a cluster with what the instances on its workers use.
	ClusterMetrics = apiv1.ClusterTop
	// Cordon notes that somebody took a worker or a cluster out of use: it takes nothing new.
	Cordon = wire.Cordon
	// Drain says how far a drain is.
	Drain = rpc.DrainView
	// Entry is the address at which a port of a service is reached on a worker: the same for as long as
	// the worker lives, whichever instance answers there.
	Entry = rpc.EntryView
	// Event is something that happened, for people.
	Event = apiv1.Event
	// EventPage is a page of events; After is what to ask for next.
	EventPage = apiv1.EventPage
	// ExecOutput is what a program has written since an offset.
	ExecOutput = rpc.ExecOutput
	// Explanation says why an instance is where it is: the decisions of every tier, root first.
	Explanation = apiv1.Explanation
	// GatewayGrant says whether a worker may be a gateway with TLS: whether it is given the certificates
	// of hosts and their keys.
	GatewayGrant = wire.GatewayGrant
	// Hook is a hook as people see it.
	Hook = apiv1.HookView
	// HookTest is what came of a test.
	HookTest = apiv1.HookTested
	// Identity says who asks, as the server knows it.
	Identity = apiv1.WhoView
	// Instance is an instance as the serving tier knows it.
	Instance = apiv1.InstanceView
	// InstanceMetrics is an instance with what it uses and what it may.
	InstanceMetrics = rpc.InstanceTop
	// InvocationResult is the answer to an Invocation.
	InvocationResult = rpc.Invoked
	// JobResult says what becomes of a job.
	JobResult = apiv1.JobResult
	// LocalView is all that was changed at a site, and what of it gave way.
	LocalView = apiv1.LocalView
	// LogChunk is a part of a log, and where the next begins.
	LogChunk = rpc.LogChunk
	// Namespace is a namespace and what it uses.
	Namespace = apiv1.NamespaceView
	// NetReport is what a worker finds of its paths to others at the moment of the question.
	NetReport = rpc.NetReport
	// Object is an object as it is shown, without its content.
	Object = apiv1.ObjectView
	// ObjectContent is an object and its content.
	ObjectContent = transport.Object
	// Plan says what applying a descriptor would do.
	Plan = apiv1.Plan
	// Plugin is a scheduler plugin as its cluster knows it.
	Plugin = apiv1.PluginView
	// ProfileReport says how far profiling is, or what is stored.
	ProfileReport = rpc.ProfileReport
	// Recovery says how far a root or cluster is that was restored, or whose data directory is an older
	// copy of itself.
	Recovery = apiv1.RecoveryView
	// RestartResult says what will be started again.
	RestartResult = apiv1.RestartResult
	// Revision is what an application was.
	Revision = apiv1.AppRevision
	// Rollout is how far an application is in being brought to its revision.
	Rollout = apiv1.RolloutView
	// RouteReport is how a worker routes a service at the moment of the question.
	RouteReport = rpc.RouteReport
	// ScaleReport is how many instances of a service run in a cluster, and why.
	ScaleReport = rpc.ScaleReport
	// Secret is a secret without its value, which nobody is shown.
	Secret = apiv1.SecretView
	// Snapshot is a snapshot, and what has become of its object.
	Snapshot = apiv1.SnapshotView
	// Status is the state of the serving tier and of what is below it.
	Status = apiv1.StatusView
	// Token is a token as it is listed, without its secret.
	Token = apiv1.TokenView
	// TokenReply carries the token; it is shown once and stored only as a hash.
	TokenReply = apiv1.TokenReply
	// Upgrade is how far an upgrade is.
	Upgrade = apiv1.UpgradeView
	// User is a user as others see it.
	User = apiv1.UserView
	// UserReply carries a user's new token; it is shown once and stored only as a hash.
	UserReply = apiv1.UserReply
	// Version is which versions a process has.
	Version = apiv1.VersionView
	// Volume is a named volume of a worker.
	Volume = rpc.VolumeView
	// WatchEvent is one thing that a watch tells.
	WatchEvent = apiv1.WatchEvent
	// Worker is a worker as its cluster knows it.
	Worker = rpc.WorkerView
	// WorkerMetrics is a worker with what its instances use.
	WorkerMetrics = rpc.WorkerTopView
)

// What operations are asked with.
type (
	// AuditQuery asks for a part of the audit log.
	AuditQuery = apiv1.AuditQuery
	// CARotateRequest begins to replace the root's authority, or ends that.
	CARotateRequest = apiv1.CARotateRequest
	// CopyStart asks for a session that carries a file or directory, from or to an instance.
	CopyStart = rpc.CopyStart
	// CordonRequest asks for a Cordon.
	CordonRequest = rpc.CordonRequest
	// ExecInput is a piece of a session's input.
	ExecInput = rpc.ExecInput
	// ExecStart asks for a session.
	ExecStart = rpc.ExecStart
	// ForwardStart asks for a session that carries TCP connections to ports of an instance.
	ForwardStart = rpc.ForwardStart
	// HookRequest makes or changes a hook.
	HookRequest = apiv1.HookRequest
	// HookSpec is what a hook is to do.
	HookSpec = wire.HookSpec
	// Invocation is a request to the service of an instance, which its worker's router sends on as it does
	// others: to any instance of the service, and to one that sleeps.
	Invocation = rpc.Invocation
	// JobRequest asks for something of a job.
	JobRequest = apiv1.JobRequest
	// LogRequest is what is asked of a log.
	LogRequest = rpc.LogAsk
	// NamespaceRequest asks for a namespace.
	NamespaceRequest = apiv1.NamespaceRequest
	// ObjectUpload is an object that is to be put.
	ObjectUpload = rest.ObjectUpload
	// ProfileLoad is what instances are kept busy with.
	ProfileLoad = rpc.ProfileLoad
	// Quota bounds what the applications of a namespace ask for together.
	Quota = wire.Quota
	// RestartRequest asks for a new run of an application, of one of its services, or of one instance.
	RestartRequest = apiv1.RestartRequest
	// Roles are the rights of a user.
	Roles = wire.Roles
	// RolloutRequest is what people say about a rollout.
	RolloutRequest = apiv1.RolloutRequest
	// RotateRequest asks for a new token of a user.
	RotateRequest = apiv1.RotateRequest
	// ScaleRequest asks for another number of replicas of a service.
	ScaleRequest = apiv1.ScaleRequest
	// Standing is what a namespace may claim beside others where there is not room for all, and what its
	// instances may do.
	Standing = wire.Standing
	// TokenRequest asks for a token.
	TokenRequest = apiv1.TokenRequest
	// UpgradeAction is what is to become of an upgrade.
	UpgradeAction = apiv1.UpgradeAction
	// UpgradeRequest says which program the workers of a cluster should be.
	UpgradeRequest = apiv1.UpgradeRequest
	// UserRequest asks for a user.
	UserRequest = apiv1.UserRequest
	// VolumeForgetRequest asks for an instance to go on without its volumes.
	VolumeForgetRequest = apiv1.VolumeForgetRequest
	// VolumeMoveRequest asks for volumes to be moved to another worker.
	VolumeMoveRequest = apiv1.VolumeMoveRequest
	// VolumeRef names a named volume of a worker.
	VolumeRef = wire.VolumeRef
	// VolumeSnapshotRequest names the object of a snapshot of a volume.
	VolumeSnapshotRequest = apiv1.VolumeSnapshotRequest
)

// What answers and questions are made of.
type (
	// Aggregate is all that a root learns about the inside of a cluster.
	Aggregate = wire.Aggregate
	// Around is a ball in the space of round trips (Coordinate) with some workers in it.
	Around = wire.Around
	// CAAuthority is one certificate of the root's authority.
	CAAuthority = apiv1.CAAuthority
	// CAMember is a node that trusts the authorities, or not yet.
	CAMember = apiv1.CAMember
	// Cause says why an instance is where it is in its life, for programs.
	Cause = wire.Cause
	// ClusterNetwork counts what a cluster has of the service network.
	ClusterNetwork = apiv1.ClusterNetwork
	// ClusterRun is a run of a job as people see it.
	ClusterRun = wire.ClusterRun
	// Conditions of an instance beside its state.
	Conditions = wire.Conditions
	// Conflict is a local change that gave way to what the root said later.
	Conflict = wire.Conflict
	// Coordinate is where a worker is in the space in which distances are round trips (Vivaldi), in
	// seconds.
	Coordinate = wire.Coordinate
	// Device of a worker.
	Device = wire.Device
	// Disc has the ready workers that know their location in it; nil: none does.
	Disc = wire.Disc
	// DrainItem is an instance that is still where nothing is to be.
	DrainItem = rpc.DrainItem
	// Entering is how much is asked for of a service at the workers of a cluster, in requests per second,
	// smoothed and rounded to powers of the root of 2.
	Entering = wire.Entering
	// Exit is how a process of an instance ended.
	Exit = wire.Exit
	// Explained is one decision record (package policy/place) of one tier.
	Explained = rpc.Explained
	// FieldChange is one field that is to be otherwise.
	FieldChange = apiv1.FieldChange
	// FreeCapacity is how what the ready workers of a cluster have free is spread over them.
	FreeCapacity = wire.FreeCapacity
	// GatewayCertificate is the certificate of a host.
	GatewayCertificate = wire.GatewayCertificate
	// GatewayInfo is what a gateway publishes besides HTTP. It does not change while nothing happens.
	GatewayInfo = wire.GatewayInfo
	// GatewayPort is a tcp or udp port of a gateway.
	GatewayPort = wire.GatewayPort
	// Give is how many instances run in one cluster for requests that enter in another.
	Give = rpc.Give
	// Hold is what people said about the rollout of a service.
	Hold = wire.Hold
	// InstanceRecord is the record of one replica.
	InstanceRecord = wire.Instance
	// InstancePlan is what becomes of an instance.
	InstancePlan = rpc.InstancePlan
	// Isolation is how instances that are processes are kept apart; nil from older workers.
	Isolation = wire.Isolation
	// JobRun is one run of a job in one cluster.
	JobRun = wire.JobRun
	// JobTry is how far one instance of a job is.
	JobTry = wire.JobTry
	// JobView is how far a job is.
	JobView = apiv1.JobView
	// Lease is what the cluster has of the service network; on the first page.
	Lease = wire.Lease
	// LocalChange says what an operator changed at a site about one service.
	LocalChange = wire.LocalChange
	// LogTime says when the bytes of a log from Offset on were written.
	LogTime = rpc.LogTime
	// Move of an instance to another worker that goes on, or that failed.
	Move = wire.Move
	// NamespaceShare is the dominant share of a namespace in a cluster: the largest of its parts of what
	// the ready workers have of a resource, by what is reserved.
	NamespaceShare = apiv1.NamespaceShare
	// NetPeer is the path to one other worker.
	NetPeer = rpc.NetPeer
	// NetworkInfo is what a worker says about its part in the service network.
	NetworkInfo = wire.NetworkInfo
	// NetworkNeed is what a cluster needs of the service network in all: what its workers have, what
	// rests, and what workers wait for.
	NetworkNeed = wire.NetworkNeed
	// NetworkView is the service network of a root, and how much of it is given.
	NetworkView = apiv1.NetworkView
	// Placement names where an incarnation was put.
	Placement = wire.Placement
	// PlacementHistory is where an instance was, and where it cannot be for that reason.
	PlacementHistory = wire.PlacementHistory
	// PlanSite is a cluster that has a part in a plan.
	PlanSite = apiv1.PlanSite
	// PluginCall is a question to a plugin, and how it ended.
	PluginCall = apiv1.PluginCall
	// PluginIdentity is a key that has joined as a plugin.
	PluginIdentity = apiv1.PluginIdentity
	// PriorityUse is what instances of one priority reserve together.
	PriorityUse = wire.PriorityUse
	// ProfileNode is a worker in a profile.
	ProfileNode = rpc.ProfileNode
	// Program is a build of verge for one kind of machine.
	Program = wire.Program
	// Recovered notes that an application, or a part of it, was not in the data directory that a root
	// recovers from: clusters had it.
	Recovered = wire.Recovered
	// RecoveryPeer is one of those that a restored tier asks.
	RecoveryPeer = apiv1.RecoveryPeer
	// Relay is a node that forwards packets between workers which cannot reach each other.
	Relay = wire.Relay
	// Relocation of an instance: to another worker, with or without its volumes, or to another cluster.
	Relocation = wire.Relocation
	// ReplicaDemand is what a worker's router knows of one replica.
	ReplicaDemand = wire.ReplicaDemand
	// Rev counts the versions of something: greater is later.
	Rev = wire.Rev
	// RunHistory is how often the program of an instance was started, and how it ended.
	RunHistory = wire.RunHistory
	// RolloutReport says how far a cluster is in bringing a service to another revision.
	RolloutReport = wire.RolloutReport
	// RolloutSide is how the instances of one revision have answered requests over HTTP.
	RolloutSide = wire.RolloutSide
	// RoomAsk is since when an instance is to make room, and for what.
	RoomAsk = wire.RoomAsk
	// RouteEndpoint is one endpoint of a RouteReport.
	RouteEndpoint = rpc.RouteEndpoint
	// ScaleDecision is what a cluster decided in one epoch about how many instances of a service run, for
	// the requests that enter at its workers, and from what.
	ScaleDecision = rpc.ScaleDecision
	// SecretHeld is which value of a secret an instance has.
	SecretHeld = wire.SecretHeld
	// ServicePlan is what becomes of a service.
	ServicePlan = apiv1.ServicePlan
	// ServiceRollout is one service of a RolloutView.
	ServiceRollout = apiv1.ServiceRollout
	// ServiceShort is what a cluster lacks of one service whose requests decide how many of it run: a
	// number and a reason, nothing of any single worker.
	ServiceShort = wire.ServiceShort
	// ServiceView is one service of an AppView.
	ServiceView = apiv1.ServiceView
	// Site is what the operator says about the cluster as a whole.
	Site = wire.Site
	// SnapshotRecord is what is stored about a snapshot of a named volume beside the object that it is in.
	SnapshotRecord = wire.Snapshot
	// Spread describes how an amount that is free (in the unit of its resource) is distributed over
	// workers: 〈sum, mean, standard deviation, maximum〉.
	Spread = wire.Spread
	// State is the state of an instance.
	State = wire.State
	// Counters are restarts in all clusters that have reported, and changes that the serving tier has
	// applied.
	Counters = wire.Counters
	// CountersSince are counts since a moment.
	CountersSince = apiv1.CountersSince
	// Tally is the former name of Counters.
	//
	// Deprecated: use Counters.
	Tally = Counters
	// TallySince is the former name of CountersSince.
	//
	// Deprecated: use CountersSince.
	TallySince = CountersSince
	// Terminal gives the program a terminal.
	Terminal = rpc.Terminal
	// Transition is one step of an instance's history.
	Transition = wire.Transition
	// UpgradeWorker is how far a worker is in an upgrade.
	UpgradeWorker = apiv1.UpgradeWorker
	// Use of cpu in millicores, of memory in bytes, and processes and threads.
	Use = rpc.Use
	// VolumeMove is a move of the named volumes of an instance to another worker of its cluster; or a
	// snapshot of one of them, or its return to one.
	VolumeMove = wire.VolumeMove
	// VolumeObject is a named volume, packed, in the object store of a cluster.
	VolumeObject = wire.VolumeObject
	// VolumeWork is what is to be done with the named volumes of an instance that an order stops.
	VolumeWork = wire.VolumeWork
	// VolumesEnded is how a VolumeMove ended.
	VolumesEnded = wire.VolumesEnded
	// WorkerInfo is what a worker says about itself when it connects and when that changes.
	WorkerInfo = wire.WorkerInfo
	// WorkerKinds counts ready workers, and their devices, by what placement asks for.
	WorkerKinds = wire.WorkerKinds
)
