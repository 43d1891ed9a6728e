package schema

import (
	"slices"
	"sync"

	"github.com/verge-edge/verge/api/internal/shape"
)

// Support says what becomes of a field or of a value.
type Support string

// How a field is supported. None is ignored silently.
const (
	Enforced Support = "enforced"
	Refused  Support = "not enforced yet" // an error that says what to write instead
	Warned   Support = "no effect yet"    // accepted, and said in a Warning
)

// FieldSpec is what there is to know about one field of the descriptor. Their table is the only list
// of fields: the parser refuses by it, and the JSON Schema and the reference page are made from it.
type FieldSpec struct {
	// Path of the field: "services.*.ports[].name", where * is any key.
	Path    string
	Support Support
	// Type says what to write: "text", "duration", "list of texts", …
	Type string
	// Default in words or as it would be written; "" if there is none.
	Default string
	// Note says what the field does.
	Note     string
	Required bool
	// Values are all there are; nil if the field takes any. A refused one is known
	// and comes later.
	Values []Value
	// Min and Max bound the field in its own unit (thousandths of a core, bytes,
	// nanoseconds, count), inclusive; both zero: not bounded.
	Min, Max int64
	// Pattern is the regular expression of a text, Keys that of the keys of a
	// mapping, both in the syntax that Go and JSON Schema share; "" if any.
	Pattern, Keys string
	// Instead says what to write in place of a refused field.
	Instead string

	// Normal brings what people write into the one form; nil: nothing to do.
	Normal func(string) string
	// spellings are other ways to write the Values, which normal knows.
	spellings []string
	// Single: a list that may be written as its only item.
	Single bool
}

// Value is one of the values of a field with a closed set.
type Value struct {
	Value   string
	Support Support
	// Instead says what to write in place of a refused one.
	Instead string
}

// FieldSpecs returns the specification of every field, in the order of the reference
// page.
func FieldSpecs() []FieldSpec { return slices.Clone(fieldSpecs()) }

// SpecOf returns the row of a field by its pattern; the zero FieldSpec for what
// is not a field of its own (an element of a list or of env).
func SpecOf(pattern string) FieldSpec { return specIndex()[pattern] }

var specIndex = sync.OnceValue(func() map[string]FieldSpec {
	index := map[string]FieldSpec{}
	for _, v := range fieldSpecs() {
		index[v.Path] = v
	}
	return index
})

var fieldSpecs = sync.OnceValue(func() []FieldSpec {
	rows := slices.Concat(applicationRows(), securityRows(), filesRows(), resourceRows(), placementRows(), networkRows(),
		ingressRows(), policyRows(),
		checkRows(), lifeRows(), jobRows(), cronRows(), rolloutRows(), nearRows())
	types := map[string]string{}
	for _, f := range shape.Fields() {
		types[f.Pattern] = shape.TypeName(f.Type)
	}
	for i := range rows {
		if rows[i].Support == "" {
			rows[i].Support = Enforced
		}
		rows[i].Type = types[rows[i].Path]
	}
	return rows
})
