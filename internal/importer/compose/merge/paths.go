package merge

import (
	"path"
	"strings"

	"github.com/verge-edge/verge/internal/importer/source"
)

// own returns a section of a part, with paths relative to the folder of the first file, and
// marked with the part's file.
func (p part) own(section string, n *source.Node) *source.Node {
	if n.Kind == source.Mapping && p.dir != "." {
		switch section {
		case "configs", "secrets":
			n = n.Change("file", p.moved)
		case "services":
			n = n.Change("env_file", func(v *source.Node) *source.Node {
				return v.Each(func(v *source.Node) *source.Node {
					if v.Kind == source.Mapping {
						return v.Change("path", p.moved)
					}
					return p.moved(v)
				})
			})
			n = n.Change("volumes", func(v *source.Node) *source.Node { return v.Each(p.mounted) })
			n = n.Change("extends", func(v *source.Node) *source.Node {
				if v.Kind == source.Mapping {
					return v.Change("file", p.moved)
				}
				return v
			})
		}
	}
	out := *n
	if out.File == "" {
		out.File = p.doc.File
	}
	return &out
}

// moved returns a path of a part, relative to the folder of the first file.
func (p part) moved(v *source.Node) *source.Node {
	if v.Kind != source.Scalar || v.Text == "" || path.IsAbs(v.Text) || strings.ContainsAny(v.Text[:1], "~$") ||
		strings.Contains(v.Text, "://") {
		return v
	}
	out := *v
	if out.Text = path.Join(p.dir, v.Text); !strings.HasPrefix(out.Text, "../") {
		out.Text = "./" + out.Text
	}
	out.Value = out.Text
	return &out
}

// mounted converts an entry of volumes. Only what begins with a dot is a path rather than a
// name.
func (p part) mounted(v *source.Node) *source.Node {
	if v.Kind == source.Mapping {
		if v.Str("type") == "bind" {
			return v.Change("source", p.moved)
		}
		return v
	}
	from, to, both := strings.Cut(v.Text, ":")
	if v.Kind != source.Scalar || !both || !strings.HasPrefix(from, ".") {
		return v
	}
	out := *v
	out.Text = p.moved(&source.Node{Text: from}).Text + ":" + to
	out.Value = out.Text
	return &out
}
