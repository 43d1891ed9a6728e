package message

import (
	"bytes"
	"strconv"
)

// Marks are what a relay says in the head of a request.
type Marks struct {
	// Client is the address of the client, without a port, and Proto how it came (http
	// or https); they are said in X-Forwarded-*, and in Forwarded. nil: nothing is.
	Client []byte
	Proto  string
	// Strangers are not believed what they say about others before them; of who is
	// none it is passed on, and added to.
	Strangers bool
	// Target replaces that of the request; nil leaves it as it is. Prefix is what was
	// taken away from its path, and is said in X-Forwarded-Prefix; "" says nothing.
	Target []byte
	Prefix string
	// Traceparent is added where the request has none; nil adds nothing.
	Traceparent []byte
	// Extra fields, each ended by CRLF.
	Extra []byte
}

// AppendRequest appends the head as it goes to the upstream, which is kept open.
func AppendRequest(dst []byte, r *Request, m *Marks) []byte {
	b := r.b
	if m.Target == nil {
		dst = append(dst, b[:r.targetEnd]...)
	} else {
		dst = append(append(dst, b[:r.target]...), m.Target...)
	}
	dst = append(dst, " HTTP/1.1\r\n"...)
	told := uint32(0)
	for i := range r.n {
		f := &r.fields[i]
		switch f.kind {
		case hop, connection, loadReport:
			continue
		case forwarded, forwardedFor, forwardedList, forwardedHost, forwardedProto:
			if m.Client != nil {
				if m.Strangers {
					continue
				}
				told |= 1 << f.kind
				if f.kind == forwardedFor || f.kind == forwardedList {
					continue // with the own part, below
				}
			}
		case plain, host, contentLength, traceparent, transferEncoding, odd:
		}
		dst = appendField(dst, b, f)
	}
	if m.Client != nil {
		dst = appendForwarded(dst, r, m, told)
	}
	if m.Traceparent != nil && r.trace < 0 {
		dst = append(append(append(dst, "Traceparent: "...), m.Traceparent...), "\r\n"...)
	}
	if m.Prefix != "" {
		dst = append(append(append(dst, "X-Forwarded-Prefix: "...), m.Prefix...), "\r\n"...)
	}
	dst = append(dst, m.Extra...)
	return append(dst, "\r\n"...)
}

// appendForwarded says who asks, and what was told about that before.
func appendForwarded(dst []byte, r *Request, m *Marks, told uint32) []byte {
	dst = append(dst, "X-Forwarded-For: "...)
	if told&(1<<forwardedFor) != 0 {
		dst = appendList(dst, r, forwardedFor)
	}
	dst = append(append(dst, m.Client...), "\r\n"...)
	if told&(1<<forwardedHost) == 0 {
		dst = append(append(append(dst, "X-Forwarded-Host: "...), r.Host()...), "\r\n"...)
	}
	if told&(1<<forwardedProto) == 0 {
		dst = append(append(append(dst, "X-Forwarded-Proto: "...), m.Proto...), "\r\n"...)
	}
	dst = append(dst, "Forwarded: "...)
	if told&(1<<forwardedList) != 0 {
		dst = appendList(dst, r, forwardedList)
	}
	if bytes.IndexByte(m.Client, ':') >= 0 {
		dst = append(append(append(dst, `for="[`...), m.Client...), `]"`...)
	} else {
		dst = append(append(dst, "for="...), m.Client...)
	}
	if host := r.Host(); bytes.ContainsAny(host, ":[]") {
		dst = append(append(append(dst, `;host="`...), host...), '"')
	} else {
		dst = append(append(dst, ";host="...), host...)
	}
	return append(append(append(dst, ";proto="...), m.Proto...), "\r\n"...)
}

// appendList appends all values of a kind, each with a comma behind it.
func appendList(dst []byte, r *Request, k kind) []byte {
	for i := range r.n {
		if r.fields[i].kind == k {
			dst = append(append(dst, r.value(i)...), ", "...)
		}
	}
	return dst
}

// appendField appends a line as it came, but for the space around its value.
func appendField(dst, b []byte, f *field) []byte {
	dst = append(dst, b[f.name:f.nameEnd]...)
	dst = append(dst, ": "...)
	dst = append(dst, b[f.value:f.valueEnd]...)
	return append(dst, "\r\n"...)
}

// AppendResponse appends the head as it goes to the client: without what was of the
// upstream's connection alone, and without its load report. extra are fields of the
// relay, each ended by CRLF; the upstream's with the name own (in small letters), which
// only relays may say, are dropped. last: the client's connection ends after it.
func AppendResponse(dst []byte, r *Response, extra []byte, own string, last bool) []byte {
	b := r.b
	dst = append(dst, "HTTP/1.1 "...)
	dst = strconv.AppendInt(dst, int64(r.Status), 10)
	dst = append(dst, ' ')
	dst = append(dst, b[r.reason:r.reasonEnd]...)
	dst = append(dst, "\r\n"...)
	said := false
	for i := range r.n + len(r.more) {
		f := r.at(i)
		switch f.kind {
		case hop, connection, loadReport:
			continue
		case contentLength:
			// One is enough, and an interim response or a 204 has none (RFC 9110, 8.6).
			if said || r.Status < 200 || r.Status == 204 {
				continue
			}
			said = true
		case transferEncoding:
			if r.Body != Chunked {
				continue
			}
		case plain, host, forwarded, forwardedFor, forwardedList, forwardedHost, forwardedProto, traceparent, odd:
			if f.kind == odd && is(b[f.name:f.nameEnd], "upgrade") {
				continue
			}
		}
		if len(own) == int(f.nameEnd-f.name) && is(b[f.name:f.nameEnd], own) {
			continue
		}
		if r.hops && f.kind == plain && r.listed(b[f.name:f.nameEnd]) {
			continue
		}
		dst = appendField(dst, b, f)
	}
	dst = append(dst, extra...)
	if last && r.Status >= 200 {
		dst = append(dst, "Connection: close\r\n"...)
	}
	return append(dst, "\r\n"...)
}
