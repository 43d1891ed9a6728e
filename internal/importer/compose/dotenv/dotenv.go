package dotenv

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/verge-edge/verge/api/pattern"
	"github.com/verge-edge/verge/internal/importer/draft"
	"github.com/verge-edge/verge/internal/importer/report"
	"github.com/verge-edge/verge/internal/importer/source"

	"github.com/verge-edge/verge/internal/importer/compose/template"
)

// maxVariables bounds the variables of one file.
const maxVariables = 2000

// Set is the variables of a file.
type Set struct {
	Values map[string]string
	// Derived are the variables whose values contain a secret. Blank are those that refer to a
	// variable that nothing sets, with its name.
	Derived map[string]bool
	Blank   map[string]string
}

// Parse reads a file of variables as docker compose reads .env. A value may refer to variables
// set above it or by the files before, which are also in the result; unset are other
// references, which become empty. The error shows no value.
func Parse(data []byte, before map[string]string) (vars map[string]string, unset []string, err error) {
	made := &report.Report{}
	v, err := Read(data, before, func(string) (string, bool) { return "", false }, made.Spend)
	if err != nil {
		return nil, nil, err
	}
	for _, name := range v.Blank {
		unset = append(unset, name)
	}
	slices.Sort(unset)
	return v.Values, slices.Compact(unset), nil
}

// Read reads a file of variables and adds them to those before; those of find take precedence
// over both.
func Read(data []byte, before map[string]string, find template.Lookup, spend func(int) bool) (*Set, error) {
	if err := source.Readable(data); err != nil {
		return nil, err
	}
	text := strings.TrimPrefix(string(data), "\ufeff")
	r := &dotEnvReader{text: text, find: find, spend: spend,
		Set: Set{Values: map[string]string{}, Derived: map[string]bool{}, Blank: map[string]string{}}}
	maps.Copy(r.Values, before)
	for {
		name, value, err := r.next()
		switch {
		case err != nil:
			return nil, fmt.Errorf("line %d: %w", 1+strings.Count(text[:len(text)-r.left], "\n"), err)
		case name == "":
			return &r.Set, nil
		case value != nil:
			r.Values[name] = *value
		}
		if len(r.Values) > len(before)+maxVariables {
			return nil, fmt.Errorf("it has more than %d variables", maxVariables)
		}
	}
}

var errDotEnv = errors.New("it is no NAME=VALUE")

// dotEnvReader takes variables from the beginning of text, one by one.
type dotEnvReader struct {
	text  string
	left  int // bytes of it from the start of the last variable taken
	find  template.Lookup
	spend func(int) bool
	Set
}

// blank is white space within a line.
func blank(r rune) bool { return r != '\n' && unicode.IsSpace(r) }

// next returns the next variable, "" if there is none; value is nil if it has none and nothing
// sets it.
func (r *dotEnvReader) next() (name string, value *string, err error) {
	for {
		r.text = strings.TrimLeftFunc(r.text, unicode.IsSpace)
		if !strings.HasPrefix(r.text, "#") {
			break
		}
		_, r.text, _ = strings.Cut(r.text, "\n")
	}
	if rest, ok := strings.CutPrefix(r.text, "export"); ok && rest != "" && blank(rune(rest[0])) {
		r.text = strings.TrimLeftFunc(rest, blank)
	}
	if r.left = len(r.text); r.left == 0 {
		return "", nil, nil
	}
	end := strings.IndexAny(r.text, "=:\n")
	if end < 0 {
		end = len(r.text)
	}
	name = strings.TrimRightFunc(r.text[:end], unicode.IsSpace)
	if name == "" || strings.ContainsFunc(name, func(c rune) bool {
		return !strings.ContainsRune("_.-[]", c) && !unicode.IsLetter(c) && !unicode.IsNumber(c)
	}) {
		return "", nil, errDotEnv
	}
	delete(r.Derived, name)
	delete(r.Blank, name)
	if end == len(r.text) || r.text[end] == '\n' {
		r.text = r.text[end:]
		if v, set := r.find(name); set {
			value = &v
		}
		return name, value, nil
	}
	r.text = strings.TrimLeftFunc(r.text[end+1:], blank)
	text, literal, err := r.written()
	if err != nil || literal {
		return name, &text, err
	}
	text, err = r.expand(name, text)
	return name, &text, err
}

// written returns the text of a value; literal: nothing in it is replaced.
func (r *dotEnvReader) written() (text string, literal bool, err error) {
	if r.text == "" || r.text[0] != '"' && r.text[0] != '\'' {
		text, r.text, _ = strings.Cut(r.text, "\n")
		text, _, _ = strings.Cut(text, " #")
		return strings.TrimRightFunc(text, unicode.IsSpace), false, nil
	}
	mark := r.text[0]
	var b strings.Builder
	for i := 1; i < len(r.text); i++ {
		switch c := r.text[i]; {
		case c == mark:
			r.text = r.text[i+1:]
			if mark == '"' {
				return escape().ReplaceAllStringFunc(b.String(), unescaped), false, nil
			}
			return b.String(), true, nil
		case c == '\\' && i+1 < len(r.text):
			if i++; r.text[i] != mark {
				b.WriteByte('\\')
			}
			b.WriteByte(r.text[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", false, errors.New("a quoted value has no end")
}

// escape finds backslash escapes in double quotes.
var escape = pattern.Lazy(`\\(?:[abcfnrtv$"\\]|0\d{0,3})`)

// unescaped returns what an escape stands for. A dollar becomes $$, for template.
func unescaped(s string) string {
	if s == `\$` {
		return "$$"
	}
	s = strings.Replace(s, `\0`, `\`, 1)
	char, _, _, err := strconv.UnquoteChar(s, '"')
	if err != nil {
		return s
	}
	return string(char)
}

// expand replaces the references in the value of a variable.
func (r *dotEnvReader) expand(name, text string) (string, error) {
	t := &template.Template{Spend: r.spend, Lookup: func(of string) (string, bool) {
		found, set := r.find(of)
		if set {
			return found, true
		}
		v, set := r.Values[of]
		if !set {
			return found, false
		}
		if v != "" && (r.Derived[of] || draft.SecretValue(of, v)) {
			r.Derived[name] = true
		}
		return v, true
	}}
	text, err := t.Expand(text, 0)
	var needed *template.RequiredError
	switch {
	case errors.As(err, &needed):
		return "", fmt.Errorf("it needs ${%s}, which nothing above it sets", needed.Name)
	case errors.Is(err, template.ErrSyntax):
		return "", errors.New("it is not a text with ${variables}: write a dollar as $$, or the value in single quotes")
	}
	for _, of := range t.Unset {
		if !draft.Secretive(of) {
			r.Blank[name] = of
		}
	}
	return text, err
}

// DotEnv is the file of variables that docker compose reads beside a compose file.
const DotEnv = ".env"
