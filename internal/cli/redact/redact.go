package redact

import (
	"bytes"
	"regexp"
	"sync"
)

// secretKey matches the name of a secret value up to the value; its group is left open.
const secretKey = `(?i)((?:[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|secret|secret[_-]?(?:access[_-]?)?key|` +
	`api[_-]?key|private[_-]?key|token)|\b(?:[a-z0-9_.-]*[_.-])?pass)\\*["']?\s*[=:]\s*`

// secretPatterns match secrets in a text for others. The first group of a match stays, the rest
// is redacted. They are compiled on first use, since few commands need them.
var secretPatterns = sync.OnceValue(func() []*regexp.Regexp {
	return []*regexp.Regexp{
		regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
		regexp.MustCompile(`()AGE-SECRET-KEY-1[0-9A-Za-z]+`),
		regexp.MustCompile(`(verge-(?:api|join)-)[A-Za-z0-9._~+/=-]+`),
		regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`),
		// A JSON web token, whatever it is for.
		regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`),
		// scheme://user:password@host
		regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@"']*:)[^/\s@"']+@`),
		// One whose beginning was cut off.
		regexp.MustCompile(`()(?:[ \t]*[A-Za-z0-9+/=]+[ \t\r]*(?:\n|(?:\\+[rn])+))*[ \t]*-----END [A-Z ]*PRIVATE KEY-----`),
		// password=…, "api_key": "…", AWS_SECRET_ACCESS_KEY=…; a path to a file is none. A value
		// in quotes goes as a whole, also in JSON that is a text in JSON.
		regexp.MustCompile(secretKey + `\\+")(?:[^"\\\n]|\\[^"\\\n]|\\{2,}"?)+`),
		regexp.MustCompile(secretKey + `")(?:[^"\\\n]|\\.)+`),
		regexp.MustCompile(secretKey + `')[^'\n]+`),
		regexp.MustCompile(secretKey + `)(?:[^\s"']*\[redacted\][^\s"']*|[^\s"'\\](?:[^\s"']*[^\s"',;})\]])?)`),
	}
})

// Mark stands where a secret was.
const Mark = "[redacted]"

// Text replaces secrets in a text: known ones, and what looks like one. It returns the
// number of places.
func Text(text []byte, known [][]byte) (clean []byte, places int) {
	for _, k := range known {
		if n := bytes.Count(text, k); n > 0 && len(k) >= 8 {
			text, places = bytes.ReplaceAll(text, k, []byte(Mark)), places+n
		}
	}
	for _, re := range secretPatterns() {
		text = re.ReplaceAllFunc(text, func(m []byte) []byte {
			places++
			kept := re.FindSubmatch(m)
			if kept == nil {
				return []byte(Mark)
			}
			out := append(bytes.Clone(kept[1]), Mark...)
			if bytes.HasSuffix(m, []byte("@")) {
				out = append(out, '@')
			}
			return out
		})
	}
	return text, places
}
