package h2server

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

// answer is an http.ResponseWriter. It belongs to the goroutine of its handler.
type answer struct {
	s    *stream
	h    http.Header
	code int // 0: there is none yet
	// head is what it begins with, until that is sent: who sends nothing more says so with it, as
	// gRPC needs it.
	head     []headField
	sent     bool     // head was
	bare     bool     // it has no body, whatever is written
	trailers []string // that were announced
	unsent   int      // bytes that may wait for more
}

// headField is a header as it was when the answer began.
type headField struct {
	name   string
	values []string
}

// lower are the names of most headers, as HTTP/2 writes them.
var lower = func() map[string]string {
	m := map[string]string{}
	for _, name := range []string{
		"Accept-Ranges", "Age", "Alt-Svc", "Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language",
		"Content-Length", "Content-Range", "Content-Type", "Date", "Endpoint-Load-Metrics", "Endpoint-Load-Metrics-Bin",
		"Etag", "Expires", "Grpc-Accept-Encoding", "Grpc-Encoding", "Grpc-Message", "Grpc-Status",
		"Grpc-Status-Details-Bin", "Last-Modified", "Link", "Location", "Retry-After", "Server", "Set-Cookie",
		"Strict-Transport-Security", "Trailer", "Vary", "Verge-Refused", "Via", "Www-Authenticate", "X-Request-Id",
	} {
		m[name] = strings.ToLower(name)
	}
	return m
}()

// unique headers have another value in each answer: in the table of what was sent before they would
// only push out the others.
var unique = map[string]bool{
	"Content-Length": true, "Endpoint-Load-Metrics": true, "Endpoint-Load-Metrics-Bin": true, "Etag": true,
	"X-Request-Id": true,
}

// hop headers do not exist in HTTP/2 (RFC 9113, 8.2.2).
var hop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Transfer-Encoding": true, "Upgrade": true,
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.h }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(code int) {
	if a.code != 0 {
		return
	}
	if code >= 100 && code < 200 {
		a.interim(code)
		return
	}
	s, c := a.s, a.s.c
	a.code = code
	if _, dated := a.h["Date"]; !dated {
		a.h["Date"] = []string{time.Now().UTC().Format(http.TimeFormat)}
	}
	for _, list := range a.h["Trailer"] {
		for name := range strings.SplitSeq(list, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); httpguts.ValidTrailerHeader(name) &&
				len(a.trailers) < frames.MaxNames {
				a.trailers = append(a.trailers, name)
			}
		}
	}
	length := a.h["Content-Length"]
	a.bare = s.req.Method == http.MethodHead || code == http.StatusNoContent || code == http.StatusNotModified ||
		len(length) == 1 && length[0] == "0"
	a.head = make([]headField, 0, len(a.h))
	for name, values := range a.h {
		if len(values) > 0 && !hop[name] && !strings.HasPrefix(name, http.TrailerPrefix) {
			a.head = append(a.head, headField{name, values})
		}
	}
	if v := a.h["Connection"]; httpguts.HeaderValuesContainsToken(v, "close") {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.leave(http2.ErrCodeNo)
	}
}

// putHead sends the head, if it was not. end: nothing follows.
func (a *answer) putHead(end bool) {
	if a.sent {
		return
	}
	a.sent = true
	c := a.s.c
	c.out.Head()
	c.out.Field(":status", strconv.Itoa(a.code), false)
	for _, f := range a.head {
		c.fields(f.name, f.values)
	}
	a.head = nil
	c.out.Headers(a.s.id, end)
}

// fields puts the values of a header into the block. What nobody may send is left out.
func (c *session) fields(name string, values []string) {
	wire, known := lower[name]
	if !known {
		if !httpguts.ValidHeaderFieldName(name) {
			return
		}
		wire = strings.ToLower(name)
	}
	for _, v := range values {
		if httpguts.ValidHeaderFieldValue(v) {
			c.out.Field(wire, v, unique[name])
		}
	}
}

// interim is an answer before the answer.
func (a *answer) interim(code int) {
	s, c := a.s, a.s.c
	if code == http.StatusSwitchingProtocols {
		return // there is none in HTTP/2
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err != nil || c.streams[s.id] != s {
		return
	}
	c.out.Head()
	c.out.Field(":status", strconv.Itoa(code), false)
	for name, values := range a.h {
		if !hop[name] && !strings.HasPrefix(name, http.TrailerPrefix) {
			c.fields(name, values)
		}
	}
	c.out.Headers(s.id, false)
	c.out.Flush()
}

// Write implements http.ResponseWriter. Some kilobytes wait for more of the answer, or its end, or
// Flush.
func (a *answer) Write(p []byte) (int, error) {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	if a.bare {
		if a.s.req.Method == http.MethodHead {
			return len(p), nil
		}
		return 0, http.ErrBodyNotAllowed
	}
	n, err := a.write(p)
	if a.unsent += n; a.unsent > soon {
		a.unsent = 0
		a.s.c.out.Flush()
	}
	return n, err
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError is Flush for http.ResponseController. An error says that nobody gets it.
func (a *answer) FlushError() error {
	if a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	a.unsent = 0
	s, c := a.s, a.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.err == nil {
		a.putHead(false)
		c.out.Flush()
	}
	return s.err
}

// write sends a part of the body, and waits for room.
func (a *answer) write(p []byte) (n int, err error) {
	s, c := a.s, a.s.c
	for {
		c.mu.Lock()
		if s.err == nil {
			a.putHead(false)
		}
		for s.err == nil && n < len(p) && s.window > 0 && c.window > 0 && !c.out.Full() {
			k := int(min(int64(len(p)-n), int64(c.out.MaxFrame), s.window, c.window))
			s.window -= int64(k)
			c.window -= int64(k)
			c.out.Data(s.id, false, p[n:n+k])
			n += k
		}
		err = s.err
		s.blocked = err == nil && n < len(p)
		c.mu.Unlock()
		if err != nil || n == len(p) {
			return n, err
		}
		c.out.Flush()
		<-s.send // also when the stream ends
	}
}

// finish ends the answer; whole: the handler has made all of it.
func (a *answer) finish(whole bool) {
	if whole && a.code == 0 {
		a.WriteHeader(http.StatusOK)
	}
	s, c := a.s, a.s.c
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running--
	s.deaf = true
	if s.timer != nil {
		s.timer.Stop()
	}
	if s.err != nil || c.streams[s.id] != s {
		return
	}
	s.said = true
	switch trailers := a.anyTrailer(); {
	case !whole:
		c.forget(s, true, http2.ErrCodeInternal)
		return
	case trailers:
		a.putHead(false)
		a.putTrailers()
		c.out.Headers(s.id, true)
	case !a.sent:
		a.putHead(true)
	default:
		c.out.Data(s.id, true, nil)
	}
	c.forget(s, !s.came, http2.ErrCodeNo) // the rest of the request is of no use
	c.out.Flush()
}

// anyTrailer says whether there are trailers.
func (a *answer) anyTrailer() bool {
	for _, name := range a.trailers {
		if len(a.h[name]) > 0 {
			return true
		}
	}
	for name := range a.h {
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return true
		}
	}
	return false
}

// putTrailers puts the trailers into the block.
func (a *answer) putTrailers() {
	c := a.s.c
	c.out.Head()
	for _, name := range a.trailers {
		c.fields(name, a.h[name])
	}
	for name, values := range a.h {
		if name, is := strings.CutPrefix(name, http.TrailerPrefix); is && httpguts.ValidTrailerHeader(name) {
			c.fields(http.CanonicalHeaderKey(name), values)
		}
	}
}

// SetReadDeadline is for http.ResponseController: who reads the body waits until then; zero: for
// ever.
func (a *answer) SetReadDeadline(t time.Time) error {
	s := a.s
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	s.late = false
	if !t.IsZero() {
		var timer *time.Timer
		timer = time.AfterFunc(time.Until(t), func() {
			s.c.mu.Lock()
			defer s.c.mu.Unlock()
			if s.timer == timer {
				s.late = true
				frames.Signal(s.wake)
			}
		})
		s.timer = timer
	}
	return nil
}

var (
	_ http.ResponseWriter = (*answer)(nil)
	_ http.Flusher        = (*answer)(nil)
)
