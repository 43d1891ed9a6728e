// Package phrase has the phrases that explain decisions about placement.
//
// Promise: a phrase is of bounded length, however many names it is made from.
package phrase

import (
	"fmt"
	"slices"
	"strings"
)

// OneOf formats a list as "north" or "north or east".
func OneOf(list []string) string { return strings.Join(Shorten(list), " or ") }

// Shorten bounds what a list of names adds to a sentence.
func Shorten(list []string) []string {
	const most = 5
	if len(list) <= most {
		return list
	}
	return append(slices.Clone(list[:most]), fmt.Sprintf("%d more", len(list)-most))
}

// Plural writes "1 worker", "2 workers".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
