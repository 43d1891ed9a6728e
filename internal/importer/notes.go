package importer

import (
	"cmp"
	"fmt"
	"slices"
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

// maxNotes bounds what is kept of one import, and maxErrors what is kept besides of that for
// which it is refused.
const (
	maxNotes  = 5000
	maxErrors = 100
)

// report collects notes.
type report struct {
	notes   []Note
	said    map[Note]bool
	refused bool
	lost    bool
	// made are the bytes that were made of references; saidTooMuch is that too many were.
	made        int
	saidTooMuch bool
	// strange are the places of what the format does not know, by strangeKey.
	strange map[string]bool
}

func (r *report) add(n Note) {
	r.refused = r.refused || n.Level == Refused
	r.lost = r.lost || n.Level == Lost
	if r.said == nil {
		r.said = map[Note]bool{}
	}
	if r.said[n] || r.full(n.Level) {
		return
	}
	r.said[n] = true
	r.notes = append(r.notes, n)
}

// full says whether no further note of a level is kept.
func (r *report) full(l Level) bool {
	return len(r.notes) >= maxNotes && (l != Refused || len(r.notes) >= maxNotes+maxErrors)
}

// at notes something about the value at a path of a document.
func (r *report) at(l Level, d *doc, path []string, format string, args ...any) {
	if r.full(l) { // finding the line costs more than the note
		r.refused, r.lost = r.refused || l == Refused, r.lost || l == Lost
		return
	}
	file, line := d.placeOf(path)
	r.add(Note{l, file, line, pathText(path), fmt.Sprintf(format, args...)})
}

// sorted are the notes in the order of the files, whose names are given.
func (r *report) sorted(files []string) []Note {
	slices.SortStableFunc(r.notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(slices.Index(files, a.File), slices.Index(files, b.File)), strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
	return r.notes
}

// extend is a path with more segments; the path itself is not changed.
func extend(path []string, more ...string) []string {
	return append(slices.Clip(slices.Clone(path)), more...)
}

func index(i int) string { return fmt.Sprintf("[%d]", i) }
