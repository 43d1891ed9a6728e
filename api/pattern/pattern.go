// Package pattern has the regular expressions of names, hosts, paths and images, in the syntax that Go
// and JSON Schema share, and compiles expressions when they are first used.
// Each start of verge, and most are of a command, would compile all of them otherwise.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns what compiles expr at its first call. That call panics if expr is none:
// each use has a test.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
