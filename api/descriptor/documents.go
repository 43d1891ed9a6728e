package descriptor

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/yamltree"
)

// Document is one of several descriptors in a file.
type Document struct {
	// Source of the descriptor alone.
	Source []byte
	// Line of the file that Source begins in, from 1.
	Line int
}

// InPlace is the source with as many empty lines before it as it has lines of other
// documents before it in its file, so that errors name the lines of the file.
func (d Document) InPlace() []byte {
	return append(bytes.Repeat([]byte("\n"), d.Line-1), d.Source...)
}

// Documents are the descriptors in a file, which lines with "---" separate. Those
// in which nothing is said are left out; a file that says nothing is one document.
func Documents(source []byte) []Document {
	// A line that begins so cannot be within anything else: YAML ends a document there
	// whatever it is in.
	var all []Document
	begin, line, at := 0, 1, 0
	first := 1
	add := func(end int) {
		if d := (Document{source[begin:end], first}); !d.empty() {
			all = append(all, d)
		}
	}
	for at < len(source) {
		end := bytes.IndexByte(source[at:], '\n')
		next := len(source)
		if end >= 0 {
			next = at + end + 1
		}
		if at > begin && separates(source[at:next]) {
			add(at)
			begin, first = at, line
		}
		at = next
		line++
	}
	add(len(source))
	if len(all) <= 1 {
		return []Document{{source, 1}} // with all that the parser may have to say
	}
	return all
}

// separates: the line begins another document.
func separates(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte("---"))
	return ok && (len(rest) == 0 || bytes.ContainsAny(rest[:1], " \t\r\n"))
}

// empty: nothing is said, apart from comments.
func (d Document) empty() bool {
	for l := range bytes.Lines(d.Source) {
		text := bytes.TrimSpace(l)
		if separates(l) {
			text = bytes.TrimSpace(text[3:])
		}
		if len(text) > 0 && text[0] != '#' && !bytes.Equal(text, []byte("...")) {
			return false
		}
	}
	return true
}

// InNamespace is source as it would be if it named the namespace, and what it says
// then; app is what it says now, which names none. As with Scaled the text stays as
// it is otherwise, where that can be done.
func InNamespace(source []byte, app *api.Application, namespace string) ([]byte, *api.Application, error) {
	next := *app
	next.Namespace = namespace
	want, err := json.MarshalIndent(&next, "", "  ")
	if err != nil {
		return nil, nil, fmt.Errorf("write the descriptor: %w", err)
	}
	for _, text := range withNamespace(source, namespace) {
		parsed, _, err := Parse("", text)
		if err != nil {
			continue
		}
		if got, err := json.MarshalIndent(parsed, "", "  "); err == nil && bytes.Equal(got, want) {
			return text, &next, nil
		}
	}
	return append(want, '\n'), &next, nil
}

// NamesNamespace says whether a descriptor that can be parsed names its namespace.
func NamesNamespace(source []byte) bool { return topLevel(source).Child("namespace") != nil }

// topLevel is the tree of a descriptor.
func topLevel(source []byte) *yamltree.Node {
	body := bytes.TrimPrefix(source, []byte("\ufeff"))
	return tree(body, newReport("", body))
}

// withNamespace are the ways in which a namespace could be written into source.
func withNamespace(source []byte, namespace string) [][]byte {
	body := bytes.TrimPrefix(source, []byte("\ufeff"))
	root := topLevel(source)
	if root == nil || root.Kind != yamltree.Mapping || len(root.Keys) == 0 {
		return nil
	}
	at := offset(body, root.Keys[0].Pos)
	if yamltree.IsJSON(body) {
		return [][]byte{splice(body, at, at, fmt.Sprintf("%q: %q, ", "namespace", namespace))}
	}
	line := bytes.LastIndexByte(body[:at], '\n') + 1
	return [][]byte{
		splice(body, at, at, "namespace: "+namespace+"\n"+string(body[line:at])), // a key for each line
		splice(body, at, at, "namespace: "+namespace+", "),                       // {in: braces}
	}
}
