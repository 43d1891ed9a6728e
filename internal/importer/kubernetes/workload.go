package kubernetes

import (
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// workload reads an object that runs pods.
func (g *group) workload(o *manifest.Object) {
	w := &workload{object: o, base: o.At("spec")}
	spec := o.Root.Child("spec")
	if spec == nil || spec.Kind != source.Mapping {
		g.refuse(o, o.At(), "Kubernetes would refuse it: %s has no spec", o.Title())
		return
	}
	var ok bool
	if o.Kind == "Pod" {
		w.pod, w.path, w.labels = &k8s.PodSpec{}, o.At("spec"), o.Meta.Labels
		ok = manifest.Decode(g.report, o, spec, w.path, w.pod)
	} else {
		ok = true
		if o.Kind == "CronJob" {
			w.cron = &manifest.CronSpec{}
			ok = manifest.Decode(g.report, o, spec, w.base, w.cron)
			spec, w.base = spec.Child("jobTemplate").Child("spec"), o.At("spec", "jobTemplate", "spec")
		}
		ok = manifest.Decode(g.report, o, spec, w.base, &w.spec) && ok
		w.pod, w.path, w.labels = &w.spec.Template.Spec.PodSpec, source.Extend(w.base, "template", "spec"),
			w.spec.Template.Labels
		ok = g.selects(w, spec.Child("selector")) && ok
	}
	if len(w.pod.Containers) == 0 {
		g.refuse(o, w.path, "Kubernetes would refuse it: %s has no containers", o.Title())
		return
	}
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.WorkloadTries()[o.Kind])
	for _, c := range slices.Concat(w.pod.Containers, w.pod.InitContainers) {
		if len(c.Ports) > maxListed || len(c.VolumeMounts) > maxListed {
			g.refuse(o, w.path, "cannot be expressed: a container has more than %d ports or mounts", maxListed)
			return
		}
	}
	if len(w.pod.Containers)+len(w.pod.InitContainers)+len(g.workloads) > api.MaxServices {
		g.refuse(o, w.path, "cannot be expressed: an application has at most %d services", api.MaxServices)
		return
	}
	if ok {
		g.workloads = append(g.workloads, w)
		g.containers(w)
		g.unmounted(w)
	}
}
