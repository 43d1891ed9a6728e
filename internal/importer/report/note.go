package report

import (
	"fmt"
	"strings"
)

// Level is the severity of a Note.
type Level int

// Levels of a Note.
const (
	// Said: carried over, with a remark.
	Said Level = iota
	// Lost: not carried over.
	Lost
	// Refused: the source cannot be imported.
	Refused
)

// String is the name of the level.
func (l Level) String() string { return [...]string{"note", "lost", "error"}[l] }

// Note says what happened to a field of a source.
type Note struct {
	Level Level
	File  string
	Line  int    // from 1; 0: none
	Field string // its path; "": of the whole file
	Text  string // in words, without the values of variables
}

// String writes "file:line: field: text".
func (n Note) String() string {
	var b strings.Builder
	b.WriteString(n.File)
	if n.Line > 0 {
		fmt.Fprintf(&b, ":%d", n.Line)
	}
	if n.Field != "" {
		b.WriteString(": " + n.Field)
	}
	return b.String() + ": " + n.Text
}
