package event

// The table of kinds, and the only list of them. To add one, add an entry here, use it, and run
// `go generate ./internal/event`, which lists it in docs/events.md.
//
// The columns are the name, the type of the subject, the severity, whose hooks receive it, and what
// has happened to the subject.
var (
	ApplicationApplied = register("application.applied", Application, Info, RootHooks,
		"it has another revision: a descriptor was applied, it was scaled, or a rollout was undone")
	ApplicationDeleting = register("application.deleting", Application, Info, RootHooks,
		"somebody has deleted it, and its instances end")
	ApplicationDeleted = register("application.deleted", Application, Info, RootHooks,
		"it is deleted: nothing is left of it")
	ApplicationRestart = register("application.restart", Application, Info, NoHooks,
		"somebody asked to restart all its instances, or those of one service")
	ApplicationRecovered = register("application.recovered", Application, Info, NoHooks,
		"a restored root did not know it, and has recovered it from a cluster")
	ApplicationUnrecovered = register("application.unrecovered", Application, Warning, NoHooks,
		"a restored root did not know it, and cannot recover it from its cluster")
	ApplicationUnclaimed = register("application.unclaimed", Application, Warning, NoHooks,
		"a restored root knows it and no cluster runs it: it waits until it is applied again")
	ApplicationGate = register("application.gate-silent", Application, Warning, NoHooks,
		"a hook did not answer a question, and the change was made anyway")

	ClusterJoined = register("cluster.joined", Cluster, Info, RootHooks,
		"it has joined, or joined again")
	ClusterLost = register("cluster.lost", Cluster, Warning, RootHooks,
		"its heartbeats are missing")
	ClusterBack    = register("cluster.back", Cluster, Info, RootHooks, "its heartbeats are back")
	ClusterRemoved = register("cluster.removed", Cluster, Info, RootHooks, "it was removed")
	ClusterRevoked = register("cluster.revoked", Cluster, Info, NoHooks, "its key was revoked")
	ClusterCordon  = register("cluster.cordon", Cluster, Info, NoHooks,
		"it was cordoned, drained or uncordoned")
	ClusterLoss = register("cluster.worker-lost", Cluster, Warning, NoHooks,
		"one of its workers is unreachable; the event counts the affected instances")
	ClusterLossSettled = register("cluster.worker-lost-settled", Cluster, Info, NoHooks,
		"the instances of a lost worker run again, or are given up")
	ClusterIsolated = register("cluster.isolation-over", Cluster, Info, NoHooks,
		"none of its workers reported for a while, and some report again: the others get time to report")
	ClusterRootLost = register("cluster.root-lost", Cluster, Warning, NoHooks,
		"the root does not answer, and the site continues alone")
	ClusterRootBack = register("cluster.root-back", Cluster, Info, NoHooks,
		"the root answers again")
	ClusterRefused = register("cluster.refused", Cluster, Error, NoHooks,
		"the root refuses it: it was removed, or its key was revoked")
	ClusterUnstored = register("cluster.not-stored", Cluster, Error, NoHooks,
		"a decision could not be stored, and has no effect")
	ClusterBackup = register("cluster.backup", Cluster, Info, NoHooks,
		"somebody takes a backup of it")
	ClusterRecovery = register("cluster.recovery", Cluster, Warning, NoHooks,
		"its data is older than what others have seen: it asks them before it decides anything")
	ClusterRecoveryHeard = register("cluster.recovery-heard", Cluster, Info, NoHooks,
		"in a recovery, the root or the cluster has sent its state")
	ClusterRecoveryEnded = register("cluster.recovery-ended", Cluster, Info, NoHooks,
		"the recovery is over, or somebody has ended it")
	ClusterNetwork = register("cluster.network-recovered", Cluster, Info, NoHooks,
		"a restored root has recovered which addresses of the service network it uses")
	ClusterProgramRemoved = register("cluster.program-removed", Cluster, Info, NoHooks,
		"a program that no upgrade needs was removed")
	ClusterUpgrade = register("cluster.upgrade", Cluster, Info, NoHooks,
		"an upgrade of its workers was started, changed by somebody, is done or has halted")

	HookSet     = register("hook.set", Hook, Info, NoHooks, "it was created or changed")
	HookRotated = register("hook.rotated", Hook, Info, NoHooks, "it has a new secret")
	HookRemoved = register("hook.removed", Hook, Info, NoHooks, "it was removed")
	HookPaused  = register("hook.paused", Hook, Warning, NoHooks,
		"it was paused, by somebody or because its receiver answered 410")
	HookDropped = register("hook.dropped", Hook, Warning, NoHooks, "notices for it were dropped")

	InstanceRegistered = register("instance.registered", Instance, Debug, NoHooks, "it is recorded")
	InstanceWaiting    = register("instance.waiting", Instance, Debug, AllHooks,
		"it waits for a place: it is new, or its cluster has returned it")
	InstanceClusterScheduled = register("instance.cluster-scheduled", Instance, Debug, NoHooks,
		"a cluster was chosen for it")
	InstanceWorkerScheduled = register("instance.worker-scheduled", Instance, Debug, NoHooks,
		"a worker was chosen for it")
	InstanceMoved = register("instance.moved", Instance, Debug, AllHooks,
		"it was moved to another worker, make before break")
	InstanceRunning = register("instance.running", Instance, Debug, AllHooks,
		"it has started, for the first time or again")
	InstanceFailed = register("instance.failed", Instance, Warning, AllHooks,
		"it has failed, was refused, or was lost with its worker")
	InstancePreempted = register("instance.preempted", Instance, Info, AllHooks,
		"it makes room for an instance of higher priority")
	InstanceEnded = register("instance.ended", Instance, Debug, AllHooks,
		"it has completed, or is no longer wanted")
	InstanceGone = register("instance.gone", Instance, Debug, NoHooks,
		"its cluster has removed its record")
	InstanceExited = register("instance.exited", Instance, Warning, NoHooks,
		"its program has exited")
	InstanceRestarted = register("instance.restarted", Instance, Warning, NoHooks,
		"its worker has restarted it in place")
	InstanceReady = register("instance.ready", Instance, Debug, NoHooks,
		"it is ready, and gets requests")
	InstanceUnready = register("instance.not-ready", Instance, Warning, NoHooks,
		"one of its checks fails, and it gets no requests")
	InstanceUnreachable = register("instance.unreachable", Instance, Warning, RootHooks,
		"its cluster has been away for so long that it is replaced elsewhere")
	InstanceWorkerLost = register("instance.worker-lost", Instance, Warning, NoHooks,
		"its worker is unreachable")
	InstanceWorkerBack = register("instance.worker-back", Instance, Info, NoHooks,
		"its worker is reachable again")
	InstanceNoRoom = register("instance.no-room", Instance, Warning, NoHooks,
		"no cluster or worker has room for it")
	InstanceMoving = register("instance.moving", Instance, Info, NoHooks,
		"it starts on another worker, and then stops on the present one")
	InstanceMoveFailed = register("instance.move-failed", Instance, Warning, NoHooks,
		"it was not ready in time on the worker to which it was to move")
	InstanceElsewhere = register("instance.asked-elsewhere", Instance, Info, NoHooks,
		"another instance needs its room, and the root was asked for another cluster, or found none")
	InstanceRelocated = register("instance.relocated", Instance, Info, NoHooks,
		"it ends in one cluster because it runs in another")
	InstanceDisplaces = register("instance.displaces", Instance, Info, NoHooks,
		"it displaces instances of lower priority")
	InstanceOriginal = register("instance.original-back", Instance, Info, NoHooks,
		"it was replaced while it was unreachable, and is back: one of the two ends")
	InstanceAdopted = register("instance.adopted", Instance, Info, NoHooks,
		"a restored cluster did not know it, and has recovered it from a worker")
	InstanceUnheld = register("instance.not-held", Instance, Warning, NoHooks,
		"a restored root knows it, and its cluster does not")
	InstanceAdvice = register("instance.plugin-failed", Instance, Warning, NoHooks,
		"a scheduler plugin gave no usable answer about it, and rom decided")
	InstanceSecret = register("instance.secret", Instance, Info, NoHooks,
		"it has the new value of a secret, needs a restart for it, or could not get it")
	InstanceRestart = register("instance.restart", Instance, Info, NoHooks,
		"somebody asked to restart it")
	InstanceVolumes = register("instance.volumes", Instance, Info, NoHooks,
		"its volumes are being moved, copied or restored, or that is done")
	InstanceVolumesFailed = register("instance.volumes-failed", Instance, Warning, NoHooks,
		"its volumes could not be moved, copied or restored, and are unchanged")
	InstanceVolumesLost = register("instance.volumes-lost", Instance, Warning, NoHooks,
		"its volumes were lost with a worker, or given up: it starts with empty ones")
	InstanceRefused = register("instance.step-refused", Instance, Warning, NoHooks,
		"a change of its state was invalid and was refused: a bug in verge")

	JobRunBegun = register("job.begun", Service, Info, NoHooks,
		"a run of the job begins, or continues")
	JobSucceeded = register("job.succeeded", Service, Info, AllHooks,
		"a run of the job has completed")
	JobFailed  = register("job.failed", Service, Warning, AllHooks, "a run of the job has failed")
	JobStopped = register("job.stopped", Service, Info, NoHooks,
		"a run of the job was stopped, or replaced by the next")
	JobAction = register("job.action", Service, Info, NoHooks,
		"somebody has started, stopped, suspended or resumed the job")
	JobTimes = register("job.times", Service, Warning, NoHooks,
		"times of the schedule were skipped or missed, or the clock was set back")
	JobRestored = register("job.restored", Service, Warning, NoHooks,
		"its cluster was restored from a backup: the event says what is known of its runs since then")
	JobScheduleGone = register("job.moved", Service, Info, NoHooks,
		"another cluster has the schedule of the job")

	LocalChanged = register("local.changed", Application, Info, ClusterHooks,
		"somebody has changed it at a site, or taken such a change back")
	LocalAgreed = register("local.agreed", Application, Info, NoHooks,
		"the root has made the same change as a site")
	LocalOverruled = register("local.overruled", Application, Warning, ClusterHooks,
		"a change made at a site was overruled by the root")
	LocalAcknowledged = register("local.acknowledged", Application, Info, NoHooks,
		"somebody has acknowledged a conflict between a site and the root")
	LocalForgotten = register("local.forgotten", Application, Warning, NoHooks,
		"the oldest unacknowledged conflict was dropped, because there are too many")

	NamespaceCreated  = register("namespace.created", Namespace, Info, NoHooks, "it was created")
	NamespaceQuota    = register("namespace.quota", Namespace, Info, NoHooks, "its quota was changed")
	NamespaceStanding = register("namespace.standing", Namespace, Info, NoHooks,
		"its standing was changed: what its instances may ask for")
	NamespaceOverQuota = register("namespace.over-quota", Namespace, Warning, NoHooks,
		"changes at sites bring it over its quota")
	NamespaceRemoved = register("namespace.removed", Namespace, Info, NoHooks, "it was removed")

	PluginJoined = register("plugin.joined", Cluster, Info, NoHooks,
		"a process has joined as a scheduler plugin")
	PluginRevoked = register("plugin.revoked", Cluster, Info, NoHooks,
		"the keys of a scheduler plugin were revoked")
	PluginResting = register("plugin.resting", Cluster, Warning, NoHooks,
		"a scheduler plugin has failed repeatedly, and is not asked for a while")
	PluginAnswered = register("plugin.back", Cluster, Info, NoHooks,
		"a scheduler plugin answers again")

	ProfileMade    = register("profile.made", Service, Info, NoHooks, "it was profiled")
	ProfileRemoved = register("profile.removed", Service, Info, NoHooks, "its profile was removed")

	RolloutBegun = register("rollout.begun", Service, Info, NoHooks,
		"a cluster begins to roll out a revision")
	RolloutStep = register("rollout.step", Service, Info, NoHooks,
		"the share of requests that go to the new revision was raised, or taken back")
	RolloutGate = register("rollout.gate", Service, Warning, NoHooks,
		"a hook did not answer a question before a wave, and the wave was begun anyway")
	RolloutDone = register("rollout.done", Service, Info, AllHooks,
		"a cluster runs the new revision")
	RolloutFailed = register("rollout.failed", Service, Warning, AllHooks,
		"a cluster has stopped the rollout of a revision")
	RolloutPaused = register("rollout.paused", Application, Info, NoHooks,
		"somebody has paused its rollout")
	RolloutResumed = register("rollout.resumed", Application, Info, NoHooks,
		"somebody has resumed its rollout")

	RootBackup = register("root.backup", System, Info, NoHooks,
		"somebody takes a backup of the root")
	RootRotation = register("root.ca-rotation", Root, Info, NoHooks,
		"a rotation of the certificate authority was started, finished or aborted")
	RootUnstored = register("root.not-stored", Root, Error, NoHooks,
		"a decision could not be stored, and has no effect")
	RootIsolated = register("root.isolation-over", Root, Info, NoHooks,
		"no cluster reported for a while, and some report again: the others get time to report")
	RootRecovery = register("root.recovery", Root, Warning, NoHooks,
		"its data is older than what a cluster has seen: it asks all clusters before it decides anything")
	RootRecoveryEnded = register("root.recovery-ended", Root, Info, NoHooks,
		"the recovery is over, or somebody has ended it")

	SecretSet = register("secret.set", Namespace, Info, NoHooks,
		"one of its secrets has a new value")
	SecretRemoved = register("secret.removed", Namespace, Info, NoHooks,
		"one of its secrets was removed")

	ServiceScaled = register("service.scaled", Service, Info, NoHooks,
		"the number of its instances was changed, because of demand or lack of room")
	ServiceNoRoom = register("service.no-room", Service, Warning, NoHooks,
		"there is no room for as many instances as it should have")
	ServiceDemand = register("service.demand", Service, Warning, NoHooks,
		"its objective cannot be met with the demand that it has")
	ServiceOverflow = register("service.overflow", Service, Info, NoHooks,
		"a cluster runs instances for requests that enter at another cluster, or no longer does")
	ServiceBeyond = register("service.route-full", Service, Warning, NoHooks,
		"it has more instances than a route has room for, or fits again")

	WorkerJoined = register("worker.joined", Worker, Info, ClusterHooks,
		"it has joined, or joined again")
	WorkerLost = register("worker.lost", Worker, Warning, ClusterHooks,
		"its heartbeats are missing, or it reports that it is impaired")
	WorkerBack    = register("worker.back", Worker, Info, ClusterHooks, "its heartbeats are back")
	WorkerRemoved = register("worker.removed", Worker, Info, ClusterHooks, "it was removed")
	WorkerRevoked = register("worker.revoked", Worker, Info, NoHooks, "its key was revoked")
	WorkerCordon  = register("worker.cordon", Worker, Info, NoHooks,
		"it was cordoned, drained or uncordoned")
	WorkerGateway = register("worker.gateway", Worker, Info, NoHooks,
		"it was allowed to be a gateway with TLS, or the permission was withdrawn")
	WorkerLossSettled = register("worker.lost-settled", Worker, Info, NoHooks,
		"the instances of a lost worker run again, or are given up")
	WorkerDisplacement = register("worker.displacement", Worker, Info, NoHooks,
		"an instance displaces another on it; the event names both")
	WorkerImageRemoved = register("worker.image-removed", Worker, Info, NoHooks,
		"it has removed an image")
	WorkerUpgrade = register("worker.upgrade", Worker, Info, NoHooks,
		"it is ordered to upgrade or to go back, or has passed its checks afterwards")
	WorkerUpgradeFails = register("worker.upgrade-failed", Worker, Warning, NoHooks,
		"it fails its checks after an upgrade, and goes back")
)
