package standing

import (
	"fmt"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/standing/publish"
	"github.com/verge-edge/verge/internal/wire"
)

// Claims are the hosts with paths and the gateway ports that services of a root publish, each with
// its owner.
type Claims map[string]claim

// claim is the owner of a host or port.
type claim struct {
	by, namespace string
	tls           api.IngressTLS // of a host
	isHost        bool           // the host itself, not one of its paths
}

// Add adds the ports of a service of a namespace; by is the name to show.
func (c Claims) Add(by, namespace string, ports []api.Port) {
	for i := range ports {
		for _, what := range ports[i].Claims() {
			x := claim{by: by, namespace: namespace, tls: ports[i].Ingress.TLS}
			c[what] = x
			if host, _, ok := strings.Cut(what, "/"); ok && ports[i].Ingress.Host != "" {
				x.isHost = true
				c[host] = x // one of the services with paths of it
			}
		}
	}
}

// Conflict says why a port of a namespace cannot be published, and by names the service whose
// claim is in the way; why is "" if there is none. Claims of self do not conflict. wild says that
// the two hosts differ, and one is a wildcard that covers the other: an administrator allows that
// by giving the host to the namespace by name.
func (c Claims) Conflict(self, namespace string, p *api.Port, rules publish.Rules) (by, why string, wild bool) {
	for _, what := range p.Claims() {
		if other, taken := c[what]; taken && other.by != self {
			return other.by, fmt.Sprintf("%s is published by %s already", strings.TrimSuffix(what, "/"), other.by), false
		}
	}
	if p.Ingress == nil || p.Ingress.Host == "" {
		return "", "", false
	}
	host := strings.ToLower(p.Ingress.Host)
	if other, shared := c[host]; shared && other.namespace != namespace && other.by != self {
		return other.by, fmt.Sprintf("%s belongs to another namespace (%s)", host, other.by), false
	}
	if rules.Grants(namespace, host) {
		return "", "", false
	}
	what := c.beside(host, self, namespace)
	if what == "" {
		return "", "", false
	}
	other, first, second := c[what], host, what
	if publish.IsWild(what) {
		first, second = what, host
	}
	return other.by, fmt.Sprintf("%s is another namespace's (%s), and the wildcard %s is above or below %s",
		what, other.by, first, second), true
}

// beside is the first host, by name, of another namespace that conflicts with this one because one
// of the two is a wildcard that covers the other; "" if there is none.
func (c Claims) beside(host, self, namespace string) (first string) {
	for what, other := range c {
		if (first == "" || what < first) && other.isHost && other.by != self && other.namespace != namespace &&
			(publish.IsWild(what) || publish.IsWild(host)) && publish.Related(what, host) {
			first = what
		}
	}
	return first
}

// Free checks whether an application can publish its ports. A host belongs to one namespace, whose
// applications may share it by paths. s is the standing of the namespace. had are the ports that
// the application already publishes: it keeps them, whatever the rules are now.
func (c Claims) Free(spec *api.Application, s wire.Standing, rules publish.Rules, had []api.Port) error {
	namespace := wire.NamespaceOf(spec)
	keeps := map[string]bool{}
	for i := range had {
		keeps[publishes(&had[i])] = true
	}
	for _, name := range spec.ServiceNames() {
		for i := range spec.Services[name].Ports {
			p := &spec.Services[name].Ports[i]
			if p.Ingress == nil {
				continue
			}
			at := fmt.Sprintf("services.%s.ports[%d].ingress", name, i)
			allow := "verge namespace standing " + namespace + " " + publish.Granting(s, p)
			allowed := "choose another one, or have it allowed by an administrator: " + allow
			_, why, wild := c.Conflict("", namespace, p, rules)
			switch {
			case why != "" && !wild:
				return wire.Problemf(409, "host-taken", "choose another one, or delete the other application",
					"what an ingress publishes is taken", "%s: %s", at, why)
			case why != "" && !keeps[publishes(p)]:
				return wire.Problemf(409, "host-taken", allowed, "what an ingress publishes is taken", "%s: %s", at, why)
			}
			if why := rules.Forbids(namespace, p); why != "" && !keeps[publishes(p)] {
				return wire.Problemf(403, "not-to-publish", allowed,
					"nothing was changed: the namespace may not publish that", "%s: %s", at, why)
			}
			if p.Ingress.Host == "" {
				continue
			}
			other, shared := c[strings.ToLower(p.Ingress.Host)]
			if tls := p.Ingress.TLS; shared && (other.tls.On() != tls.On() || other.tls.On() && other.tls != tls) {
				return wire.Problemf(409, "other-tls", "write the same tls in both", "a host has one certificate",
					"%s: tls of %s is another than that of %s", at, p.Ingress.Host, other.by)
			}
		}
	}
	return nil
}

// publishes is the host of a port, or its number and protocol at the gateways; "" without an
// ingress.
func publishes(p *api.Port) string {
	claims := p.Claims()
	if len(claims) == 0 {
		return ""
	}
	host, _, _ := strings.Cut(claims[0], "/")
	if p.Ingress.Port != 0 {
		return claims[0]
	}
	return host
}
