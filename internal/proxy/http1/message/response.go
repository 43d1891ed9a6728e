package message

import (
	"bytes"
	"errors"
	"fmt"
)

// Body is how the end of the body of a response is found.
type Body uint8

// Ways to end.
const (
	NoBody    Body = iota // there is none
	Sized                 // after Length bytes
	Chunked               // after the last chunk
	UntilDone             // with the connection
)

// Response is the head of a response, as offsets into the buffer that it was parsed
// in; it is valid as long as the buffer is not changed. It is used again for the
// next one.
type Response struct {
	b      []byte
	fields [maxFields]field
	n      int
	more   []field // those beyond fields
	seen   int

	reason, reasonEnd int
	hops              bool // Connection names other fields

	// Status code, 100 to 999.
	Status int
	// Body says how its end is found.
	Body Body
	// Length of the body where it is Sized; what the head says for a response to
	// HEAD, -1 if it says nothing.
	Length int64
	// Close: the connection cannot be used again after this response.
	Close bool
	// Report is the value of the load report, nil without one. BinaryReport: it has the
	// name of one that is binary.
	Report       []byte
	BinaryReport bool
}

// Size is the length of the head in bytes.
func (r *Response) Size() int { return len(r.b) }

// Reset forgets a head, whole or in part: the buffer can be used for something else.
func (r *Response) Reset() { r.b, r.Report, r.more, r.seen = nil, nil, nil, 0 }

// Interim responses (1xx) come before the response.
func (r *Response) Interim() bool { return r.Status < 200 }

// ErrMalformed is wrapped by errors of responses that no server may send.
var ErrMalformed = errors.New("malformed response")

// Malformed is ErrMalformed, with what is wrong.
func Malformed(what string) error { return fmt.Errorf("%w: %s", ErrMalformed, what) }

// Parse reads the head that b begins with and returns its size, 0 if the rest of it
// has not come yet. head: it answers a HEAD request. Folded lines are joined, in
// place; a bare line feed ends a line, as there are servers that do so.
func (r *Response) Parse(b []byte, head bool) (size int, err error) {
	size = EndOfHead(b, r.seen)
	if size == 0 {
		if len(b) > 0 && string(b[:min(len(b), 7)]) != "HTTP/1."[:min(len(b), 7)] {
			return 0, Malformed("it does not begin with HTTP/1")
		}
		r.seen = len(b)
		return 0, nil
	}
	r.seen = 0
	r.b = b[:size:size]
	r.n, r.more, r.hops, r.Status, r.Body, r.Length, r.Close, r.Report = 0, r.more[:0], false, 0, NoBody, -1, false, nil
	at, err := r.line()
	if err != nil {
		return 0, err
	}
	chunked := false
	for at < size {
		end := at + bytes.IndexByte(b[at:size], '\n')
		next := end + 1
		if end > at && b[end-1] == '\r' {
			end--
		}
		if at == end { // the last line
			break
		}
		for next < size && (b[next] == ' ' || b[next] == '\t') { // a folded line goes on
			for k := end; k < next; k++ {
				b[k] = ' '
			}
			end = next + bytes.IndexByte(b[next:size], '\n')
			next = end + 1
			if b[end-1] == '\r' {
				end--
			}
		}
		if err := r.field(at, end, &chunked); err != nil {
			return 0, err
		}
		at = next
	}
	return size, r.frame(head, chunked)
}

// line reads the first line and returns where the next one begins.
func (r *Response) line() (next int, err error) {
	b := r.b
	end := bytes.IndexByte(b, '\n')
	next = end + 1
	if end > 0 && b[end-1] == '\r' {
		end--
	}
	if end < 12 || string(b[:7]) != "HTTP/1." || b[7] != '1' && b[7] != '0' || b[8] != ' ' {
		return 0, Malformed("its first line is none of HTTP/1")
	}
	n, ok := digits(b[9:12])
	if !ok || n < 100 || end > 12 && b[12] != ' ' {
		return 0, Malformed("a status that is no number of three digits")
	}
	r.Status, r.Close = int(n), b[7] == '0'
	r.reason, r.reasonEnd = min(13, end), end
	for _, c := range b[r.reason:end] {
		if !text[c] {
			return 0, Malformed("a control character in the first line")
		}
	}
	return next, nil
}

// field reads the line b[at:end].
func (r *Response) field(at, end int, chunked *bool) error {
	b := r.b
	i := at
	for i < end && token[b[i]] {
		i++
	}
	if i == at || i == end || b[i] != ':' {
		return Malformed("an invalid name of a field")
	}
	k := kindOf(b[at:i])
	value, valueEnd := trim(b, i+1, end)
	v := b[value:valueEnd]
	for _, c := range v {
		if !text[c] {
			return Malformed("a control character in a field")
		}
	}
	f := field{int32(at), int32(i), int32(value), int32(valueEnd), k}
	if r.n < maxFields {
		r.fields[r.n] = f
		r.n++
	} else {
		r.more = append(r.more, f)
	}
	switch k {
	case plain, hop, host, odd, forwarded, forwardedFor, forwardedList, forwardedHost, forwardedProto, traceparent:
	case loadReport:
		r.Report, r.BinaryReport = b[value:valueEnd], i-at == len("endpoint-load-metrics-bin")
	case connection:
		eachToken(v, func(t []byte) bool {
			switch {
			case is(t, "close"):
				r.Close = true
			case !is(t, "keep-alive"):
				r.hops = true
			}
			return true
		})
	case contentLength:
		n, ok := digits(v)
		if !ok {
			return Malformed("a length that is no number")
		}
		if r.Length >= 0 && r.Length != n {
			return Malformed("two lengths")
		}
		r.Length = n
	case transferEncoding:
		if !is(v, "chunked") || *chunked {
			return Malformed("a transfer coding other than chunked")
		}
		*chunked = true
	}
	return nil
}

// frame decides how the body ends (RFC 9112, 6.3).
func (r *Response) frame(head, chunked bool) error {
	switch {
	case chunked && r.Length >= 0:
		return Malformed("both a length and a transfer coding")
	case r.Status == 101:
		return Malformed("it changes the protocol, which nobody asked for")
	case head || r.Status < 200 || r.Status == 204 || r.Status == 304:
		r.Body = NoBody
	case chunked:
		r.Body = Chunked
	case r.Length > 0:
		r.Body = Sized
	case r.Length == 0:
		r.Body = NoBody
	default:
		r.Body, r.Close = UntilDone, true
	}
	return nil
}

// Get returns the value of the first field with this name (in small letters), nil
// where there is none.
func (r *Response) Get(small string) []byte {
	for i := range r.n + len(r.more) {
		if f := r.at(i); is(r.b[f.name:f.nameEnd], small) {
			return r.b[f.value:f.valueEnd]
		}
	}
	return nil
}

// at returns field i of all.
func (r *Response) at(i int) *field {
	if i < r.n {
		return &r.fields[i]
	}
	return &r.more[i-r.n]
}

// listed: Connection names the field, which is then of this connection alone.
func (r *Response) listed(name []byte) (found bool) {
	for i := range r.n + len(r.more) {
		f := r.at(i)
		if f.kind != connection {
			continue
		}
		eachToken(r.b[f.value:f.valueEnd], func(t []byte) bool {
			found = bytes.EqualFold(t, name)
			return !found
		})
		if found {
			return true
		}
	}
	return false
}
