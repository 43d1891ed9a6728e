package message

import "bytes"

// Limits of heads.
const (
	// maxFields of a head; a request with more is handed over.
	maxFields = 96
	// MaxResponseHead is how large the head of a response may be, in bytes. One of a
	// request that does not fit into a buffer is handed over.
	MaxResponseHead = 256 << 10
)

// HoldField asks a router for 100 when the request has its place at the instance.
const HoldField = "verge-hold"

// kind is what a field means to a relay.
type kind uint8

const (
	plain            kind = iota // passed on as it is
	hop                          // of this connection alone: not passed on
	connection                   // hop by hop, and says what else is
	contentLength                // framing
	transferEncoding             // framing
	host                         // where to
	odd                          // Expect, Upgrade, Trailer, TE: for somebody who knows all of HTTP
	forwarded                    // X-Forwarded-*, X-Real-Ip: what a proxy says about its client
	forwardedFor                 // X-Forwarded-For, a list
	forwardedList                // Forwarded, a list (RFC 7239)
	forwardedHost                // X-Forwarded-Host
	forwardedProto               // X-Forwarded-Proto
	traceparent                  // of W3C trace context
	loadReport                   // ORCA
)

// field is a line of a head, as offsets into it.
type field struct {
	name, nameEnd, value, valueEnd int32
	kind                           kind
}

// token is what names of fields and methods consist of (RFC 9110, 5.6.2).
var token = func() (t [256]bool) {
	for c := '0'; c <= '9'; c++ {
		t[c] = true
	}
	for c := 'a'; c <= 'z'; c++ {
		t[c], t[c-'a'+'A'] = true, true
	}
	for _, c := range "!#$%&'*+-.^_`|~" {
		t[c] = true
	}
	return t
}()

// nameClass is what a byte is in the name of a field.
type nameClass uint8

const (
	usualInName nameClass = 1 << iota // a letter, a digit or a hyphen
	rareInName                        // another one that token allows, such as an underscore
)

// names has the class of each byte; 0: it is in no name.
var names = func() (t [256]nameClass) {
	for c := range t {
		switch usual := c == '-' || '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'z'; {
		case usual:
			t[c] = usualInName
		case token[c]:
			t[c] = rareInName
		}
	}
	return t
}()

// reserved names are those that a proxy sets, reads or drops, as far as they have a hyphen.
var reserved = []string{
	"x-real-ip", "content-length", "transfer-encoding", "keep-alive", "proxy-connection", "proxy-authenticate",
	"proxy-authorization", HoldField, "verge-timeout", "verge-refused",
}

// Disguised says whether a name has other characters than letters, digits and hyphens, and
// would be reserved with hyphens in their place. CGI and WSGI, and who imitates their
// variables, take X_Forwarded_For for X-Forwarded-For.
func Disguised(name string) bool {
	rare := false
	for i := range len(name) {
		rare = rare || names[name[i]] != usualInName
	}
	if !rare {
		return false
	}
	plain := []byte(name)
	for i, c := range plain {
		if names[c] != usualInName {
			plain[i] = '-'
		}
	}
	if len(plain) > len("x-forwarded-") && is(plain[:len("x-forwarded-")], "x-forwarded-") {
		return true
	}
	for _, r := range reserved {
		if is(plain, r) {
			return true
		}
	}
	return false
}

// text is what values of fields consist of: no control but the tab. What is beyond
// ASCII passes.
var text = func() (t [256]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != 0x7f || c == '\t'
	}
	return t
}()

// kindOf finds out what a field is. Most are told by their length and first letter.
func kindOf(name []byte) kind {
	switch len(name) {
	case 2:
		if is(name, "te") {
			return odd
		}
	case 4:
		if is(name, "host") {
			return host
		}
	case 6:
		if is(name, "expect") {
			return odd
		}
	case 7:
		switch name[0] | 0x20 {
		case 'u':
			if is(name, "upgrade") {
				return odd
			}
		case 't':
			if is(name, "trailer") {
				return odd
			}
		}
	case 9:
		if is(name, "x-real-ip") {
			return forwarded
		}
		if is(name, "forwarded") {
			return forwardedList
		}
	case 10:
		switch name[0] | 0x20 {
		case 'c':
			if is(name, "connection") {
				return connection
			}
		case 'k':
			if is(name, "keep-alive") {
				return hop
			}
		case 'v':
			if is(name, HoldField) {
				return hop
			}
		}
	case 11:
		if is(name, "traceparent") {
			return traceparent
		}
	case 14:
		if is(name, "content-length") {
			return contentLength
		}
		if is(name, "http2-settings") {
			return odd
		}
	case 16:
		if is(name, "proxy-connection") {
			return hop
		}
	case 17:
		if is(name, "transfer-encoding") {
			return transferEncoding
		}
	case 18:
		if is(name, "proxy-authenticate") {
			return hop
		}
	case 19:
		if is(name, "proxy-authorization") {
			return hop
		}
	case 21:
		if is(name, "endpoint-load-metrics") {
			return loadReport
		}
	case 25:
		if is(name, "endpoint-load-metrics-bin") {
			return loadReport
		}
	}
	if len(name) > len("x-forwarded-") && name[0]|0x20 == 'x' && is(name[:len("x-forwarded-")], "x-forwarded-") {
		switch rest := name[len("x-forwarded-"):]; {
		case is(rest, "for"):
			return forwardedFor
		case is(rest, "host"):
			return forwardedHost
		case is(rest, "proto"):
			return forwardedProto
		}
		return forwarded
	}
	return plain
}

// is compares a name with one in small letters.
func is(name []byte, small string) bool {
	if len(name) != len(small) {
		return false
	}
	for i, c := range name {
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		if c != small[i] {
			return false
		}
	}
	return true
}

// EndOfHead returns where a head ends, 0 if not all of it is there. from is how far
// it was looked at before. Lines end with CRLF or, which is for the caller to judge,
// with LF.
func EndOfHead(b []byte, from int) int {
	for i := max(from-3, 0); ; {
		k := bytes.IndexByte(b[i:], '\n')
		if k < 0 {
			return 0
		}
		i += k + 1
		if i < len(b) && b[i] == '\n' {
			return i + 1
		}
		if i+1 < len(b) && b[i] == '\r' && b[i+1] == '\n' {
			return i + 2
		}
	}
}

// trim takes spaces and tabs from both ends of b[from:to].
func trim(b []byte, from, to int) (int, int) {
	for from < to && (b[from] == ' ' || b[from] == '\t') {
		from++
	}
	for from < to && (b[to-1] == ' ' || b[to-1] == '\t') {
		to--
	}
	return from, to
}

// digits reads a length: digits alone, at most 18 of them.
func digits(b []byte) (n int64, ok bool) {
	if len(b) == 0 || len(b) > 18 {
		return 0, false
	}
	for _, c := range b {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// eachToken calls f with each element of a list, without spaces around it; it ends
// when f returns false.
func eachToken(list []byte, f func([]byte) bool) {
	for len(list) > 0 {
		one := list
		if k := bytes.IndexByte(list, ','); k >= 0 {
			one, list = list[:k], list[k+1:]
		} else {
			list = nil
		}
		from, to := trim(one, 0, len(one))
		if from < to && !f(one[from:to]) {
			return
		}
	}
}
