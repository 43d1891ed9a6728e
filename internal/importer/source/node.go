package source

import (
	"slices"
)

// Items are the values of a list or a mapping.
func (n *Node) Items() []*Node {
	if n == nil {
		return nil
	}
	return n.Values
}

// With returns n with another value for a key, or without the key if v is nil. It does not
// change n, which may occur in several places.
func (n *Node) With(name string, v *Node) *Node {
	out := *n
	out.Keys, out.Values = slices.Clone(n.Keys), slices.Clone(n.Values)
	at := slices.IndexFunc(out.Keys, func(k Key) bool { return k.Name == name })
	switch {
	case v == nil && at >= 0:
		out.Keys, out.Values = slices.Delete(out.Keys, at, at+1), slices.Delete(out.Values, at, at+1)
	case v == nil:
	case at >= 0:
		out.Values[at] = v
	default:
		out.Keys, out.Values = append(out.Keys, Key{name, v.Line}), append(out.Values, v)
	}
	return &out
}

// Change returns n with a child replaced by what by makes of it, if there is one.
func (n *Node) Change(name string, by func(*Node) *Node) *Node {
	c := n.Child(name)
	if c.Empty() {
		return n
	}
	return n.With(name, by(c))
}

// Each applies by to the items of a list, or to n if it is not a list.
func (n *Node) Each(by func(*Node) *Node) *Node {
	if n.Kind != List {
		return by(n)
	}
	out := *n
	out.Values = slices.Clone(n.Values)
	for i, v := range out.Values {
		out.Values[i] = by(v)
	}
	return &out
}

// Describe says in words what n is.
func (n *Node) Describe() string {
	if n.Kind == Scalar && n.Value == nil {
		return "null"
	}
	return n.Kind.String()
}

// Kind of a node.
type Kind int

// Kinds of nodes.
const (
	Scalar Kind = iota
	Mapping
	List
)

// String is the kind in words.
func (k Kind) String() string { return [...]string{"a single value", "a mapping", "a list"}[k] }

// Node is a value of a document. Aliases and merge keys are resolved: a node can be reached by
// several paths.
type Node struct {
	Kind   Kind
	Line   int
	Text   string // of a scalar, as written
	Value  any    // of a scalar: nil, bool, int, uint64, float64 or string
	File   string // that it came from, if not its document's
	Keys   []Key
	Values []*Node
}

// Key of a mapping.
type Key struct {
	Name string
	Line int
}

// Child returns the value of a key, nil if there is none.
func (n *Node) Child(name string) *Node {
	if n == nil || n.Kind != Mapping {
		return nil
	}
	for i, k := range n.Keys {
		if k.Name == name {
			return n.Values[i]
		}
	}
	return nil
}

// Str returns the text of a child that is a scalar, "" for anything else.
func (n *Node) Str(name string) string {
	if c := n.Child(name); c != nil && c.Kind == Scalar && c.Value != nil {
		return c.Text
	}
	return ""
}

// Empty says whether n is null, or an empty text, list or mapping.
func (n *Node) Empty() bool {
	switch {
	case n == nil:
		return true
	case n.Kind == Scalar:
		return n.Value == nil || n.Value == ""
	}
	return len(n.Values) == 0
}

// Plain returns n as encoding/json would. Parse bounds its cost.
func (n *Node) Plain() any {
	switch n.Kind {
	case Mapping:
		m := make(map[string]any, len(n.Keys))
		for i, k := range n.Keys {
			m[k.Name] = n.Values[i].Plain()
		}
		return m
	case List:
		l := make([]any, len(n.Values))
		for i, v := range n.Values {
			l[i] = v.Plain()
		}
		return l
	}
	return n.Value
}
