package yamltree

import (
	"go.yaml.in/yaml/v4"
)

// Pos is a place in a source, counted from 1; the zero Pos is unknown.
type Pos struct{ Line, Column int }

// Kind of a node.
type Kind int

// Kinds of nodes.
const (
	Scalar Kind = iota
	Null        // a plain scalar that is null
	Mapping
	List
	Alias
)

// Node is a value before it has a type.
type Node struct {
	Kind Kind
	Pos
	// Text of a scalar: as written if it is plain, without quotes and escapes if not. Of an alias: its
	// name.
	Text  string
	Plain bool
	// Tag is an explicit one (!!str), "" if there is none.
	Tag string
	// Keys of a mapping, and its values or the items of a list.
	Keys   []*Node
	Values []*Node
	Target *Node // of an alias; it may contain the alias

	resolved string // tag by the core schema, or the explicit one
}

// Child is the value of a key of a mapping, nil where there is none.
func (n *Node) Child(key string) *Node {
	if n == nil || n.Kind != Mapping {
		return nil
	}
	for i, k := range n.Keys {
		if k.Text == key {
			return n.Values[i]
		}
	}
	return nil
}

// Value of a scalar by the core schema of YAML 1.2: nil, bool, int, uint64, float64 or string.
func (n *Node) Value() any {
	switch n.resolved {
	case "!!null":
		return nil
	case "!!int", "!!float", "!!bool":
		var v any
		y := yaml.Node{Kind: yaml.ScalarNode, Value: n.Text, Tag: n.resolved}
		if err := y.Decode(&v); err != nil {
			return n.Text
		}
		switch v := v.(type) {
		case bool, int, uint64, float64:
			return v
		case int64:
			return int(v)
		}
	}
	return n.Text
}

// converter turns a tree of the library into ours, each node once, so that aliases cost nothing until
// somebody decodes them.
type converter struct{ known map[*yaml.Node]*Node }

func (c *converter) convert(y *yaml.Node) *Node {
	if n := c.known[y]; n != nil {
		return n
	}
	n := &Node{Pos: Pos{y.Line, y.Column}}
	c.known[y] = n
	if y.Style&yaml.TaggedStyle != 0 {
		n.Tag = y.Tag
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.Kind = Mapping
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.Keys = append(n.Keys, c.convert(y.Content[i]))
			n.Values = append(n.Values, c.convert(y.Content[i+1]))
		}
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			n.Values = append(n.Values, c.convert(item))
		}
	case yaml.AliasNode:
		n.Kind, n.Text, n.Target = Alias, y.Value, c.convert(y.Alias)
	default:
		quoted := yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
		n.Text, n.Plain, n.resolved = y.Value, y.Style&quoted == 0, y.ShortTag()
		if n.Plain && isNull(y.Value) {
			n.Kind = Null
		}
	}
	return n
}

// isNull says whether a plain scalar is a null (YAML 1.2, core schema).
func isNull(text string) bool {
	switch text {
	case "", "~", "null", "Null", "NULL":
		return true
	}
	return false
}
