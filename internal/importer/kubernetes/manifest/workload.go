package manifest

import (
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/internal/k8s"
)

// CronSpec is the spec of a CronJob.
type CronSpec struct {
	Schedule                   string                `json:"schedule"`
	TimeZone                   string                `json:"timeZone"`
	ConcurrencyPolicy          k8s.ConcurrencyPolicy `json:"concurrencyPolicy"`
	Suspend                    bool                  `json:"suspend"`
	StartingDeadlineSeconds    *int64                `json:"startingDeadlineSeconds"`
	SuccessfulJobsHistoryLimit *int32                `json:"successfulJobsHistoryLimit"`
	FailedJobsHistoryLimit     *int32                `json:"failedJobsHistoryLimit"`
	JobTemplate                IgnoredField          `json:"jobTemplate"`
}

// WorkloadSpec has the fields of Deployment, StatefulSet, DaemonSet, ReplicaSet,
// ReplicationController and Job around the template of their pods. The cover of a kind says
// which of them it has.
type WorkloadSpec struct {
	Replicas                *int32                      `json:"replicas"`
	Template                podTemplate                 `json:"template"`
	Strategy                updateStrategy              `json:"strategy"`
	UpdateStrategy          updateStrategy              `json:"updateStrategy"`
	MinReadySeconds         int32                       `json:"minReadySeconds"`
	ProgressDeadlineSeconds *int32                      `json:"progressDeadlineSeconds"`
	ServiceName             string                      `json:"serviceName"`
	PodManagementPolicy     k8s.PodManagementPolicyType `json:"podManagementPolicy"`
	VolumeClaimTemplates    []k8s.PersistentVolumeClaim `json:"volumeClaimTemplates"`
	Parallelism             *int32                      `json:"parallelism"`
	Completions             *int32                      `json:"completions"`
	BackoffLimit            *int32                      `json:"backoffLimit"`
	BackoffLimitPerIndex    *int32                      `json:"backoffLimitPerIndex"`
	TTLSecondsAfterFinished *int32                      `json:"ttlSecondsAfterFinished"`
	ActiveDeadlineSeconds   *int64                      `json:"activeDeadlineSeconds"`
	Suspend                 bool                        `json:"suspend"`
	CompletionMode          k8s.CompletionMode          `json:"completionMode"`
	// Fields that Verge does not use are here so that they are no error: the cover says what
	// becomes of them.
	Selector             IgnoredField             `json:"selector"`
	RevisionHistoryLimit IgnoredField             `json:"revisionHistoryLimit"`
	Paused               bool                     `json:"paused"`
	RollbackTo           IgnoredField             `json:"rollbackTo"`
	RetentionPolicy      IgnoredField             `json:"persistentVolumeClaimRetentionPolicy"`
	Ordinals             IgnoredField             `json:"ordinals"`
	ManualSelector       IgnoredField             `json:"manualSelector"`
	PodReplacementPolicy k8s.PodReplacementPolicy `json:"podReplacementPolicy"`
	ManagedBy            IgnoredField             `json:"managedBy"`
	PodFailurePolicy     IgnoredField             `json:"podFailurePolicy"`
	SuccessPolicy        IgnoredField             `json:"successPolicy"`
	MaxFailedIndexes     IgnoredField             `json:"maxFailedIndexes"`
	Traffic              IgnoredField             `json:"traffic"`
}

// podTemplate is the template of a pod, with the additional fields of Knative.
type podTemplate struct {
	k8s.ObjectMeta `json:"metadata"`
	Spec           podSpec      `json:"spec"`
	APIVersion     IgnoredField `json:"apiVersion"`
	Kind           IgnoredField `json:"kind"`
}

type podSpec struct {
	k8s.PodSpec          `json:",inline"`
	ContainerConcurrency *int64       `json:"containerConcurrency"`
	TimeoutSeconds       *int64       `json:"timeoutSeconds"`
	IdleTimeout          IgnoredField `json:"idleTimeoutSeconds"`
	ResponseStartTimeout IgnoredField `json:"responseStartTimeoutSeconds"`
}

// IgnoredField takes anything.
type IgnoredField struct{}

// UnmarshalJSON takes anything.
func (*IgnoredField) UnmarshalJSON([]byte) error { return nil }

// given says that a field is set, to any value.
type given bool

// UnmarshalJSON takes anything.
func (g *given) UnmarshalJSON([]byte) error { *g = true; return nil }

type updateStrategy struct {
	Type          string `json:"type"`
	RollingUpdate *struct {
		MaxSurge       *intstr.IntOrString `json:"maxSurge"`
		MaxUnavailable *intstr.IntOrString `json:"maxUnavailable"`
		Partition      *int32              `json:"partition"`
	} `json:"rollingUpdate"`
}
