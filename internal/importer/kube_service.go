package importer

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/k8s"
)

// kubeService is a Service, and the workload that it leads to.
type kubeService struct {
	object *object
	spec   k8s.ServiceSpec
	to     *workload
}

func (g *kubeGroup) service(o *object) {
	s := &kubeService{object: o}
	ok := decodeInto(g.report, o, o.root.child("spec"), o.at("spec"), &s.spec)
	g.report.leftovers(o.doc, o.root, o.base, serviceTrie())
	if !ok {
		return
	}
	if len(s.spec.Ports) > maxListed || len(g.services) > 2*api.MaxServices {
		g.refuse(o, o.at("spec"), "cannot be expressed: there are too many Services, or too many ports of this one")
		return
	}
	names := map[string]bool{}
	for i, p := range s.spec.Ports {
		at := o.at("spec", "ports", index(i))
		switch {
		case p.Port < 1 || p.Port > 65535:
			g.refuse(o, at, "Kubernetes would refuse it: %d is no port", p.Port)
		case p.Name == "" && len(s.spec.Ports) > 1:
			g.refuse(o, at, "Kubernetes would refuse it: one of several ports has a name")
		case names[p.Name]:
			g.refuse(o, at, "Kubernetes would refuse it: %s is the name of another port too", quote(p.Name))
		}
		names[p.Name] = true
	}
	g.services = append(g.services, s)
}

// match finds out which workload each Service leads to.
func (g *kubeGroup) match() {
	for _, s := range g.services {
		o := s.object
		switch {
		case s.spec.Type == k8s.ServiceTypeExternalName:
			g.lost(o, o.at("spec", "externalName"), "is not carried over: %s is reached by its own name", quote(s.spec.ExternalName))
			continue
		case len(s.spec.Selector) == 0:
			g.lost(o, o.at("spec"), "%s is not carried over: it selects nothing that runs here", o.title())
			continue
		}
		selector := &k8s.LabelSelector{MatchLabels: s.spec.Selector}
		for _, w := range g.workloads {
			if !selected(selector, w.labels) {
				continue
			}
			if s.to != nil {
				g.lost(o, o.at("spec", "selector"), "leads to %s alone: %s is a service by itself", s.to.object.meta.Name, w.object.meta.Name)
				continue
			}
			s.to = w
			w.services = append(w.services, s)
		}
		if s.to == nil {
			g.lost(o, o.at("spec", "selector"), "%s is not carried over: nothing that is imported has these labels", o.title())
		}
	}
	for _, w := range g.workloads { // the container that a Service leads to is the one that has the name
		if len(w.containers) > 1 && len(w.services) > 0 && w.object.meta.Annotations["kubectl.kubernetes.io/default-container"] == "" {
			for _, p := range w.services[0].spec.Ports {
				w.first(func(c *container) bool { _, ok := c.port(targetOf(p)); return ok })
				break
			}
		}
	}
}

func targetOf(p k8s.ServicePort) intstr.IntOrString {
	if p.TargetPort.Type == intstr.Int && p.TargetPort.IntVal == 0 || p.TargetPort.Type == intstr.String && p.TargetPort.StrVal == "" {
		return intstr.FromInt32(p.Port)
	}
	return p.TargetPort
}

// port is the number of the port that a container lists, by name or number.
func (c *container) port(target intstr.IntOrString) (int, bool) {
	if target.Type == intstr.String {
		n, ok := c.byName[target.StrVal]
		return n, ok
	}
	n := int(target.IntVal)
	return n, slices.ContainsFunc(c.ports.ports, func(p api.Port) bool { return p.Number == n })
}

// target is the port of a service of Verge that a port of a Service leads to. It is made where no
// container lists it; nil is that there is none.
func (g *kubeGroup) target(s *kubeService, i int) (*api.Port, *container) {
	p, o := s.spec.Ports[i], s.object
	to := targetOf(p)
	protocol := protocolOf(deref(p.AppProtocol))
	switch p.Protocol {
	case "", k8s.ProtocolTCP:
		if protocol == "" {
			protocol = protocolOfName(p.Name)
		}
	case k8s.ProtocolUDP:
		protocol = api.UDP
	default:
		g.lost(o, o.at("spec", "ports", index(i), "protocol"), "is not carried over: %s is not a protocol of Verge", quote(string(p.Protocol)))
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
		g.lost(o, o.at("spec", "ports", index(i), "targetPort"), "is not carried over: no container of %s has a port %s", s.to.object.meta.Name, quote(to.StrVal))
		return nil, nil
	}
	svc := g.app.Services[c.name]
	l := &portList{ports: svc.Ports}
	for _, p := range svc.Ports {
		l.names.unique(p.Name)
	}
	name := p.Name
	l.add(name, number, protocol)
	svc.Ports = l.ports
	for i := range svc.Ports {
		if q := &svc.Ports[i]; q.Number == number && (q.Protocol == api.UDP) == (protocol == api.UDP) {
			return q, c
		}
	}
	return nil, nil
}

// deref is what p points to, or else nothing.
func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// lead carries over what a Service says of its workload.
func (g *kubeGroup) lead(s *kubeService) {
	if s.to == nil {
		return
	}
	o := s.object
	head := s.to.containers[0]
	if name := o.meta.Name; g.known[name] != name {
		g.note(g.mentioned(name), o, o.at("metadata", "name"), "the name %s is not carried over: what it leads to is reached as %s", name, head.name)
	}
	for i, p := range s.spec.Ports {
		at := o.at("spec", "ports", index(i))
		port, c := g.target(s, i)
		if port == nil {
			continue
		}
		if c != head {
			g.lost(o, at, "leads to %s: others reach it by that name", c.name)
		}
		if int(p.Port) != port.Number && s.spec.ClusterIP != "None" {
			g.note(g.mentioned(c.name) || g.mentioned(o.meta.Name), o, extend(at, "port"), "others reach it at %s:%d, the number that the program listens on, not at %d", c.name, port.Number, p.Port)
		}
		g.publish(s, i, port, c)
	}
	if a := s.spec.SessionAffinity; a != "" && a != k8s.ServiceAffinityNone {
		g.lost(o, o.at("spec", "sessionAffinity"), "is not carried over: requests of one client go to any instance")
	}
	if ip := s.spec.ClusterIP; ip != "" && ip != "None" && o.meta.UID == "" { // what kubectl get prints has one that nobody asked for
		g.lost(o, o.at("spec", "clusterIP"), "is not carried over: service_ip takes one of the root's --network-services")
	}
	svc := g.app.Services[head.name]
	if p := s.spec.InternalTrafficPolicy; p != nil && *p == k8s.ServiceInternalTrafficPolicyLocal {
		svc.Policy = api.Policy{Name: "local"}
		g.said(o, o.at("spec", "internalTrafficPolicy"), "goes to the nearest where the own worker has no instance")
	}
	if d := s.spec.TrafficDistribution; d != nil {
		svc.Policy = api.Policy{Name: "closest"}
		g.said(o, o.at("spec", "trafficDistribution"), "goes to the nearest instance (policy: closest)")
	}
	if p := s.spec.ExternalTrafficPolicy; p == k8s.ServiceExternalTrafficPolicyLocal {
		g.lost(o, o.at("spec", "externalTrafficPolicy"), "is not carried over: gateways lead to all instances; proxy_protocol tells a service the address of its clients")
	}
}

// publish makes a port of a Service that the world outside sees one of the gateways.
func (g *kubeGroup) publish(s *kubeService, i int, port *api.Port, c *container) {
	o, p := s.object, s.spec.Ports[i]
	at := o.at("spec", "ports", index(i))
	number := int(p.Port)
	switch s.spec.Type {
	case k8s.ServiceTypeLoadBalancer:
	case k8s.ServiceTypeNodePort:
		if p.NodePort > 0 {
			number = int(p.NodePort)
		} else {
			g.said(o, at, "is published at %d of the gateways: Kubernetes would choose a number", number)
		}
	default: // nobody outside sees it
		return
	}
	if port.Ingress != nil && port.Ingress.Host != "" {
		g.said(o, at, "is published at %s, and not by its number", port.Ingress.Host)
		return
	}
	if err := publish(port, number, g.taken, c.name); err != nil {
		g.lost(o, at, "%v", err)
	}
}

// note is lost where it matters, and said where it does not.
func (g *kubeGroup) note(matters bool, o *object, path []string, format string, args ...any) {
	level := Said
	if matters {
		level = Lost
	}
	g.report.at(level, o.doc, path, format, args...)
}

// scaler is a HorizontalPodAutoscaler.
func (g *kubeGroup) scaler(o *object) {
	var spec struct {
		ScaleTargetRef struct {
			APIVersion string `json:"apiVersion"`
			Kind       string `json:"kind"`
			Name       string `json:"name"`
		} `json:"scaleTargetRef"`
		MinReplicas *int32       `json:"minReplicas"`
		MaxReplicas int32        `json:"maxReplicas"`
		Metrics     ignoredField `json:"metrics"`
		Behavior    ignoredField `json:"behavior"`
		CPU         ignoredField `json:"targetCPUUtilizationPercentage"`
	}
	ok := decodeInto(g.report, o, o.root.child("spec"), o.at("spec"), &spec)
	g.report.leftovers(o.doc, o.root, o.base, scalerTrie())
	if !ok {
		return
	}
	least := int32(1)
	if spec.MinReplicas != nil {
		least = *spec.MinReplicas
	}
	if spec.MaxReplicas < max(least, 1) || least < 0 {
		g.refuse(o, o.at("spec", "maxReplicas"), "Kubernetes would refuse it: from %d to %d is no range", least, spec.MaxReplicas)
		return
	}
	i := slices.IndexFunc(g.workloads, func(w *workload) bool {
		return w.object.kind == spec.ScaleTargetRef.Kind && w.object.meta.Name == spec.ScaleTargetRef.Name
	})
	if i < 0 {
		g.lost(o, o.at("spec", "scaleTargetRef"), "is not carried over: there is no %s %s", cmp.Or(spec.ScaleTargetRef.Kind, "object"), quote(spec.ScaleTargetRef.Name))
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
	g.lost(o, o.at("spec"), "%s has %d: how many run is decided by requests, and it has no port for them (protocol: http), or volumes that are kept", c.name, now)
}

// mentioned says whether a text of a container or a file has a name in it by itself,
// without a port.
func (g *kubeGroup) mentioned(name string) bool {
	for _, s := range g.app.Services {
		for k, v := range s.Env {
			if g.linked[k] != v && mentions(v, name) { // beside those that have their port as well
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

// hostPorts publishes those ports of containers that Kubernetes would open on the machine.
func (g *kubeGroup) hostPorts(w *workload) {
	for _, c := range w.containers {
		for i, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			at := extend(c.path, "ports", index(i), "hostPort")
			svc := g.app.Services[c.name]
			j := slices.IndexFunc(svc.Ports, func(q api.Port) bool {
				return q.Number == int(p.ContainerPort) && (q.Protocol == api.UDP) == (p.Protocol == k8s.ProtocolUDP)
			})
			if j < 0 || svc.Ports[j].Ingress != nil {
				continue
			}
			if err := publish(&svc.Ports[j], int(p.HostPort), g.taken, c.name); err != nil {
				g.lost(w.object, at, "%v", err)
				continue
			}
			g.said(w.object, at, "is published at %d of the gateways, and not of each worker", p.HostPort)
		}
	}
}
