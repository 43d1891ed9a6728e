package oakestra

import (
	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// oakestraVersion is the only version that Oakestra accepts.
const slaVersion = "v2.0"

// maxApplications bounds the applications of one descriptor.
const maxApplications = 1000

// converter makes the applications of a document.
type converter struct {
	doc    *source.Document
	opts   draft.Options
	report *report.Report
	taken  map[string]string // published ports
	known  *Registry
	// reached are the addresses that microservices of the application use, by host, with the users.
	reached map[string][]namedHostPort
}

// Import makes the applications of documents. All sources of an import share known.
func Import(docs []*source.Document, o draft.Options, r *report.Report, known *Registry) (out []*draft.Draft) {
	for _, d := range docs {
		k := &converter{doc: d, opts: o, report: r, taken: map[string]string{}, known: known}
		out = append(out, k.document()...)
	}
	return out
}

func (k *converter) document() (out []*draft.Draft) {
	root := k.doc.Root
	version := root.Child("sla_version")
	switch {
	case root.Kind != source.Mapping:
		k.refuse(nil, "is not a mapping: an Oakestra descriptor has sla_version and applications")
		return nil
	case version == nil && root.Child("microservices") != nil:
		k.refuse([]string{"microservices"}, "belong to an application: write {\"sla_version\": %q, \"customerID\": "+
			"…, \"applications\": [{\"application_name\": …, \"application_namespace\": …, \"microservices\": …}]} "+
			"around them",
			slaVersion)
		return nil
	case version == nil:
		k.refuse(nil, "has no sla_version: Oakestra takes %q alone", slaVersion)
		return nil
	case version.Kind != source.Scalar || version.Value != slaVersion:
		k.refuse([]string{"sla_version"}, "%s is not a version that Oakestra takes: it is %q",
			source.Quote(version.Text),
			slaVersion)
		return nil
	}
	apps := root.Child("applications")
	if apps == nil || apps.Kind != source.List || len(apps.Values) == 0 {
		k.refuse([]string{"applications"}, "is not a list of applications")
		return nil
	}
	if n := len(apps.Values); n > maxApplications {
		k.refuse([]string{"applications"}, "has %d applications: divide it, at %d", n, maxApplications)
		return nil
	}
	if k.opts.Name != "" && len(apps.Values) > 1 {
		k.refuse([]string{"applications"}, "has %d applications, which cannot all have the name of --name",
			len(apps.Values))
		return nil
	}
	for _, h := range k.heads(apps.Values) {
		if m := k.application(h); m != nil {
			out = append(out, m)
		}
	}
	k.report.Leftovers(k.doc, root, nil, fieldTrie())
	return out
}

func (k *converter) refuse(path []string, format string, args ...any) {
	k.report.At(report.Refused, k.doc, path, format, args...)
}

func (k *converter) lost(path []string, format string, args ...any) {
	k.report.At(report.Lost, k.doc, path, format, args...)
}

func (k *converter) said(path []string, format string, args ...any) {
	k.report.At(report.Said, k.doc, path, format, args...)
}

func (k *converter) application(h *head) *draft.Draft {
	a, path := h.node, h.path
	app := &api.Application{Application: h.called, Services: map[string]*api.Service{}}
	if k.opts.Name != "" {
		app.Application = k.opts.Name
	} else if plain := draft.Label(h.name); h.called != plain {
		k.said(source.Extend(path, "application_name"), "is called %s: %s is another application", h.called, plain)
	} else if h.called != h.name {
		k.said(source.Extend(path, "application_name"), "is called %s", h.called)
	}
	if ns := h.namespace; ns != "" {
		if app.Namespace = draft.Label(ns); app.Namespace != ns {
			k.said(source.Extend(path, "application_namespace"), "is called %s", app.Namespace)
		}
	}
	list, at := a.Child("microservices"), source.Extend(path, "microservices")
	if list == nil || list.Kind != source.List || len(list.Values) == 0 {
		k.refuse(at, "cannot be expressed: there are no microservices, and an application of Verge has at least "+
			"one service")
		return nil
	}
	if n := len(list.Values); n > api.MaxServices {
		k.refuse(at, "cannot be expressed: there are %d, and an application has at most %d", n, api.MaxServices)
		return nil
	}
	m := &draft.Draft{App: app, Kind: draft.Oakestra, From: []string{k.doc.File}, Doc: k.doc,
		Origins: map[string]draft.Origin{}}
	micros := k.microservices(list, at, app.Namespace)
	if micros == nil {
		return nil
	}
	ids := idsOf(micros)
	var unlimited []string
	complete := true
	k.reached = named(list)
	for _, s := range micros {
		svc := k.service(s.node, s.path, s.called, ids)
		if svc == nil {
			complete = false
			continue
		}
		if draft.Finish(svc, k.opts) {
			unlimited = append(unlimited, s.called)
		}
		app.Services[s.called] = svc
		m.Origins[s.called] = draft.Origin{Doc: k.doc, Path: s.path}
		k.report.Leftovers(k.doc, s.node, s.path, microserviceTrie())
	}
	draft.LimitNote(k.report, k.doc, unlimited, k.opts)
	if !complete {
		return nil // why has been said
	}
	k.oldNames(h, micros)
	return m
}

// Registry has the applications of all descriptors of a command: Oakestra distinguishes them by
// case-sensitive name and namespace, Verge by name alone.
type Registry struct {
	given draft.Names
	// Known are the places of applications, by name and namespace as written.
	Known map[string]string
	// Addresses are the places of services, by their fixed address.
	Addresses map[string]string
}
