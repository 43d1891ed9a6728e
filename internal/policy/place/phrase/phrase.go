// Package phrase has the phrases that explain decisions about placement.
//
// Promise: a phrase is of bounded length, however many names it is made from.
package phrase

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
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

// Milliseconds formats a round trip, rounded up, so that one that is too long never reads
// as short enough.
func Milliseconds(d time.Duration) string {
	if d < time.Millisecond {
		return fmt.Sprintf("%.3fms", math.Ceil(float64(d)/1e3)/1e3)
	}
	return fmt.Sprintf("%.1fms", math.Ceil(float64(d)/1e5)/10)
}

// Tenths formats kilometres, rounded up, so that what is too far never reads as near
// enough.
func Tenths(km float64) string {
	if km >= 100 {
		return fmt.Sprintf("%.0f", math.Ceil(km))
	}
	return fmt.Sprintf("%.1f", math.Ceil(km*10)/10)
}

// TenthsDown formats a minimum distance in kilometres, rounded down.
func TenthsDown(km float64) string {
	if km >= 100 {
		return fmt.Sprintf("%.0f", math.Floor(km))
	}
	return fmt.Sprintf("%.1f", math.Floor(km*10)/10)
}
