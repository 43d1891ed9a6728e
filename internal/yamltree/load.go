package yamltree

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	// The parser of the YAML organisation: linear in the size of its input, with a bound on depth, and
	// positions on every node and on syntax errors. DESIGN.md of api/descriptor has the measurements.
	"go.yaml.in/yaml/v4"
	"go.yaml.in/yaml/v4/plugin/loaderlimits"
)

// Error says what is wrong with a source.
type Error struct {
	Pos
	Message string
	// Remedy is what to do about it; "" if there is no advice.
	Remedy string
	// TooDeep is set for a source that is nested too deep.
	TooDeep bool
}

// Error writes the message and the remedy, without the place.
func (e *Error) Error() string {
	if e.Remedy == "" {
		return e.Message
	}
	return e.Message + ": " + e.Remedy
}

// bom may begin a text in UTF-8.
var bom = []byte("\ufeff")

// CheckText says why a source is not a text, nil if it is one. A parser need not be asked then.
func CheckText(source []byte) *Error {
	if bytes.HasPrefix(source, []byte{0xff, 0xfe}) || bytes.HasPrefix(source, []byte{0xfe, 0xff}) {
		return &Error{Message: "is UTF-16 text", Remedy: "save it as UTF-8"}
	}
	source = bytes.TrimPrefix(source, bom)
	at := Pos{1, 1}
	for i := 0; i < len(source); {
		c, size := utf8.DecodeRune(source[i:])
		switch {
		case c == utf8.RuneError && size == 1:
			return &Error{Pos: at, Message: fmt.Sprintf("is not text: byte 0x%02x is not UTF-8", source[i]),
				Remedy: "is it the right file? Save it as UTF-8"}
		case c == '\n':
			at = Pos{at.Line + 1, 0}
		case c < ' ' && c != '\t' && c != '\r', c >= 0x7f && c < 0xa0 && c != 0x85:
			return &Error{Pos: at, Message: fmt.Sprintf("is not text: it contains the control character 0x%02x", c),
				Remedy: "is it the right file?"}
		}
		at.Column++
		i += size
	}
	return nil
}

// IsJSON says whether source is a JSON object.
func IsJSON(source []byte) bool {
	trimmed := bytes.TrimLeft(source, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '{' && json.Valid(source)
}

// Document is one of a source, and where it begins.
type Document struct {
	Pos
	Root *Node
}

// Documents are those of a source that CheckText has nothing against, up to the first error. What has
// not even a null in it is left out.
func Documents(source []byte, maxDepth int) iter.Seq2[Document, *Error] {
	source = bytes.TrimPrefix(source, bom)
	return func(yield func(Document, *Error) bool) {
		loader, err := yaml.NewLoader(bytes.NewReader(joined(source)),
			yaml.WithPlugin(loaderlimits.New(loaderlimits.DepthValue(maxDepth))))
		if err != nil {
			yield(Document{}, &Error{Message: "cannot be read: " + err.Error()})
			return
		}
		for {
			var y yaml.Node
			err := loader.Load(&y)
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Document{}, syntax(source, maxDepth, err))
				return
			}
			if len(y.Content) != 1 {
				continue
			}
			root := (&converter{known: map[*yaml.Node]*Node{}}).convert(y.Content[0])
			if !yield(Document{Pos{y.Line, y.Column}, root}, nil) {
				return
			}
		}
	}
}

// joined is JSON with the characters that it escapes in two halves (\ud83d\ude00) escaped as a whole,
// since YAML does not know halves. Anything else is as it is; lines stay.
func joined(source []byte) []byte {
	if !bytes.Contains(source, []byte(`\u`)) || !json.Valid(source) {
		return source
	}
	half := func(at int) (rune, bool) {
		if at+6 > len(source) || source[at] != '\\' || source[at+1] != 'u' {
			return 0, false
		}
		n, err := strconv.ParseUint(string(source[at+2:at+6]), 16, 16)
		return rune(n), err == nil && utf16.IsSurrogate(rune(n))
	}
	out := make([]byte, 0, len(source))
	for i := 0; i < len(source); i++ {
		if source[i] != '\\' {
			out = append(out, source[i])
			continue
		}
		first, ok := half(i)
		if !ok { // another escape, of which the second byte may be a backslash too
			out = append(out, source[i], source[i+1])
			i++
			continue
		}
		// A half by itself becomes the replacement character, as in encoding/json.
		second, both := half(i + 6)
		char := utf16.DecodeRune(first, second)
		if out = fmt.Appendf(out, `\U%08X`, char); both && char != utf8.RuneError {
			i += 6
		}
		i += 5
	}
	return out
}

// syntax is an error of the library in our words.
func syntax(source []byte, maxDepth int, err error) *Error {
	var le *yaml.LoadError
	if !errors.As(err, &le) {
		return &Error{Message: "is not valid YAML: " + err.Error()}
	}
	mark := le.Mark
	if mark.Line == 0 {
		mark = le.ContextMark
	}
	at := Pos{mark.Line, max(mark.Column, 1)}
	if mark.Line == 0 {
		at = Pos{}
	}
	message, remedy := le.Message, ""
	if le.ContextMsg != "" {
		message = le.ContextMsg + ": " + message
	}
	char := charAt(source, at)
	kind := kindOf(le.Message)
	switch {
	case kind == tooDeep:
		return &Error{Pos: at, Message: fmt.Sprintf("is nested more than %d levels deep", maxDepth), TooDeep: true}
	case char == '\t':
		message, remedy = "a tab cannot indent", "use spaces"
	case kind == badStart:
		message, remedy = fmt.Sprintf("%q cannot start a text", char), "put the text in quotes"
	case kind == badMapping:
		remedy = "check the indentation, and put a text that contains \": \" in quotes"
	case kind == openBracket:
		at = Pos{le.ContextMark.Line, max(le.ContextMark.Column, 1)}
		remedy = `close the bracket, and put a text that contains any of [ ] { } , in quotes ("${PORT}")`
	case kind == unknownAnchor:
		message, remedy = le.Message, "define it before with &, or put the text in quotes"
	}
	return &Error{Pos: at, Message: "is not valid YAML: " + message, Remedy: remedy}
}

// syntaxKind is a kind of error of the library. The library has only texts, see kindOf.
type syntaxKind int

const (
	otherSyntax syntaxKind = iota
	tooDeep
	badStart
	badMapping
	openBracket
	unknownAnchor
)

// kindOf is the only place that reads the texts of the library's errors.
func kindOf(text string) syntaxKind {
	for _, k := range []struct {
		phrase string
		kind   syntaxKind
	}{
		{"max depth", tooDeep},
		{"cannot start any token", badStart},
		{"mapping values are not allowed", badMapping},
		{"did not find expected ',' or", openBracket},
		{"unknown anchor", unknownAnchor},
	} {
		if strings.Contains(text, k.phrase) {
			return k.kind
		}
	}
	return otherSyntax
}

// charAt is the character of source at a place, 0 if there is none.
func charAt(source []byte, at Pos) rune {
	for line := 1; line < at.Line; line++ {
		_, rest, found := bytes.Cut(source, []byte{'\n'})
		if !found {
			return 0
		}
		source = rest
	}
	line, _, _ := bytes.Cut(source, []byte{'\n'})
	runes := []rune(string(line))
	if at.Column < 1 || at.Column > len(runes) {
		return 0
	}
	return runes[at.Column-1]
}
