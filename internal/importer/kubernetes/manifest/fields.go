package manifest

import (
	"maps"
	"sync"

	"github.com/verge-edge/verge/internal/importer/report"
)

// metaCover says what becomes of the metadata of an object.
var metaCover = report.Cover{
	"apiVersion": "", "kind": "", "status": report.Ignored,
	"metadata.name": "", "metadata.generateName": "", "metadata.namespace": "", "metadata.labels": report.Ignored,
	"metadata.annotations":       report.Ignored,
	"metadata.creationTimestamp": report.Ignored, "metadata.managedFields": report.Ignored,
	"metadata.resourceVersion": report.Ignored, "metadata.uid": report.Ignored,
	"metadata.generation": report.Ignored, "metadata.selfLink": report.Ignored,
	"metadata.ownerReferences": report.Ignored,
	"metadata.finalizers":      "is not carried over: nothing waits for the end of an application",
}

// Reasons that several fields share.
const (
	NoAPI   = "is not carried over: an instance has no API of Kubernetes, and no account there"
	NoHooks = "is not carried over: Verge runs nothing beside an instance but checks"
	NoHost  = "is not carried over: instances do not share what the machine or others have"
	noNames = "is not carried over: names are those of services and of the worker's name server"
)

// podCover is the cover of the specification of a pod.
var podCover = report.Cover{
	"containers": "", "initContainers": "", "volumes": "", "restartPolicy": "", "terminationGracePeriodSeconds": "",
	"nodeSelector":    "",
	"securityContext": "", "imagePullSecrets": "", "affinity": "", "topologySpreadConstraints": "", "hostNetwork": "",
	"hostPID": "", "hostIPC": "",
	"shareProcessNamespace": "", "schedulerName": "", "os": "", "serviceAccountName": "", "serviceAccount": "",
	"automountServiceAccountToken": report.Ignored, "enableServiceLinks": report.Ignored,
	"preemptionPolicy": report.Ignored, "dnsPolicy": report.Ignored, "hostUsers": report.Ignored,
	"activeDeadlineSeconds": "is not carried over: only a job has a deadline",
	"dnsConfig":             noNames, "hostAliases": noNames,
	"hostname":          "is not carried over: an instance is called by its service",
	"subdomain":         "is not carried over: an instance is called by its service",
	"setHostnameAsFQDN": "is not carried over: an instance is called by its service",
	"tolerations":       "~is not needed: workers of Verge have no taints",
	"nodeName":          "is not carried over: workers are chosen by labels (affinity.labels)",
	"priorityClassName": "is not carried over: priority is a number in Verge, which a namespace must be allowed (priority: 100)",
	"priority":          "is not carried over: priority is a number in Verge, which a namespace must be allowed (priority: 100)",
	"runtimeClassName":  "is not carried over: a container is run by runc",
}

// serviceCover and the following are the covers of what leads to workloads.
var serviceCover = metaCover.With("spec", report.Cover{
	"selector": "", "ports": "", "type": "", "clusterIP": "", "externalName": "", "clusterIPs": report.Ignored,
	"ipFamilies": report.Ignored, "ipFamilyPolicy": report.Ignored, "allocateLoadBalancerNodePorts": report.Ignored,
	"loadBalancerClass": report.Ignored, "healthCheckNodePort": report.Ignored,
	"sessionAffinity": "", "sessionAffinityConfig": "", "internalTrafficPolicy": "", "externalTrafficPolicy": "",
	"trafficDistribution":      "",
	"externalIPs":              "is not carried over: gateways serve at all addresses of their machines",
	"loadBalancerIP":           "is not carried over: gateways serve at all addresses of their machines",
	"loadBalancerSourceRanges": "is not carried over: who may connect to a gateway is for the network to say",
	"publishNotReadyAddresses": "is not carried over: instances get requests when they are ready",
})

var ingressCover = metaCover.With("spec", report.Cover{
	"rules": "", "tls": "", "defaultBackend": "", "backend": "", "ingressClassName": report.Ignored,
})

var dataCover = metaCover.With("",
	report.Cover{"data": "", "binaryData": "", "stringData": "", "immutable": report.Ignored, "type": ""})

var claimCover = metaCover.With("spec", report.Cover{
	"resources": "", "accessModes": "",
	"storageClassName": "~is not needed: a volume of Verge is a directory of the worker",
	"volumeMode":       "", "volumeName": "is not carried over: what is in it stays where it is",
	"dataSource":    "is not carried over: a volume begins empty",
	"dataSourceRef": "is not carried over: a volume begins empty",
})

var scalerCover = metaCover.With("spec", report.Cover{
	"scaleTargetRef": "", "minReplicas": "", "maxReplicas": "",
	"metrics":                        "is not carried over: clusters decide by requests (slo, concurrency)",
	"targetCPUUtilizationPercentage": "is not carried over: clusters decide by requests (slo, concurrency)",
	"behavior":                       "is not carried over: clusters decide by requests (slo, concurrency)",
})

// workloadCovers are the covers of what runs pods, by kind.
var workloadCovers = map[string]report.Cover{
	"Pod": metaCover.With("spec", podCover),
	"Deployment": ofPods(report.Cover{
		"strategy": "", "minReadySeconds": "", "progressDeadlineSeconds": "",
		"revisionHistoryLimit": "~is not needed: Verge keeps a few revisions (verge rollout history)",
		"paused":               "is not carried over: a rollout is paused by verge rollout pause",
		"rollbackTo":           report.Ignored,
	}),
	"ReplicaSet":            ofPods(report.Cover{"minReadySeconds": ""}),
	"ReplicationController": ofPods(report.Cover{"minReadySeconds": ""}),
	"DaemonSet": ofPods(report.Cover{
		"updateStrategy": "", "minReadySeconds": "",
		"revisionHistoryLimit": "~is not needed: Verge keeps a few revisions (verge rollout history)",
	}),
	"StatefulSet": ofPods(report.Cover{
		"updateStrategy": "", "minReadySeconds": "", "serviceName": "", "podManagementPolicy": "", "volumeClaimTemplates": "",
		"revisionHistoryLimit":                 "~is not needed: Verge keeps a few revisions (verge rollout history)",
		"persistentVolumeClaimRetentionPolicy": "is not carried over: volumes are kept until the worker's operator removes them",
		"ordinals":                             "is not carried over: instances are counted from 0",
	}),
	"Job":     ofPods(jobCover),
	"CronJob": cronCover(),
	Knative:   ofPods(knativeCover),
}

var jobCover = report.Cover{
	"parallelism": "", "completions": "", "backoffLimit": "", "ttlSecondsAfterFinished": "", "activeDeadlineSeconds": "",
	"suspend": "", "completionMode": "",
	"manualSelector":       report.Ignored,
	"backoffLimitPerIndex": "", "podReplacementPolicy": report.Ignored, "managedBy": report.Ignored,
	"podFailurePolicy": "is not carried over: whatever ends with another exit code than 0 is run again (job.retries)",
	"successPolicy":    "is not carried over: a job has completed when all its indexes have",
	"maxFailedIndexes": "is not carried over: the other indexes continue when one has failed",
}

// cronCover is the cover of a job in the template of a CronJob.
func cronCover() report.Cover {
	c := metaCover.With("spec", report.Cover{
		"schedule": "", "timeZone": "", "concurrencyPolicy": "", "suspend": "", "startingDeadlineSeconds": "",
		"successfulJobsHistoryLimit": "", "failedJobsHistoryLimit": "", "jobTemplate.metadata": report.Ignored,
	}).With("spec.jobTemplate.spec", jobCover).With("spec.jobTemplate.spec.template.spec", podCover)
	c["spec.jobTemplate.spec.selector"], c["spec.jobTemplate.spec.template.metadata"] = "", report.Ignored
	return c
}

// ofPods is the cover of a kind with replicas of a pod and the other fields in besides.
func ofPods(besides report.Cover) report.Cover {
	c := metaCover.With("spec", besides).With("spec.template.spec", podCover)
	maps.Copy(c, report.Cover{
		"spec.replicas": "", "spec.selector": "", "spec.template.metadata": report.Ignored,
		"spec.template.apiVersion": report.Ignored, "spec.template.kind": report.Ignored,
	})
	return c
}

// Tries of the covers.
var (
	ServiceTrie, IngressTrie, DataTrie = serviceCover.Lazy(), ingressCover.Lazy(), dataCover.Lazy()
	RouteTrie                          = routeCover.Lazy()
	ClaimTrie, ScalerTrie              = claimCover.Lazy(), scalerCover.Lazy()
	WorkloadTries                      = sync.OnceValue(func() map[string]*report.Trie {
		out := map[string]*report.Trie{}
		for kind, c := range workloadCovers {
			out[kind] = c.Trie()
		}
		return out
	})
)

var knativeCover = report.Cover{
	"template.spec.containerConcurrency":        "",
	"template.spec.timeoutSeconds":              "",
	"template.spec.idleTimeoutSeconds":          "is not carried over: an answer may take its time once it has begun",
	"template.spec.responseStartTimeoutSeconds": "is not carried over: timeout is the time until an answer begins",
	"traffic": "is not carried over: requests go to what is applied last, when it is ready",
}

var routeCover = metaCover.With("spec", report.Cover{
	"hostnames": "", "rules[].matches": "", "rules[].backendRefs": "", "rules[].filters": "",
	"rules[].name":     report.Ignored,
	"parentRefs":       "~is not needed: all gateways publish what has an ingress",
	"rules[].timeouts": "is not carried over: timeout is that of a service",
})
