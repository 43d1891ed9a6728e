package h2server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime/debug"
	"time"

	"golang.org/x/net/http/httpguts"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

// reading is what the goroutine has that reads.
type reading struct {
	from    *bufio.Reader
	fr      *http2.Framer
	names   frames.Names
	settled bool      // the client's first frame has come
	woken   []*stream // to be woken when all that has come was looked at
	begun   []*stream // to be answered then
}

func (r *reading) begin(c *conn) {
	r.from = bufio.NewReaderSize(&socket{c}, 8<<10)
	r.fr = http2.NewFramer(io.Discard, r.from)
	r.fr.ReadMetaHeaders = hpack.NewDecoder(frames.TableSize, nil)
	r.fr.MaxHeaderListSize = c.o.MaxHead
	r.fr.SetMaxReadFrameSize(frames.DefaultFrame)
	r.fr.SetReuseFrames()
	r.names = frames.Names{}
}

// rouse wakes who reads a body of which more has come, and begins with the requests that have: a
// small one is there as a whole then.
func (r *reading) rouse() {
	for i, s := range r.begun {
		s.begin()
		r.begun[i] = nil
	}
	r.begun = r.begun[:0]
	for i, s := range r.woken {
		s.due = false
		frames.Signal(s.wake)
		r.woken[i] = nil
	}
	r.woken = r.woken[:0]
}

func (r *reading) later(s *stream) {
	if !s.due {
		s.due = true
		r.woken = append(r.woken, s)
	}
}

// read reads until the end of the connection, and says why it has ended. A fault of ours ends this
// connection and no other.
func (c *conn) read() (err error) {
	r := &c.in
	defer r.rouse()
	defer func() {
		if what := recover(); what != nil {
			err = fmt.Errorf("a fault of this program: %v", what)
			c.o.Log.Error("a connection made the router panic, please report this", "what", what, "stack",
				string(debug.Stack()))
		}
	}()
	_ = c.nc.SetReadDeadline(time.Now().Add(firstFrame)) // one that is closed says so when it is read
	if err := preface(r.from); err != nil {
		return err
	}
	for {
		f, err := r.fr.ReadFrame()
		if err == nil {
			err = r.frame(c, f)
		}
		var se http2.StreamError
		if errors.As(err, &se) {
			err = r.broken(c, se)
		}
		if err != nil {
			c.tell(err)
			return fmt.Errorf("over HTTP/2: %w", err)
		}
	}
}

// tell says goodbye to a client that breaks the rules.
func (c *conn) tell(err error) {
	var ce http2.ConnectionError
	var code http2.ErrCode
	switch {
	case errors.As(err, &ce):
		code = http2.ErrCode(ce)
	case errors.Is(err, http2.ErrFrameTooLarge):
		code = http2.ErrCodeFrameSize
	case errors.Is(err, frames.ErrStuck):
		code = http2.ErrCodeEnhanceYourCalm
	default:
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended == nil {
		_ = c.out.WriteGoAway(c.last, code, nil) // to memory
	}
}

// broken resets the stream whose rules the client has broken.
func (r *reading) broken(c *conn, se http2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A head that is malformed has opened its stream all the same.
	if c.last = max(c.last, se.StreamID); c.ended != nil {
		return c.ended
	}
	if s := c.streams[se.StreamID]; s != nil {
		s.fail(fmt.Errorf("the client breaks the rules of HTTP/2: %w", se))
		c.forget(s, true, se.Code)
	} else {
		_ = c.out.WriteRSTStream(se.StreamID, se.Code) // to memory
		c.out.Flush()
	}
	return c.out.Bounded()
}

func (r *reading) frame(c *conn, f http2.Frame) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !r.settled {
		if s, ok := f.(*http2.SettingsFrame); !ok || s.IsAck() {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		r.settled = true
		_ = c.nc.SetReadDeadline(time.Time{}) // one that is closed says so when it is read
		c.idle = time.AfterFunc(c.o.Idle, c.rest)
	}
	if c.ended != nil {
		return c.ended
	}
	if err := c.out.Bounded(); err != nil {
		return err
	}
	switch f := f.(type) {
	case *http2.DataFrame:
		return r.data(c, f)
	case *http2.MetaHeadersFrame:
		return r.headers(c, f)
	case *http2.SettingsFrame:
		return r.settings(c, f)
	case *http2.WindowUpdateFrame:
		return r.update(c, f)
	case *http2.RSTStreamFrame:
		return r.reset(c, f)
	case *http2.PingFrame:
		if !f.IsAck() {
			_ = c.out.WritePing(true, f.Data) // to memory
			c.out.Flush()
		}
	case *http2.GoAwayFrame:
		if f.ErrCode != http2.ErrCodeNo {
			return fmt.Errorf("the client gives the connection up: %s", f.ErrCode)
		}
		c.leave(http2.ErrCodeNo)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil // others have no meaning here
}

// streamOf is the stream of a frame; nil: it has ended already. One that was never opened is an
// error.
func (r *reading) streamOf(c *conn, id uint32) (*stream, error) {
	if s := c.streams[id]; s != nil {
		return s, nil
	}
	if id%2 == 0 || id > c.last && !c.closing { // who was told to go may not have known it
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil, nil
}

func (r *reading) data(c *conn, f *http2.DataFrame) error {
	n := int64(f.Length)
	if c.recv -= n; c.recv < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	s, err := r.streamOf(c, f.StreamID)
	if s == nil {
		c.taken(int(n)) // nobody reads it
		return err
	}
	if s.came {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	}
	if s.recv -= n; s.recv < 0 {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
	}
	b := f.Data()
	s.waits += int(n)
	s.taken(int(n) - len(b)) // what is only padding
	if s.left >= 0 {
		if s.left -= int64(len(b)); s.left < 0 {
			return s.wrong("more of a body came than was announced")
		}
	}
	if s.deaf {
		s.taken(len(b))
	} else {
		s.in.Add(b)
		r.later(s)
	}
	if f.StreamEnded() {
		return r.end(c, s)
	}
	return nil
}

// end is that of a request.
func (r *reading) end(c *conn, s *stream) error {
	if s.left > 0 {
		return s.wrong("less of a body came than was announced")
	}
	s.came = true
	r.later(s)
	if s.said {
		c.forget(s, false, 0)
	}
	return nil
}

func (r *reading) headers(c *conn, f *http2.MetaHeadersFrame) error {
	if s := c.streams[f.StreamID]; s != nil {
		return r.trailers(c, s, f)
	}
	if f.StreamID%2 == 0 {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	if f.StreamID <= c.last {
		if f.StreamEnded() {
			return nil // trailers of a request that was answered before they came
		}
		return http2.ConnectionError(http2.ErrCodeStreamClosed)
	}
	if c.closing {
		return nil // who was told so asks elsewhere
	}
	c.last = f.StreamID
	if f.HasPriority() && f.Priority.StreamDep == f.StreamID {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol}
	}
	if c.running >= c.o.MaxStreams {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeRefusedStream}
	}
	s := &stream{c: c, id: f.StreamID, wake: make(chan struct{}, 1), send: make(chan struct{}, 1), left: -1,
		recv: streamWindow, window: c.first}
	if err := s.request(r, f); err != nil {
		return http2.StreamError{StreamID: f.StreamID, Code: http2.ErrCodeProtocol, Cause: err}
	}
	c.streams[s.id] = s
	c.running++
	r.begun = append(r.begun, s)
	if f.StreamEnded() {
		return r.end(c, s)
	}
	return nil
}

// trailers of a request.
func (r *reading) trailers(c *conn, s *stream, f *http2.MetaHeadersFrame) error {
	switch {
	case s.came:
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeStreamClosed}
	case !f.StreamEnded() || len(f.PseudoFields()) > 0:
		return s.wrong("a second head")
	case f.Truncated:
		return s.wrong("trailers that are too large")
	}
	h := r.header(f.RegularFields())
	for name := range h {
		if !httpguts.ValidTrailerHeader(name) {
			return s.wrong("a trailer that is none")
		}
	}
	s.trailer = h
	return r.end(c, s)
}

// header is what fields say.
func (r *reading) header(fields []hpack.HeaderField) http.Header {
	h := make(http.Header, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		name := r.names.Of(f.Name)
		values[i] = f.Value
		switch before := h[name]; {
		case before == nil:
			h[name] = values[i : i+1 : i+1]
		case name == "Cookie": // one again (RFC 9113, 8.2.3)
			before[0] += "; " + f.Value
		default:
			h[name] = append(before, f.Value)
		}
	}
	return h
}

// settings of the client.
func (r *reading) settings(c *conn, f *http2.SettingsFrame) error {
	if f.IsAck() {
		return nil
	}
	return c.out.Settings(f, func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingInitialWindowSize:
			more := int64(s.Val) - c.first
			for _, s := range c.streams {
				if s.window += more; s.window > frames.MaxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
			}
			c.first = int64(s.Val)
			c.unblock()
		}
		return nil
	})
}

// update is more room for what is sent.
func (r *reading) update(c *conn, f *http2.WindowUpdateFrame) error {
	if f.StreamID == 0 {
		if c.window += int64(f.Increment); c.window > frames.MaxWindow {
			return http2.ConnectionError(http2.ErrCodeFlowControl)
		}
		c.unblock()
		return nil
	}
	s, err := r.streamOf(c, f.StreamID)
	if s == nil {
		return err
	}
	if s.window += int64(f.Increment); s.window > frames.MaxWindow {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
	}
	if s.blocked {
		s.blocked = false
		frames.Signal(s.send)
	}
	return nil
}

// reset is the client's way to end a stream.
func (r *reading) reset(c *conn, f *http2.RSTStreamFrame) error {
	s, err := r.streamOf(c, f.StreamID)
	if s == nil {
		return err
	}
	s.fail(http2.StreamError{StreamID: s.id, Code: f.ErrCode, Cause: errors.New("received from the client")})
	r.later(s)
	c.forget(s, false, 0)
	return nil
}
