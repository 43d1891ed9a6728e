package kubernetes

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// item is a file of a ConfigMap or a Secret.
type item struct {
	key, path string
	mode      *int32
}

func itemsOf(list []k8s.KeyToPath, all []string) (out []item) {
	for _, i := range list {
		out = append(out, item{i.Key, i.Path, i.Mode})
	}
	if len(list) == 0 {
		for _, k := range all {
			out = append(out, item{key: k, path: k})
		}
	}
	return out
}

// place returns where an item is, false if a subPath leaves it out.
func (i item) place(m k8s.VolumeMount) (string, bool) {
	if m.SubPath == "" {
		return path.Join(m.MountPath, path.Clean("/"+i.path)), true
	}
	sub, file := path.Clean("/"+m.SubPath), path.Clean("/"+i.path)
	if sub == file {
		return m.MountPath, true
	}
	rest, ok := strings.CutPrefix(file, sub+"/")
	return path.Join(m.MountPath, rest), ok
}

// fileModeOf returns the first of modes that is set and valid, 0644 by default.
func fileModeOf(modes ...*int32) api.FileMode {
	for _, m := range modes {
		if m != nil && *m > 0 && *m <= 0o777 {
			return api.FileMode(*m)
		}
	}
	return 0o644
}

func (g *group) configFiles(w *workload, at []string, m k8s.VolumeMount, v *k8s.ConfigMapVolumeSource,
	out *api.Service) {
	c := g.configs[v.Name]
	optional := v.Optional != nil && *v.Optional
	if c == nil {
		if !optional {
			g.lost(w.object, at, "the ConfigMap %s is not among what is imported: its files are not carried over", v.Name)
		} else {
			g.said(w.object, at, "the ConfigMap %s, which may be missing, is not among what is imported", v.Name)
		}
		return
	}
	c.used = true
	all := slices.Sorted(maps.Keys(c.spec.Data))
	all = append(all, slices.Sorted(maps.Keys(c.spec.BinaryData))...)
	put := 0
	for _, i := range itemsOf(v.Items, all) {
		to, ok := i.place(m)
		if !ok {
			continue
		}
		text, has := c.spec.Data[i.key]
		if data, binary := c.spec.BinaryData[i.key]; binary && !has {
			if text, has = string(data), true; len(data) <= draft.MaxContent &&
				(source.Readable(data) != nil || strings.ContainsFunc(text, source.Unprintable)) {
				g.lost(w.object, at, "the key %s is not carried over: it is not text; make an object of it (verge "+
					"object put), or put it into the image", source.Quote(i.key))
				continue
			}
		}
		switch {
		case !has:
			if !optional {
				g.lost(w.object, at, "the ConfigMap %s has no key %s", v.Name, source.Quote(i.key))
			}
			continue
		case len(text) > draft.MaxContent:
			g.lost(w.object, at,
				"the key %s is not carried over: it is larger than 256 KiB; make an object of it (verge object put)",
				source.Quote(i.key))
			continue
		case strings.ContainsFunc(text, func(r rune) bool { return source.Unprintable(r) && r != '\r' }):
			g.lost(w.object, at, "the key %s is not carried over: it has control characters", source.Quote(i.key))
			continue
		}
		if !g.report.Spend(len(text)) {
			g.report.TooMuch(w.object.Doc, at)
			return
		}
		field := c.object.At("data", i.key)
		text = g.names(&workload{object: c.object}, field, text)
		if why := draft.AddFile(out, to,
			api.File{Content: draft.Literal(text), Mode: fileModeOf(i.mode, v.DefaultMode)}); why != "" {
			g.lost(w.object, at, "%s", why)
			continue
		}
		put++
	}
	if put == 0 {
		g.lost(w.object, at, "nothing of the ConfigMap %s is there", v.Name)
	} else if m.SubPath == "" {
		g.said(w.object, at, "%s at %s stand beside what the image has there, which Kubernetes would hide",
			report.Count(put, "file"), source.Quote(m.MountPath))
	}
}

func (g *group) secretFiles(w *workload, at []string, m k8s.VolumeMount, v *k8s.SecretVolumeSource, out *api.Service) {
	var keys []string
	s := g.secrets[v.SecretName]
	if s != nil {
		keys = s.keys
	}
	if s == nil && len(v.Items) == 0 {
		if file := path.Base(path.Clean("/" + m.SubPath)); m.SubPath != "" {
			keys = []string{file} // the key is the file's name
		} else {
			g.lost(w.object, at,
				"the Secret %s is not among what is imported, so that the names of its files are not known: write them into files",
				v.SecretName)
			return
		}
	}
	optional := v.Optional != nil && *v.Optional
	for _, i := range itemsOf(v.Items, keys) {
		to, ok := i.place(m)
		if !ok {
			continue
		}
		if s != nil && !slices.Contains(s.keys, i.key) || s == nil && optional {
			g.lost(w.object, at, "the key %s of the Secret %s is left out: it is not there", source.Quote(i.key), v.SecretName)
			continue
		}
		name := g.secretOf(w, at, v.SecretName, i.key)
		if why := draft.AddFile(out, to, api.File{Secret: name, Mode: fileModeOf(i.mode, v.DefaultMode)}); why != "" {
			g.lost(w.object, at, "%s", why)
		}
	}
}

func (g *group) projected(w *workload, at, vat []string, m k8s.VolumeMount, v *k8s.ProjectedVolumeSource,
	out *api.Service) {
	for i, s := range v.Sources {
		switch {
		case s.ConfigMap != nil:
			g.configFiles(w, at, m, &k8s.ConfigMapVolumeSource{LocalObjectReference: s.ConfigMap.LocalObjectReference,
				Items: s.ConfigMap.Items, Optional: s.ConfigMap.Optional, DefaultMode: v.DefaultMode}, out)
		case s.Secret != nil:
			g.secretFiles(w, at, m, &k8s.SecretVolumeSource{SecretName: s.Secret.Name, Items: s.Secret.Items,
				Optional: s.Secret.Optional, DefaultMode: v.DefaultMode}, out)
		default:
			g.lost(w.object, source.Extend(vat, "projected", "sources", source.Index(i)),
				"%s", cmp.Or(map[bool]string{true: manifest.NoAPI}[s.ServiceAccountToken != nil], report.NoCounterpart))
		}
	}
}
