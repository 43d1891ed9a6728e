package kubernetes

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// gatewayRoute publishes what an HTTPRoute leads to, by its hosts and path prefixes.
func (g *group) gatewayRoute(o *manifest.Object) {
	var spec manifest.RouteSpec
	ok := manifest.Decode(g.report, o, o.Root.Child("spec"), o.At("spec"), &spec)
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.RouteTrie())
	if !ok {
		return
	}
	if len(spec.Hostnames) == 0 {
		g.lost(o, o.At("spec"),
			"has no hostnames, and is not carried over: http is published under host names (ingress: {host: app.example.org})")
		return
	}
	for i, rule := range spec.Rules {
		at := o.At("spec", "rules", source.Index(i))
		settings := ingressSettings{grpc: o.Kind == "GRPCRoute"}
		for j, f := range rule.Filters {
			if r := f.URLRewrite; r != nil && r.Hostname == "" && r.Path != nil && r.Path.Type == "ReplacePrefixMatch" &&
				strings.Trim(r.Path.ReplacePrefixMatch, "/") == "" {
				settings.rewrite = true
				continue
			}
			g.lost(o, source.Extend(at, "filters", source.Index(j)), "%s is not carried over: Verge has nothing like it",
				source.Quote(f.Type))
		}
		if len(rule.BackendRefs) == 0 {
			g.lost(o, at, "leads to nothing")
			continue
		}
		if len(rule.BackendRefs) > 1 {
			g.lost(o, source.Extend(at, "backendRefs"), "leads to %s alone: a host and path lead to one service",
				rule.BackendRefs[0].Name)
		}
		b := rule.BackendRefs[0]
		if b.Kind != "" && b.Kind != "Service" || b.Namespace != "" && b.Namespace != o.Meta.Namespace {
			g.lost(o, source.Extend(at, "backendRefs", "[0]"), "is not carried over: it is no Service of this application")
			continue
		}
		p := manifest.IngressPath{Path: "/"}
		p.Backend.ServiceName, p.Backend.ServicePort = b.Name, intstr.FromInt32(b.Port)
		var paths []manifest.IngressPath
		for j, m := range rule.Matches {
			in := source.Extend(at, "matches", source.Index(j))
			if len(m.Headers)+len(m.QueryParams) > 0 || bool(m.Method) {
				g.lost(o, in, "is not carried over: requests are matched by host and path only")
				continue
			}
			next := p
			if m.Path != nil {
				if m.Path.Type == "RegularExpression" {
					g.lost(o, source.Extend(in, "path"), "is not carried over: paths are matched by prefix")
					continue
				}
				next.Path, next.PathType = m.Path.Value, k8s.PathType(m.Path.Type)
			}
			paths = append(paths, next)
		}
		if len(rule.Matches) == 0 {
			paths = []manifest.IngressPath{p}
		}
		for _, p := range paths {
			for _, host := range spec.Hostnames {
				g.route(o, at, host, api.IngressTLS{}, p, settings)
			}
		}
	}
}
