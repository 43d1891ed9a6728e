package kubernetes

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// maxListed bounds the items of one object that are read, far above what anybody has.
const maxListed = 1000

// selects makes sure that the selector of a workload matches its own pods, as Kubernetes
// requires.
func (g *group) selects(w *workload, n *source.Node) bool {
	o := w.object
	at := o.At("spec", "selector")
	if o.Kind == "Job" || o.Kind == "CronJob" || o.Kind == manifest.Knative {
		return true
	}
	if n.Empty() {
		if o.Group == "apps" && o.Version == "v1" {
			g.refuse(o, o.At("spec"), "Kubernetes would refuse it: %s has no selector (spec.selector.matchLabels)", o.Title())
			return false
		}
		return true
	}
	s := &k8s.LabelSelector{}
	if o.Kind == "ReplicationController" {
		if !manifest.Decode(g.report, o, n, at, &s.MatchLabels) {
			return false
		}
	} else if !manifest.Decode(g.report, o, n, at, s) {
		return false
	}
	if manifest.SelectorRefused(g.report, o, at, s) {
		return false
	}
	if !selected(s, w.labels) {
		g.refuse(o, at,
			"Kubernetes would refuse it: it does not select the labels of its own pods (spec.template.metadata.labels)")
		return false
	}
	return true
}

// selected says whether a selector matches labels.
func selected(s *k8s.LabelSelector, labels map[string]string) bool {
	for k, v := range s.MatchLabels {
		if got, has := labels[k]; !has || got != v {
			return false
		}
	}
	for _, e := range s.MatchExpressions {
		v, has := labels[e.Key]
		in := has && slices.Contains(e.Values, v)
		switch e.Operator {
		case k8s.LabelSelectorOpIn:
			has = in
		case k8s.LabelSelectorOpNotIn:
			has = !in
		case k8s.LabelSelectorOpDoesNotExist:
			has = !has
		}
		if !has {
			return false
		}
	}
	return true
}

// containers reads the containers of a pod. Each becomes a service. The one that its Services
// lead to, or else the first, is the main one.
func (g *group) containers(w *workload) {
	names := map[string]bool{}
	add := func(c *k8s.Container, field string, i int) {
		path := source.Extend(w.path, field, source.Index(i))
		switch {
		case c.Name == "" && w.object.Kind == manifest.Knative: // which usually has one container
			c.Name = "user-container"
		case c.Name == "":
			g.refuse(w.object, path, "Kubernetes would refuse it: the container has no name")
		case !manifest.NamePattern().MatchString(c.Name) || len(c.Name) > 63 || strings.Contains(c.Name, "."):
			g.refuse(w.object, source.Extend(path, "name"), "Kubernetes would refuse it: %s is not a name of a container",
				source.Quote(c.Name))
		case names[c.Name]:
			g.refuse(w.object, source.Extend(path, "name"),
				"Kubernetes would refuse it: %s is the name of another container too", source.Quote(c.Name))
		}
		if c.Image == "" {
			g.refuse(w.object, path, "has no image: a container is made of one")
		}
		names[c.Name] = true
	}
	for i := range w.pod.Containers {
		c := &w.pod.Containers[i]
		add(c, "containers", i)
		w.containers = append(w.containers, g.newContainer(w, c, source.Extend(w.path, "containers", source.Index(i))))
	}
	for i := range w.pod.InitContainers {
		c := &w.pod.InitContainers[i]
		add(c, "initContainers", i)
		path := source.Extend(w.path, "initContainers", source.Index(i))
		if c.RestartPolicy != nil && *c.RestartPolicy == k8s.ContainerRestartPolicyAlways { // a sidecar
			w.containers = append(w.containers, g.newContainer(w, c, path))
			continue
		}
		g.lost(w.object, path, "is not carried over: nothing runs before an instance; what %s prepares is to be in the "+
			"image, or done by the program itself", c.Name)
	}
	if name := w.object.Meta.Annotations["kubectl.kubernetes.io/default-container"]; name != "" {
		w.first(func(c *container) bool { return c.Name == name })
	}
}

// first moves the first container that satisfies is to the front.
func (w *workload) first(is func(*container) bool) {
	if i := slices.IndexFunc(w.containers, is); i > 0 {
		c := w.containers[i]
		w.containers = slices.Insert(slices.Delete(w.containers, i, i+1), 0, c)
	}
}

// call gives each container the name of its service.
func (g *group) call() {
	wanted := func(w *workload) string {
		for _, s := range w.services {
			if s.object.Meta.Name == w.object.Meta.Name {
				return s.object.Meta.Name
			}
		}
		for _, headless := range []bool{false, true} {
			for _, s := range w.services {
				if (s.spec.ClusterIP == "None") == headless {
					return s.object.Meta.Name
				}
			}
		}
		return w.object.Meta.Name
	}
	for _, own := range []bool{true, false} { // names that can stay go first
		for _, w := range g.workloads {
			name := wanted(w)
			if (draft.Label(name) == name) != own {
				continue
			}
			head := w.containers[0]
			head.name = g.given.Unique(name)
			if head.name != w.object.Meta.Name {
				why := ""
				if head.name == name {
					why = ", as the Service that leads to it"
				}
				g.said(w.object, w.object.At("metadata", "name"), "is called %s%s: others find it by that name", head.name, why)
			}
			g.known[name] = head.name
		}
	}
	for _, w := range g.workloads {
		for _, c := range w.containers[1:] {
			c.name = g.given.Unique(w.containers[0].name + "-" + c.Name)
			g.lost(w.object, c.path,
				"becomes a service of its own, %s: it is not beside %s, is not reached at localhost, and shares no files with it",
				c.name, w.containers[0].Name)
		}
		for _, s := range w.services {
			if to := w.containers[0].name; g.known[s.object.Meta.Name] == "" {
				g.known[s.object.Meta.Name] = to
			}
		}
	}
}

// unmounted notes the volumes of a pod that no container mounts.
func (g *group) unmounted(w *workload) {
	mounted := map[string]bool{}
	for _, c := range slices.Concat(w.pod.Containers, w.pod.InitContainers) {
		for _, m := range c.VolumeMounts {
			mounted[m.Name] = true
		}
		for _, d := range c.VolumeDevices {
			mounted[d.Name] = true
		}
	}
	for i, v := range w.pod.Volumes {
		if v.Name != "" && !mounted[v.Name] {
			g.said(w.object, source.Extend(w.path, "volumes", source.Index(i)), "is mounted by no container, and left out")
		}
	}
}
