package experiment

import (
	"fmt"
	"strings"
)

// AtMost requires of a row that it is at most this much, and notes that; from says where the bound
// is from. Quick forms are too small to require anything.
func (e *Env) AtMost(r *Row, most float64, from string) {
	e.bound(r, r.Measured <= most, "at most", most, from)
}

// AtLeast requires of a row that it is at least this much, as AtMost does.
func (e *Env) AtLeast(r *Row, least float64, from string) {
	e.bound(r, r.Measured >= least, "at least", least, from)
}

func (e *Env) bound(r *Row, met bool, word string, bound float64, from string) {
	if e.Quick {
		return
	}
	said := fmt.Sprintf("%s %.4g (%s)", word, bound, from)
	if met {
		r.Note = joined(r.Note, said)
		return
	}
	r.Short = joined(r.Short, fmt.Sprintf("%.4g is not %s", r.Measured, said))
}

// remark is what a reader is told of a row: why it falls short, and its note.
func (r Row) remark() string { return joined(r.Short, r.Note) }

// joined are the remarks among some texts.
func joined(texts ...string) string {
	var out []string
	for _, t := range texts {
		if t != "" {
			out = append(out, t)
		}
	}
	return strings.Join(out, "; ")
}
