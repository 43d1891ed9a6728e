package manifest

import (
	"github.com/verge-edge/verge/internal/importer/report"
)

// Versions are the versions, by group and kind, that Verge knows.
var Versions = map[string][]string{
	"/Pod": {"v1"}, "/Service": {"v1"}, "/ConfigMap": {"v1"}, "/Secret": {"v1"}, "/PersistentVolumeClaim": {"v1"},
	"/ReplicationController": {"v1"},
	"apps/Deployment":        {"v1", "v1beta2", "v1beta1"}, "extensions/Deployment": {"v1beta1"},
	"apps/DaemonSet": {"v1", "v1beta2"}, "extensions/DaemonSet": {"v1beta1"},
	"apps/ReplicaSet": {"v1", "v1beta2"}, "extensions/ReplicaSet": {"v1beta1"},
	"apps/StatefulSet": {"v1", "v1beta2", "v1beta1"},
	"batch/Job":        {"v1"}, "batch/CronJob": {"v1", "v1beta1"},
	"autoscaling/HorizontalPodAutoscaler": {"v2", "v1", "v2beta2", "v2beta1"},
	"networking.k8s.io/Ingress":           {"v1", "v1beta1"}, "extensions/Ingress": {"v1beta1"},
	"gateway.networking.k8s.io/HTTPRoute": {"v1", "v1beta1", "v1alpha2"},
	"gateway.networking.k8s.io/GRPCRoute": {"v1", "v1alpha2"},
	"serving.knative.dev/Service":         {"v1"},
}

// NotCarried are kinds of which nothing is carried over, and why; "" if Verge does not know the
// group. Reasons that begin with report.Noted are no loss.
var NotCarried = map[string]string{
	"Namespace": report.Noted +
		"is not made: a namespace of Verge is there when somebody uses it; its rights and quotas are of verge namespace",
	"ServiceAccount":     NoAPI,
	"Role":               NoAPI,
	"RoleBinding":        NoAPI,
	"ClusterRole":        NoAPI,
	"ClusterRoleBinding": NoAPI,
	"PersistentVolume":   "is not carried over: a volume of Verge is a directory of the worker, and what is in this one stays where it is",
	"StorageClass":       "is not carried over: a volume of Verge is a directory of the worker",
	"PodDisruptionBudget": "is not carried over: an update keeps what is promised (rollout.max_unavailable says " +
		"otherwise), and other moves know no budget",
	"NetworkPolicy": "is not carried over: services of an application all reach each other, those of others " +
		"do not unless they are exported",
	"LimitRange":            "is not carried over: resources and limits stand in each service",
	"ResourceQuota":         "is not carried over: quotas of a namespace are set by verge namespace",
	"PriorityClass":         "is not carried over: priority is a number in each service",
	"IngressClass":          report.Noted + "is not needed: the gateways of Verge are its ingress",
	"Gateway":               "is not carried over: the gateways of Verge listen at the ports that they are started with",
	"GatewayClass":          report.Noted + "is not needed: the gateways of Verge are its ingress",
	"Endpoints":             "is not carried over: a service leads to its own instances alone",
	"EndpointSlice":         "is not carried over: a service leads to its own instances alone",
	"Kustomization":         "is not carried over: kustomize build makes manifests of it, which can be imported",
	"VerticalPodAutoscaler": "is not carried over: resources stand in each service",
	"Event":                 report.Noted + "is not a part of an application",
	"Node":                  report.Noted + "is not a part of an application",
	"ControllerRevision":    report.Noted + "is not a part of an application",
	"RuntimeClass":          "is not carried over: a container is run by runc",
	"PodSecurityPolicy": "is not carried over: what containers may do stands in security, and what a namespace " +
		"allows in verge namespace standing",
	"CustomResourceDefinition": "is not carried over: Verge has no kinds but its own",
}

// Knative is the name used here for the kind Service of Knative.
const Knative = "Knative Service"
