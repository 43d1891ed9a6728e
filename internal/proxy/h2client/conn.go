package h2client

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

const (
	// streamWindow bounds what of an answer waits here for whoever reads it.
	streamWindow = 512 << 10
	// connWindow is given back when it comes: the windows of the streams bound what
	// waits, and one that is not read must not hold up the others.
	connWindow = 16 << 20
	// firstStreams may be open as long as the server has not said how many.
	firstStreams = 100
	// mostStreams are open over one connection whatever the server says.
	mostStreams = 250
)

var errClosed = errors.New("the connection is closed")

// conn is a connection. Two goroutines belong to it, one that reads and one that writes;
// both end with the socket.
type conn struct {
	cl   *Client
	nc   net.Conn
	over chan struct{} // closed at the end
	in   reading       // belongs to the goroutine that reads

	mu       sync.Mutex // after that of the Client; guards below
	streams  map[uint32]*stream
	reserved int    // streams to come
	opened   bool   // one was
	next     uint32 // identifier of a stream
	last     uint32 // that the server will serve
	begun    uint32 // streams below may have been written to the socket
	ended    error  // nil: it lives
	closing  bool   // no new streams
	rested   time.Time
	idle     *time.Timer

	// What the server takes.
	maxStreams, maxHead uint32
	window, first       int64 // of the connection; of a new stream

	out *frames.Writer
}

func newConn(cl *Client, nc net.Conn) *conn {
	c := &conn{
		cl: cl, nc: nc, out: frames.New(), over: make(chan struct{}),
		streams: map[uint32]*stream{}, next: 1, last: frames.MaxWindow, rested: time.Now(),
		maxStreams: firstStreams, maxHead: 1<<32 - 1, window: frames.DefaultWindow,
		first: frames.DefaultWindow,
	}
	c.out.Raw(http2.ClientPreface)
	_ = c.out.WriteSettings( // to memory
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: cl.o.MaxHead})
	_ = c.out.WriteWindowUpdate(0, connWindow-frames.DefaultWindow)
	c.in.begin(c)
	return c
}

// run reads and writes until the end.
func (c *conn) run() {
	if c.cl.o.Idle > 0 {
		c.mu.Lock()
		c.idle = time.AfterFunc(c.cl.o.Idle, c.rest)
		c.mu.Unlock()
	}
	c.out.Flush()
	go c.write() // ends with the socket
	c.end(c.in.read(c))
}

// write writes what others have put into out. Whoever has more to say at once is faster
// than this goroutine, so that all of it is one write.
func (c *conn) write() {
	var buf []byte
	for {
		select {
		case <-c.out.Pending():
		case <-c.over:
			return
		}
		c.mu.Lock()
		buf = c.out.Take(buf)
		c.begun = c.next
		full := len(buf) >= frames.MaxUnwritten
		bye := c.closing && len(c.streams) == 0 && c.reserved == 0
		c.mu.Unlock()
		if len(buf) > 0 {
			if _, err := c.nc.Write(buf); err != nil {
				c.end(err)
				return
			}
		}
		if bye {
			c.end(errClosed)
			return
		}
		if buf = frames.Reusable(buf); full {
			c.mu.Lock()
			c.unblockLocked()
			c.mu.Unlock()
		}
	}
}

// unblockLocked wakes the bodies that wait for room.
func (c *conn) unblockLocked() {
	for _, s := range c.streams {
		if s.blocked {
			s.blocked = false
			frames.Signal(s.send)
		}
	}
}

// reserve takes room for a stream; false: there is none.
func (c *conn) reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.ended != nil || c.cl.o.Once && (c.opened || c.reserved > 0) ||
		len(c.streams)+c.reserved >= int(min(c.maxStreams, mostStreams)) || c.next >= frames.MaxWindow-2*mostStreams {
		return false
	}
	c.reserved++
	return true
}

func (c *conn) unreserve() {
	c.mu.Lock()
	c.reserved--
	c.settleLocked()
	c.mu.Unlock()
	c.cl.freed()
}

// settleLocked ends a connection that has nothing more to do.
func (c *conn) settleLocked() {
	if len(c.streams) > 0 || c.reserved > 0 {
		return
	}
	if c.closing {
		c.out.Flush() // who writes ends it
		return
	}
	c.rested = time.Now()
}

// retire has the connection take nothing new, and end with what it carries.
func (c *conn) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	c.settleLocked()
}

// rest is called when the connection may have rested for long enough.
func (c *conn) rest() {
	c.mu.Lock()
	resting := len(c.streams) == 0 && c.reserved == 0
	left := c.cl.o.Idle - time.Since(c.rested)
	switch {
	case c.ended != nil:
	case !resting:
		c.idle.Reset(c.cl.o.Idle)
	case left > 0:
		c.idle.Reset(left)
	default:
		c.closing = true
		c.settleLocked()
	}
	closing := c.closing
	c.mu.Unlock()
	if closing {
		c.cl.drop(c)
	}
}

// end ends the connection, and everything that it carries with err.
func (c *conn) end(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // it is none where somebody waits
	}
	c.mu.Lock()
	if c.ended != nil {
		c.mu.Unlock()
		return
	}
	c.ended, c.closing = err, true
	if c.idle != nil {
		c.idle.Stop()
	}
	for id, s := range c.streams {
		delete(c.streams, id)
		if id > c.last || id >= c.begun {
			s.failLocked(fmt.Errorf("%w: %w", ErrUnprocessed, err))
		} else {
			s.failLocked(fmt.Errorf("over HTTP/2: %w", err))
		}
	}
	close(c.over)
	c.mu.Unlock()
	_ = c.nc.Close()
	c.cl.drop(c)
}

// open sends the head of a request, for which there is a reservation, and begins to send
// its body.
func (c *conn) open(req *http.Request) (*stream, error) {
	body := req.Body
	if body == http.NoBody {
		body = nil
	}
	s := &stream{c: c, ctx: req.Context(), wake: make(chan struct{}, 1), isHead: req.Method == http.MethodHead,
		left: -1, recv: streamWindow}
	if body != nil {
		s.send = make(chan struct{}, 1)
	}
	c.mu.Lock()
	c.reserved--
	var err error
	if c.ended != nil || c.next > c.last {
		err = fmt.Errorf("%w: the connection has ended", ErrUnprocessed)
	} else {
		err = c.headLocked(req, body != nil)
	}
	if err != nil {
		c.settleLocked()
		c.mu.Unlock()
		c.cl.freed()
		return nil, err
	}
	s.id, s.window, s.sent = c.next, c.first, body == nil
	c.out.Headers(s.id, s.sent)
	c.next += 2
	c.streams[s.id] = s
	if c.opened = true; c.cl.o.Once {
		c.closing = true
	}
	c.mu.Unlock()
	c.out.Flush()
	if body != nil {
		go s.pump(req, body) // ends with the body, whose Read returns when the request is over
	}
	return s, nil
}

// closeLocked ends a stream in good or bad order and makes room for another one. A code
// other than that of no error tells the server.
func (c *conn) closeLocked(s *stream, tell bool, code http2.ErrCode) {
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	if tell {
		_ = c.out.WriteRSTStream(s.id, code) // to memory
		c.out.Flush()
	}
	c.settleLocked()
}
