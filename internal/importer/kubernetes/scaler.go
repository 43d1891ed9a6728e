package kubernetes

import (
	"cmp"
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
)

// scaler converts a HorizontalPodAutoscaler.
func (g *group) scaler(o *manifest.Object) {
	var spec struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicas *int32                `json:"minReplicas"`
		MaxReplicas int32                 `json:"maxReplicas"`
		Metrics     manifest.IgnoredField `json:"metrics"`
		Behavior    manifest.IgnoredField `json:"behavior"`
		CPU         manifest.IgnoredField `json:"targetCPUUtilizationPercentage"`
	}
	ok := manifest.Decode(g.report, o, o.Root.Child("spec"), o.At("spec"), &spec)
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.ScalerTrie())
	if !ok {
		return
	}
	least := int32(1)
	if spec.MinReplicas != nil {
		least = *spec.MinReplicas
	}
	if spec.MaxReplicas < max(least, 1) || least < 0 {
		g.refuse(o, o.At("spec", "maxReplicas"), "Kubernetes would refuse it: from %d to %d is not a range", least,
			spec.MaxReplicas)
		return
	}
	i := slices.IndexFunc(g.workloads, func(w *workload) bool {
		return w.object.Kind == spec.ScaleTargetRef.Kind && w.object.Meta.Name == spec.ScaleTargetRef.Name
	})
	if i < 0 {
		g.lost(o, o.At("spec", "scaleTargetRef"), "is not carried over: there is no %s %s",
			cmp.Or(spec.ScaleTargetRef.Kind, "object"), source.Quote(spec.ScaleTargetRef.Name))
		return
	}
	c := g.workloads[i].containers[0]
	svc := g.app.Services[c.name]
	if api.TakesRequests(svc.Ports) && !svc.Pins() && svc.Job == nil {
		svc.Replicas = api.Replicas{Min: int(least), Max: int(spec.MaxReplicas)}
		return
	}
	now := min(max(svc.Replicas.Max, int(least), 1), int(spec.MaxReplicas))
	svc.Replicas = api.Replicas{Min: now, Max: now}
	g.lost(o, o.At("spec"), "%s has %d: how many run is decided by requests, and it has no port for them (protocol: "+
		"http), or volumes that are kept", c.name, now)
}
