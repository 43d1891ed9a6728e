// Code generated from k8s.io/api by this package's test; DO NOT EDIT.

package k8s

// Values are those that a type of this package has, by its name; nil: any. A field
// that is not given has none of them.
func Values(of string) []string {
	switch of {
	case "AppArmorProfileType":
		return []string{"Unconfined", "RuntimeDefault", "Localhost"}
	case "AzureDataDiskCachingMode":
		return []string{"None", "ReadOnly", "ReadWrite"}
	case "AzureDataDiskKind":
		return []string{"Shared", "Dedicated", "Managed"}
	case "ClaimResourceStatus":
		return []string{"ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizePending", "NodeResizeInProgress", "NodeResizeInfeasible"}
	case "CompletionMode":
		return []string{"NonIndexed", "Indexed"}
	case "ConcurrencyPolicy":
		return []string{"Allow", "Forbid", "Replace"}
	case "DNSPolicy":
		return []string{"ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"}
	case "GRPCProbeMode":
		return []string{"Plaintext", "TLS"}
	case "HTTPProtocol":
		return []string{"HTTP1", "HTTP2"}
	case "HostPathType":
		return []string{"DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}
	case "IPFamily":
		return []string{"IPv4", "IPv6"}
	case "IPFamilyPolicy":
		return []string{"SingleStack", "PreferDualStack", "RequireDualStack"}
	case "MountPropagationMode":
		return []string{"None", "HostToContainer", "Bidirectional"}
	case "NodeInclusionPolicy":
		return []string{"Ignore", "Honor"}
	case "NodeSelectorOperator":
		return []string{"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"}
	case "PathType":
		return []string{"Exact", "Prefix", "ImplementationSpecific"}
	case "PersistentVolumeAccessMode":
		return []string{"ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod"}
	case "PersistentVolumeClaimModifyVolumeStatus":
		return []string{"Pending", "InProgress", "Infeasible"}
	case "PersistentVolumeClaimPhase":
		return []string{"Pending", "Bound", "Lost"}
	case "PersistentVolumeMode":
		return []string{"Block", "Filesystem"}
	case "PodFSGroupChangePolicy":
		return []string{"OnRootMismatch", "Always"}
	case "PodManagementPolicyType":
		return []string{"OrderedReady", "Parallel"}
	case "PodReplacementPolicy":
		return []string{"TerminatingOrFailed", "Failed"}
	case "PreemptionPolicy":
		return []string{"PreemptLowerPriority", "Never"}
	case "ProcMountType":
		return []string{"Default", "Unmasked"}
	case "Protocol":
		return []string{"TCP", "UDP", "SCTP"}
	case "PullPolicy":
		return []string{"Always", "Never", "IfNotPresent"}
	case "RestartPolicy":
		return []string{"Always", "OnFailure", "Never"}
	case "SeccompProfileType":
		return []string{"Unconfined", "RuntimeDefault", "Localhost"}
	case "ServiceAffinity":
		return []string{"ClientIP", "None"}
	case "ServiceExternalTrafficPolicy":
		return []string{"Cluster", "Local"}
	case "ServiceInternalTrafficPolicy":
		return []string{"Cluster", "Local"}
	case "ServiceType":
		return []string{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName"}
	case "Signal":
		return []string{"SIGABRT", "SIGALRM", "SIGBUS", "SIGCHLD", "SIGCLD", "SIGCONT", "SIGFPE", "SIGHUP", "SIGILL", "SIGINT", "SIGIO", "SIGIOT", "SIGKILL", "SIGPIPE", "SIGPOLL", "SIGPROF", "SIGPWR", "SIGQUIT", "SIGSEGV", "SIGSTKFLT", "SIGSTOP", "SIGSYS", "SIGTERM", "SIGTRAP", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGURG", "SIGUSR1", "SIGUSR2", "SIGVTALRM", "SIGWINCH", "SIGXCPU", "SIGXFSZ", "SIGRTMIN", "SIGRTMIN+1", "SIGRTMIN+2", "SIGRTMIN+3", "SIGRTMIN+4", "SIGRTMIN+5", "SIGRTMIN+6", "SIGRTMIN+7", "SIGRTMIN+8", "SIGRTMIN+9", "SIGRTMIN+10", "SIGRTMIN+11", "SIGRTMIN+12", "SIGRTMIN+13", "SIGRTMIN+14", "SIGRTMIN+15", "SIGRTMAX-14", "SIGRTMAX-13", "SIGRTMAX-12", "SIGRTMAX-11", "SIGRTMAX-10", "SIGRTMAX-9", "SIGRTMAX-8", "SIGRTMAX-7", "SIGRTMAX-6", "SIGRTMAX-5", "SIGRTMAX-4", "SIGRTMAX-3", "SIGRTMAX-2", "SIGRTMAX-1", "SIGRTMAX"}
	case "SupplementalGroupsPolicy":
		return []string{"Merge", "Strict"}
	case "TaintEffect":
		return []string{"NoSchedule", "PreferNoSchedule", "NoExecute"}
	case "TerminationMessagePolicy":
		return []string{"File", "FallbackToLogsOnError"}
	case "TolerationOperator":
		return []string{"Exists", "Equal", "Lt", "Gt"}
	case "URIScheme":
		return []string{"HTTP", "HTTPS"}
	case "UnsatisfiableConstraintAction":
		return []string{"DoNotSchedule", "ScheduleAnyway"}
	case "VolumeHealthStatusType":
		return []string{"Inaccessible", "DataLoss", "Degraded"}
	}
	return nil
}
