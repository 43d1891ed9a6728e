package kubernetes

import (
	"cmp"
	"math"
	"strconv"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
)

// knativePort is the default port of a container of Knative.
const knativePort = 8080

// mostScaled is the maximum number of instances where Knative sets no bound.
const mostScaled = 10

// scaled converts how a service of Knative scales: by its requests, down to zero.
func (g *group) scaled(w *workload, c *container, out *api.Service) {
	o, spec := w.object, &w.spec.Template.Spec
	if len(out.Ports) == 0 && c == w.containers[0] {
		c.ports.Add("http", knativePort, "http")
	}
	for i := range c.ports.List {
		if p := &c.ports.List[i]; p.Protocol == "tcp" {
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
		g.said(o, o.At("spec", "template"), "has no bound to its instances: it is %d", most)
	}
	if out.Replicas = (api.Replicas{Min: least, Max: max(least, most)}); len(c.ports.List) == 0 {
		n := max(least, 1)
		out.Replicas = api.Replicas{Min: n, Max: n}
		return
	}
	if n := spec.ContainerConcurrency; n != nil && *n >= 0 {
		v := int(min(*n, api.MaxConcurrency))
		out.Concurrency = &v
	}
	if s := cmp.Or(deref(spec.TimeoutSeconds), 300); spec.TimeoutSeconds != nil {
		d := draft.Clamp(g.report, o.Doc, source.Extend(w.path, "timeoutSeconds"),
			time.Duration(min(s, math.MaxInt32))*time.Second, time.Millisecond, 24*time.Hour)
		out.Timeout = &d
	}
	g.said(o, o.At("metadata", "name"), "is not published yet: the name of a host is for ports[].ingress")
}
