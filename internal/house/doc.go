// Package house holds the rules of this repository as tests: which way packages
// may depend, what a decider must not do, what every file and exported name
// carries. It has no code of its own; `go test ./internal/house` checks the
// whole module. Each rule is one test, and each has a second one that plants a
// violation and sees it found.
//
// A rule that stands in the way of something good is changed here, with its
// reason beside it, not worked around.
package house
