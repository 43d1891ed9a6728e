package importer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	// The parser of the YAML organisation, as in api: it is linear in the size of its
	// input, bounds depth, and has the line of every node.
	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"

	"github.com/verge-edge/verge/api/pattern"
)

// Bounds of a source.
const (
	MaxSourceBytes = 2 << 20 // of one file
	maxDepth       = 100     // nesting; definitions of resources are some 40 levels deep
	maxDocuments   = 2000    // in one file
	maxExpanded    = 200_000 // values, once aliases and merge keys are followed
	maxText        = 8 << 20 // bytes of them
)

type kind int

const (
	scalarKind kind = iota
	mappingKind
	listKind
)

// String is what people call it.
func (k kind) String() string { return [...]string{"a single value", "a mapping", "a list"}[k] }

// node is a value of a document. Aliases and merge keys are followed: a node can be
// reached on several ways.
type node struct {
	kind   kind
	line   int
	text   string // of a scalar, as written
	value  any    // of a scalar: nil, bool, int, uint64, float64 or string
	file   string // that it came from, where that is not its document's
	keys   []key
	values []*node
}

type key struct {
	name string
	line int
}

// child is the value of a key, nil where there is none.
func (n *node) child(name string) *node {
	if n == nil || n.kind != mappingKind {
		return nil
	}
	for i, k := range n.keys {
		if k.name == name {
			return n.values[i]
		}
	}
	return nil
}

// str is the text of a child that is a scalar, "" for anything else.
func (n *node) str(name string) string {
	if c := n.child(name); c != nil && c.kind == scalarKind && c.value != nil {
		return c.text
	}
	return ""
}

// empty: it says nothing.
func (n *node) empty() bool {
	switch {
	case n == nil:
		return true
	case n.kind == scalarKind:
		return n.value == nil || n.value == ""
	}
	return len(n.values) == 0
}

// plain is n as encoding/json would have it. What it costs is bounded by parse.
func (n *node) plain() any {
	switch n.kind {
	case mappingKind:
		m := make(map[string]any, len(n.keys))
		for i, k := range n.keys {
			m[k.name] = n.values[i].plain()
		}
		return m
	case listKind:
		l := make([]any, len(n.values))
		for i, v := range n.values {
			l[i] = v.plain()
		}
		return l
	}
	return n.value
}

// doc is one document of a source.
type doc struct {
	file string
	root *node
	// values are how many there are, once its aliases are followed; twice are the keys that
	// stand there again with the same value.
	values int
	twice  []twice
}

// twice is a key, its line and that in which it was first.
type twice struct {
	name        string
	line, first int
}

// lineOf is the line of placeOf.
func (d *doc) lineOf(path []string) int {
	_, line := d.placeOf(path)
	return line
}

// placeOf is the file and the line of the value at a path, or of the nearest thing around it.
// Segments that begin with [ are indexes: [0].
func (d *doc) placeOf(path []string) (file string, line int) {
	n := d.root
	file, line = d.file, n.line
	for _, s := range path {
		switch {
		case n == nil:
			return file, line
		case n.kind == mappingKind:
			next := (*node)(nil)
			for i, k := range n.keys {
				if k.name == s {
					next, line = n.values[i], k.line
				}
			}
			n = next
		case n.kind == listKind:
			i, err := strconv.Atoi(strings.Trim(s, "[]"))
			if err != nil || i < 0 || i >= len(n.values) {
				return file, line
			}
			n = n.values[i]
			line = n.line
		default:
			return file, line
		}
		if n != nil && n.file != "" {
			file = n.file
		}
	}
	return file, line
}

// find is the path of the only scalar that has the last word of a complaint in it, nil
// where there is none or are several: some libraries do not say where something is.
func (d *doc) find(complaint string) []string {
	words := strings.FieldsFunc(complaint, func(r rune) bool { return strings.ContainsRune(" \"'`:,", r) })
	for _, w := range slices.Backward(words) {
		if len(w) < 3 {
			continue
		}
		var found [][]string
		visits := 0
		var walk func(n *node, path []string)
		walk = func(n *node, path []string) {
			if visits++; visits > 10_000 || len(found) > 1 {
				return
			}
			if n.kind == scalarKind && strings.Contains(n.text, w) {
				found = append(found, path)
			}
			for i, v := range n.values {
				if n.kind == mappingKind {
					walk(v, extend(path, n.keys[i].name))
				} else {
					walk(v, extend(path, index(i)))
				}
			}
		}
		if walk(d.root, nil); len(found) == 1 {
			return found[0]
		}
	}
	return nil
}

// pathText writes a path as people do.
func pathText(path []string) string {
	var b strings.Builder
	for i, s := range path {
		if i > 0 && !strings.HasPrefix(s, "[") {
			b.WriteByte('.')
		}
		b.WriteString(s)
	}
	return b.String()
}

// problem is what is wrong with a source as a whole.
type problem struct {
	line int
	text string
}

func (p *problem) Error() string { return p.text }

// parse reads the documents of a source; those in which nothing is said are left out.
func parse(s Source) ([]*doc, error) {
	if err := readable(s.Data); err != nil {
		return nil, err
	}
	loader, err := yaml.NewLoader(bytes.NewReader(surrogates(bytes.TrimPrefix(s.Data, []byte("\ufeff")))),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		return nil, &problem{text: "cannot be read: " + err.Error()}
	}
	var docs []*doc
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
		c := converter{known: map[*yaml.Node]*node{}, sizes: map[*node]size{}}
		root, err := c.convert(y.Content[0])
		if err != nil {
			return nil, helm(s.Data, err)
		}
		total := c.size(root)
		if total.nodes > maxExpanded || total.text > maxText {
			return nil, &problem{root.line, "expands to too much: its aliases stand for more than " + strconv.Itoa(maxExpanded) + " values or 8 MiB of text"}
		}
		if docs = append(docs, &doc{s.Name, root, total.nodes, c.twice}); len(docs) > maxDocuments {
			return nil, &problem{root.line, fmt.Sprintf("has more than %d documents: divide it", maxDocuments)}
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
		// A half by itself becomes the sign for what is no character, as encoding/json does.
		second, both := half(i + 6)
		char := utf16.DecodeRune(first, second)
		if out = utf8.AppendRune(out, char); both && char != utf8.RuneError {
			i += 6
		}
		i += 5
	}
	return out
}

// readable says what keeps data from being a text of a sensible size.
func readable(data []byte) error {
	switch {
	case len(data) > MaxSourceBytes:
		return &problem{text: fmt.Sprintf("has more than %d MiB, the most that is read: divide it into several files", MaxSourceBytes>>20)}
	case bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")):
		return &problem{text: "is written in UTF-16: save it as UTF-8"}
	case bytes.IndexByte(data, 0) >= 0:
		return &problem{text: "is no text: it has zero bytes"}
	case !utf8.Valid(data):
		return &problem{text: "is no text in UTF-8"}
	}
	if i := bytes.IndexFunc(data, func(r rune) bool { return unprintable(r) && r != '\r' }); i >= 0 {
		return &problem{1 + bytes.Count(data[:i], []byte("\n")), "is no text: it has control characters"}
	}
	return nil
}

// helm says of what is no YAML that it is a template, if it looks like one.
func helm(data []byte, err error) error {
	p := (*problem)(nil)
	if !bytes.Contains(data, []byte("{{")) || !errors.As(err, &p) {
		return err
	}
	return &problem{p.line, p.text + "; is it a template of Helm? " + rendered}
}

// rendered says what to do with a template of Helm.
const rendered = "helm template NAME CHART | verge import - takes what comes out"

// helmValue finds what only Helm knows. Other templates are for the program that runs.
var helmValue = pattern.Lazy(`\{\{[^}]*\.(Values|Release|Chart|Capabilities)\b`)

// helmPath is where n, at a path, has a value that Helm is to fill in; nil where it has none.
func helmPath(n *node, path []string) []string {
	if n.kind == scalarKind {
		if helmValue().MatchString(n.text) {
			return path
		}
		return nil
	}
	for i, v := range n.values {
		step := index(i)
		if n.kind == mappingKind {
			step = n.keys[i].name
		}
		if at := helmPath(v, extend(path, step)); at != nil {
			return at
		}
	}
	return nil
}

func syntax(err error) error {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return &problem{text: "is not valid YAML: " + err.Error()}
	}
	line, text := le.Mark.Line, le.Message
	if line == 0 {
		line = le.ContextMark.Line
	}
	if strings.Contains(text, "max depth") {
		return &problem{line, fmt.Sprintf("is nested more than %d levels deep", maxDepth)}
	}
	if strings.Contains(text, "cannot start any token") {
		text = "a line is indented by a tab, where YAML has blanks, or a text begins with @, ` or %, and is to be in quotes"
	} else if le.ContextMsg != "" {
		text = le.ContextMsg + ": " + text
	}
	return &problem{line, "is not valid YAML: " + text}
}

func isNull(y *yaml.Node) bool {
	return y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle|yaml.LiteralStyle|yaml.FoldedStyle) == 0 && y.ShortTag() == "!!null"
}

type size struct{ nodes, text int }

// converter turns a YAML tree into ours, each node once.
type converter struct {
	known map[*yaml.Node]*node
	open  []*yaml.Node
	sizes map[*node]size
	twice []twice
}

func (c *converter) convert(y *yaml.Node) (*node, error) {
	if n := c.known[y]; n != nil {
		return n, nil
	}
	for _, o := range c.open {
		if o == y {
			return nil, &problem{y.Line, "contains itself by an alias"}
		}
	}
	c.open = append(c.open, y)
	defer func() { c.open = c.open[:len(c.open)-1] }()
	n := &node{line: y.Line}
	if y.Style&yaml.TaggedStyle != 0 && !coreTag(y.ShortTag()) {
		next := "leave it out"
		if y.Tag == "!reset" || y.Tag == "!override" { // of docker compose, for a file beside another
			next = "let docker compose put the files into one: docker compose config | verge import compose -"
		}
		return nil, &problem{y.Line, "the tag " + quote(y.Tag) + " is not understood: " + next}
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = mappingKind
		if err := c.mapping(n, y); err != nil {
			return nil, err
		}
	case yaml.SequenceNode:
		n.kind = listKind
		for _, item := range y.Content {
			v, err := c.convert(item)
			if err != nil {
				return nil, err
			}
			n.values = append(n.values, v)
		}
	case yaml.AliasNode:
		return c.convert(y.Alias)
	default:
		n.text, n.value = y.Value, scalar(y)
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
func (c *converter) same(a, b *node) bool {
	return c.size(a).nodes <= maxTwice && c.size(b).nodes <= maxTwice && reflect.DeepEqual(a.plain(), b.plain())
}

// mapping fills n, with the keys of merge keys (<<) after its own.
func (c *converter) mapping(n *node, y *yaml.Node) error {
	lines := map[string]int{}
	var merged []*node
	for i := 0; i+1 < len(y.Content); i += 2 {
		k := y.Content[i]
		if k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		if k.Kind != yaml.ScalarNode {
			return &problem{y.Content[i].Line, "a key is no text"}
		}
		v, err := c.convert(y.Content[i+1])
		if err != nil {
			return err
		}
		if k.ShortTag() == "!!merge" {
			from := []*node{v}
			if v.kind == listKind {
				from = v.values
			}
			for _, m := range from {
				if m.kind != mappingKind {
					return &problem{k.Line, "<< takes mappings alone"}
				}
			}
			merged = append(merged, from...)
			continue
		}
		if first, again := lines[k.Value]; again {
			if len(c.twice) < maxTwice && c.same(n.child(k.Value), v) {
				c.twice = append(c.twice, twice{k.Value, y.Content[i].Line, first})
				continue
			}
			return &problem{y.Content[i].Line, fmt.Sprintf("the key %s is in line %d already", quote(k.Value), first)}
		}
		lines[k.Value] = y.Content[i].Line
		n.keys, n.values = append(n.keys, key{k.Value, y.Content[i].Line}), append(n.values, v)
	}
	for _, m := range merged {
		for i, k := range m.keys {
			if _, own := lines[k.name]; own {
				continue
			}
			lines[k.name] = k.line
			n.keys, n.values = append(n.keys, k), append(n.values, m.values[i])
			if len(n.keys) > maxExpanded {
				return &problem{n.line, "expands to too much by merge keys"}
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
func (c *converter) size(n *node) size {
	if s, ok := c.sizes[n]; ok {
		return s
	}
	s := size{1, len(n.text)}
	for i, v := range n.values {
		inner := c.size(v)
		s.nodes += inner.nodes
		s.text += inner.text
		if n.kind == mappingKind {
			s.text += len(n.keys[i].name)
		}
		// Beyond the bound the number does not matter, and must not overflow.
		s.nodes, s.text = min(s.nodes, maxExpanded+1), min(s.text, maxText+1)
	}
	c.sizes[n] = s
	return s
}

// quote writes what a source says for a message: escaped, and cut to fit into a line.
func quote(s string) string {
	const most = 60
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		s = string(r[:most-1]) + "…"
	}
	return strconv.Quote(s)
}
