package h2client

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
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
	// maxUnwritten bytes of bodies wait to be written; maxControl of everything: a server
	// that asks for answers (PING, SETTINGS) and reads none has its connection cut.
	maxUnwritten, maxControl = 128 << 10, 1 << 20
	// largeBuffer: one that has become larger is kept only while it is filled.
	largeBuffer = 16 << 10
	maxWindow   = 1<<31 - 1
	// defaultWindow and defaultFrame hold until somebody says otherwise (RFC 9113, 6.5.2).
	defaultWindow, defaultFrame = 65535, 16 << 10
	// largestFrame that is written, whatever the server takes.
	largestFrame = 64 << 10
	// tableSize of the compression of heads.
	tableSize = 4096
)

var (
	errClosed = errors.New("the connection is closed")
	errStuck  = errors.New("the server reads nothing and asks for more and more answers")
)

// conn is a connection. Two goroutines belong to it, one that reads and one that writes;
// both end with the socket.
type conn struct {
	cl   *Client
	nc   net.Conn
	kick chan struct{} // there is something to write
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
	maxFrame            int
	window, first       int64 // of the connection; of a new stream

	out   []byte // is to be written
	fr    *http2.Framer
	enc   *hpack.Encoder
	block bytes.Buffer // where enc writes
}

func newConn(cl *Client, nc net.Conn) *conn {
	c := &conn{
		cl: cl, nc: nc, kick: make(chan struct{}, 1), over: make(chan struct{}),
		streams: map[uint32]*stream{}, next: 1, last: maxWindow, rested: time.Now(),
		maxStreams: firstStreams, maxHead: 1<<32 - 1, maxFrame: defaultFrame, window: defaultWindow,
		first: defaultWindow,
	}
	c.fr = http2.NewFramer((*output)(c), nil)
	c.enc = hpack.NewEncoder(&c.block)
	c.out = append(c.out, http2.ClientPreface...)
	_ = c.fr.WriteSettings( // to memory
		http2.Setting{ID: http2.SettingEnablePush, Val: 0},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: cl.o.MaxHead})
	_ = c.fr.WriteWindowUpdate(0, connWindow-defaultWindow)
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
	c.wrote()
	go c.write() // ends with the socket
	c.end(c.in.read(c))
}

// output is what the Framer writes to.
type output conn

// Write implements io.Writer; the lock is held.
func (o *output) Write(p []byte) (int, error) {
	o.out = append(o.out, p...)
	return len(p), nil
}

// wrote has what was put into out written.
func (c *conn) wrote() {
	select {
	case c.kick <- struct{}{}:
	default:
	}
}

// write writes what others have put into out. Whoever has more to say at once is faster
// than this goroutine, so that all of it is one write.
func (c *conn) write() {
	var buf []byte
	for {
		select {
		case <-c.kick:
		case <-c.over:
			return
		}
		c.mu.Lock()
		buf, c.out = c.out, buf[:0]
		c.begun = c.next
		full := len(buf) >= maxUnwritten
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
		if cap(buf) > largeBuffer && len(buf) < largeBuffer || cap(buf) > maxControl {
			buf = nil
		}
		if full {
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
			signal(s.send)
		}
	}
}

func signal(ch chan struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// reserve takes room for a stream; false: there is none.
func (c *conn) reserve() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing || c.ended != nil || c.cl.o.Once && (c.opened || c.reserved > 0) ||
		len(c.streams)+c.reserved >= int(min(c.maxStreams, mostStreams)) || c.next >= maxWindow-2*mostStreams {
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
		c.wrote() // who writes ends it
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
	c.headersLocked(s.id, s.sent)
	c.next += 2
	c.streams[s.id] = s
	if c.opened = true; c.cl.o.Once {
		c.closing = true
	}
	c.mu.Unlock()
	c.wrote()
	if body != nil {
		go s.pump(req, body) // ends with the body, whose Read returns when the request is over
	}
	return s, nil
}

// dataLocked writes a part of a body: what the Framer does, without a copy more.
func (c *conn) dataLocked(id uint32, end bool, p []byte) {
	n, flags := len(p), http2.Flags(0)
	if end {
		flags = http2.FlagDataEndStream
	}
	c.out = append(c.out, byte(n>>16), byte(n>>8), byte(n), byte(http2.FrameData), byte(flags))
	c.out = binary.BigEndian.AppendUint32(c.out, id)
	c.out = append(c.out, p...)
}

// headersLocked writes what is in block.
func (c *conn) headersLocked(id uint32, end bool) {
	b := c.block.Bytes()
	n := min(len(b), c.maxFrame)
	_ = c.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: b[:n], EndStream: end,
		EndHeaders: n == len(b)}) // to memory
	for b = b[n:]; len(b) > 0; b = b[n:] {
		n = min(len(b), c.maxFrame)
		_ = c.fr.WriteContinuation(id, n == len(b), b[:n]) // to memory
	}
}

// closeLocked ends a stream in good or bad order and makes room for another one. A code
// other than that of no error tells the server.
func (c *conn) closeLocked(s *stream, tell bool, code http2.ErrCode) {
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	if tell {
		_ = c.fr.WriteRSTStream(s.id, code) // to memory
		c.wrote()
	}
	c.settleLocked()
}
