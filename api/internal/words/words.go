package words

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Either writes "a, b or c", and no more than a dozen.
func Either(words []string) string {
	if most := 12; len(words) > most {
		return strings.Join(words[:most], ", ") + " …"
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Quote writes user input for a message: in quotes, escaped, cut to a length
// that fits into a line.
func Quote(s string) string {
	const most = 60
	if len(s) > most {
		cut := most - 1
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		s = s[:cut] + "…"
	}
	return strconv.Quote(s)
}
