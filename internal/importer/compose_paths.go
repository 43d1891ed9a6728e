package importer

import (
	"path"
	"slices"
	"strings"
)

// all are the values of a list or a mapping.
func (n *node) all() []*node {
	if n == nil {
		return nil
	}
	return n.values
}

// with is n with another value of a key, nil: without the key. n itself stays, since it may
// stand in several places.
func (n *node) with(name string, v *node) *node {
	out := *n
	out.keys, out.values = slices.Clone(n.keys), slices.Clone(n.values)
	at := slices.IndexFunc(out.keys, func(k key) bool { return k.name == name })
	switch {
	case v == nil && at >= 0:
		out.keys, out.values = slices.Delete(out.keys, at, at+1), slices.Delete(out.values, at, at+1)
	case v == nil:
	case at >= 0:
		out.values[at] = v
	default:
		out.keys, out.values = append(out.keys, key{name, v.line}), append(out.values, v)
	}
	return &out
}

// change is n with a child made anew, if there is one.
func (n *node) change(name string, by func(*node) *node) *node {
	c := n.child(name)
	if c.empty() {
		return n
	}
	return n.with(name, by(c))
}

// each is a list with its items made anew, or what is no list by itself.
func (n *node) each(by func(*node) *node) *node {
	if n.kind != listKind {
		return by(n)
	}
	out := *n
	out.values = slices.Clone(n.values)
	for i, v := range out.values {
		out.values[i] = by(v)
	}
	return &out
}

// own is what a part has in a section, with its paths beginning at the folder of the first
// file, and marked as of this one.
func (p part) own(section string, n *node) *node {
	if n.kind == mappingKind && p.dir != "." {
		switch section {
		case "configs", "secrets":
			n = n.change("file", p.moved)
		case "services":
			n = n.change("env_file", func(v *node) *node {
				return v.each(func(v *node) *node {
					if v.kind == mappingKind {
						return v.change("path", p.moved)
					}
					return p.moved(v)
				})
			})
			n = n.change("volumes", func(v *node) *node { return v.each(p.mounted) })
			n = n.change("extends", func(v *node) *node {
				if v.kind == mappingKind {
					return v.change("file", p.moved)
				}
				return v
			})
		}
	}
	out := *n
	if out.file == "" {
		out.file = p.doc.file
	}
	return &out
}

// moved is a path of a part, from the folder of the first file.
func (p part) moved(v *node) *node {
	if v.kind != scalarKind || v.text == "" || path.IsAbs(v.text) || strings.ContainsAny(v.text[:1], "~$") || strings.Contains(v.text, "://") {
		return v
	}
	out := *v
	if out.text = path.Join(p.dir, v.text); !strings.HasPrefix(out.text, "../") {
		out.text = "./" + out.text
	}
	out.value = out.text
	return &out
}

// mounted is an entry of volumes. Only what begins with a dot is a path and no name.
func (p part) mounted(v *node) *node {
	if v.kind == mappingKind {
		if v.str("type") == "bind" {
			return v.change("source", p.moved)
		}
		return v
	}
	from, to, both := strings.Cut(v.text, ":")
	if v.kind != scalarKind || !both || !strings.HasPrefix(from, ".") {
		return v
	}
	out := *v
	out.text = p.moved(&node{text: from}).text + ":" + to
	out.value = out.text
	return &out
}
