package draft

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
)

// Label makes a name of Verge from any text: lower-case letters, digits and -, beginning with a
// letter, at most 63. A hash replaces what is cut off, so that two long names stay different.
func Label(s string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(s) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
		} else if l := b.Len(); l > 0 && b.String()[l-1] != '-' {
			b.WriteByte('-')
		}
	}
	out := strings.Trim(b.String(), "-")
	switch {
	case out == "":
		out = "x"
	case out[0] >= '0' && out[0] <= '9':
		out = "x" + out
	}
	if len(out) > api.MaxNameLength {
		sum := sha256.Sum256([]byte(s))
		out = strings.TrimRight(out[:api.MaxNameLength-9], "-") + "-" + hex.EncodeToString(sum[:4])
	}
	return out
}

// Names hands out unique labels.
type Names struct{ taken map[string]bool }

// Unique is the label of s, with a number if that is taken.
func (n *Names) Unique(s string) string {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	base := Label(s)
	out := base
	for i := 2; n.taken[out]; i++ {
		tail := "-" + strconv.Itoa(i)
		out = strings.TrimRight(base[:min(len(base), api.MaxNameLength-len(tail))], "-") + tail
	}
	n.taken[out] = true
	return out
}

// All returns unique labels for a list. Names that are valid labels stay, whatever comes before
// them.
func (n *Names) All(list []string) []string {
	out := make([]string, len(list))
	for _, own := range []bool{true, false} {
		for i, s := range list {
			if (Label(s) == s) == own {
				out[i] = n.Unique(s)
			}
		}
	}
	return out
}

// Literal escapes a text so that Verge, which replaces ${NAME}, leaves it as it is.
func Literal(s string) string {
	if !strings.Contains(s, "$") {
		return s
	}
	var b strings.Builder
	for i := range len(s) {
		b.WriteByte(s[i])
		if s[i] == '$' && i+1 < len(s) && (s[i+1] == '$' || s[i+1] == '{') {
			b.WriteByte('$')
		}
	}
	return b.String()
}

// Literals escapes the texts of a list.
func Literals(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, Literal(s))
	}
	return out
}
