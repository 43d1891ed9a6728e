package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/k8s"
)

// Kubernetes sets variables for each Service in every container: REDIS_SERVICE_HOST and
// REDIS_SERVICE_PORT. Verge sets none of them. Those that a container's own texts name get
// their values here. Which of them a program reads by itself is unknown.

// links makes the variables that Kubernetes would set for the Services of the group.
func (g *group) links() {
	g.linked = map[string]string{}
	var first *service
	for _, s := range g.services {
		if s.to == nil || s.spec.ClusterIP == "None" || len(s.spec.Ports) == 0 {
			continue
		}
		if first == nil {
			first = s
		}
		prefix := strings.ToUpper(strings.ReplaceAll(s.object.Meta.Name, "-", "_")) + "_SERVICE_"
		head := s.to.containers[0]
		g.linked[prefix+"HOST"] = head.name
		for i, p := range s.spec.Ports {
			number := int(targetOf(p).IntVal)
			for _, c := range s.to.containers {
				if n, ok := c.port(targetOf(p)); ok {
					number = n
					break
				}
			}
			if number == 0 {
				continue
			}
			if i == 0 {
				g.linked[prefix+"PORT"] = strconv.Itoa(number)
			}
			if p.Name != "" {
				g.linked[prefix+"PORT_"+strings.ToUpper(strings.ReplaceAll(p.Name, "-", "_"))] = strconv.Itoa(number)
			}
		}
	}
	wants := func(w *workload) bool { return w.pod.EnableServiceLinks == nil || *w.pod.EnableServiceLinks }
	if first != nil && len(g.workloads) > 1 && slices.ContainsFunc(g.workloads, wants) {
		name := first.object.Meta.Name
		g.said(first.object, first.object.At("metadata", "name"),
			"Verge sets no variables for Services: a program that reads %s_SERVICE_HOST and the like by itself needs them in env",
			strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
}

// linkName finds possible names of those variables.
var linkName = pattern.Lazy(`\b[A-Z][A-Z0-9_]*_SERVICE_(?:HOST|PORT)[A-Z0-9_]*`)

// link gives a container the variables that its texts name.
func (g *group) link(w *workload, c *container) {
	if e := w.pod.EnableServiceLinks; e != nil && !*e || len(g.linked) == 0 {
		return
	}
	texts := slices.Concat(c.Command, c.Args)
	for _, e := range c.Env {
		texts = append(texts, e.Value)
	}
	named := map[string]bool{}
	for _, text := range texts {
		for _, name := range linkName().FindAllString(text, draft.MaxAddresses) {
			named[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if value, there := g.linked[name]; there &&
			!slices.ContainsFunc(c.Env, func(e k8s.EnvVar) bool { return e.Name == name }) {
			c.set(name, envValue{text: value}, c.path)
			g.said(w.object, c.path, "%s", fmt.Sprintf("gets %s=%s in its environment, as Kubernetes would set it", name, value))
		}
	}
}
