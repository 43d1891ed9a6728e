package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/verge-edge/verge/internal/importer/source"
)

// Duplicates notes the keys of a document that occur twice with the same value.
func (r *Report) Duplicates(d *source.Document, level Level) {
	for _, t := range d.Duplicates {
		r.Add(Note{Level: level, File: d.File, Line: t.Line,
			Text: fmt.Sprintf("the key %s is in line %d already, with the same value", source.Quote(t.Name), t.First)})
	}
}

// maxNotes bounds the notes of an import; maxErrors bounds the refusals kept beyond that.
const (
	maxNotes  = 5000
	maxErrors = 100
)

// Report collects notes.
type Report struct {
	notes   []Note
	said    map[Note]bool
	Refused bool
	Lost    bool
	// made counts the bytes expanded from references; saidTooMuch: the excess is noted.
	made        int
	SaidTooMuch bool
	// strange are the fields that the format does not know, by strangeKey.
	strange map[string]bool
}

// Add adds a note unless it exists or there are too many.
func (r *Report) Add(n Note) {
	r.Refused = r.Refused || n.Level == Refused
	r.Lost = r.Lost || n.Level == Lost
	if r.said == nil {
		r.said = map[Note]bool{}
	}
	if r.said[n] || r.full(n.Level) {
		return
	}
	r.said[n] = true
	r.notes = append(r.notes, n)
}

// full says whether the bound of notes of a level is reached.
func (r *Report) full(l Level) bool {
	return len(r.notes) >= maxNotes && (l != Refused || len(r.notes) >= maxNotes+maxErrors)
}

// At adds a note about the value at a path of a document.
func (r *Report) At(l Level, d *source.Document, path []string, format string, args ...any) {
	if r.full(l) { // finding the line costs more than the note itself
		r.Refused, r.Lost = r.Refused || l == Refused, r.Lost || l == Lost
		return
	}
	file, line := d.Locate(path)
	r.Add(Note{l, file, line, source.PathText(path), fmt.Sprintf(format, args...)})
}

// Sorted returns the notes in the order of the files.
func (r *Report) Sorted(files []string) []Note {
	slices.SortStableFunc(r.notes, func(a, b Note) int {
		return cmp.Or(cmp.Compare(slices.Index(files, a.File), slices.Index(files, b.File)),
			strings.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line))
	})
	return r.notes
}
