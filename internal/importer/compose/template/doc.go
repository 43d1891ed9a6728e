// Package template replaces references such as ${NAME:-default} by the rules of compose-go, which
// the tests compare it with.
//
// compose-go's package template is not used: 4,000 references in one text take 3.4 s, four times as
// long as 2,000, and unset variables are written to a log, even with WithoutLogging. Here expansion
// asks a budget first, its time is linear, and unset variables are returned.
package template
