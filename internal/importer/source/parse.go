package source

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/verge-edge/verge/internal/yamltree"
)

// Unprintable says whether a descriptor may not contain r.
func Unprintable(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// Bounds of a source.
const (
	MaxBytes     = 2 << 20 // of one file
	maxDepth     = 100     // nesting; definitions of resources are some 40 levels deep
	maxDocuments = 2000    // in one file
	maxExpanded  = 200_000 // values, once aliases and merge keys are followed
	maxText      = 8 << 20 // bytes of their text
)

// Problem is an error in a source as a whole.
type Problem struct {
	Line int
	text string
}

// Error is the text, without the line.
func (p *Problem) Error() string { return p.text }

// Parse reads the documents of a source and leaves out empty ones.
func Parse(s File) ([]*Document, error) {
	if err := Readable(s.Data); err != nil {
		return nil, err
	}
	var docs []*Document
	for raw, bad := range yamltree.Documents(s.Data, maxDepth) {
		if bad != nil {
			return nil, helm(s.Data, &Problem{bad.Line, bad.Error()})
		}
		if raw.Root.Kind == yamltree.Null {
			continue
		}
		c := resolver{known: map[*yamltree.Node]*Node{}, sizes: map[*Node]size{}}
		root, err := c.resolve(raw.Root)
		if err != nil {
			return nil, helm(s.Data, err)
		}
		total := c.size(root)
		if total.nodes > maxExpanded || total.text > maxText {
			return nil, &Problem{root.Line,
				fmt.Sprintf("expands to too much: its aliases stand for more than %d values or %d MiB of text",
					maxExpanded, maxText>>20)}
		}
		if docs = append(docs, &Document{s.Name, root, total.nodes, c.twice}); len(docs) > maxDocuments {
			return nil, &Problem{root.Line, fmt.Sprintf("has more than %d documents: divide it", maxDocuments)}
		}
	}
	return docs, nil
}

// Readable returns an error unless data is a text of a sensible size.
func Readable(data []byte) error {
	if len(data) > MaxBytes {
		return &Problem{text: fmt.Sprintf("has more than %d MiB, the most that is read: divide it into several files",
			MaxBytes>>20)}
	}
	if err := yamltree.CheckText(data); err != nil {
		return &Problem{err.Line, err.Error()}
	}
	return nil
}

type size struct{ nodes, text int }

// resolver turns a tree as written into one with aliases and merge keys resolved, each node
// once.
type resolver struct {
	known map[*yamltree.Node]*Node
	open  []*yamltree.Node
	sizes map[*Node]size
	twice []Duplicate
}

func (c *resolver) resolve(y *yamltree.Node) (*Node, error) {
	if n := c.known[y]; n != nil {
		return n, nil
	}
	if slices.Contains(c.open, y) {
		return nil, &Problem{y.Line, "contains itself by an alias"}
	}
	c.open = append(c.open, y)
	defer func() { c.open = c.open[:len(c.open)-1] }()
	if y.Tag != "" && !coreTags[y.Tag] {
		next := "leave it out"
		if y.Tag == "!reset" || y.Tag == "!override" { // of docker compose, for an override file
			next = "let docker compose put the files into one: docker compose config | verge import compose -"
		}
		return nil, &Problem{y.Line, "the tag " + Quote(y.Tag) + " is not understood: " + next}
	}
	n := &Node{Line: y.Line}
	switch y.Kind {
	case yamltree.Mapping:
		n.Kind = Mapping
		if err := c.mapping(n, y); err != nil {
			return nil, err
		}
	case yamltree.List:
		n.Kind = List
		for _, item := range y.Values {
			v, err := c.resolve(item)
			if err != nil {
				return nil, err
			}
			n.Values = append(n.Values, v)
		}
	case yamltree.Alias:
		return c.resolve(y.Target)
	default:
		n.Text, n.Value = y.Text, y.Value()
	}
	c.known[y] = n
	return n, nil
}

// coreTags are the tags of the core schema, in short and long form.
var coreTags = func() map[string]bool {
	out := map[string]bool{}
	for _, name := range []string{"str", "int", "float", "bool", "null", "map", "seq"} {
		out["!!"+name], out["tag:yaml.org,2002:"+name] = true, true
	}
	return out
}()

// maxTwice bounds the repeated keys, and the values that are compared for each.
const maxTwice = 100

// same says whether two values are small and equal.
func (c *resolver) same(a, b *Node) bool {
	return c.size(a).nodes <= maxTwice && c.size(b).nodes <= maxTwice && reflect.DeepEqual(a.Plain(), b.Plain())
}

// mapping fills n, with the keys of merge keys (<<) after its own.
func (c *resolver) mapping(n *Node, y *yamltree.Node) error {
	lines := map[string]int{}
	var merged []*Node
	for i, written := range y.Keys {
		k := written
		if k.Kind == yamltree.Alias {
			k = k.Target
		}
		if k.Kind != yamltree.Scalar && k.Kind != yamltree.Null {
			return &Problem{written.Line, "a key is not text"}
		}
		v, err := c.resolve(y.Values[i])
		if err != nil {
			return err
		}
		if k.Text == "<<" && k.Plain && k.Tag == "" {
			from := []*Node{v}
			if v.Kind == List {
				from = v.Values
			}
			for _, m := range from {
				if m.Kind != Mapping {
					return &Problem{k.Line, "<< takes mappings alone"}
				}
			}
			merged = append(merged, from...)
			continue
		}
		if first, again := lines[k.Text]; again {
			if len(c.twice) < maxTwice && c.same(n.Child(k.Text), v) {
				c.twice = append(c.twice, Duplicate{k.Text, written.Line, first})
				continue
			}
			return &Problem{written.Line, fmt.Sprintf("the key %s is in line %d already", Quote(k.Text), first)}
		}
		lines[k.Text] = written.Line
		n.Keys, n.Values = append(n.Keys, Key{k.Text, written.Line}), append(n.Values, v)
	}
	for _, m := range merged {
		for i, k := range m.Keys {
			if _, own := lines[k.Name]; own {
				continue
			}
			lines[k.Name] = k.Line
			n.Keys, n.Values = append(n.Keys, k), append(n.Values, m.Values[i])
			if len(n.Keys) > maxExpanded {
				return &Problem{n.Line, "expands to too much by merge keys"}
			}
		}
	}
	return nil
}

// size is what n expands to.
func (c *resolver) size(n *Node) size {
	if s, ok := c.sizes[n]; ok {
		return s
	}
	s := size{1, len(n.Text)}
	for i, v := range n.Values {
		inner := c.size(v)
		s.nodes += inner.nodes
		s.text += inner.text
		if n.Kind == Mapping {
			s.text += len(n.Keys[i].Name)
		}
		// Beyond the bound the number does not matter, and must not overflow.
		s.nodes, s.text = min(s.nodes, maxExpanded+1), min(s.text, maxText+1)
	}
	c.sizes[n] = s
	return s
}
