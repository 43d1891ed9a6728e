package kubernetes

import (
	"maps"
	"slices"

	"github.com/verge-edge/verge/internal/importer/kubernetes/manifest"
	"github.com/verge-edge/verge/internal/k8s"
)

func (g *group) configMap(o *manifest.Object) {
	c := &configMap{object: o}
	for field, into := range map[string]any{"data": &c.spec.Data, "binaryData": &c.spec.BinaryData} {
		manifest.Decode(g.report, o, o.Root.Child(field), o.At(field), into)
	}
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.DataTrie())
	g.configs[o.Meta.Name] = c
}

// secret reads the names of the keys of a Secret, and no values.
func (g *group) secret(o *manifest.Object) {
	s := &secretObject{object: o, kind: k8s.SecretType(o.Root.Str("type"))}
	data := map[string][]byte{}
	var text map[string]string
	manifest.Decode(g.report, o, o.Root.Child("data"), o.At("data"), &data)
	manifest.Decode(g.report, o, o.Root.Child("stringData"), o.At("stringData"), &text)
	s.keys = slices.Sorted(maps.Keys(data))
	for k := range text {
		if _, both := data[k]; !both {
			s.keys = append(s.keys, k)
		}
	}
	slices.Sort(s.keys)
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.DataTrie())
	g.secrets[o.Meta.Name] = s
}

func (g *group) claim(o *manifest.Object) {
	c := &claim{object: o}
	manifest.Decode(g.report, o, o.Root.Child("spec"), o.At("spec"), &c.spec)
	g.report.Leftovers(o.Doc, o.Root, o.Base, manifest.ClaimTrie())
	g.claims[o.Meta.Name] = c
}

// unused notes what no container uses.
func (g *group) unused() {
	for _, name := range slices.Sorted(maps.Keys(g.configs)) {
		if c := g.configs[name]; !c.used {
			g.said(c.object, c.object.At("metadata", "name"), "is used by no container here, and left out")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(g.claims)) {
		if c := g.claims[name]; len(c.users) == 0 {
			g.said(c.object, c.object.At("metadata", "name"), "is used by no container here, and left out")
		}
	}
}
