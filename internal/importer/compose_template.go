package importer

import (
	"errors"
	"strings"
)

// The rules of ${NAME} in compose files are those of compose-go's package template, which
// is not used itself: its time grows with the square of the references in a text, and
// what is not set it writes to a log of its own.

// lookup finds the value of a variable; set is false where nothing sets it.
type lookup func(name string) (value string, set bool)

// maxTemplateDepth bounds references within the defaults of references.
const maxTemplateDepth = 20

var errTemplate = errors.New("is no text with ${variables}: write a dollar as $$")

// neededError is a reference ${NAME:?message} to a variable that nothing sets.
type neededError struct{ name, message string }

func (e *neededError) Error() string {
	text := "needs ${" + e.name + "}, which nothing sets"
	if e.message != "" {
		text += " (" + quote(e.message) + ")"
	}
	return text + ": give it by --env-file FILE"
}

// template is a text with its references replaced.
type template struct {
	lookup lookup
	// spend is asked before a value is put in; nil is that all may be.
	spend func(bytes int) bool
	// unset are the variables that count in it, and that nothing sets: for each stands nothing.
	unset []string
}

// expand replaces the references in a text; $$ is a dollar.
func (t *template) expand(text string, depth int) (string, error) {
	if depth > maxTemplateDepth {
		return "", errTemplate
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
				return "", errTemplate
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

// value is that of a variable without a default.
func (t *template) value(name string) (string, error) {
	value, set := t.lookup(name)
	if !set {
		t.unset = append(t.unset, name)
	}
	return t.take(value)
}

// take is a value that may be put in.
func (t *template) take(value string) (string, error) {
	if t.spend != nil && !t.spend(len(value)) {
		return "", errMade
	}
	return value, nil
}

// braced is the value of what stands between braces: NAME, NAME:-default, NAME:+other,
// NAME:?message; without the colon an empty value counts as one.
func (t *template) braced(text string, depth int) (string, error) {
	n := variableLength(text)
	name, rest := text[:n], text[n:]
	if n == 0 {
		return "", errTemplate
	}
	if rest == "" {
		return t.value(name)
	}
	rest, colon := strings.CutPrefix(rest, ":")
	if rest == "" {
		return "", errTemplate
	}
	value, set := t.lookup(name)
	set = set && (value != "" || !colon)
	switch word := rest[1:]; rest[0] {
	case '-':
		if !set {
			return t.expand(word, depth+1)
		}
		return t.take(value)
	case '+':
		if set {
			return t.expand(word, depth+1)
		}
		return "", nil
	case '?':
		if set {
			return t.take(value)
		}
		message, err := t.expand(word, depth+1)
		if err != nil {
			return "", err
		}
		return "", &neededError{name, message}
	}
	return "", errTemplate
}

// variableLength is that of the name at the beginning of a text, 0 where there is none.
func variableLength(text string) int {
	for i, c := range []byte(text) {
		letter := c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return i
		}
	}
	return len(text)
}

// closing is where the brace ends that a text begins with, -1 where it does not.
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
