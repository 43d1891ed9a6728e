package http1

import "strconv"

// Marks are what a relay says in the head of a request about its client.
type Marks struct {
	// Forwarded: what the client says about those before it (X-Forwarded-*,
	// X-Real-Ip, Forwarded) is dropped, and ForwardedFor, the host and Proto are
	// said instead. Without it, what it says is passed on and nothing is added.
	Forwarded    bool
	ForwardedFor []byte // the client's address
	Proto        string // http or https
	// Traceparent is added where the request has none; nil adds nothing.
	Traceparent []byte
	// Extra fields, each ended by CRLF; of requests with such a field the own one is
	// not dropped, so these are names that only relays use.
	Extra []byte
}

// AppendRequest appends the head as it goes to the upstream, which is kept open.
func AppendRequest(dst []byte, r *Request, m *Marks) []byte {
	b := r.b
	dst = append(dst, b[:r.targetEnd]...)
	dst = append(dst, " HTTP/1.1\r\n"...)
	for i := range r.n {
		f := &r.fields[i]
		switch f.kind {
		case hop, connection, loadReport:
			continue
		case forwarded:
			if m.Forwarded {
				continue
			}
		case plain, host, contentLength, traceparent, transferEncoding, odd:
		}
		dst = appendField(dst, b, f)
	}
	if m.Forwarded {
		dst = append(append(append(dst, "X-Forwarded-For: "...), m.ForwardedFor...), "\r\nX-Forwarded-Host: "...)
		dst = append(append(append(dst, r.Host()...), "\r\nX-Forwarded-Proto: "...), m.Proto...)
		dst = append(dst, "\r\n"...)
	}
	if m.Traceparent != nil && r.trace < 0 {
		dst = append(append(append(dst, "Traceparent: "...), m.Traceparent...), "\r\n"...)
	}
	dst = append(dst, m.Extra...)
	return append(dst, "\r\n"...)
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
// relay, each ended by CRLF. last: the client's connection ends after it.
func AppendResponse(dst []byte, r *Response, extra []byte, last bool) []byte {
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
		case plain, host, forwarded, traceparent, odd:
			if f.kind == odd && is(b[f.name:f.nameEnd], "upgrade") {
				continue
			}
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
