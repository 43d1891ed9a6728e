package manifest

import (
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/importer/source"
	"github.com/verge-edge/verge/internal/k8s"
)

// Object is an object of Kubernetes, in a document or in a list in one.
type Object struct {
	Doc  *source.Document
	Base []string // its path in the document
	Root *source.Node
	// Group, version and kind, as they are written.
	Group, Version, Kind string
	Meta                 k8s.ObjectMeta
}

// At is the path of a field.
func (o *Object) At(path ...string) []string { return source.Extend(o.Base, path...) }

// Title is its name for people: Deployment web.
func (o *Object) Title() string { return strings.TrimSpace(o.Kind + " " + o.Meta.Name) }

// NodeAt returns the node at a path of the document.
func (o *Object) NodeAt(path []string) *source.Node {
	n := o.Doc.Root
	for _, s := range path {
		if n == nil {
			return nil
		}
		if n.Kind == source.List {
			i, err := strconv.Atoi(s[1 : len(s)-1])
			if err != nil || i >= len(n.Values) {
				return nil
			}
			n = n.Values[i]
			continue
		}
		n = n.Child(s)
	}
	return n
}
