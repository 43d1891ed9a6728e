package message

import "bytes"

// Verdict is what a parser says of a head.
type Verdict uint8

// Verdicts on a head.
const (
	// Incomplete: the rest of it has not come yet.
	Incomplete Verdict = iota
	// Understood: it is plain HTTP/1.1, and all that the parser says of it holds.
	Understood
	// Unusual: it may be right, but is for somebody who knows all of HTTP.
	Unusual
	// Forbidden: it cannot be right, and whoever is behind might read it otherwise.
	Forbidden
)

// Request is the head of a request, as offsets into the buffer that it was parsed
// in; it is valid as long as the buffer is not changed, which the body of the request
// does. What is asked after that is kept apart. It is used again for the next one.
type Request struct {
	b      []byte // the head
	fields [maxFields]field
	n      int

	methodEnd, target, targetEnd int
	hostAt                       int // index in fields
	seen                         int // how far an incomplete head was looked at
	head, idempotent             bool

	// Length of the body in bytes; 0 is none.
	Length int64
	// Close: the client wants the connection closed after the response.
	Close bool
	// Coded: the body has a transfer coding.
	Coded bool
	// Sized: the client gave a length, be it 0.
	Sized bool
	trace int // index of traceparent; -1 there is none
	// Why says what is wrong, in words, after Unusual and Forbidden. Foreign: it is
	// another protocol than HTTP.
	Why     string
	Foreign bool
}

// Reset forgets a head, whole or in part: the buffer can be used for something else.
func (r *Request) Reset() { r.b, r.seen = nil, 0 }

// Size is the length of the head in bytes.
func (r *Request) Size() int { return len(r.b) }

// Method of the request.
func (r *Request) Method() []byte { return r.b[:r.methodEnd] }

// Target is what the request is for, in origin form: it begins with a slash.
func (r *Request) Target() []byte { return r.b[r.target:r.targetEnd] }

// Host is the value of the Host field; it is never empty.
func (r *Request) Host() []byte { return r.value(r.hostAt) }

// Traceparent is the value of that field, nil where there is none.
func (r *Request) Traceparent() []byte {
	if r.trace < 0 {
		return nil
	}
	return r.value(r.trace)
}

func (r *Request) value(i int) []byte { return r.b[r.fields[i].value:r.fields[i].valueEnd] }

// Get returns the value of the first field with this name (in small letters), nil
// where there is none.
func (r *Request) Get(small string) []byte {
	for i := range r.n {
		f := &r.fields[i]
		if is(r.b[f.name:f.nameEnd], small) {
			return r.b[f.value:f.valueEnd]
		}
	}
	return nil
}

// Each calls f with each field but those of the connection and of the framing. The
// slices are part of the buffer.
func (r *Request) Each(f func(name, value []byte)) {
	for i := range r.n {
		switch x := &r.fields[i]; x.kind {
		case hop, connection, contentLength, transferEncoding:
		default:
			f(r.b[x.name:x.nameEnd], r.b[x.value:x.valueEnd])
		}
	}
}

// Idempotent requests may be sent twice (RFC 9110, 9.2.2). It is known after the body
// was sent, too.
func (r *Request) Idempotent() bool { return r.idempotent }

// Head is a request for the head of a response alone. It is known after the body was
// sent, too.
func (r *Request) Head() bool { return r.head }

func (r *Request) unusual(why string) Verdict {
	if r.Why == "" {
		r.Why = why
	}
	return Unusual
}

func (r *Request) forbidden(why string) Verdict {
	r.Why = why
	return Forbidden
}

// foreign is what can be no HTTP, whatever follows.
func (r *Request) foreign(why string) Verdict {
	r.Foreign = true
	return r.forbidden(why)
}

// strange judges a first line that is not understood.
func (r *Request) strange(line []byte, why string) Verdict {
	if !bytes.Contains(line, []byte(" HTTP/")) {
		return r.foreign("this is not HTTP")
	}
	return r.unusual(why)
}

// Parse reads the head that b begins with. The whole head is looked at before
// anything is handed over, so that what is forbidden is, however unusual the rest.
func (r *Request) Parse(b []byte) Verdict {
	r.Why, r.Foreign = "", false
	if v := r.early(b); v != Incomplete {
		return v
	}
	size := EndOfHead(b, r.seen)
	if size == 0 {
		// One that waits for an answer to its first line must not wait for the time limit.
		if end := bytes.IndexByte(b, '\n'); end > 0 && !bytes.Contains(b[:end], []byte(" HTTP/")) {
			return r.foreign("this is not HTTP")
		}
		r.seen = len(b)
		return Incomplete
	}
	r.seen = 0
	return r.ParseHead(b, size)
}

// ParseHead reads the head b[:size], which EndOfHead has found.
func (r *Request) ParseHead(b []byte, size int) Verdict {
	r.Why, r.Foreign = "", false
	r.b = b[:size:size]
	r.Coded = false
	r.n, r.hostAt, r.trace, r.Length, r.Close, r.Sized = 0, -1, -1, 0, false, false
	verdict := Understood
	worst := func(v Verdict) bool {
		verdict = max(verdict, v)
		return v == Forbidden
	}
	at, v := r.line()
	if worst(v) {
		return verdict
	}
	chunked := false
	for at < size-2 {
		end := at + bytes.IndexByte(b[at:size], '\n')
		if end == at || b[end-1] != '\r' {
			return r.forbidden("a line that ends with a bare line feed")
		}
		v := r.field(at, end-1, &chunked)
		if worst(v) {
			return verdict
		}
		at = end + 1
	}
	if at != size-2 || b[at] != '\r' {
		return r.forbidden("a line that ends with a bare line feed")
	}
	r.Coded = chunked
	switch {
	case chunked && r.Sized:
		return r.forbidden("both a length and a transfer coding")
	case chunked && bytes.Contains(b[:bytes.IndexByte(b, '\n')], []byte(" HTTP/1.0")):
		return r.forbidden("a transfer coding in HTTP/1.0") // RFC 9112, 6.1: its framing is faulty
	case chunked:
		worst(r.unusual("a transfer coding"))
	}
	if r.hostAt < 0 {
		worst(r.unusual("no host")) // net/http says what is wrong with it
	}
	return verdict
}

// early judges what can be before the head is complete, which one of another
// protocol may never be.
func (r *Request) early(b []byte) Verdict {
	if len(b) > 0 && (b[0] < 'A' || b[0] > 'Z') {
		switch c := b[0]; {
		case c == 0x16:
			return r.foreign("this is TLS, not HTTP")
		case c < ' ' && c != '\r' && c != '\n', c > '~':
			return r.foreign("this is not HTTP")
		case c == '\r', c == '\n': // an empty line before a request is allowed
			return r.unusual("no method")
		}
		line, _, _ := bytes.Cut(b, []byte("\n"))
		if len(line) == len(b) {
			return r.unusual("no method")
		}
		return r.strange(line, "no method")
	}
	if bytes.HasPrefix(b, []byte("PRI * HTTP/2")) {
		return r.unusual("HTTP/2")
	}
	return Incomplete
}

// line reads the first line and returns where the next one begins.
func (r *Request) line() (next int, v Verdict) {
	b := r.b
	end := bytes.IndexByte(b, '\n')
	if end == 0 || b[end-1] != '\r' {
		return 0, r.forbidden("a line that ends with a bare line feed")
	}
	next, end = end+1, end-1
	i := 0
	for i < end && 'A' <= b[i] && b[i] <= 'Z' {
		i++
	}
	r.methodEnd = i
	switch string(b[:i]) {
	case "HEAD":
		r.head, r.idempotent = true, true
	case "GET", "OPTIONS", "PUT", "DELETE":
		r.head, r.idempotent = false, true
	default:
		r.head, r.idempotent = false, false
	}
	for k := i; k < end; k++ {
		if c := b[k]; c < ' ' || c == 0x7f {
			return 0, r.forbidden("a control character in the first line")
		}
	}
	if i == 0 || i > 32 || b[i] != ' ' {
		return next, r.strange(b[:end], "a method")
	}
	switch string(b[:i]) {
	case "CONNECT", "TRACE", "PRI":
		return next, r.strange(b[:end], "a method")
	}
	i++
	r.target = i
	if b[i] != '/' {
		return next, r.strange(b[:end], "no path")
	}
	path := true
	for ; i < end && b[i] != ' '; i++ {
		switch c := b[i]; {
		case c > '~' || c == '#':
			return next, r.unusual("a character in the target")
		case c == '?':
			path = false
		case c == '%' && path && (i+2 >= end || !hexDigit(b[i+1]) || !hexDigit(b[i+2])):
			return next, r.unusual("an escape in the target")
		}
	}
	r.targetEnd = i
	if string(b[i:end]) != " HTTP/1.1" {
		return next, r.strange(b[:end], "a version")
	}
	return next, Understood
}

// LooksLike says whether the begin of what a client sends is one of HTTP.
func LooksLike(b []byte) bool {
	for _, method := range []string{"GET /", "HEAD ", "POST ", "PUT /", "OPTIO", "DELET", "PATCH"} {
		if bytes.HasPrefix(b, []byte(method)) {
			return true
		}
	}
	return false
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// field reads the line b[at:end].
func (r *Request) field(at, end int, chunked *bool) Verdict {
	b := r.b
	i, seen := at, nameClass(0)
	for names[b[i]] != 0 { // CR is none
		seen |= names[b[i]]
		i++
	}
	if i == at {
		if b[at] == ' ' || b[at] == '\t' {
			return r.folded(at, end)
		}
		return r.forbidden("a line without a name")
	}
	if b[i] != ':' {
		return r.forbidden("an invalid name")
	}
	name := b[at:i]
	value, valueEnd := trim(b, i+1, end)
	for _, c := range b[value:valueEnd] {
		if !text[c] {
			return r.forbidden("a control character in a value")
		}
	}
	if seen&rareInName != 0 && Disguised(string(name)) {
		return r.unusual("a field that reads like one of a proxy")
	}
	if r.n == maxFields {
		return r.checked(name, b[value:valueEnd], chunked)
	}
	k := kindOf(name)
	r.fields[r.n] = field{int32(at), int32(i), int32(value), int32(valueEnd), k}
	r.n++
	v := b[value:valueEnd]
	switch k {
	case plain, hop, forwarded, forwardedFor, forwardedList, forwardedHost, forwardedProto:
	case loadReport: // of a response
	case host:
		return r.host(v)
	case traceparent:
		if r.trace < 0 {
			r.trace = r.n - 1
		}
	case connection:
		return r.connection(v)
	case contentLength, transferEncoding:
		return r.framing(k, v, chunked)
	case odd:
		return r.unusual("a field that asks for more than a relay")
	}
	return Understood
}

// checked checks a field that no longer fits: nothing is passed on, but forbidden fields stay
// forbidden.
func (r *Request) checked(name, v []byte, chunked *bool) Verdict {
	if k := kindOf(name); k == contentLength || k == transferEncoding {
		if r.framing(k, v, chunked) == Forbidden {
			return Forbidden
		}
	}
	return r.unusual("many fields")
}

// framing reads what says how long the body is.
func (r *Request) framing(k kind, v []byte, chunked *bool) Verdict {
	if k == transferEncoding {
		*chunked = true
		return Understood
	}
	n, ok := digits(v)
	switch {
	case !ok:
		return r.forbidden("a length that is no number")
	case r.Sized && n != r.Length:
		return r.forbidden("two lengths")
	case r.Sized:
		return r.unusual("a length twice")
	}
	r.Length, r.Sized = n, true
	return Understood
}

func (r *Request) folded(at, end int) Verdict {
	if r.n == 0 {
		return r.forbidden("a folded line without a field")
	}
	for _, c := range r.b[at:end] {
		if !text[c] {
			return r.forbidden("a control character in a value")
		}
	}
	return r.unusual("a folded line")
}

func (r *Request) host(v []byte) Verdict {
	if r.hostAt >= 0 {
		return r.forbidden("two hosts")
	}
	r.hostAt = r.n - 1
	if len(v) == 0 {
		return r.unusual("an empty host")
	}
	colons := 0
	for _, c := range v {
		switch {
		case !plainHostChar(c):
			return r.unusual("a character in the host")
		case c == ':':
			colons++
		case colons == 1 && (c < '0' || c > '9') && v[0] != '[':
			return r.unusual("a port that is no number")
		}
	}
	return Understood
}

// HostChar says whether a host and its port may have this byte (RFC 3986, 3.2.2).
func HostChar(c byte) bool {
	return plainHostChar(c) || c == '%' || c == '~' || c == '!' || '$' <= c && c <= ',' || c == ';' || c == '='
}

// plainHostChar: letters, digits and what else names, addresses and ports have.
func plainHostChar(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || 'A' <= c && c <= 'Z' ||
		c == '.' || c == '-' || c == ':' || c == '_' || c == '[' || c == ']'
}

func (r *Request) connection(v []byte) Verdict {
	switch {
	case is(v, "keep-alive"):
		return Understood
	case is(v, "close"):
		r.Close = true
		return Understood
	case len(v) == 0:
		return Understood
	}
	return r.unusual("a connection with options")
}
