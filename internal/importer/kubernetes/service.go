package kubernetes

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

func (g *group) service(o *manifest.Object) {
	s := &service{object: o}
	ok := manifest.Decode(g.report, o, o.Root.Child("spec"), o.At("spec"), &s.spec)
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.ServiceTrie())
	if !ok {
		return
	}
	if len(s.spec.Ports) > maxListed || len(g.services) > 2*api.MaxServices {
		g.refuse(o, o.At("spec"), "cannot be expressed: there are too many Services, or too many ports of this one")
		return
	}
	names := map[string]bool{}
	for i, p := range s.spec.Ports {
		at := o.At("spec", "ports", source.Index(i))
		switch {
		case p.Port < 1 || p.Port > 65535:
			g.refuse(o, at, "Kubernetes would refuse it: %d is not a port", p.Port)
		case p.Name == "" && len(s.spec.Ports) > 1:
			g.refuse(o, at, "Kubernetes would refuse it: one of several ports has a name")
		case names[p.Name]:
			g.refuse(o, at, "Kubernetes would refuse it: %s is the name of another port too", source.Quote(p.Name))
		}
		names[p.Name] = true
	}
	g.services = append(g.services, s)
}

// match finds the workload that each Service leads to.
func (g *group) match() {
	for _, s := range g.services {
		o := s.object
		switch {
		case s.spec.Type == k8s.ServiceTypeExternalName:
			g.lost(o, o.At("spec", "externalName"), "is not carried over: %s is reached by its own name",
				source.Quote(s.spec.ExternalName))
			continue
		case len(s.spec.Selector) == 0:
			g.lost(o, o.At("spec"), "%s is not carried over: it selects nothing that runs here", o.Title())
			continue
		}
		selector := &k8s.LabelSelector{MatchLabels: s.spec.Selector}
		for _, w := range g.workloads {
			if !selected(selector, w.labels) {
				continue
			}
			if s.to != nil {
				g.lost(o, o.At("spec", "selector"), "leads to %s alone: %s is a service by itself", s.to.object.Meta.Name,
					w.object.Meta.Name)
				continue
			}
			s.to = w
			w.services = append(w.services, s)
		}
		if s.to == nil {
			g.lost(o, o.At("spec", "selector"), "%s is not carried over: nothing that is imported has these labels", o.Title())
		}
	}
	for _, w := range g.workloads { // the main container is the one that a Service leads to
		if len(w.containers) > 1 && len(w.services) > 0 &&
			w.object.Meta.Annotations["kubectl.kubernetes.io/default-container"] == "" {
			for _, p := range w.services[0].spec.Ports {
				w.first(func(c *container) bool { _, ok := c.port(targetOf(p)); return ok })
				break
			}
		}
	}
}

func targetOf(p k8s.ServicePort) intstr.IntOrString {
	if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal == 0 || p.TargetPort.Type == intstr.String &&
		p.TargetPort.StrVal == "" {
		return intstr.FromInt32(p.Port)
	}
	return p.TargetPort
}

// port returns the number of a port that a container lists, by name or number.
func (c *container) port(target intstr.IntOrString) (int, bool) {
	if target.Type == intstr.String {
		n, ok := c.byName[target.StrVal]
		return n, ok
	}
	n := int(target.IntVal)
	return n, slices.ContainsFunc(c.ports.List, func(p api.Port) bool { return p.Number == n })
}

// target returns the port of a service of Verge that a port of a Service leads to, nil for
// none. It adds the port if no container lists it.
func (g *group) target(s *service, i int) (*api.Port, *container) {
	p, o := s.spec.Ports[i], s.object
	to := targetOf(p)
	protocol := draft.ProtocolOf(deref(p.AppProtocol))
	switch p.Protocol {
	case "", k8s.ProtocolTCP:
		if protocol == "" {
			protocol = protocolOfName(p.Name)
		}
	case k8s.ProtocolUDP:
		protocol = api.UDP
	default:
		g.lost(o, o.At("spec", "ports", source.Index(i), "protocol"), "is not carried over: %s is not a protocol of Verge",
			source.Quote(string(p.Protocol)))
		return nil, nil
	}
	c := s.to.containers[0]
	number := int(to.IntVal)
	for _, other := range s.to.containers {
		if n, ok := other.port(to); ok {
			c, number = other, n
			break
		}
	}
	if number == 0 {
		g.lost(o, o.At("spec", "ports", source.Index(i), "targetPort"),
			"is not carried over: no container of %s has a port %s", s.to.object.Meta.Name, source.Quote(to.StrVal))
		return nil, nil
	}
	svc := g.app.Services[c.name]
	l := &draft.Ports{List: svc.Ports}
	for _, p := range svc.Ports {
		l.Names.Unique(p.Name)
	}
	name := p.Name
	l.Add(name, number, protocol)
	svc.Ports = l.List
	for i := range svc.Ports {
		if q := &svc.Ports[i]; q.Number == number && (q.Protocol == api.UDP) == (protocol == api.UDP) {
			return q, c
		}
	}
	return nil, nil
}

// lead carries over what a Service says about its workload.
func (g *group) lead(s *service) {
	if s.to == nil {
		return
	}
	o := s.object
	head := s.to.containers[0]
	if name := o.Meta.Name; g.known[name] != name {
		g.note(g.mentioned(name), o, o.At("metadata", "name"),
			"the name %s is not carried over: what it leads to is reached as %s", name, head.name)
	}
	for i, p := range s.spec.Ports {
		at := o.At("spec", "ports", source.Index(i))
		port, c := g.target(s, i)
		if port == nil {
			continue
		}
		if c != head {
			g.lost(o, at, "leads to %s: others reach it by that name", c.name)
		}
		if int(p.Port) != port.Number && s.spec.ClusterIP != "None" {
			g.note(g.mentioned(c.name) || g.mentioned(o.Meta.Name), o, source.Extend(at, "port"),
				"others reach it at %s:%d, the number that the program listens on, not at %d", c.name, port.Number, p.Port)
		}
		g.publish(s, i, port, c)
	}
	if a := s.spec.SessionAffinity; a != "" && a != k8s.ServiceAffinityNone {
		g.lost(o, o.At("spec", "sessionAffinity"), "is not carried over: requests of one client go to any instance")
	}
	if ip := s.spec.ClusterIP; ip != "" && ip != "None" &&
		o.Meta.UID == "" { // kubectl get prints one that nobody chose
		g.lost(o, o.At("spec", "clusterIP"), "is not carried over: service_ip takes one of the root's --network-services")
	}
	svc := g.app.Services[head.name]
	if p := s.spec.InternalTrafficPolicy; p != nil && *p == k8s.ServiceInternalTrafficPolicyLocal {
		svc.Policy = api.Policy{Name: "local"}
		g.said(o, o.At("spec", "internalTrafficPolicy"), "goes to the nearest where the own worker has no instance")
	}
	if d := s.spec.TrafficDistribution; d != nil {
		svc.Policy = api.Policy{Name: "closest"}
		g.said(o, o.At("spec", "trafficDistribution"), "goes to the nearest instance (policy: closest)")
	}
	if p := s.spec.ExternalTrafficPolicy; p == k8s.ServiceExternalTrafficPolicyLocal {
		g.lost(o, o.At("spec", "externalTrafficPolicy"),
			"is not carried over: gateways lead to all instances; proxy_protocol tells a service the address of its clients")
	}
}

// mentioned says whether a text of a container or a file contains a name without a port.
func (g *group) mentioned(name string) bool {
	for _, s := range g.app.Services {
		for k, v := range s.Env {
			if g.linked[k] != v && mentions(v, name) { // besides those that also have their port
				return true
			}
		}
		if slices.ContainsFunc(slices.Concat(s.Command, s.Args), func(v string) bool { return mentions(v, name) }) {
			return true
		}
		for _, f := range s.Files {
			if mentions(f.Content, name) {
				return true
			}
		}
	}
	return false
}
