package kubernetes

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// container makes a service of a container.
func (g *group) container(w *workload, c *container) *api.Service {
	out := &api.Service{Runtime: api.Container, Image: c.Image}
	switch c.ImagePullPolicy {
	case k8s.PullAlways:
		out.Pull = "always"
	case k8s.PullNever:
		out.Pull = "never"
	}
	for i, s := range w.pod.ImagePullSecrets {
		if i == 0 && s.Name != "" {
			out.PullSecret = draft.Label(s.Name)
			g.said(w.object, source.Extend(w.path, "imagePullSecrets", "[0]"),
				"the secret %s is to be set: verge secret set %s --from-file FILE, with what .dockerconfigjson of "+
					"the Secret holds, or --registry", out.PullSecret, out.PullSecret)
		} else if i > 0 {
			g.lost(w.object, source.Extend(w.path, "imagePullSecrets", source.Index(i)),
				"is not carried over: an image has one secret to pull it with")
		}
	}
	g.environment(w, c, out)
	out.Command, out.Args = g.words(w, c, "command", c.Command), g.words(w, c, "args", c.Args)
	if len(out.Command) > 0 {
		out.Command, out.Args = append(out.Command, out.Args...), nil
	}
	out.Ports = c.ports.List
	g.amounts(w, c, out)
	g.number(w, c, out)
	g.place(w, c, out)
	g.health(w, c, out)
	out.Ports = c.ports.List
	g.storage(w, c, out)
	g.end(w, c, out)
	g.rights(w, c, out)
	g.noCounterparts(w, c)
	if r := &out.Rollout; out.Pins() && r.MaxSurge != nil && *r.MaxSurge != 0 {
		g.lost(w.object, w.object.At("spec", "strategy", "rollingUpdate", "maxSurge"),
			"is not carried over: each instance has a volume that is kept for it alone")
		if r.MaxSurge = nil; r.MaxUnavailable != nil && *r.MaxUnavailable == 0 {
			r.MaxUnavailable = nil
		}
	}
	return out
}

// noCounterparts notes the fields of a container without counterpart in Verge. Where its
// termination message is read, and whether it is resized in place, do not matter to what runs.
func (g *group) noCounterparts(w *workload, c *container) {
	for field, is := range map[string]struct {
		given bool
		why   string
	}{
		"workingDir": {c.WorkingDir != "", report.NoWorkingDir},
		"stdin":      {c.Stdin, report.NoInput},
		"tty":        {c.TTY, report.NoTerminal},
		"restartPolicyRules": {len(c.RestartPolicyRules) > 0,
			"is not carried over: what an exit code means is that of all (restart.policy)"},
	} {
		if is.given {
			g.lost(w.object, source.Extend(c.path, field), "%s", is.why)
		}
	}
	for i, p := range c.Ports {
		if p.HostIP != "" && p.HostIP != "0.0.0.0" && p.HostIP != "::" && p.HostPort != 0 {
			g.lost(w.object, source.Extend(c.path, "ports", source.Index(i), "hostIP"),
				"is not carried over: gateways serve at all addresses of their machines")
		}
	}
}

// number converts the number of instances, and how they are updated.
func (g *group) number(w *workload, c *container, out *api.Service) {
	o := w.object
	if n := w.spec.Replicas; n != nil && o.Kind != "Job" && o.Kind != "CronJob" && o.Kind != "DaemonSet" {
		at := o.At("spec", "replicas")
		if *n < 0 {
			g.refuse(o, at, "Kubernetes would refuse it: %d is less than none", *n)
		}
		if out.Replicas = (api.Replicas{Min: int(*n), Max: int(*n)}); *n == 0 {
			out.Replicas = draft.NoReplicas
		}
	}
	switch o.Kind {
	case "Job", "CronJob":
		g.job(w, out)
		g.schedule(w, out)
		return
	case "Pod":
		g.pod(w, out)
		return
	case manifest.Knative:
		g.scaled(w, c, out)
	case "DaemonSet":
		if c == w.containers[0] {
			g.lost(o, o.At("kind"), "Verge has no service with an instance on every worker: %s has one instance, and at most "+
				"one on a worker; write replicas", c.name)
		}
		out.AntiAffinity.Service = []string{c.name}
	case "StatefulSet":
		if p := w.spec.PodManagementPolicy; p != "" && p != "Parallel" {
			g.lost(o, o.At("spec", "podManagementPolicy"),
				"the order of starting is not carried over: all instances start at once")
		}
		if c == w.containers[0] {
			g.said(o, o.At("metadata", "name"), "its pods are instances: %s-0 is reached as 0.instance.%s", o.Meta.Name, c.name)
		}
	}
	if p := w.pod.RestartPolicy; p != "" && p != k8s.RestartPolicyAlways {
		g.refuse(o, source.Extend(w.path, "restartPolicy"), "Kubernetes would refuse it: %s restarts always", o.Kind)
	}
	g.rollout(w, out)
}
