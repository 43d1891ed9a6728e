package h2client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strconv"
	"time"

	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
	"github.com/verge-edge/verge/internal/proxy/pieces"
)

const (
	// maxInterims are the interim answers to one request.
	maxInterims = 100
	// expectTimeout is how long a server that was asked whether it wants the body may
	// take to say so.
	expectTimeout = time.Second
)

var errBodyLength = errors.New("the body has not the length that was announced")

// interim is an answer before the answer.
type interim struct {
	code int
	h    map[string][]string
}

// stream is a request and its answer. It is the body of that.
type stream struct {
	c      *conn
	id     uint32
	ctx    context.Context
	isHead bool          // the method is HEAD
	wake   chan struct{} // for who waits for the answer
	send   chan struct{} // for who sends the body; nil: there is none
	due    bool          // belongs to the goroutine that reads

	// Guarded by c.mu.
	window   int64 // what the server takes
	blocked  bool  // send is to be signalled when there is room
	sent     bool  // all of the request was
	stopped  bool  // nothing more of it is
	carryOn  bool  // the server wants the body
	recv     int64 // what the server may send
	unsaid   int   // was read, and the server does not know
	interims int
	interim  []interim
	res      *http.Response
	left     int64         // of the body that was announced; -1: it was not
	in       pieces.Pieces // that nobody has read yet
	trailer  map[string][]string
	ended    bool // the answer
	err      error
}

// await waits for the head of the answer.
func (s *stream) await(ctx context.Context, interim func(int, textproto.MIMEHeader)) (*http.Response, error) {
	for {
		s.c.mu.Lock()
		res, err, early := s.res, s.err, s.interim
		s.interim = nil
		s.c.mu.Unlock()
		for _, i := range early {
			if interim != nil {
				interim(i.code, i.h)
			}
		}
		switch {
		case res != nil:
			if res.Body == http.NoBody {
				s.cancel(http2.ErrCodeNo) // of the request no more is needed
			}
			return res, nil
		case err != nil:
			return nil, err
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			s.cancel(http2.ErrCodeCancel)
			return nil, ctx.Err()
		}
	}
}

// Read implements io.Reader. It says that the body is over together with the last of it
// where that is known already.
func (s *stream) Read(p []byte) (int, error) {
	for {
		s.c.mu.Lock()
		n := s.in.Read(p)
		s.taken(n)
		err, over := s.err, s.in.Empty() && s.ended && s.err == nil
		s.c.mu.Unlock()
		switch {
		case over:
			s.over()
			return n, io.EOF
		case n > 0 || len(p) == 0:
			return n, nil
		case err != nil:
			return 0, err
		}
		select {
		case <-s.wake:
		case <-s.ctx.Done():
			s.cancel(http2.ErrCodeCancel)
			return 0, s.ctx.Err()
		}
	}
}

// Ready says whether Read has something to say at once.
func (s *stream) Ready() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return !s.in.Empty() || s.ended || s.err != nil
}

// over is called when the answer was read to its end.
func (s *stream) over() {
	for name, values := range s.trailer { // nobody writes it any more
		if s.res.Trailer == nil {
			s.res.Trailer = make(http.Header, len(s.trailer))
		}
		s.res.Trailer[name] = values
	}
	s.cancel(http2.ErrCodeNo)
}

// Close implements io.Closer: nobody reads on.
func (s *stream) Close() error {
	s.cancel(http2.ErrCodeCancel)
	return nil
}

// cancel ends what is not over yet. Where only the request is not, its rest is of no use
// to a server that has answered.
func (s *stream) cancel(code http2.ErrCode) {
	s.c.mu.Lock()
	if s.ended && code != http2.ErrCodeNo {
		code = http2.ErrCodeNo
	}
	s.stopLocked()
	if !s.ended && s.err == nil {
		s.err = context.Canceled
	}
	s.c.closeLocked(s, true, code)
	s.c.mu.Unlock()
	s.c.cl.freed()
}

// stopLocked ends the sending of the body.
func (s *stream) stopLocked() {
	s.stopped = true
	frames.Signal(s.send)
}

// failLocked ends the stream with an error.
func (s *stream) failLocked(err error) {
	s.stopLocked()
	if s.err == nil && !s.ended {
		s.err = err
	}
	frames.Signal(s.wake)
}

// taken says that n buffered bytes were read; the server gets a window update when half of its
// window is used.
func (s *stream) taken(n int) {
	if s.unsaid += n; s.unsaid < streamWindow/2 || s.ended || s.err != nil {
		return
	}
	_ = s.c.out.WriteWindowUpdate(s.id, uint32(s.unsaid)) // to memory
	s.recv += int64(s.unsaid)
	s.unsaid = 0
	s.c.out.Flush()
}

// answer notes the head of the answer.
func (s *stream) answer(code int, h http.Header, ended bool) error {
	res := &http.Response{
		StatusCode: code, Proto: "HTTP/2.0", ProtoMajor: 2, Header: h, ContentLength: -1, Body: s,
	}
	if v := h["Content-Length"]; len(v) == 1 {
		if n, err := strconv.ParseUint(v[0], 10, 63); err == nil {
			res.ContentLength = int64(n)
		} else {
			return fmt.Errorf("a length of %q", v[0])
		}
	} else if len(v) > 1 {
		return errors.New("two lengths")
	}
	if v := h["Trailer"]; len(v) > 0 {
		res.Trailer = announced(v)
		delete(h, "Trailer")
	}
	switch {
	case ended && !s.isHead && res.ContentLength > 0 && code != http.StatusNotModified:
		return io.ErrUnexpectedEOF
	case ended:
		if res.ContentLength < 0 && !s.isHead {
			res.ContentLength = 0
		}
		res.Body = http.NoBody
	case s.isHead:
		s.left = 0
	default:
		s.left = res.ContentLength
	}
	s.res = res
	return nil
}

// pump sends the body of a request.
func (s *stream) pump(req *http.Request, body io.Reader) {
	defer s.c.cl.freed()
	if expects(req.Header) && !s.wanted() {
		return
	}
	buf := pieces.Buffers.Get().(*[pieces.Size]byte)
	defer pieces.Buffers.Put(buf)
	left := req.ContentLength
	if left == 0 {
		left = -1 // there is a body, and nobody has said how long it is
	}
	for {
		n, err := s.more(body, buf[:])
		last := errors.Is(err, io.EOF)
		if left >= 0 {
			if left -= int64(n); left < 0 || last && left > 0 {
				s.give(errBodyLength)
				return
			}
			last = last || left == 0
		}
		end := last && len(req.Trailer) == 0
		if (n > 0 || end) && !s.write(buf[:n], end) {
			return
		}
		if last {
			if !end {
				s.writeTrailer(req.Trailer)
			}
			return
		}
		if err != nil {
			s.give(err)
			return
		}
	}
}

// more reads of the body, which is somebody else's.
func (s *stream) more(body io.Reader, p []byte) (n int, err error) {
	defer s.c.cl.fault(&err)
	return body.Read(p)
}

// give ends the stream because of the body.
func (s *stream) give(err error) {
	s.c.mu.Lock()
	s.failLocked(fmt.Errorf("send the body: %w", err))
	s.c.closeLocked(s, true, http2.ErrCodeCancel)
	s.c.mu.Unlock()
	s.c.cl.freed()
}

// wanted waits until the server asks for the body, or until its time for that is over; false: it
// has answered without it.
func (s *stream) wanted() bool {
	t := time.NewTimer(expectTimeout)
	defer t.Stop()
	for {
		s.c.mu.Lock()
		carryOn, stopped, answered := s.carryOn, s.stopped, s.res != nil
		s.c.mu.Unlock()
		switch {
		case stopped:
			return false
		case carryOn || answered:
			return true
		}
		select {
		case <-s.send:
		case <-t.C:
			return true
		}
	}
}

// write sends a part of the body; false: nothing more is to be sent.
func (s *stream) write(p []byte, end bool) bool {
	c := s.c
	for {
		c.mu.Lock()
		for !s.stopped && (len(p) > 0 || end) && (len(p) == 0 || s.window > 0 && c.window > 0) &&
			!c.out.Full() {
			n := int(min(int64(len(p)), int64(c.out.MaxFrame), max(s.window, 0), max(c.window, 0)))
			s.window -= int64(n)
			c.window -= int64(n)
			c.out.Data(s.id, end && n == len(p), p[:n])
			if p = p[n:]; len(p) == 0 {
				if end {
					s.sentLocked()
				}
				c.mu.Unlock()
				c.out.Flush()
				return true
			}
		}
		if s.stopped {
			c.mu.Unlock()
			return false
		}
		s.blocked = true
		c.mu.Unlock()
		c.out.Flush()
		<-s.send // also when the stream ends
	}
}

// sentLocked: all of the request was sent.
func (s *stream) sentLocked() {
	if s.sent = true; s.ended {
		s.c.closeLocked(s, false, 0)
	}
}

// writeTrailer ends the request with trailers.
func (s *stream) writeTrailer(h http.Header) {
	c := s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.stopped {
		return
	}
	c.trailerLocked(h)
	c.out.Headers(s.id, true)
	s.sentLocked()
	c.out.Flush()
}
