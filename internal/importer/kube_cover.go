package importer

import (
	"maps"
	"sync"
)

// metaCover is what becomes of the metadata of an object.
var metaCover = cover{
	"apiVersion": "", "kind": "", "status": ignored,
	"metadata.name": "", "metadata.generateName": "", "metadata.namespace": "", "metadata.labels": ignored, "metadata.annotations": ignored,
	"metadata.creationTimestamp": ignored, "metadata.managedFields": ignored, "metadata.resourceVersion": ignored, "metadata.uid": ignored,
	"metadata.generation": ignored, "metadata.selfLink": ignored,
	"metadata.ownerReferences": ignored, "metadata.finalizers": "is not carried over: nothing waits for the end of an application",
}

const (
	noAPI   = "is not carried over: an instance has no API of Kubernetes, and no account there"
	noHooks = "is not carried over: Verge runs nothing beside an instance but checks"
	noHost  = "is not carried over: instances do not share what the machine or others have"
	noNames = "is not carried over: names are those of services and of the worker's name server"
)

// podCover is that of the specification of a pod.
var podCover = cover{
	"containers": "", "initContainers": "", "volumes": "", "restartPolicy": "", "terminationGracePeriodSeconds": "", "nodeSelector": "",
	"securityContext": "", "imagePullSecrets": "", "affinity": "", "topologySpreadConstraints": "", "hostNetwork": "", "hostPID": "", "hostIPC": "",
	"shareProcessNamespace": "", "schedulerName": "", "os": "", "serviceAccountName": "", "serviceAccount": "",
	"automountServiceAccountToken": ignored, "enableServiceLinks": ignored, "preemptionPolicy": ignored, "dnsPolicy": ignored, "hostUsers": ignored,
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

// serviceCover, and those that follow, are of what leads to workloads.
var serviceCover = metaCover.with("spec", cover{
	"selector": "", "ports": "", "type": "", "clusterIP": "", "externalName": "", "clusterIPs": ignored,
	"ipFamilies": ignored, "ipFamilyPolicy": ignored, "allocateLoadBalancerNodePorts": ignored, "loadBalancerClass": ignored, "healthCheckNodePort": ignored,
	"sessionAffinity": "", "sessionAffinityConfig": "", "internalTrafficPolicy": "", "externalTrafficPolicy": "", "trafficDistribution": "",
	"externalIPs":              "is not carried over: gateways serve at all addresses of their machines",
	"loadBalancerIP":           "is not carried over: gateways serve at all addresses of their machines",
	"loadBalancerSourceRanges": "is not carried over: who may connect to a gateway is for the network to say",
	"publishNotReadyAddresses": "is not carried over: instances get requests when they are ready",
})

var ingressCover = metaCover.with("spec", cover{
	"rules": "", "tls": "", "defaultBackend": "", "backend": "", "ingressClassName": ignored,
})

var dataCover = metaCover.with("", cover{"data": "", "binaryData": "", "stringData": "", "immutable": ignored, "type": ""})

var claimCover = metaCover.with("spec", cover{
	"resources": "", "accessModes": "",
	"storageClassName": "~is not needed: a volume of Verge is a directory of the worker",
	"volumeMode":       "", "volumeName": "is not carried over: what is in it stays where it is",
	"dataSource": "is not carried over: a volume begins empty", "dataSourceRef": "is not carried over: a volume begins empty",
})

var scalerCover = metaCover.with("spec", cover{
	"scaleTargetRef": "", "minReplicas": "", "maxReplicas": "",
	"metrics":                        "is not carried over: clusters decide by requests (slo, concurrency)",
	"targetCPUUtilizationPercentage": "is not carried over: clusters decide by requests (slo, concurrency)",
	"behavior":                       "is not carried over: clusters decide by requests (slo, concurrency)",
})

// workloadCovers are of what runs pods, by kind.
var workloadCovers = map[string]cover{
	"Pod": metaCover.with("spec", podCover),
	"Deployment": ofPods(cover{
		"strategy": "", "minReadySeconds": "", "progressDeadlineSeconds": "",
		"revisionHistoryLimit": "~is not needed: Verge keeps a few revisions (verge rollout history)",
		"paused":               "is not carried over: a rollout is paused by verge rollout pause",
		"rollbackTo":           ignored,
	}),
	"ReplicaSet":            ofPods(cover{"minReadySeconds": ""}),
	"ReplicationController": ofPods(cover{"minReadySeconds": ""}),
	"DaemonSet": ofPods(cover{
		"updateStrategy": "", "minReadySeconds": "",
		"revisionHistoryLimit": "~is not needed: Verge keeps a few revisions (verge rollout history)",
	}),
	"StatefulSet": ofPods(cover{
		"updateStrategy": "", "minReadySeconds": "", "serviceName": "", "podManagementPolicy": "", "volumeClaimTemplates": "",
		"revisionHistoryLimit":                 "~is not needed: Verge keeps a few revisions (verge rollout history)",
		"persistentVolumeClaimRetentionPolicy": "is not carried over: volumes are kept until the worker's operator removes them",
		"ordinals":                             "is not carried over: instances are counted from 0",
	}),
	"Job":     ofPods(jobCover),
	"CronJob": cronCover(),
	knative:   ofPods(knativeCover),
}

var jobCover = cover{
	"parallelism": "", "completions": "", "backoffLimit": "", "ttlSecondsAfterFinished": "", "activeDeadlineSeconds": "", "suspend": "", "completionMode": "",
	"manualSelector":       ignored,
	"backoffLimitPerIndex": "", "podReplacementPolicy": ignored, "managedBy": ignored,
	"podFailurePolicy": "is not carried over: whatever ends with another exit code than 0 is run again (job.retries)",
	"successPolicy":    "is not carried over: a job has completed when all its indexes have",
	"maxFailedIndexes": "is not carried over: the other indexes go on when one has failed",
}

// cronCover is that of a job, in the template of one that runs by a schedule.
func cronCover() cover {
	c := metaCover.with("spec", cover{
		"schedule": "", "timeZone": "", "concurrencyPolicy": "", "suspend": "", "startingDeadlineSeconds": "",
		"successfulJobsHistoryLimit": "", "failedJobsHistoryLimit": "", "jobTemplate.metadata": ignored,
	}).with("spec.jobTemplate.spec", jobCover).with("spec.jobTemplate.spec.template.spec", podCover)
	c["spec.jobTemplate.spec.selector"], c["spec.jobTemplate.spec.template.metadata"] = "", ignored
	return c
}

// ofPods is the cover of a kind with replicas of a pod, and what it says besides.
func ofPods(besides cover) cover {
	c := metaCover.with("spec", besides).with("spec.template.spec", podCover)
	maps.Copy(c, cover{
		"spec.replicas": "", "spec.selector": "", "spec.template.metadata": ignored, "spec.template.apiVersion": ignored, "spec.template.kind": ignored,
	})
	return c
}

// with is c and the fields of more below a path.
func (c cover) with(below string, more cover) cover {
	out := maps.Clone(c)
	if below != "" {
		below += "."
	}
	for k, v := range more {
		out[below+k] = v
	}
	return out
}

// tries of the covers.
var (
	serviceTrie, ingressTrie, dataTrie = serviceCover.lazy(), ingressCover.lazy(), dataCover.lazy()
	routeTrie                          = routeCover.lazy()
	claimTrie, scalerTrie              = claimCover.lazy(), scalerCover.lazy()
	workloadTries                      = sync.OnceValue(func() map[string]*trie {
		out := map[string]*trie{}
		for kind, c := range workloadCovers {
			out[kind] = c.trie()
		}
		return out
	})
)

// notCarried are kinds of which nothing is carried over, and why; "" where the group is
// one that Verge knows nothing of. Those that begin with said are no loss.
var notCarried = map[string]string{
	"Namespace":                said + "is not made: a namespace of Verge is there when somebody uses it; its rights and quotas are of verge namespace",
	"ServiceAccount":           noAPI,
	"Role":                     noAPI,
	"RoleBinding":              noAPI,
	"ClusterRole":              noAPI,
	"ClusterRoleBinding":       noAPI,
	"PersistentVolume":         "is not carried over: a volume of Verge is a directory of the worker, and what is in this one stays where it is",
	"StorageClass":             "is not carried over: a volume of Verge is a directory of the worker",
	"PodDisruptionBudget":      "is not carried over: an update keeps what is promised (rollout.max_unavailable says otherwise), and other moves know no budget",
	"NetworkPolicy":            "is not carried over: services of an application all reach each other, those of others do not unless they are exported",
	"LimitRange":               "is not carried over: resources and limits stand in each service",
	"ResourceQuota":            "is not carried over: quotas of a namespace are set by verge namespace",
	"PriorityClass":            "is not carried over: priority is a number in each service",
	"IngressClass":             said + "is not needed: the gateways of Verge are its ingress",
	"Gateway":                  "is not carried over: the gateways of Verge listen at the ports that they are started with",
	"GatewayClass":             said + "is not needed: the gateways of Verge are its ingress",
	"Endpoints":                "is not carried over: a service leads to its own instances alone",
	"EndpointSlice":            "is not carried over: a service leads to its own instances alone",
	"Kustomization":            "is not carried over: kustomize build makes manifests of it, which can be imported",
	"VerticalPodAutoscaler":    "is not carried over: resources stand in each service",
	"Event":                    said + "is no part of an application",
	"Node":                     said + "is no part of an application",
	"ControllerRevision":       said + "is no part of an application",
	"RuntimeClass":             "is not carried over: a container is run by runc",
	"PodSecurityPolicy":        "is not carried over: what containers may do stands in security, and what a namespace allows in verge namespace standing",
	"CustomResourceDefinition": "is not carried over: Verge has no kinds but its own",
}
