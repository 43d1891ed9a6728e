package cli

import (
	"bytes"
	"regexp"
)

// blots find what must not leave a machine in a text that others are to read. The
// first group stays, and what follows it in the match goes.
var blots = []*regexp.Regexp{
	regexp.MustCompile(`()-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`),
	regexp.MustCompile(`()AGE-SECRET-KEY-1[0-9A-Za-z]+`),
	regexp.MustCompile(`(verge-(?:api|join)-)[A-Za-z0-9._~+/=-]+`),
	regexp.MustCompile(`(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}`),
	// A JSON web token, whatever it is for.
	regexp.MustCompile(`()\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?`),
	// scheme://user:password@host
	regexp.MustCompile(`([a-z][a-z0-9+.-]*://[^/\s:@"']*:)[^/\s@"']+@`),
	// password=…, "api_key": "…", AWS_SECRET_ACCESS_KEY=…; a path to a file is none.
	regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:passw(?:or)?d|passphrase|secret[_-]?(?:access[_-]?)?key|api[_-]?key|access[_-]?token|auth[_-]?token|client[_-]?secret)["']?\s*[=:]\s*["']?)[^\s"',;}]+`),
}

const blotted = "[blotted out]"

// blot takes secrets out of a text: those that are known, and what looks like one. It
// says of how many places.
func blot(text []byte, known [][]byte) (clean []byte, places int) {
	for _, k := range known {
		if n := bytes.Count(text, k); n > 0 && len(k) >= 8 {
			text, places = bytes.ReplaceAll(text, k, []byte(blotted)), places+n
		}
	}
	for _, re := range blots {
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
