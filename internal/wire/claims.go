package wire

import (
	"strings"

	"github.com/verge-edge/verge/api"
)

// Claims is what ports with an ingress have for themselves at a root: hosts with
// paths, and ports of the gateways.
type Claims map[string]claim

// claim is whose something is.
type claim struct {
	by, namespace string
	tls           api.IngressTLS // of a host
}

// Add notes the ports of a service, by its name as it is to be told, and its namespace.
func (c Claims) Add(by, namespace string, ports []api.Port) {
	for i := range ports {
		for _, what := range ports[i].Claims() {
			x := claim{by, namespace, ports[i].Ingress.TLS}
			c[what] = x
			if host, _, ok := strings.Cut(what, "/"); ok && ports[i].Ingress.Host != "" {
				c[host] = x // one of those that have it
			}
		}
	}
}

// Free says whether an application can have all that it wants to publish. A host
// belongs to one namespace, whose applications may share it by paths.
func (c Claims) Free(spec *api.Application) error {
	for _, name := range spec.ServiceNames() {
		for i := range spec.Services[name].Ports {
			p := &spec.Services[name].Ports[i]
			for _, what := range p.Claims() {
				if by, taken := c[what]; taken {
					return Problemf(409, "host-taken", "choose another one, or delete the other application", "what an ingress publishes is taken", "services.%s: %s is published by %s already", name, strings.TrimSuffix(what, "/"), by.by)
				}
			}
			if p.Ingress == nil || p.Ingress.Host == "" {
				continue
			}
			other, shared := c[p.Ingress.Host]
			switch {
			case !shared:
			case other.namespace != NamespaceOf(spec):
				return Problemf(409, "host-taken", "choose another host", "an ingress host is taken", "services.%s: %s belongs to another namespace (%s)", name, p.Ingress.Host, other.by)
			case other.tls.On() != p.Ingress.TLS.On() || other.tls.On() && other.tls != p.Ingress.TLS:
				return Problemf(409, "other-tls", "write the same tls in both", "a host has one certificate", "services.%s: tls of %s is another than that of %s", name, p.Ingress.Host, other.by)
			}
		}
	}
	return nil
}
