package kubernetes

import (
	"slices"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// publish publishes a port of a Service at the gateways if it is visible from outside.
func (g *group) publish(s *service, i int, port *api.Port, c *container) {
	o, p := s.object, s.spec.Ports[i]
	at := o.At("spec", "ports", source.Index(i))
	number := int(p.Port)
	switch s.spec.Type {
	case k8s.ServiceTypeLoadBalancer:
	case k8s.ServiceTypeNodePort:
		if p.NodePort > 0 {
			number = int(p.NodePort)
		} else {
			g.said(o, at, "is published at %d of the gateways: Kubernetes would choose a number", number)
		}
	default: // not visible from outside
		return
	}
	if port.Ingress != nil && port.Ingress.Host != "" {
		g.said(o, at, "is published at %s, and not by its number", port.Ingress.Host)
		return
	}
	if err := draft.Publish(port, number, g.taken, c.name); err != nil {
		g.lost(o, at, "%v", err)
	}
}

// hostPorts publishes those ports of containers that Kubernetes would open on the machine.
func (g *group) hostPorts(w *workload) {
	for _, c := range w.containers {
		for i, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			at := source.Extend(c.path, "ports", source.Index(i), "hostPort")
			svc := g.app.Services[c.name]
			j := slices.IndexFunc(svc.Ports, func(q api.Port) bool {
				return q.Number == int(p.ContainerPort) && (q.Protocol == api.UDP) == (p.Protocol == k8s.ProtocolUDP)
			})
			if j < 0 || svc.Ports[j].Ingress != nil {
				continue
			}
			if err := draft.Publish(&svc.Ports[j], int(p.HostPort), g.taken, c.name); err != nil {
				g.lost(w.object, at, "%v", err)
				continue
			}
			g.said(w.object, at, "is published at %d of the gateways, and not of each worker", p.HostPort)
		}
	}
}
