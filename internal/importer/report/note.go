package report

import (
	"fmt"
	"strings"
)

// Level says what a Note means for what was imported.
type Level int

// Levels of a Note.
const (
	// Said: carried over, in a way that one should know of.
	Said Level = iota
	// Lost: not carried over.
	Lost
	// Refused: without it there is nothing to be made of the source.
	Refused
)

// String is the word for it.
func (l Level) String() string { return [...]string{"note", "lost", "error"}[l] }

// Note is what became of something in a source.
type Note struct {
	Level Level
	File  string
	Line  int    // from 1; 0: of no line
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
