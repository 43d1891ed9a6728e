package importer

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/api/pattern"
)

// label makes a name of Verge of any text: small letters, digits and -, beginning
// with a letter, at most 63. What is cut off is stood for by a hash, so that two long
// names stay two.
func label(s string) string {
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

// names gives labels, each once.
type names struct{ taken map[string]bool }

// unique is the label of s, or one with a number where that is taken.
func (n *names) unique(s string) string {
	if n.taken == nil {
		n.taken = map[string]bool{}
	}
	base := label(s)
	out := base
	for i := 2; n.taken[out]; i++ {
		tail := "-" + strconv.Itoa(i)
		out = strings.TrimRight(base[:min(len(base), api.MaxNameLength-len(tail))], "-") + tail
	}
	n.taken[out] = true
	return out
}

// all are the unique labels of a list. What can stay as it is does, whatever comes before it.
func (n *names) all(list []string) []string {
	out := make([]string, len(list))
	for _, own := range []bool{true, false} {
		for i, s := range list {
			if (label(s) == s) == own {
				out[i] = n.unique(s)
			}
		}
	}
	return out
}

// literal writes a text so that Verge, which replaces ${NAME}, leaves it as it is.
func literal(s string) string {
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

func literals(list []string) []string {
	var out []string
	for _, s := range list {
		out = append(out, literal(s))
	}
	return out
}

// secretValue says whether a variable is called as secrets are, or its value is an address
// with a password in it.
func secretValue(name, value string) bool {
	return secretive(name) || passwordRE().MatchString(value)
}

// passwordRE finds user:password@ in an address; what is replaced later is no password.
var passwordRE = pattern.Lazy(`://[^\s:/@,]*:[^\s:/@,$*<]+@`)

// secretive says whether a variable is called as secrets are.
func secretive(name string) bool {
	name = strings.ToUpper(name)
	if strings.HasSuffix(name, "_FILE") || name == "PWD" || name == "OLDPWD" {
		return false
	}
	if strings.HasSuffix(name, "_PW") {
		return true
	}
	for _, word := range []string{"PASS", "PWD", "SECRET", "TOKEN", "CREDENTIAL", "PRIVATE", "APIKEY", "API_KEY", "ACCESS_KEY", "DSN", "FERNET", "ENCRYPTION_KEY", "MASTER_KEY", "SIGNING_KEY"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}
