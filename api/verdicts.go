package api

//go:generate go test -run TestReferencePage -update .

import (
	"slices"
	"sync"
)

// Ruling says what becomes of a field or of a value.
type Ruling string

// The rulings. Nothing is silently ignored.
const (
	Enforced Ruling = "enforced"
	Refused  Ruling = "not enforced yet" // an error that says what to write instead
	Warned   Ruling = "no effect yet"    // accepted, and said in a Warning
)

// Verdict is what there is to know about one field of the descriptor. The table
// of them is the only list: the parser refuses by it, the schema and the
// reference page are made from it.
type Verdict struct {
	// Path of the field: "services.*.ports[].name", where * is any key.
	Path    string
	Verdict Ruling
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

	// normal brings what people write into the one form; nil: nothing to do.
	normal func(string) string
	// spellings are other ways to write the Values, which normal knows.
	spellings []string
	// single: a list that may be written as its only item.
	single bool
}

// Value is one of the values of a field with a closed set.
type Value struct {
	Value   string
	Verdict Ruling
	// Instead says what to write in place of a refused one.
	Instead string
}

// Verdicts returns the verdict on every field, in the order of the reference
// page.
func Verdicts() []Verdict { return slices.Clone(verdictList()) }

// verdict returns the row of a field by its pattern; the zero Verdict for what
// is not a field of its own (an element of a list or of env).
func verdict(pattern string) Verdict { return verdictIndex()[pattern] }

var verdictIndex = sync.OnceValue(func() map[string]Verdict {
	index := map[string]Verdict{}
	for _, v := range verdictList() {
		index[v.Path] = v
	}
	return index
})

var verdictList = sync.OnceValue(func() []Verdict {
	rows := slices.Concat(applicationRows(), securityRows(), filesRows(), resourceRows(), placementRows(), networkRows(), ingressRows(), policyRows(),
		checkRows(), lifeRows(), jobRows(), cronRows(), rolloutRows(), nearRows())
	types := map[string]string{}
	for _, f := range fields() {
		types[f.pattern] = typeName(f.typ)
	}
	for i := range rows {
		if rows[i].Verdict == "" {
			rows[i].Verdict = Enforced
		}
		rows[i].Type = types[rows[i].Path]
	}
	return rows
})
