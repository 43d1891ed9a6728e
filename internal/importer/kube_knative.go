package importer

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api"
)

// knative is what objects of the kind Service of Knative are called here.
const knative = "Knative Service"

var knativeCover = cover{
	"template.spec.containerConcurrency":        "",
	"template.spec.timeoutSeconds":              "",
	"template.spec.idleTimeoutSeconds":          "is not carried over: an answer may take its time once it has begun",
	"template.spec.responseStartTimeoutSeconds": "is not carried over: timeout is the time until an answer begins",
	"traffic": "is not carried over: requests go to what is applied last, when it is ready",
}

// knativePort is the one that a container of Knative listens on unless it says another.
const knativePort = 8080

// mostScaled is the number of instances where Knative has no bound.
const mostScaled = 10

// scaled is how a service of Knative is scaled: by its requests, down to none.
func (g *kubeGroup) scaled(w *workload, c *container, out *api.Service) {
	o, spec := w.object, &w.spec.Template.Spec
	if len(out.Ports) == 0 && c == w.containers[0] {
		c.ports.add("http", knativePort, "http")
	}
	for i := range c.ports.ports {
		if p := &c.ports.ports[i]; p.Protocol == "tcp" {
			if p.Protocol = "http"; p.Name == "h2c" {
				p.Protocol = "grpc"
			}
		}
	}
	note := w.spec.Template.Annotations
	bound := func(otherwise int, names ...string) int {
		for _, name := range names {
			text, said := note["autoscaling.knative.dev/"+name]
			if n, err := strconv.Atoi(text); said && err == nil && n >= 0 && n <= api.MaxReplicas {
				return n
			}
		}
		return otherwise
	}
	least, most := bound(0, "min-scale", "minScale"), bound(0, "max-scale", "maxScale")
	if most == 0 {
		most = max(mostScaled, least)
		g.said(o, o.at("spec", "template"), "has no bound to its instances: it is %d", most)
	}
	if out.Replicas = (api.Replicas{Min: least, Max: max(least, most)}); len(c.ports.ports) == 0 {
		n := max(least, 1)
		out.Replicas = api.Replicas{Min: n, Max: n}
		return
	}
	if n := spec.ContainerConcurrency; n != nil && *n >= 0 {
		v := int(min(*n, api.MaxConcurrency))
		out.Concurrency = &v
	}
	if s := cmp.Or(deref(spec.TimeoutSeconds), 300); spec.TimeoutSeconds != nil {
		d := clamp(g.report, o.doc, extend(w.path, "timeoutSeconds"), time.Duration(min(s, math.MaxInt32))*time.Second, time.Millisecond, 24*time.Hour)
		out.Timeout = &d
	}
	g.said(o, o.at("metadata", "name"), "is not published yet: the name of a host is for ports[].ingress")
}
