package h2client

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

// reading is what the goroutine has that reads.
type reading struct {
	fr      *http2.Framer
	names   frames.Names
	settled bool      // the server's first frame has come
	window  int64     // that the server has
	woken   []*stream // to be woken when all that has come was looked at
	room    bool      // there is, for those who wait for a stream
	leaves  bool      // the connection takes nothing new
}

func (r *reading) begin(c *conn) {
	r.fr = http2.NewFramer(io.Discard, bufio.NewReaderSize(&socket{c}, 8<<10))
	r.fr.ReadMetaHeaders = hpack.NewDecoder(frames.TableSize, nil)
	r.fr.MaxHeaderListSize = c.cl.o.MaxHead
	r.fr.SetMaxReadFrameSize(frames.DefaultFrame)
	r.fr.SetReuseFrames()
	r.names = frames.Names{}
	r.window = connWindow
}

// socket is where a connection is read from. Before it waits for more, those are woken
// for whom something has come: a message and its end often come at once, and whoever is
// woken between them has twice the work.
type socket struct{ c *conn }

// Read implements io.Reader.
func (s *socket) Read(p []byte) (int, error) {
	s.c.in.rouse()
	return s.c.nc.Read(p)
}

func (r *reading) rouse() {
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

// read reads until the end of the connection, and says why it has ended. A fault of ours
// ends this connection and no other.
func (r *reading) read(c *conn) (err error) {
	defer r.rouse()
	defer c.cl.fault(&err)
	for {
		f, err := r.fr.ReadFrame()
		if err == nil {
			err = r.frame(c, f)
		}
		var se http2.StreamError
		if errors.As(err, &se) {
			err = r.broken(c, se)
		}
		// Notifications are sent without the lock.
		if r.leaves {
			c.cl.drop(c)
		} else if r.room {
			c.cl.freed()
		}
		if r.room, r.leaves = false, false; err != nil {
			return brokenRules(err)
		}
	}
}

// brokenRules says so of an error of the protocol. The server is not told which: it is
// not one that would know what to do about it.
func brokenRules(err error) error {
	var ce http2.ConnectionError
	if errors.As(err, &ce) || errors.Is(err, http2.ErrFrameTooLarge) {
		return fmt.Errorf("the server breaks the rules of HTTP/2: %w", err)
	}
	return err
}

// broken resets the stream whose rules the server has broken.
func (r *reading) broken(c *conn, se http2.StreamError) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[se.StreamID]
	if s == nil {
		return nil
	}
	s.failLocked(fmt.Errorf("the server breaks the rules of HTTP/2: %w", se))
	c.closeLocked(s, true, se.Code)
	r.room = true
	return c.out.Bounded()
}

func (r *reading) frame(c *conn, f http2.Frame) error {
	if _, ok := f.(*http2.SettingsFrame); !ok && !r.settled {
		return http2.ConnectionError(http2.ErrCodeProtocol)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
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
		r.goAway(c, f)
	case *http2.PushPromiseFrame:
		return http2.ConnectionError(http2.ErrCodeProtocol) // it was told not to
	}
	return nil // others have no meaning here
}

// streamOf is the stream of a frame; nil: it has ended already. One that was never opened
// is an error.
func (r *reading) streamOf(c *conn, id uint32) (*stream, error) {
	if s := c.streams[id]; s != nil {
		return s, nil
	}
	if id%2 == 0 || id >= c.next {
		return nil, http2.ConnectionError(http2.ErrCodeProtocol)
	}
	return nil, nil
}

func (r *reading) data(c *conn, f *http2.DataFrame) error {
	n := int64(f.Length)
	if r.window -= n; r.window < 0 {
		return http2.ConnectionError(http2.ErrCodeFlowControl)
	}
	if r.window < connWindow/2 {
		_ = c.out.WriteWindowUpdate(0, uint32(connWindow-r.window)) // to memory
		r.window = connWindow
		c.out.Flush()
	}
	s, err := r.streamOf(c, f.StreamID)
	if s == nil {
		return err
	}
	if s.res == nil || s.ended {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol}
	}
	if s.recv -= n; s.recv < 0 {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeFlowControl}
	}
	b := f.Data()
	s.taken(int(n) - len(b)) // what is only padding
	if s.left >= 0 {
		if s.left -= int64(len(b)); s.left < 0 {
			return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol,
				Cause: errors.New("more came than was announced")}
		}
	}
	s.in.Add(b)
	r.later(s)
	if f.StreamEnded() {
		return r.end(c, s)
	}
	return nil
}

// end is that of an answer.
func (r *reading) end(c *conn, s *stream) error {
	if s.left > 0 {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol, Cause: io.ErrUnexpectedEOF}
	}
	s.ended = true
	r.later(s)
	if s.sent {
		c.closeLocked(s, false, 0)
		r.room = true
	}
	return nil
}

func (r *reading) headers(c *conn, f *http2.MetaHeadersFrame) error {
	s, err := r.streamOf(c, f.StreamID)
	if s == nil {
		return err
	}
	wrong := func(why string) error {
		return http2.StreamError{StreamID: s.id, Code: http2.ErrCodeProtocol, Cause: errors.New(why)}
	}
	switch {
	case s.ended:
		return wrong("headers after the end")
	case f.Truncated:
		return wrong("a head that is too large")
	case s.res != nil: // trailers
		if !f.StreamEnded() || len(f.PseudoFields()) > 0 {
			return wrong("a second head")
		}
		s.trailer = r.header(f.RegularFields())
		return r.end(c, s)
	}
	code, ok := status(f)
	if !ok || code == 101 {
		return wrong("a head without a status that counts")
	}
	if code < 200 {
		if s.interims++; f.StreamEnded() || s.interims > maxInterims {
			return wrong("interim answers that end, or too many")
		}
		if code == 100 {
			s.carryOn = true
			frames.Signal(s.send)
		}
		s.interim = append(s.interim, interim{code, r.header(f.RegularFields())})
		r.later(s)
		return nil
	}
	if err := s.answer(code, r.header(f.RegularFields()), f.StreamEnded()); err != nil {
		return wrong(err.Error())
	}
	r.later(s)
	if f.StreamEnded() {
		s.left = 0 // of an answer to HEAD the length is that of another one
		return r.end(c, s)
	}
	return nil
}

// header is what fields say.
func (r *reading) header(fields []hpack.HeaderField) map[string][]string {
	h := make(map[string][]string, len(fields))
	values := make([]string, len(fields))
	for i, f := range fields {
		name := r.names.Of(f.Name)
		values[i] = f.Value
		if before := h[name]; before != nil {
			h[name] = append(before, f.Value)
		} else {
			h[name] = values[i : i+1 : i+1]
		}
	}
	return h
}

// settings of the server.
func (r *reading) settings(c *conn, f *http2.SettingsFrame) error {
	if f.IsAck() {
		if !r.settled {
			return http2.ConnectionError(http2.ErrCodeProtocol)
		}
		return nil
	}
	r.settled = true
	return c.out.Settings(f, func(s http2.Setting) error {
		switch s.ID {
		case http2.SettingMaxConcurrentStreams:
			c.maxStreams = s.Val
			r.room = true
		case http2.SettingMaxHeaderListSize:
			c.maxHead = s.Val
		case http2.SettingInitialWindowSize:
			more := int64(s.Val) - c.first
			for _, s := range c.streams {
				if s.window += more; s.window > frames.MaxWindow {
					return http2.ConnectionError(http2.ErrCodeFlowControl)
				}
			}
			c.first = int64(s.Val)
			c.unblockLocked()
		case http2.SettingEnablePush:
			if s.Val != 0 {
				return http2.ConnectionError(http2.ErrCodeProtocol)
			}
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
		c.unblockLocked()
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

// reset is the server's way to end a stream.
func (r *reading) reset(c *conn, f *http2.RSTStreamFrame) error {
	s, err := r.streamOf(c, f.StreamID)
	if s == nil {
		return err
	}
	switch {
	case s.ended: // it wants nothing more of the request
		s.stopLocked()
	case f.ErrCode == http2.ErrCodeRefusedStream && s.res == nil:
		s.failLocked(fmt.Errorf("%w: it refuses the stream", ErrUnprocessed))
	default:
		s.failLocked(http2.StreamError{StreamID: s.id, Code: f.ErrCode, Cause: errors.New("received from the server")})
	}
	r.later(s)
	c.closeLocked(s, false, 0)
	r.room = true
	return nil
}

// goAway: the server takes nothing new, and of what it was sent nothing above a stream.
func (r *reading) goAway(c *conn, f *http2.GoAwayFrame) {
	c.closing = true
	c.last = min(c.last, f.LastStreamID)
	for id, s := range c.streams {
		if id > c.last {
			s.failLocked(fmt.Errorf("%w: it is about to end (%s)", ErrUnprocessed, f.ErrCode))
			r.later(s)
			c.closeLocked(s, false, 0)
		}
	}
	c.settleLocked()
	r.leaves = true
}
