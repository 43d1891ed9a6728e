package api

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/verge-edge/verge/api/internal/words"
	"github.com/verge-edge/verge/api/pattern"
)

// nameRE is labelRE.
var nameRE = pattern.Lazy(pattern.Label)

// NameProblem says in words why s cannot be a name, "" if it can.
func NameProblem(s string) string {
	if len(s) > MaxNameLength || !nameRE().MatchString(s) {
		return words.Quote(s) + " is not a name: use small letters, digits and -, at most 63, begin with a letter, do not " +
			"end with -"
	}
	return ""
}

var keyRE = pattern.Lazy(pattern.LabelKey)

// LabelProblem says in words why key=value cannot be a label of a worker or
// cluster, "" if it can.
func LabelProblem(key, value string) string {
	switch {
	case len(key) > MaxNameLength || !keyRE().MatchString(key):
		return words.Quote(key) +
			" is not the key of a label: use letters, digits and any of - _ . / between them, at most 63"
	case len(value) > MaxNameLength || !utf8.ValidString(value) ||
		strings.ContainsFunc(value, func(r rune) bool { return !unicode.IsPrint(r) }):
		return words.Quote(value) + " is not the value of a label: use at most 63 characters that can be printed"
	}
	return ""
}

var userRE = pattern.Lazy(pattern.User)

// IsUser says whether text is a user as Service.User has it.
func IsUser(text string) bool { return userRE().MatchString(text) }
