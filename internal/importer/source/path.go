package source

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Extend returns a copy of a path with more segments.
func Extend(path []string, more ...string) []string {
	return append(slices.Clip(slices.Clone(path)), more...)
}

// Index is the segment of a path for an item of a list.
func Index(i int) string { return fmt.Sprintf("[%d]", i) }

// PathText formats a path for people.
func PathText(path []string) string {
	var b strings.Builder
	for i, s := range path {
		if i > 0 && !strings.HasPrefix(s, "[") {
			b.WriteByte('.')
		}
		b.WriteString(s)
	}
	return b.String()
}

// Quote quotes a source in a message: escaped, and cut to fit into a line.
func Quote(s string) string {
	const most = 60
	if r := []rune(s[:min(len(s), 4*most)]); len(r) > most {
		s = string(r[:most-1]) + "…"
	}
	return strconv.Quote(s)
}
