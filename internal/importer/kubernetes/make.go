package kubernetes

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/source"
)

// make makes the application of the group; nil if nothing of it runs.
func (g *group) make(folders map[string]string, several bool) *draft.Draft {
	var rest []*manifest.Object
	for _, o := range g.objects {
		switch o.Kind {
		case "ConfigMap":
			g.configMap(o)
		case "Secret":
			g.secret(o)
		case "PersistentVolumeClaim":
			g.claim(o)
		case "Service":
			g.service(o)
		case "Ingress", "HTTPRoute", "GRPCRoute", "HorizontalPodAutoscaler":
			rest = append(rest, o)
		default:
			g.workload(o)
		}
	}
	if len(g.workloads) == 0 {
		for _, o := range slices.Concat(rest, g.objects) {
			if slices.Contains([]string{"Service", "Ingress", "HTTPRoute", "GRPCRoute"}, o.Kind) {
				g.lost(o, o.At("kind"), "%s is not carried over: nothing runs that it leads to", o.Title())
			}
		}
		return nil
	}
	name, from := g.name(folders, several)
	g.app = &api.Application{Application: name, Services: map[string]*api.Service{}}
	first := g.workloads[0].object
	if name != from {
		g.said(first, first.At("metadata", "name"), "the application is called %s: %s is not a name in Verge", name,
			source.Quote(from))
	}
	if g.namespace != "" {
		if g.app.Namespace = draft.Label(g.namespace); g.app.Namespace != g.namespace {
			g.said(first, first.At("metadata", "namespace"), "is called %s", g.app.Namespace)
		}
	}
	m := &draft.Draft{App: g.app, Kind: draft.Kubernetes, Doc: first.Doc, Origins: map[string]draft.Origin{}}
	for _, o := range g.objects {
		if !slices.Contains(m.From, o.Doc.File) {
			m.From = append(m.From, o.Doc.File)
		}
	}
	g.match()
	g.call()
	g.addresses()
	g.links()
	var unlimited []string
	for _, w := range g.workloads {
		for _, c := range w.containers {
			s := g.container(w, c)
			if !g.report.Spend(draft.Weight(s)) {
				g.report.TooMuch(w.object.Doc, c.path)
				return nil
			}
			g.app.Services[c.name] = s
			m.Origins[c.name] = draft.Origin{Doc: w.object.Doc, Path: c.path}
		}
	}
	for _, o := range rest {
		switch o.Kind {
		case "Ingress":
			g.ingress(o)
		case "HTTPRoute", "GRPCRoute":
			g.gatewayRoute(o)
		}
	}
	for _, s := range g.services {
		g.lead(s)
	}
	for _, w := range g.workloads {
		g.hostPorts(w)
	}
	for _, o := range rest {
		if o.Kind == "HorizontalPodAutoscaler" {
			g.scaler(o)
		}
	}
	for _, w := range g.workloads {
		for _, c := range w.containers {
			s := g.app.Services[c.name]
			draft.PortVariables(g.report, w.object.Doc, s, func(v string) []string { return g.envPath(c, v) })
			if draft.Finish(s, g.opts) {
				unlimited = append(unlimited, c.name)
			}
		}
	}
	g.unused()
	draft.LimitNote(g.report, first.Doc, unlimited, g.opts)
	return m
}

// name returns the name of the application: the requested one, that of the labels, of the only
// workload, of the file or of the folder.
func (g *group) name(folders map[string]string, several bool) (string, string) {
	var of []string
	for _, key := range []string{"app.kubernetes.io/part-of", "app.kubernetes.io/instance"} {
		value, same := g.workloads[0].object.Meta.Labels[key], true
		for _, w := range g.workloads {
			same = same && w.object.Meta.Labels[key] == value
		}
		if same && !strings.EqualFold(value, "release-name") { // the default of helm template
			of = append(of, value)
		}
	}
	if len(g.workloads) == 1 {
		of = append(of, g.workloads[0].object.Meta.Name)
	}
	file, one := g.objects[0].Doc.File, true
	for _, o := range g.objects {
		one = one && o.Doc.File == file
	}
	if several && g.namespace != "" {
		of = append(of[:len(of):len(of)], g.namespace) // a file or folder has several
	} else if one {
		of = append(of, draft.BaseName(file))
	}
	name, from := draft.AppName(g.opts, append(of, folders[file])...)
	if several && g.opts.Name != "" && g.namespace != "" {
		name = draft.Label(name + "-" + g.namespace)
		return name, name
	}
	return name, from
}
