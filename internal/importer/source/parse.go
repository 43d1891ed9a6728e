package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	// The parser of the YAML organisation, as in api: it is linear in the size of its
	// input, bounds depth, and has the line of every node.
	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Unprintable characters have no place in a descriptor.
func Unprintable(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }

// Bounds of a source.
const (
	MaxBytes     = 2 << 20 // of one file
	maxDepth     = 100     // nesting; definitions of resources are some 40 levels deep
	maxDocuments = 2000    // in one file
	maxExpanded  = 200_000 // values, once aliases and merge keys are followed
	maxText      = 8 << 20 // bytes of them
)

// Problem is what is wrong with a source as a whole.
type Problem struct {
	Line int
	text string
}

// Error is the text, without the line.
func (p *Problem) Error() string { return p.text }

// Parse reads the documents of a source; those in which nothing is said are left out.
func Parse(s File) ([]*Document, error) {
	if err := Readable(s.Data); err != nil {
		return nil, err
	}
	loader, err := yaml.NewLoader(bytes.NewReader(surrogates(bytes.TrimPrefix(s.Data, []byte("\ufeff")))),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, &Problem{text: "cannot be read: " + err.Error()}
	}
	var docs []*Document
	for {
		var y yaml.Node
		err := loader.Load(&y)
		if errors.Is(err, io.EOF) {
			return docs, nil
		}
		if err != nil {
			return nil, helm(s.Data, syntax(err))
		}
		if len(y.Content) != 1 || y.Content[0].Kind == yaml.ScalarNode && isNull(y.Content[0]) {
			continue
		}
		c := converter{known: map[*yaml.Node]*Node{}, sizes: map[*Node]size{}}
		root, err := c.convert(y.Content[0])
		if err != nil {
			return nil, helm(s.Data, err)
		}
		total := c.size(root)
		if total.nodes > maxExpanded || total.text > maxText {
			return nil,
				&Problem{root.Line,
					"expands to too much: its aliases stand for more than " + strconv.Itoa(maxExpanded) + " values or 8 MiB of text"}
		}
		if docs = append(docs, &Document{s.Name, root, total.nodes, c.twice}); len(docs) > maxDocuments {
			return nil, &Problem{root.Line, fmt.Sprintf("has more than %d documents: divide it", maxDocuments)}
		}
	}
}

// surrogates is JSON with the characters that it escapes in two halves (\ud83d\ude00)
// written out, which YAML does not know; anything else is as it is. Lines stay.
func surrogates(data []byte) []byte {
	if !bytes.Contains(data, []byte(`\u`)) || !json.Valid(data) {
		return data
	}
	half := func(at int) (rune, bool) {
		if at+6 > len(data) || data[at] != '\\' || data[at+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(data[at+2:at+6]), 16, 16)
		return rune(n), err == nil && utf16.IsSurrogate(rune(n))
	}
	out := make([]byte, 0, len(data))
	for i := 0; i < len(data); i++ {
		if data[i] != '\\' {
			out = append(out, data[i])
			continue
		}
		first, ok := half(i)
		if !ok { // another escape, of which the second byte may be a backslash too
			out = append(out, data[i], data[i+1])
			i++
			continue
		}
		// A half by itself becomes the sign for what is not a character, as encoding/json does.
		second, both := half(i + 6)
		char := utf16.DecodeRune(first, second)
		if out = utf8.AppendRune(out, char); both && char != utf8.RuneError {
			i += 6
		}
		i += 5
	}
	return out
}

// Readable says what keeps data from being a text of a sensible size.
func Readable(data []byte) error {
	switch {
	case len(data) > MaxBytes:
		return &Problem{text: fmt.Sprintf("has more than %d MiB, the most that is read: divide it into several files",
			MaxBytes>>20)}
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return &Problem{text: "is written in UTF-16: save it as UTF-8"}
	case bytes.IndexByte(data, 0) >= 0:
		return &Problem{text: "is not text: it has zero bytes"}
	case !utf8.Valid(data):
		return &Problem{text: "is not text in UTF-8"}
	}
	if i := bytes.IndexFunc(data, func(r rune) bool { return Unprintable(r) && r != '\r' }); i >= 0 {
		return &Problem{1 + bytes.Count(data[:i], []byte("\n")), "is not text: it has control characters"}
	}
	return nil
}

func syntax(err error) error {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return &Problem{text: "is not valid YAML: " + err.Error()}
	}
	line, text := le.Mark.Line, le.Message
	if line == 0 {
		line = le.ContextMark.Line
	}
	if strings.Contains(text, "max depth") {
		return &Problem{line, fmt.Sprintf("is nested more than %d levels deep", maxDepth)}
	}
	if strings.Contains(text, "cannot start any token") {
		text = "a line is indented by a tab, where YAML has blanks, or a text begins with @, ` or %, and is to be in quotes"
	} else if le.ContextMsg != "" {
		text = le.ContextMsg + ": " + text
	}
	return &Problem{line, "is not valid YAML: " + text}
}

func isNull(y *yaml.Node) bool {
	return y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 &&
		y.ShortTag() == "!!null"
}

type size struct{ nodes, text int }

// converter turns a YAML tree into ours, each node once.
type converter struct {
	known map[*yaml.Node]*Node
	open  []*yaml.Node
	sizes map[*Node]size
	twice []Duplicate
}

func (c *converter) convert(y *yaml.Node) (*Node, error) {
	if n := c.known[y]; n != nil {
		return n, nil
	}
	for _, o := range c.open {
		if o == y {
			return nil, &Problem{y.Line, "contains itself by an alias"}
		}
	}
	c.open = append(c.open, y)
	defer func() { c.open = c.open[:len(c.open)-1] }()
	n := &Node{Line: y.Line}
	if y.Style&yaml.TaggedStyle != 0 && !coreTag(y.ShortTag()) {
		next := "leave it out"
		if y.Tag == "!reset" || y.Tag == "!override" { // of docker compose, for a file beside another
			next = "let docker compose put the files into one: docker compose config | verge import compose -"
		}
		return nil, &Problem{y.Line, "the tag " + Quote(y.Tag) + " is not understood: " + next}
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.Kind = Mapping
		if err := c.mapping(n, y); err != nil {
			return nil, err
		}
	case yaml.SequenceNode:
		n.Kind = List
		for _, item := range y.Content {
			v, err := c.convert(item)
			if err != nil {
				return nil, err
			}
			n.Values = append(n.Values, v)
		}
	case yaml.AliasNode:
		return c.convert(y.Alias)
	default:
		n.Text, n.Value = y.Value, scalar(y)
	}
	c.known[y] = n
	return n, nil
}

func coreTag(tag string) bool {
	switch tag {
	case "!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq":
		return true
	}
	return false
}

// maxTwice bounds the keys that stand twice, and the values that are compared for each.
const maxTwice = 100

// same says whether two values that are not large are one.
func (c *converter) same(a, b *Node) bool {
	return c.size(a).nodes <= maxTwice && c.size(b).nodes <= maxTwice && reflect.DeepEqual(a.Plain(), b.Plain())
}

// mapping fills n, with the keys of merge keys (<<) after its own.
func (c *converter) mapping(n *Node, y *yaml.Node) error {
	lines := map[string]int{}
	var merged []*Node
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return &Problem{y.Content[i].Line, "a key is not text"}
		}
		v, err := c.convert(y.Content[i+1])
		if err != nil {
			return err
		}
		if k.ShortTag() == "!!merge" {
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
		if first, again := lines[k.Value]; again {
			if len(c.twice) < maxTwice && c.same(n.Child(k.Value), v) {
				c.twice = append(c.twice, Duplicate{k.Value, y.Content[i].Line, first})
				continue
			}
			return &Problem{y.Content[i].Line, fmt.Sprintf("the key %s is in line %d already", Quote(k.Value), first)}
		}
		lines[k.Value] = y.Content[i].Line
		n.Keys, n.Values = append(n.Keys, Key{k.Value, y.Content[i].Line}), append(n.Values, v)
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

// scalar is the value of one, as YAML readers of compose and Kubernetes see it.
func scalar(y *yaml.Node) any {
	var v any
	switch y.ShortTag() {
	case "!!null":
		return nil
	case "!!int", "!!float", "!!bool":
		if err := y.Decode(&v); err == nil {
			switch v := v.(type) {
			case bool, int, uint64, float64:
				return v
			case int64:
				return int(v)
			}
		}
	}
	return y.Value
}

// size is what n expands to.
func (c *converter) size(n *Node) size {
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
