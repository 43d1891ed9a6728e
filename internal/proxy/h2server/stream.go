package h2server

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
	"github.com/verge-edge/verge/internal/proxy/pieces"
)

// stream is a request and its answer. It is the body of the request.
type stream struct {
	c    *conn
	id   uint32
	req  *http.Request
	stop context.CancelFunc // ends the context of the request
	wake chan struct{}      // for who reads the body
	send chan struct{}      // for who writes the answer
	due  bool               // belongs to the goroutine that reads the connection
	// refusal is what the request is answered with in place of the handler; 0: nothing.
	refusal int
	// asks: the client waits for a 100 before it sends the body; belongs to who reads that.
	asks bool

	// Guarded by c.mu.
	in      pieces.Pieces // that nobody has read yet
	left    int64         // of the body that was announced; -1: it was not
	recv    int64         // what the client may send
	unsaid  int           // was read, and the client does not know
	waits   int           // bytes that count in the window of the connection
	came    bool          // all of the request has
	deaf    bool          // nobody reads the body any more
	trailer http.Header
	window  int64 // what the client takes
	blocked bool  // send is to be signalled when there is room
	said    bool  // all of the answer was
	err     error
	timer   *time.Timer // see SetReadDeadline
	late    bool        // its time is over
}

var (
	errField     = errors.New("a field that is of the connection")
	errMalformed = errors.New("a head that is malformed")
	errNotRead   = errors.New("the body was closed")
)

// wrong is what the client does wrong on the stream.
func (s *stream) wrong(why string) error {
	return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol, Cause: errors.New(why)}
}

// request makes the request of a head. An error says that it is malformed.
func (s *stream) request(r *reading, f *http2.MetaHeadersFrame) error {
	method, scheme, path, host := f.PseudoValue("method"), f.PseudoValue("scheme"), f.PseudoValue("path"),
		f.PseudoValue("authority")
	h := r.header(f.RegularFields())
	connect := method == http.MethodConnect
	switch {
	case f.PseudoValue("protocol") != "":
		return errMalformed // it was not offered
	case connect && (path != "" || scheme != "" || host == ""),
		!connect && (method == "" || path == "" || scheme != "http" && scheme != "https"):
		return errMalformed
	}
	switch {
	case f.Truncated:
		s.refusal = http.StatusRequestHeaderFieldsTooLarge
	case ofConnection(h) != nil:
		s.refusal = http.StatusBadRequest
	}
	if host == "" {
		if v := h["Host"]; len(v) > 0 {
			host = v[0]
		}
	}
	req := &http.Request{
		Method: method, Proto: "HTTP/2.0", ProtoMajor: 2, Header: h, Host: host, RemoteAddr: s.c.remote,
		RequestURI: path, Body: http.NoBody,
	}
	var err error
	if connect {
		req.URL, req.RequestURI = &url.URL{Host: host}, host
	} else if req.URL, err = url.ParseRequestURI(path); err != nil {
		return errMalformed
	}
	if v := h["Expect"]; len(v) > 0 {
		if s.asks = httpguts.HeaderValuesContainsToken(v, "100-continue"); s.asks {
			delete(h, "Expect")
		}
	}
	for _, list := range h["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			name = http.CanonicalHeaderKey(strings.TrimSpace(name))
			if httpguts.ValidTrailerHeader(name) && len(req.Trailer) < frames.MaxNames {
				if req.Trailer == nil {
					req.Trailer = http.Header{}
				}
				req.Trailer[name] = nil
			}
		}
	}
	delete(h, "Trailer")
	if f.StreamEnded() {
		if v := h["Content-Length"]; len(v) > 0 && v[0] != "0" {
			return errMalformed
		}
	} else {
		req.Body, req.ContentLength = s, -1
		if v := h["Content-Length"]; len(v) > 0 {
			n, err := strconv.ParseUint(v[0], 10, 63)
			if err != nil {
				return errMalformed
			}
			req.ContentLength, s.left = int64(n), int64(n)
		}
	}
	ctx, stop := context.WithCancel(s.c.ctx)
	s.stop = stop
	s.req = req.WithContext(ctx)
	return nil
}

// ofConnection is an error where a field is there that HTTP/2 has none of (RFC 9113, 8.2.2).
func ofConnection(h http.Header) error {
	for _, name := range [...]string{"Connection", "Proxy-Connection", "Keep-Alive", "Transfer-Encoding", "Upgrade"} {
		if _, is := h[name]; is {
			return errField
		}
	}
	if te := h["Te"]; len(te) > 1 || len(te) == 1 && te[0] != "trailers" && te[0] != "" {
		return errField
	}
	return nil
}

// begin has the request answered, in a goroutine of its own, which ends with the handler.
func (s *stream) begin() { s.c.handlers.Go(s.serve) }

// serve answers the request.
func (s *stream) serve() {
	a := &answer{s: s, h: http.Header{}}
	whole := false
	defer func() {
		if what := recover(); !whole && what != nil && what != http.ErrAbortHandler { //nolint:errorlint // it is that value
			s.c.o.Log.Error("a request made the router panic, please report this", "what", what, "stack",
				string(debug.Stack()))
		}
		a.finish(whole)
		s.stop()
	}()
	if s.refusal != 0 {
		a.WriteHeader(s.refusal)
	} else {
		s.c.o.Handler.ServeHTTP(a, s.req)
	}
	whole = true
}

// Read implements io.Reader. It says that the body is over together with the last of it where that
// is known already.
func (s *stream) Read(p []byte) (int, error) {
	if s.asks {
		s.asks = false
		s.carryOn()
	}
	for {
		s.c.mu.Lock()
		n := s.in.Read(p)
		s.taken(n)
		err, over := s.err, s.in.Empty() && s.came
		switch {
		case s.deaf:
			err = errNotRead
		case s.late && err == nil:
			err = os.ErrDeadlineExceeded
		}
		s.c.mu.Unlock()
		switch {
		case over && err == nil, over && n > 0:
			s.over()
			return n, io.EOF
		case n > 0 || len(p) == 0:
			return n, nil
		case err != nil:
			return 0, err
		}
		<-s.wake // also when the stream ends
	}
}

// over is called when the body was read to its end.
func (s *stream) over() {
	for name, values := range s.trailer { // nobody writes it any more
		if _, announced := s.req.Trailer[name]; announced {
			s.req.Trailer[name] = values
		}
	}
}

// Close implements io.Closer: nobody reads on.
func (s *stream) Close() error {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.deaf = true
	if s.c.streams[s.id] == s { // else its part of the window was given back
		s.taken(s.waits)
	}
	s.in = pieces.Pieces{}
	frames.Signal(s.wake)
	return nil
}

// carryOn tells the client to send the body.
func (s *stream) carryOn() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.err == nil && !s.came && !s.said && s.c.streams[s.id] == s {
		s.c.out.Head()
		s.c.out.Field(":status", "100", false)
		s.c.out.Headers(s.id, false)
		s.c.out.Flush()
	}
}

// fail ends the stream with an error.
func (s *stream) fail(err error) {
	if s.err == nil {
		s.err = err
	}
	s.stop()
	frames.Signal(s.wake)
	frames.Signal(s.send)
}

// taken says that n bytes of the body wait no longer.
func (s *stream) taken(n int) {
	if n == 0 || s.c.streams[s.id] != s {
		return // what waited is given back as a whole when a stream is closed
	}
	s.waits -= n
	s.c.taken(n)
	if s.unsaid += n; s.unsaid < streamWindow/2 || s.came || s.err != nil {
		return
	}
	_ = s.c.out.WriteWindowUpdate(s.id, uint32(s.unsaid)) // to memory
	s.recv += int64(s.unsaid)
	s.unsaid = 0
	s.c.out.Flush()
}
