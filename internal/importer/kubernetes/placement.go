package kubernetes

import (
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// amounts converts what a container reserves and may use. A limit without a reservation is also
// a reservation, as in Kubernetes.
func (g *group) amounts(w *workload, c *container, out *api.Service) {
	at := source.Extend(c.path, "resources")
	reserve, limit := maps.Clone(c.Resources.Requests), c.Resources.Limits
	if reserve == nil {
		reserve = k8s.ResourceList{}
	}
	for name, q := range limit {
		if r, both := reserve[name]; !both {
			reserve[name] = q
		} else if r.Cmp(q) > 0 {
			g.refuse(w.object, source.Extend(at, "requests", string(name)),
				"Kubernetes would refuse it: %s is more than the limit of %s", r.String(), q.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(reserve)) {
		q, field := reserve[name], source.Extend(at, "requests", string(name))
		if _, own := c.Resources.Requests[name]; !own {
			field = source.Extend(at, "limits", string(name))
		}
		if q.Sign() < 0 {
			g.refuse(w.object, field, "Kubernetes would refuse it: %s is less than none", q.String())
			continue
		}
		switch n := string(name); {
		case name == k8s.ResourceCPU:
			out.Resources.CPU = cores(q)
		case name == k8s.ResourceMemory:
			out.Resources.Memory = g.bytes(w, field, q)
		case name == k8s.ResourceEphemeralStorage:
			out.Resources.Disk = g.bytes(w, field, q)
		case strings.HasSuffix(n, "/gpu") || n == "nvidia.com/gpu.shared" || n == "gpu.intel.com/i915" ||
			n == "gpu.intel.com/xe":
			out.Resources.VGPUs += api.Units(q.Value() * 1000)
		case n == "google.com/tpu" || n == "cloud-tpus.google.com/v3" || n == "cloud-tpus.google.com/v2":
			out.Resources.VTPUs += api.Units(q.Value() * 1000)
		default:
			g.lost(w.object, field, "is not carried over: devices are asked for by type (devices: [{type: camera}]), which "+
				"workers have (verge worker --device)")
		}
	}
	if q, ok := limit[k8s.ResourceCPU]; ok {
		out.Limits.CPU = cores(q)
	}
	if q, ok := limit[k8s.ResourceMemory]; ok {
		out.Limits.Memory = g.bytes(w, source.Extend(at, "limits", "memory"), q)
	}
	if len(c.Resources.Claims) > 0 {
		g.lost(w.object, source.Extend(at, "claims"),
			"is not carried over: devices are asked for by type (devices: [{type: camera}])")
	}
}

// cores converts processors to thousandths, rounded up. The check of the descriptor refuses
// more than Verge can count.
func cores(q resource.Quantity) api.CPU {
	return api.CPU(math.Min(math.Ceil(q.AsApproximateFloat64()*1000-1e-6), 1e12))
}

func (g *group) bytes(w *workload, at []string, q resource.Quantity) api.Bytes {
	b := api.Bytes(math.Min(math.Ceil(q.AsApproximateFloat64()), 1e18))
	if b > 0 && b < 1<<20 {
		g.lost(w.object, at, "%s is less than an instance can have (1Mi): 1Gi is written Gi, and m are thousandths",
			source.Quote(q.String()))
		return 1 << 20
	}
	return b
}

// place converts where instances may run.
func (g *group) place(w *workload, c *container, out *api.Service) {
	o, p := w.object, w.pod
	for _, k := range slices.Sorted(maps.Keys(p.NodeSelector)) {
		if !g.nodeLabel(k, p.NodeSelector[k], out) {
			g.lost(o, source.Extend(w.path, "nodeSelector", k),
				"is not carried over: it is not a label that a worker of Verge can have")
		}
	}
	if p.OS != nil && p.OS.Name == k8s.Windows {
		g.refuse(o, source.Extend(w.path, "os"), "cannot be expressed: Verge runs no containers of Windows")
	}
	if s := p.SchedulerName; s != "" && s != k8s.DefaultSchedulerName {
		g.lost(o, source.Extend(w.path, "schedulerName"), "is not carried over: %s is not a scheduler of Verge",
			source.Quote(s))
	}
	for i, t := range p.TopologySpreadConstraints {
		at := source.Extend(w.path, "topologySpreadConstraints", source.Index(i))
		if t.WhenUnsatisfiable == k8s.ScheduleAnyway || t.TopologyKey == k8s.LabelHostname && t.WhenUnsatisfiable == "" {
			g.said(o, at, "is not needed: instances are spread over workers and clusters anyway")
		} else {
			g.lost(o, at,
				"is not carried over as a rule: instances are spread over workers and clusters as far as there is room")
		}
	}
	if n := len(out.Affinity.Labels) + len(out.AntiAffinity.Labels); n > 0 && len(p.NodeSelector) > 0 {
		g.said(o, source.Extend(w.path, "nodeSelector"), "workers have the labels that they are given (verge worker --label)")
	}
	a := p.Affinity
	if a == nil {
		return
	}
	at := source.Extend(w.path, "affinity")
	if n := a.NodeAffinity; n != nil {
		g.nodeAffinity(w, source.Extend(at, "nodeAffinity"), n, out)
	}
	if a.PodAffinity != nil {
		g.lost(o, source.Extend(at, "podAffinity"),
			"is not carried over: latency says how near instances are to another service (latency: [{to: db, max: 2ms}])")
	}
	if n := a.PodAntiAffinity; n != nil {
		in := source.Extend(at, "podAntiAffinity")
		for i, t := range n.RequiredDuringSchedulingIgnoredDuringExecution {
			g.apart(w, c, source.Extend(in, "requiredDuringSchedulingIgnoredDuringExecution", source.Index(i)), t, out)
		}
		for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
			g.said(o, source.Extend(in, "preferredDuringSchedulingIgnoredDuringExecution", source.Index(i)),
				"is not needed: instances are spread over workers and clusters anyway")
		}
	}
}

// nodeLabel requires a label of a worker.
func (g *group) nodeLabel(key, value string, out *api.Service) bool {
	switch strings.TrimPrefix(key, "beta.") {
	case "kubernetes.io/arch":
		arch := draft.Architecture(value)
		if arch != "" && !slices.Contains(out.Architecture, arch) {
			out.Architecture = append(out.Architecture, arch)
		}
		return arch != ""
	case "kubernetes.io/os":
		return value == "linux"
	}
	return putLabel(&out.Affinity.Labels, key, value)
}

func putLabel(to *map[string]string, key, value string) bool {
	if was, twice := (*to)[key]; twice && was != value || api.LabelProblem(key, value) != "" {
		return false
	}
	if *to == nil {
		*to = map[string]string{}
	}
	(*to)[key] = value
	return true
}

func (g *group) nodeAffinity(w *workload, at []string, n *k8s.NodeAffinity, out *api.Service) {
	for i := range n.PreferredDuringSchedulingIgnoredDuringExecution {
		g.lost(w.object, source.Extend(at, "preferredDuringSchedulingIgnoredDuringExecution", source.Index(i)),
			"is not carried over: Verge has rules for workers and no preferences")
	}
	r := n.RequiredDuringSchedulingIgnoredDuringExecution
	if r == nil {
		return
	}
	in := source.Extend(at, "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
	if len(r.NodeSelectorTerms) > 1 {
		g.lost(w.object, in, "are not carried over: a worker has to have all labels, and these are several ways to be right")
		return
	}
	for i, t := range r.NodeSelectorTerms {
		for j, e := range t.MatchExpressions {
			if !manifest.OperatorOK(g.report, w.object, source.Extend(in, source.Index(i), "matchExpressions", source.Index(j)),
				manifest.NodeOperators, string(e.Operator), e.Values) {
				continue
			}
			if !g.expression(e, out) {
				g.lost(w.object, source.Extend(in, source.Index(i), "matchExpressions", source.Index(j)),
					"is not carried over: a worker has a label with one value (affinity.labels), or does not (anti_affinity.labels)")
			}
		}
		if len(t.MatchFields) > 0 {
			g.lost(w.object, source.Extend(in, source.Index(i), "matchFields"),
				"is not carried over: workers are chosen by labels (affinity.labels)")
		}
	}
}

// expression carries over an expression of an affinity, if possible.
func (g *group) expression(e k8s.NodeSelectorRequirement, out *api.Service) bool {
	arch := strings.TrimPrefix(e.Key, "beta.") == "kubernetes.io/arch"
	switch e.Operator {
	case k8s.NodeSelectorOpIn:
		if !arch && len(e.Values) != 1 {
			return false
		}
		for _, v := range e.Values {
			if !g.nodeLabel(e.Key, v, out) {
				return false
			}
		}
		return true
	case k8s.NodeSelectorOpNotIn:
		return !arch && len(e.Values) == 1 && putLabel(&out.AntiAffinity.Labels, e.Key, e.Values[0])
	}
	return false
}

// apart keeps instances off workers that run those of a service.
func (g *group) apart(w *workload, c *container, at []string, t k8s.PodAffinityTerm, out *api.Service) {
	if t.TopologyKey != k8s.LabelHostname || t.LabelSelector == nil {
		g.lost(w.object, at, "is not carried over: services are kept apart by workers alone (anti_affinity.service)")
		return
	}
	if manifest.SelectorRefused(g.report, w.object, source.Extend(at, "labelSelector"), t.LabelSelector) {
		return
	}
	found := false
	for _, other := range g.workloads {
		if !selected(t.LabelSelector, other.labels) {
			continue
		}
		found = true
		name := other.containers[0].name
		if other == w {
			name = c.name
		}
		if !slices.Contains(out.AntiAffinity.Service, name) {
			out.AntiAffinity.Service = append(out.AntiAffinity.Service, name)
		}
	}
	if !found {
		g.lost(w.object, at, "is not carried over: nothing here has these labels")
	}
}
