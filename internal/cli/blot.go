package cli

import (
	"bytes"
	"regexp"
	"sync"
)

// secretKey finds the name of a secret value and what is between the two; its group is left
// open.
const secretKey = `(?i)((?:[a-z0-9_.-]*(?:passw(?:or)?d|passphrase|secret|secret[_-]?(?:access[_-]?)?key|api[_-]?key|private[_-]?key|token)` +
	`|\b(?:[a-z0-9_.-]*[_.-])?pass)\\*["']?\s*[=:]\s*`

// blots find what must not leave a machine in a text that others are to read. The
// first group stays, and what follows it in the match goes. Few commands blot.
var blots = sync.OnceValue(func() []*regexp.Regexp {
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
		regexp.MustCompile(secretKey + `)(?:[^\s"']*\[blotted out\][^\s"']*|[^\s"'\\](?:[^\s"']*[^\s"',;})\]])?)`),
	}
})

const blotted = "[blotted out]"

// blot takes secrets out of a text: those that are known, and what looks like one. It
// says of how many places.
func blot(text []byte, known [][]byte) (clean []byte, places int) {
	for _, k := range known {
		if n := bytes.Count(text, k); n > 0 && len(k) >= 8 {
			text, places = bytes.ReplaceAll(text, k, []byte(blotted)), places+n
		}
	}
	for _, re := range blots() {
		text = re.ReplaceAllFunc(text, func(m []byte) []byte {
			places++
			kept := re.FindSubmatch(m)
			if kept == nil {
				return []byte(blotted)
			}
			out := append(bytes.Clone(kept[1]), blotted...)
			if bytes.HasSuffix(m, []byte("@")) {
				out = append(out, '@')
			}
			return out
		})
	}
	return text, places
}
