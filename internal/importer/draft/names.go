package draft

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
)

// Label makes a name of Verge of any text: small letters, digits and -, beginning
// with a letter, at most 63. What is cut off is stood for by a hash, so that two long
// names stay two.
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

// Names gives labels, each once.
type Names struct{ taken map[string]bool }

// Unique is the label of s, or one with a number where that is taken.
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

// All are the unique labels of a list. What can stay as it is does, whatever comes before it.
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

// Literal writes a text so that Verge, which replaces ${NAME}, leaves it as it is.
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

// Literals are the texts of a list, each as Literal writes it.
func Literals(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, Literal(s))
	}
	return out
}
