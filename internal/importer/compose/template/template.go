package template

import (
	"errors"
	"strings"

	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"
)

// Lookup finds the value of a variable; set is false where nothing sets it.
type Lookup func(name string) (value string, set bool)

// maxTemplateDepth bounds references within the defaults of references.
const maxTemplateDepth = 20

// ErrSyntax is the error for a text with malformed references.
var ErrSyntax = errors.New("is not a text with ${variables}: write a dollar as $$")

// RequiredError is a reference ${NAME:?message} to a variable that nothing sets.
type RequiredError struct{ Name, message string }

// Error names the variable, and the message of the file.
func (e *RequiredError) Error() string {
	text := "needs ${" + e.Name + "}, which nothing sets"
	if e.message != "" {
		text += " (" + source.Quote(e.message) + ")"
	}
	return text + ": give it by --env-file FILE"
}

// Template is a text with its references replaced.
type Template struct {
	Lookup Lookup
	// Spend is asked before a value is inserted; nil allows all.
	Spend func(bytes int) bool
	// Unset are the referenced variables that nothing sets: each is replaced by nothing.
	Unset []string
}

// Expand replaces the references in a text; $$ is a dollar.
func (t *Template) Expand(text string, depth int) (string, error) {
	if depth > maxTemplateDepth {
		return "", ErrSyntax
	}
	var b strings.Builder
	for {
		i := strings.IndexByte(text, '$')
		if i < 0 || i+1 == len(text) {
			b.WriteString(text)
			return b.String(), nil
		}
		b.WriteString(text[:i])
		text = text[i+1:]
		switch n := variableLength(text); {
		case text[0] == '$':
			b.WriteByte('$')
			text = text[1:]
		case n > 0:
			value, err := t.value(text[:n])
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = text[n:]
		case text[0] != '{':
			b.WriteByte('$') // no reference
		default:
			end := closing(text)
			if end < 0 {
				return "", ErrSyntax
			}
			value, err := t.braced(text[1:end], depth)
			if err != nil {
				return "", err
			}
			b.WriteString(value)
			text = text[end+1:]
		}
	}
}

// value returns the value of a variable without a default.
func (t *Template) value(name string) (string, error) {
	value, set := t.Lookup(name)
	if !set {
		t.Unset = append(t.Unset, name)
	}
	return t.take(value)
}

// take returns a value if the budget allows it.
func (t *Template) take(value string) (string, error) {
	if t.Spend != nil && !t.Spend(len(value)) {
		return "", report.ErrTooMuch
	}
	return value, nil
}

// braced returns the value of what is between braces: NAME, NAME:-default, NAME:+other,
// NAME:?message; without the colon an empty value counts as set.
func (t *Template) braced(text string, depth int) (string, error) {
	n := variableLength(text)
	name, rest := text[:n], text[n:]
	if n == 0 {
		return "", ErrSyntax
	}
	if rest == "" {
		return t.value(name)
	}
	rest, colon := strings.CutPrefix(rest, ":")
	if rest == "" {
		return "", ErrSyntax
	}
	value, set := t.Lookup(name)
	set = set && (value != "" || !colon)
	switch word := rest[1:]; rest[0] {
	case '-':
		if !set {
			return t.Expand(word, depth+1)
		}
		return t.take(value)
	case '+':
		if set {
			return t.Expand(word, depth+1)
		}
		return "", nil
	case '?':
		if set {
			return t.take(value)
		}
		message, err := t.Expand(word, depth+1)
		if err != nil {
			return "", err
		}
		return "", &RequiredError{name, message}
	}
	return "", ErrSyntax
}

// variableLength is the length of the name at the beginning of a text, 0 if there is none.
func variableLength(text string) int {
	for i, c := range []byte(text) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// closing is where the brace that begins a text closes, -1 if it does not.
func closing(text string) int {
	inside := 0
	for i := range len(text) {
		switch text[i] {
		case '{':
			inside++
		case '}':
			if inside--; inside == 0 {
				return i
			}
		}
	}
	return -1
}

// None is the lookup that finds nothing.
func None(string) (string, bool) { return "", false }
