package descriptor

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/internal/yamltree"
)

// report collects what there is to say about one file.
type report struct {
	file     string
	source   []byte
	errors   Errors
	warnings []Warning
	// said has what was reported, so that a value that aliases repeat is reported
	// once.
	said map[spot]bool
	// bad has the paths of the errors, around the paths that enclose them: no
	// complaint may follow from another.
	bad, around map[string]bool
}

type spot struct {
	pos     yamltree.Pos
	message string
}

func newReport(file string, source []byte) *report {
	return &report{file: file, source: source, said: map[spot]bool{}, bad: map[string]bool{}, around: map[string]bool{}}
}

// full says that enough errors were found to stop looking for more.
func (r *report) full() bool { return len(r.errors) >= maxErrors }

func (r *report) fail(at yamltree.Pos, path, message, remedy string) {
	s := spot{at, message}
	if r.full() || r.said[s] {
		return
	}
	r.spoil(path)
	r.said[s] = true
	r.errors = append(r.errors, &Error{
		File: r.file, Line: at.Line, Column: at.Column, Path: path, Message: message, Remedy: remedy,
	})
}

func (r *report) warn(at yamltree.Pos, path, message string) {
	s := spot{at, message}
	if len(r.warnings) >= maxErrors || r.said[s] {
		return
	}
	r.said[s] = true
	r.warnings = append(r.warnings, Warning{r.file, at.Line, at.Column, path, message})
}

// spoil notes that the value at path is not what the user wrote.
func (r *report) spoil(path string) {
	if path == "" {
		return
	}
	r.bad[path] = true
	for outer := enclosing(path); outer != ""; outer = enclosing(outer) {
		r.around[outer] = true
	}
}

// spoiled says whether path, something in it or something around it was already
// complained about.
func (r *report) spoiled(path string) bool {
	if r.around[path] {
		return true
	}
	for ; path != ""; path = enclosing(path) {
		if r.bad[path] {
			return true
		}
	}
	return false
}

// enclosing returns the path of what holds the value at path, "" for the file.
func enclosing(path string) string {
	return path[:max(0, strings.LastIndexAny(path, ".["))]
}

// ofEnv says whether path may be a value of env or the content of a file, which
// may be secret and are not shown.
func ofEnv(path string) bool {
	return strings.HasSuffix(path, ".env") || strings.Contains(path, ".env.") || strings.Contains(path, ".env[") ||
		strings.HasSuffix(path, ".content") && strings.Contains(path, ".files")
}

// finish sorts what was found by its place in the file and adds the excerpts.
func (r *report) finish() (Errors, []Warning) {
	slices.SortStableFunc(r.errors, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	slices.SortStableFunc(r.warnings, func(a, b Warning) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	var lines []string
	for _, e := range r.errors[:min(len(r.errors), maxErrorsShown)] {
		if lines == nil {
			lines = strings.Split(string(r.source), "\n")
		}
		if e.Line > 0 && e.Line <= len(lines) && !ofEnv(e.Path) {
			e.Excerpt = excerpt(lines[e.Line-1], e.Line, e.Column)
		}
	}
	return r.errors, r.warnings
}

// excerpt shows at most 100 characters of a line around the column, and a caret.
func excerpt(line string, number, column int) string {
	const before, after = 60, 40
	runes := []rune(strings.ReplaceAll(strings.TrimRight(line, "\r"), "\t", " "))
	if column < 1 || column > len(runes)+1 {
		return ""
	}
	from, to := max(0, column-1-before), min(len(runes), column-1+after)
	for _, r := range runes[from:to] {
		if !strconv.IsPrint(r) {
			return "" // a file may not write escape sequences to a terminal
		}
	}
	head := fmt.Sprintf("%5d | ", number)
	return head + string(runes[from:to]) + "\n" + strings.Repeat(" ", len(head)-2) + "| " + strings.Repeat(" ",
		column-1-from) + "^"
}
