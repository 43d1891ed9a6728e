package descriptor

import (
	"fmt"
	"strings"
)

// Error is one complaint about a descriptor.
type Error struct {
	File string
	// Line and Column count from 1, columns in characters; 0 where the complaint
	// has no place in the file.
	Line, Column int
	// Path of the field: "services.front.ports[0].name"; "" for the whole file.
	Path string
	// Message says what is wrong, Remedy what to write instead ("" if that is
	// plain from the message).
	Message, Remedy string
	// Excerpt is the line of the file with a caret under Column, for a terminal;
	// "" where there is none, and always for values of env and
	// contents of files, which may be secret.
	Excerpt string
}

// Error writes "file:line:column: path: message: remedy".
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(place(e.File, e.Line, e.Column, e.Path))
	b.WriteString(e.Message)
	if e.Remedy != "" {
		b.WriteString(": " + e.Remedy)
	}
	return b.String()
}

// Warning is something in a descriptor that is accepted and has no effect, or
// probably not the one that was meant.
type Warning struct {
	File         string
	Line, Column int
	Path         string
	Message      string
}

// String writes "file:line:column: path: message".
func (w Warning) String() string {
	return place(w.File, w.Line, w.Column, w.Path) + w.Message
}

func place(file string, line, column int, path string) string {
	var b strings.Builder
	b.WriteString(file)
	if line > 0 {
		fmt.Fprintf(&b, ":%d:%d", line, column)
	}
	b.WriteString(": ")
	if path != "" {
		b.WriteString(path + ": ")
	}
	return b.String()
}

// Bounds of what is reported about one file.
const (
	maxErrors      = 1000 // kept
	maxErrorsShown = 20   // printed by Errors.Error
)

// Errors are all complaints about one descriptor in the order of the file,
// at most 1000.
type Errors []*Error

// Error writes one line for each of the first 20 errors, and how many more
// there are.
func (e Errors) Error() string {
	lines := make([]string, 0, maxErrorsShown+1)
	for i, one := range e {
		if i == maxErrorsShown {
			lines = append(lines, fmt.Sprintf("and %d more", len(e)-i))
			break
		}
		lines = append(lines, one.Error())
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.Is and errors.As each of the errors.
func (e Errors) Unwrap() []error {
	all := make([]error, len(e))
	for i, one := range e {
		all[i] = one
	}
	return all
}
