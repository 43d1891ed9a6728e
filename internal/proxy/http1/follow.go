package http1

import (
	"net"
	"sync"

	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// follower follows the requests on a connection that was handed over, and judges the head of
// each and the chunks of its body as Serve does. The server of net/http accepts a request
// with both a length and a transfer coding, which somebody in front of it may have read
// otherwise, and drops the length before anybody sees it.
//
// What is forbidden is not passed on: the server gets something in its place that it
// answers with 400.
type follower struct {
	head []byte // of the request whose head is coming, as far as that was passed on before
	seen int    // how far it was looked at

	left    int64           // of the body, where it has a length
	framing *message.Chunks // nil: it has no chunks
	last    byte            // of the chunks that came
	off     bool            // nothing that comes is looked at
}

// maxFollowed bounds the heads that are followed; the server refuses smaller ones already.
const maxFollowed = 256 << 10

// followed are for one head each.
var followed = sync.Pool{New: func() any { return new(message.Request) }}

// pass returns how much of b, which came next, may be passed on, and what is to be passed on
// in place of all that follows; nil: everything may.
func (f *follower) pass(b []byte) (n int, instead []byte) {
	for n < len(b) && !f.off {
		switch {
		case f.framing != nil:
			k, err := f.framing.Next(b[n:])
			if n += k; n > 0 {
				f.last = b[n-1]
			}
			if err != nil {
				f.off = true
				return n, brokenChunk(f.framing.InTrailer(), f.last)
			}
			if f.framing.Done() {
				f.framing = nil
			}
		case f.left > 0:
			k := min(f.left, int64(len(b)-n))
			n += int(k)
			f.left -= k
		default:
			k, ok := f.headOf(b[n:])
			if !ok {
				f.off, f.head = true, nil
				return n, []byte("\x00\r\n\r\n") // no line has that
			}
			n += k
		}
	}
	return len(b), nil
}

// brokenChunk is what the server takes for a broken chunk, or a broken trailer, behind a
// byte.
func brokenChunk(trailer bool, last byte) []byte {
	switch {
	case last == '\r', trailer && last == '\n':
		return []byte("\x00\r\n\r\n") // no line has that
	case trailer:
		return []byte("\r\n\x00\r\n\r\n")
	}
	return []byte("\n\x00\r\n\r\n") // a line that ends with LF alone
}

// headOf takes the next part of a head; false: it is forbidden.
func (f *follower) headOf(b []byte) (n int, ok bool) {
	had := len(f.head)
	if had == 0 {
		for n < len(b) && (b[n] == '\r' || b[n] == '\n') {
			n++ // empty lines before a request
		}
	}
	head := b[n:]
	if had > 0 {
		f.head = append(f.head, head...)
		head = f.head
	}
	size := message.EndOfHead(head, f.seen)
	if size == 0 {
		if had == 0 {
			f.head = append(f.head, head...)
		}
		f.seen = len(f.head)
		if len(f.head) > maxFollowed {
			f.off, f.head = true, nil
		}
		return len(b), true
	}
	r := followed.Get().(*message.Request)
	defer followed.Put(r)
	if r.ParseHead(head, size) == message.Forbidden {
		return 0, false
	}
	f.head, f.seen, f.left = nil, 0, r.Length
	if r.Coded {
		f.framing = &message.Chunks{}
	}
	r.Reset()
	return n + size - had, true
}

// Unfollow stops looking at what comes over a connection that was handed over: from here on
// another protocol is spoken.
func Unfollow(c net.Conn) {
	if r, ok := c.(*replayed); ok && r.follow != nil {
		r.follow.off = true
	}
}
