package state

import "strings"

// MaxWords is the most bytes of a reason.
const MaxWords = 1 << 10

// Cut shortens s to n bytes, and says so.
func Cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + " …"
}
