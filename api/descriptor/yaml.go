package descriptor

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	// The parser of the YAML organisation: linear in the size of its input, with
	// a bound on depth, positions on every node and on syntax errors. DESIGN.md
	// has the measurements. Only its syntax tree is used.
	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// maxDepth bounds the nesting of a descriptor; the deepest field is at 7.
const maxDepth = 32

type kind int

const (
	scalarKind kind = iota
	nullKind
	mappingKind
	listKind
	aliasKind
)

// node is a parsed value of either syntax, before it has a type.
type node struct {
	kind kind
	pos
	// text of a scalar: as written if plain, without quotes and escapes if not.
	text  string
	plain bool
	// tag is an explicit one (!!str), "" if there is none.
	tag string
	// keys of a mapping, and its values or the items of a list.
	keys   []*node
	values []*node
	target *node // of an alias
}

// parseYAML returns the tree of the only document in source. Problems go to r;
// the tree is nil if there is none to go on with.
func parseYAML(source []byte, r *report) *node {
	loader, err := yaml.NewLoader(bytes.NewReader(source),
		yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
	if err != nil {
		r.fail(pos{}, "", "cannot be read: "+err.Error(), "")
		return nil
	}
	var doc, second yaml.Node
	if err := loader.Load(&doc); err != nil {
		failSyntax(r, source, err)
		return nil
	}
	switch err := loader.Load(&second); {
	case err == nil:
		r.fail(pos{second.Line, second.Column}, "",
			fmt.Sprintf("a second document starts in line %d", second.Line),
			"a descriptor is one document; put the other application into a file of its own, or remove the line ---")
	case !errors.Is(err, io.EOF):
		failSyntax(r, source, err)
	}
	if len(doc.Content) != 1 {
		r.fail(pos{1, 1}, "", "there is no document in this file", remedyEmpty)
		return nil
	}
	return (&converter{known: map[*yaml.Node]*node{}}).convert(doc.Content[0])
}

// converter turns a YAML tree into ours, each node once, so that aliases cost
// nothing until they are decoded (see decoder.spend).
type converter struct{ known map[*yaml.Node]*node }

func (c *converter) convert(y *yaml.Node) *node {
	if n := c.known[y]; n != nil {
		return n
	}
	n := &node{pos: pos{y.Line, y.Column}}
	c.known[y] = n
	if y.Style&yaml.TaggedStyle != 0 {
		n.tag = y.Tag
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = mappingKind
		for i := 0; i+1 < len(y.Content); i += 2 {
			n.keys = append(n.keys, c.convert(y.Content[i]))
			n.values = append(n.values, c.convert(y.Content[i+1]))
		}
	case yaml.SequenceNode:
		n.kind = listKind
		for _, item := range y.Content {
			n.values = append(n.values, c.convert(item))
		}
	case yaml.AliasNode:
		n.kind = aliasKind
		n.text = y.Value
		n.target = c.convert(y.Alias)
	default:
		quoted := yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
		n.text, n.plain = y.Value, y.Style&quoted == 0
		if n.plain && isNull(y.Value) {
			n.kind = nullKind
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

const remedyEmpty = "write at least application: <name> and services: with one service"

// failSyntax reports an error of the YAML parser in our words.
func failSyntax(r *report, source []byte, err error) {
	if errors.Is(err, io.EOF) {
		r.fail(pos{1, 1}, "", "there is no document in this file", remedyEmpty)
		return
	}
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		r.fail(pos{}, "", "is not YAML: "+err.Error(), "")
		return
	}
	mark := le.Mark
	if mark.Line == 0 {
		mark = le.ContextMark
	}
	at := pos{mark.Line, max(mark.Column, 1)}
	if mark.Line == 0 {
		at = pos{}
	}
	message, remedy := le.Message, ""
	if le.ContextMsg != "" {
		message = le.ContextMsg + ": " + message
	}
	char := charAt(source, at)
	switch {
	case strings.Contains(le.Message, "max depth"):
		r.fail(at, "", fmt.Sprintf("is nested more than %d levels deep", maxDepth), "no field of a descriptor is that deep")
		return
	case char == '\t':
		message, remedy = "a tab cannot indent", "use spaces"
	case strings.Contains(le.Message, "cannot start any token"):
		message, remedy = fmt.Sprintf("%q cannot start a text", char), "put the text in quotes"
	case strings.Contains(le.Message, "mapping values are not allowed"):
		remedy = "check the indentation, and put a text that contains \": \" in quotes"
	case strings.Contains(le.Message, "did not find expected ',' or"):
		at = pos{le.ContextMark.Line, max(le.ContextMark.Column, 1)}
		remedy = `close the bracket, and put a text that contains any of [ ] { } , in quotes ("${PORT}")`
	case strings.Contains(le.Message, "unknown anchor"):
		message, remedy = le.Message, "define it before with &, or put the text in quotes"
	}
	r.fail(at, "", "is not valid YAML: "+message, remedy)
}

// charAt returns the character of source at a place, 0 if there is none.
func charAt(source []byte, at pos) rune {
	for line := 1; line < at.line; line++ {
		_, rest, found := bytes.Cut(source, []byte{'\n'})
		if !found {
			return 0
		}
		source = rest
	}
	line, _, _ := bytes.Cut(source, []byte{'\n'})
	runes := []rune(string(line))
	if at.column < 1 || at.column > len(runes) {
		return 0
	}
	return runes[at.column-1]
}
