package importer

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/k8s"
)

var routeCover = metaCover.with("spec", cover{
	"hostnames": "", "rules[].matches": "", "rules[].backendRefs": "", "rules[].filters": "", "rules[].name": ignored,
	"parentRefs":       "~is not needed: all gateways publish what has an ingress",
	"rules[].timeouts": "is not carried over: timeout is that of a service",
})

// routeSpec is that of an HTTPRoute or GRPCRoute of the Gateway API.
type routeSpec struct {
	ParentRefs ignoredField `json:"parentRefs"`
	Hostnames  []string     `json:"hostnames"`
	Rules      []struct {
		Name     ignoredField `json:"name"`
		Timeouts ignoredField `json:"timeouts"`
		Matches  []struct {
			Path *struct {
				Type  string `json:"type"`
				Value string `json:"value"`
			} `json:"path"`
			Method      given          `json:"method"`
			Headers     []ignoredField `json:"headers"`
			QueryParams []ignoredField `json:"queryParams"`
		} `json:"matches"`
		Filters []struct {
			Type       string `json:"type"`
			URLRewrite *struct {
				Hostname string `json:"hostname"`
				Path     *struct {
					Type               string `json:"type"`
					ReplacePrefixMatch string `json:"replacePrefixMatch"`
					ReplaceFullPath    string `json:"replaceFullPath"`
				} `json:"path"`
			} `json:"urlRewrite"`
			Redirect       ignoredField `json:"requestRedirect"`
			RequestHeader  ignoredField `json:"requestHeaderModifier"`
			ResponseHeader ignoredField `json:"responseHeaderModifier"`
			Mirror         ignoredField `json:"requestMirror"`
			ExtensionRef   ignoredField `json:"extensionRef"`
			CORS           ignoredField `json:"cors"`
		} `json:"filters"`
		BackendRefs []struct {
			Group     string         `json:"group"`
			Kind      string         `json:"kind"`
			Name      string         `json:"name"`
			Namespace string         `json:"namespace"`
			Port      int32          `json:"port"`
			Weight    *int32         `json:"weight"`
			Filters   []ignoredField `json:"filters"`
		} `json:"backendRefs"`
	} `json:"rules"`
}

// gatewayRoute publishes what an HTTPRoute leads to, by its hosts and the beginnings of
// paths.
func (g *kubeGroup) gatewayRoute(o *object) {
	var spec routeSpec
	ok := decodeInto(g.report, o, o.root.child("spec"), o.at("spec"), &spec)
	g.report.leftovers(o.doc, o.root, o.base, routeTrie())
	if !ok {
		return
	}
	if len(spec.Hostnames) == 0 {
		g.lost(o, o.at("spec"), "has no hostnames, and is not carried over: http is published under host names (ingress: {host: app.example.org})")
		return
	}
	for i, rule := range spec.Rules {
		at := o.at("spec", "rules", index(i))
		settings := ingressSettings{grpc: o.kind == "GRPCRoute"}
		for j, f := range rule.Filters {
			if r := f.URLRewrite; r != nil && r.Hostname == "" && r.Path != nil && r.Path.Type == "ReplacePrefixMatch" && strings.Trim(r.Path.ReplacePrefixMatch, "/") == "" {
				settings.rewrite = true
				continue
			}
			g.lost(o, extend(at, "filters", index(j)), "%s is not carried over: Verge has nothing like it", quote(f.Type))
		}
		if len(rule.BackendRefs) == 0 {
			g.lost(o, at, "leads to nothing")
			continue
		}
		if len(rule.BackendRefs) > 1 {
			g.lost(o, extend(at, "backendRefs"), "leads to %s alone: a host and path lead to one service", rule.BackendRefs[0].Name)
		}
		b := rule.BackendRefs[0]
		if b.Kind != "" && b.Kind != "Service" || b.Namespace != "" && b.Namespace != o.meta.Namespace {
			g.lost(o, extend(at, "backendRefs", "[0]"), "is not carried over: it is no Service of this application")
			continue
		}
		p := ingressPath{Path: "/"}
		p.Backend.ServiceName, p.Backend.ServicePort = b.Name, intstr.FromInt32(b.Port)
		var paths []ingressPath
		for j, m := range rule.Matches {
			in := extend(at, "matches", index(j))
			if len(m.Headers)+len(m.QueryParams) > 0 || bool(m.Method) {
				g.lost(o, in, "is not carried over: requests are told apart by host and path alone")
				continue
			}
			next := p
			if m.Path != nil {
				if m.Path.Type == "RegularExpression" {
					g.lost(o, extend(in, "path"), "is not carried over: paths are told apart by what they begin with")
					continue
				}
				next.Path, next.PathType = m.Path.Value, k8s.PathType(m.Path.Type)
			}
			paths = append(paths, next)
		}
		if len(rule.Matches) == 0 {
			paths = []ingressPath{p}
		}
		for _, p := range paths {
			for _, host := range spec.Hostnames {
				g.route(o, at, host, api.IngressTLS{}, p, settings)
			}
		}
	}
}
