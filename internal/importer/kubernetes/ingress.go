package kubernetes

import (
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// ingress publishes services under the hosts and paths of an Ingress.
func (g *group) ingress(o *manifest.Object) {
	var spec manifest.IngressSpec
	ok := manifest.Decode(g.report, o, o.Root.Child("spec"), o.At("spec"), &spec)
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.IngressTrie())
	if !ok {
		return
	}
	if spec.DefaultBackend != nil || spec.Backend != nil {
		field := "defaultBackend"
		if spec.Backend != nil {
			field = "backend"
		}
		g.lost(o, o.At("spec", field), "is not carried over: http is published under host names")
	}
	settings := g.annotations(o)
	for i, r := range spec.Rules {
		at := o.At("spec", "rules", source.Index(i))
		switch {
		case r.Host == "":
			g.lost(o, at,
				"has no host, and is not carried over: http is published under host names (ingress: {host: app.example.org})")
			continue
		case r.HTTP == nil || len(r.HTTP.Paths) == 0:
			g.lost(o, at, "leads to nothing")
			continue
		}
		tls := g.tls(o, &spec, r.Host)
		for j, p := range r.HTTP.Paths {
			g.route(o, source.Extend(at, "http", "paths", source.Index(j)), r.Host, tls, p, settings)
		}
	}
}

// ingressSettings are the settings in annotations.
type ingressSettings struct {
	rewrite, grpc bool
	redirect      *bool
	maxBody       api.Bytes
	rate          int
}

// carried matches the annotations of an Ingress that are carried over or do not matter.
var carried = pattern.Lazy(
	`^(kubernetes\.io/ingress\.class|kubectl\.kubernetes\.io/.*|meta\.helm\.sh/.*|helm\.sh/.*|argocd\..*|` +
		`cert-manager\.io/.*|kubernetes\.io/tls-acme|nginx\.ingress\.kubernetes\.io/use-regex)$`)

func (g *group) annotations(o *manifest.Object) (s ingressSettings) {
	for k, v := range o.Meta.Annotations {
		at := o.At("metadata", "annotations", k)
		name := strings.TrimPrefix(k, "nginx.ingress.kubernetes.io/")
		switch {
		case name == "rewrite-target" && (v == "/" || v == "/$1" || v == "/$2"):
			s.rewrite = true
		case name == "ssl-redirect" || name == "force-ssl-redirect":
			if on, err := strconv.ParseBool(v); err == nil && !on {
				s.redirect = &on
			}
		case name == "backend-protocol" && (v == "GRPC" || v == "HTTP"):
			s.grpc = v == "GRPC"
		case name == "proxy-body-size" && bodySize(v) > 0:
			s.maxBody = bodySize(v)
		case name == "proxy-body-size" && v == "0":
		case name == "limit-rps" && rate(v) > 0:
			s.rate = rate(v)
		case carried().MatchString(k):
		default:
			g.lost(o, at, "is not carried over: Verge has nothing like it in ingress")
		}
	}
	return s
}

// bodySize parses a size as nginx writes it (8m), 0 if it is none.
func bodySize(v string) api.Bytes {
	unit := int64(1)
	switch v = strings.ToLower(v); {
	case strings.HasSuffix(v, "k"):
		unit = 1 << 10
	case strings.HasSuffix(v, "m"):
		unit = 1 << 20
	case strings.HasSuffix(v, "g"):
		unit = 1 << 30
	}
	n, err := strconv.ParseInt(strings.TrimRight(v, "kmg"), 10, 32)
	if err != nil || n < 1 {
		return 0
	}
	return api.Bytes(n * unit)
}

func rate(v string) int {
	n, err := strconv.Atoi(v)
	if err != nil || n < 1 || n > 1_000_000 {
		return 0
	}
	return n
}

// tls returns the source of a host's certificate.
func (g *group) tls(o *manifest.Object, spec *manifest.IngressSpec, host string) api.IngressTLS {
	for i, t := range spec.TLS {
		if len(t.Hosts) > 0 && !slices.Contains(t.Hosts, host) {
			continue
		}
		at := o.At("spec", "tls", source.Index(i))
		ann := o.Meta.Annotations
		issued := ann["cert-manager.io/cluster-issuer"]+ann["cert-manager.io/issuer"] != "" ||
			ann["kubernetes.io/tls-acme"] == "true"
		switch {
		case issued && !strings.HasPrefix(host, "*."):
			g.said(o, at, "the certificate of %s is got by each gateway (tls: acme), as cert-manager would", host)
			return api.IngressTLS{Mode: api.TLSACME}
		case t.SecretName == "":
			g.lost(o, at, "%s has a certificate that the gateway makes: there is no secretName", host)
			return api.IngressTLS{Mode: api.TLSSelfSigned}
		}
		name := draft.Label(t.SecretName)
		g.said(o, at, "the secret %s is to be set: verge secret set %s --cert FILE --key FILE", name, name)
		return api.IngressTLS{Secret: name}
	}
	return api.IngressTLS{}
}

// plainPath is a prefix of paths as Verge has it; prefixPath is one with the suffix that people
// write for nginx to strip.
var (
	plainPath  = pattern.Lazy(`^/[-A-Za-z0-9._~/]*$`)
	prefixPath = pattern.Lazy(`^(/[-A-Za-z0-9._~/]*?)/?(\(/\|\$\)\(\.\*\)|/?\(\.\*\)|\?\(\.\*\)|/?\.\*|/?\*)$`)
)

// route publishes a path of a host.
func (g *group) route(o *manifest.Object, at []string, host string, tls api.IngressTLS, p manifest.IngressPath,
	settings ingressSettings) {
	name, portRef := p.Backend.Target()
	if name == "" {
		g.lost(o, source.Extend(at, "backend"), "is not carried over: it leads to no Service")
		return
	}
	i := slices.IndexFunc(g.services, func(s *service) bool { return s.object.Meta.Name == name })
	if i < 0 || g.services[i].to == nil {
		g.lost(o, source.Extend(at, "backend"), "is not carried over: the Service %s leads to nothing that is imported",
			source.Quote(name))
		return
	}
	s := g.services[i]
	j := slices.IndexFunc(s.spec.Ports, func(q k8s.ServicePort) bool {
		return portRef.Type == intstr.String && q.Name == portRef.StrVal || portRef.Type == intstr.Int &&
			(q.Port == portRef.IntVal || portRef.IntVal == 0)
	})
	if j < 0 {
		g.lost(o, source.Extend(at, "backend"), "is not carried over: the Service %s has no port %s", source.Quote(name),
			portRef.String())
		return
	}
	path, strip := p.Path, false
	if path == "" {
		path = "/"
	}
	if m := prefixPath().FindStringSubmatch(path); m != nil {
		path = m[1]
		if path == "" {
			path = "/"
		}
	}
	if !plainPath().MatchString(path) || strings.Contains(path, "//") {
		g.lost(o, source.Extend(at, "path"), "is not carried over: %s is not the beginning of a path", source.Quote(p.Path))
		return
	}
	if path != "/" {
		path, strip = strings.TrimSuffix(path, "/"), settings.rewrite
	}
	if p.PathType == "Exact" {
		g.said(o, source.Extend(at, "path"), "is what paths begin with in Verge: %s/… leads there too",
			strings.TrimSuffix(path, "/"))
	}
	port, c := g.target(s, j)
	if port == nil {
		return
	}
	if by, taken := g.claimed[host+path]; taken {
		if by != c.name {
			g.lost(o, at, "is not carried over: %s%s leads to %s already", host, path, by)
		}
		return
	}
	in := port.Ingress
	switch {
	case in != nil && (in.Host != strings.ToLower(host) || in.StripPrefix != strip):
		g.lost(o, at, "is not carried over: a port is published under one host name, and in one way, and this one is at %s",
			in.Host)
		return
	case in == nil:
		port.Ingress = &api.Ingress{Host: strings.ToLower(host), TLS: tls, StripPrefix: strip, MaxBody: settings.maxBody}
		if settings.rate > 0 {
			port.Ingress.RateLimit = &api.RateLimit{Requests: settings.rate}
		}
		if tls.On() && settings.redirect != nil {
			port.Ingress.Redirect = settings.redirect
		}
		if settings.grpc {
			port.Protocol = "grpc"
		} else if port.Protocol != "grpc" {
			port.Protocol = "http"
		}
	}
	g.claimed[host+path] = c.name
	switch {
	case path == "/": // and all below
		port.Ingress.Paths = nil
	case g.claimed[host+"/"] != c.name:
		port.Ingress.Paths = append(port.Ingress.Paths, path)
	}
}
