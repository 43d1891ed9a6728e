package wire

import (
	"fmt"
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
	isHost        bool           // the host itself, not one of its paths
}

// Add notes the ports of a service, by its name as it is to be told, and its namespace.
func (c Claims) Add(by, namespace string, ports []api.Port) {
	for i := range ports {
		for _, what := range ports[i].Claims() {
			x := claim{by: by, namespace: namespace, tls: ports[i].Ingress.TLS}
			c[what] = x
			if host, _, ok := strings.Cut(what, "/"); ok && ports[i].Ingress.Host != "" {
				x.isHost = true
				c[host] = x // one of those that have it
			}
		}
	}
}

// Conflict says why a port of a namespace cannot be published beside those that have
// been added, and which of them is in the way; "" if none is. What self has added is not.
// wild: they differ, and one of
// them is a wildcard above or below the other. An administrator allows that by giving the
// host to the namespace by name.
func (c Claims) Conflict(self, namespace string, p *api.Port, rules PublishRules) (by, why string, wild bool) {
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
	if rules.names(namespace, host) {
		return "", "", false
	}
	what := c.beside(host, self, namespace)
	if what == "" {
		return "", "", false
	}
	other, first, second := c[what], host, what
	if isWild(what) {
		first, second = what, host
	}
	return other.by, fmt.Sprintf("%s is another namespace's (%s), and the wildcard %s is above or below %s", what, other.by, first, second), true
}

// beside is the first host by name that another namespace has and that is above or below one,
// where one of the two is a wildcard; "" if there is none.
func (c Claims) beside(host, self, namespace string) (first string) {
	for what, other := range c {
		if (first == "" || what < first) && other.isHost && other.by != self && other.namespace != namespace &&
			(isWild(what) || isWild(host)) && related(what, host) {
			first = what
		}
	}
	return first
}

// Free says whether an application can have all that it wants to publish. A host
// belongs to one namespace, whose applications may share it by paths. s is the standing of
// the namespace, and had are the ports that the application has already: it keeps the hosts
// and numbers that it publishes, whatever the rules are now.
func (c Claims) Free(spec *api.Application, s Standing, rules PublishRules, had []api.Port) error {
	namespace := NamespaceOf(spec)
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
			allowed := "choose another one, or have it allowed by an administrator: verge namespace standing " + namespace + " " + s.granting(p)
			_, why, wild := c.Conflict("", namespace, p, rules)
			switch {
			case why != "" && !wild:
				return Problemf(409, "host-taken", "choose another one, or delete the other application", "what an ingress publishes is taken", "%s: %s", at, why)
			case why != "" && !keeps[publishes(p)]:
				return Problemf(409, "host-taken", allowed, "what an ingress publishes is taken", "%s: %s", at, why)
			}
			if why := rules.Forbids(namespace, p); why != "" && !keeps[publishes(p)] {
				return Problemf(403, "not-to-publish", allowed, "nothing was changed: the namespace may not publish that", "%s: %s", at, why)
			}
			if p.Ingress.Host == "" {
				continue
			}
			if other, shared := c[strings.ToLower(p.Ingress.Host)]; shared && (other.tls.On() != p.Ingress.TLS.On() || other.tls.On() && other.tls != p.Ingress.TLS) {
				return Problemf(409, "other-tls", "write the same tls in both", "a host has one certificate", "%s: tls of %s is another than that of %s", at, p.Ingress.Host, other.by)
			}
		}
	}
	return nil
}

// publishes is the host of a port, or its number and protocol at the gateways; "" where it
// has no ingress.
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
