package source

import (
	"slices"
	"strconv"
	"strings"
)

// Document is one document of a source.
type Document struct {
	File string
	Root *Node
	// Size is the number of values once aliases are followed. Duplicates are keys that are
	// repeated with the same value.
	Size       int
	Duplicates []Duplicate
}

// Duplicate is a repeated key, its line, and the line of its first occurrence.
type Duplicate struct {
	Name        string
	Line, First int
}

// LineOf is the line that Locate returns.
func (d *Document) LineOf(path []string) int {
	_, line := d.Locate(path)
	return line
}

// Locate returns the file and line of the value at a path, or of the nearest one that encloses
// it. Segments that begin with [ are indexes, as in [0].
func (d *Document) Locate(path []string) (file string, line int) {
	n := d.Root
	file, line = d.File, n.Line
	for _, s := range path {
		switch {
		case n == nil:
			return file, line
		case n.Kind == Mapping:
			next := (*Node)(nil)
			for i, k := range n.Keys {
				if k.Name == s {
					next, line = n.Values[i], k.Line
				}
			}
			n = next
		case n.Kind == List:
			i, err := strconv.Atoi(strings.Trim(s, "[]"))
			if err != nil || i < 0 || i >= len(n.Values) {
				return file, line
			}
			n = n.Values[i]
			line = n.Line
		default:
			return file, line
		}
		if n != nil && n.File != "" {
			file = n.File
		}
	}
	return file, line
}

// Find returns the path of the only scalar that contains the last word of a complaint, nil if
// there is none or several: some libraries do not say where an error is.
func (d *Document) Find(complaint string) []string {
	words := strings.FieldsFunc(complaint, func(r rune) bool { return strings.ContainsRune(" \"'`:,", r) })
	for _, w := range slices.Backward(words) {
		if len(w) < 3 {
			continue
		}
		var found [][]string
		visits := 0
		var walk func(n *Node, path []string)
		walk = func(n *Node, path []string) {
			if visits++; visits > 10_000 || len(found) > 1 {
				return
			}
			if n.Kind == Scalar && strings.Contains(n.Text, w) {
				found = append(found, path)
			}
			for i, v := range n.Values {
				if n.Kind == Mapping {
					walk(v, Extend(path, n.Keys[i].Name))
				} else {
					walk(v, Extend(path, Index(i)))
				}
			}
		}
		if walk(d.Root, nil); len(found) == 1 {
			return found[0]
		}
	}
	return nil
}
