package obs

import (
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"unicode"
)

// Redacted stands in a log where a secret would have been.
const Redacted = "[redacted]"

// secretWords are the last words of attribute names that are taken for secrets:
// "token" and "join_token", but not "token_id".
var secretWords = map[string]bool{
	"token": true, "secret": true, "password": true, "passwd": true, "key": true,
	"seed": true, "jwt": true, "authorization": true, "bearer": true, "credentials": true,
}

// secretText is what credentials look like wherever they stand: tokens of
// Verge, seeds of NATS keys, JSON web tokens, PEM private keys.
var secretText = regexp.MustCompile(`verge-(?:join|api)-\d+\.[\w-]+` +
	`|\bS[A-Z][A-Z2-7]{56}\b` +
	`|\beyJ[\w-]{8,}\.[\w-]+\.[\w-]+` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|$)`)

// NewLogger writes records of at least level to w, as JSON when format is
// "json" and as text otherwise. What looks secret is replaced by Redacted:
// attributes by their name (the last word of it, or of a group around them),
// texts and errors by their content, messages too. It does not look into
// structures: log their fields.
func NewLogger(w io.Writer, format string, level slog.Leveler) *slog.Logger {
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: redact}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

func redact(groups []string, a slog.Attr) slog.Attr {
	if secretName(a.Key) {
		return slog.String(a.Key, Redacted)
	}
	for _, g := range groups {
		if secretName(g) {
			return slog.String(a.Key, Redacted)
		}
	}
	var text string
	switch a.Value.Kind() {
	case slog.KindString:
		text = a.Value.String()
	case slog.KindAny:
		switch v := a.Value.Any().(type) {
		case error:
			text = fmt.Sprint(v) // survives an error that is a nil pointer
		case []byte:
			text = string(v)
		}
	default:
		return a
	}
	if clean := secretText.ReplaceAllLiteralString(text, Redacted); clean != text {
		return slog.String(a.Key, clean)
	}
	return a
}

// secretName reports whether the last word of an attribute's name is secret.
// Public keys are not.
func secretName(name string) bool {
	words := splitWords(name)
	if len(words) == 0 || !secretWords[words[len(words)-1]] {
		return false
	}
	return len(words) < 2 || words[len(words)-2] != "public"
}

// splitWords splits "joinToken", "join_token", "join-token" and "join.token".
func splitWords(name string) []string {
	var b strings.Builder
	lower := false
	for _, r := range name {
		if unicode.IsUpper(r) && lower {
			b.WriteByte(' ')
		}
		lower = unicode.IsLower(r) || unicode.IsDigit(r)
		b.WriteRune(unicode.ToLower(r))
	}
	return strings.FieldsFunc(b.String(), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
}
