package kubernetes

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Import makes an application of the objects of each namespace. folders are the names of
// folders by file, which name an application if nothing else does.
func Import(docs []*source.Document, folders map[string]string, o draft.Options,
	r *report.Report) (out []*draft.Draft) {
	k := &converter{opts: o, report: r, byName: map[[3]string]*manifest.Object{}}
	for _, d := range docs {
		k.add(d, d.Root, nil, [2]string{}, 0)
	}
	groups := map[string][]*manifest.Object{}
	for _, ob := range k.objects {
		if owner := k.owner(ob); owner != nil {
			r.At(report.Said, ob.Doc, ob.At("metadata"), "%s is left out: Kubernetes makes it for %s", ob.Title(), owner.Title())
			continue
		}
		ns := ob.Meta.Namespace
		if ns == "default" || o.Namespace != "" {
			ns = ""
		}
		groups[ns] = append(groups[ns], ob)
	}
	refused := r.Refused
	for _, ns := range slices.Sorted(maps.Keys(groups)) {
		g := newGroup(k, ns, groups[ns])
		m := g.make(folders, len(groups) > 1)
		if r.Overspent() {
			return nil
		}
		if m == nil {
			continue
		}
		if slices.ContainsFunc(out, func(other *draft.Draft) bool { return other.App.Application == m.App.Application }) &&
			ns != "" {
			m.App.Application = draft.Label(m.App.Application + "-" + ns)
		}
		out = append(out, m)
	}
	if len(out) == 0 && !refused && !r.Refused {
		r.At(report.Refused, docs[0], nil,
			"has nothing that runs: no Pod, Deployment, StatefulSet, DaemonSet, ReplicaSet, Job or CronJob that could be read")
	}
	return out
}
