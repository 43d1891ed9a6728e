package kubernetes

import (
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// owner returns the object for which Kubernetes itself made this one, if it is also imported.
func (k *converter) owner(o *manifest.Object) *manifest.Object {
	for _, ref := range o.Meta.OwnerReferences {
		if other := k.byName[[3]string{ref.Kind, o.Meta.Namespace, ref.Name}]; other != nil && other != o {
			return other
		}
	}
	return nil
}

// maxListDepth bounds lists of lists.
const maxListDepth = 4

// add adds the object at a path of a document, or those of a list. of are the version and kind
// of objects without, as in the list of one kind that the API server returns.
func (k *converter) add(d *source.Document, n *source.Node, base []string, of [2]string, depth int) {
	o := &manifest.Object{Doc: d, Base: base, Root: n}
	if n.Kind != source.Mapping {
		k.report.At(report.Refused, d, base, "is not an object of Kubernetes: it is not a mapping")
		return
	}
	apiVersion, kind := n.Str("apiVersion"), n.Str("kind")
	if apiVersion == "" && kind == "" {
		apiVersion, kind = of[0], of[1]
	}
	if apiVersion == "" || kind == "" {
		missing := "apiVersion"
		if apiVersion != "" {
			missing = "kind"
		}
		k.report.At(report.Refused, d, base, "has no %s, which every object of Kubernetes has", missing)
		return
	}
	o.Kind = kind
	var grouped bool
	if o.Group, o.Version, grouped = strings.Cut(apiVersion, "/"); !grouped {
		o.Group, o.Version = "", apiVersion
	}
	items := n.Child("items")
	if strings.HasSuffix(kind, "List") && items != nil {
		if items.Kind != source.List || depth >= maxListDepth {
			k.report.At(report.Refused, d, o.At("items"), "is not a list of objects")
			return
		}
		inner := [2]string{}
		if single := strings.TrimSuffix(kind, "List"); single != "" {
			inner = [2]string{apiVersion, single}
		}
		for i, item := range items.Values {
			k.add(d, item, o.At("items", source.Index(i)), inner, depth+1)
		}
		return
	}
	if !manifest.Decode(k.report, o, n.Child("metadata"), o.At("metadata"), &o.Meta) {
		return
	}
	if o.Meta.Name == "" {
		o.Meta.Name = strings.TrimSuffix(o.Meta.GenerateName, "-")
	}
	if known, ok := manifest.Versions[o.Group+"/"+kind]; ok {
		if !slices.Contains(known, o.Version) {
			k.report.At(report.Lost, d, o.At("apiVersion"),
				"%s is not a version of %s that is known (%s): it is not carried over",
				source.Quote(apiVersion), kind, report.List(known))
			return
		}
		if o.Group == "serving.knative.dev" {
			o.Kind = manifest.Knative
		}
		k.take(o)
		return
	}
	if why, ok := manifest.NotCarried[kind]; ok &&
		(o.Group == "" || strings.HasSuffix(o.Group, ".k8s.io") ||
			slices.Contains([]string{"apps", "batch", "policy", "extensions"}, o.Group)) {
		level := report.Lost
		if rest, ok := strings.CutPrefix(why, report.Noted); ok {
			level, why = report.Said, rest
		}
		k.report.At(level, d, o.At("kind"), "%s %s", o.Title(), why)
		return
	}
	for other, known := range manifest.Versions {
		if group, name, _ := strings.Cut(other, "/"); strings.EqualFold(name, kind) && group != "extensions" {
			k.report.At(report.Lost, d, o.At("apiVersion"),
				"Kubernetes has no %s in %s: it is apiVersion: %s, kind: %s; it is not carried over", source.Quote(kind),
				source.Quote(apiVersion), strings.TrimPrefix(group+"/"+known[0], "/"), name)
			return
		}
	}
	k.report.At(report.Lost, d, o.At("kind"), "%s of %s is not carried over: it is not a kind that Verge knows", o.Title(),
		source.Quote(apiVersion))
}

// take stores an object of a known kind, if it has a name.
func (k *converter) take(o *manifest.Object) {
	at := o.At("metadata")
	if o.Kind != "ConfigMap" && o.Kind != "Secret" {
		if in := source.HelmPath(o.Root, o.Base); in != nil {
			k.report.At(report.Refused, o.Doc, in, "is for Helm to fill in: %s", source.HelmRemedy)
			return
		}
	}
	switch name := o.Meta.Name; {
	case name == "":
		k.report.At(report.Refused, o.Doc, at, "Kubernetes would refuse it: %s has no name", o.Kind)
		return
	case len(name) > 253 || !manifest.NamePattern().MatchString(name):
		k.report.At(report.Refused, o.Doc, o.At("metadata", "name"),
			"Kubernetes would refuse it: %s is not a name, which has small letters, digits, - and . alone", source.Quote(name))
		return
	}
	if ns := o.Meta.Namespace; ns != "" && !manifest.IsNamespace(ns) {
		k.report.At(report.Refused, o.Doc, o.At("metadata", "namespace"),
			"Kubernetes would refuse it: %s is not a name of a namespace, which has small letters, digits and - "+
				"alone, 63 at most",
			source.Quote(ns))
		return
	}
	id := [3]string{o.Kind, o.Meta.Namespace, o.Meta.Name}
	if other := k.byName[id]; other != nil {
		k.report.At(report.Refused, o.Doc, at, "%s is there already, in %s:%d", o.Title(), other.Doc.File,
			other.Doc.LineOf(other.At("metadata")))
		return
	}
	k.byName[id] = o
	if hook := o.Meta.Annotations["helm.sh/hook"]; hook != "" {
		path := o.At("metadata", "annotations", "helm.sh/hook")
		if strings.HasPrefix(hook, "test") {
			k.report.At(report.Said, o.Doc, path, "%s is left out: it is a test of Helm", o.Title())
			return
		}
		k.report.At(report.Lost, o.Doc, path, "when Helm would run it (%s) is not carried over: it starts with the others",
			source.Quote(hook))
	}
	k.objects = append(k.objects, o)
}
