package http1

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// maxRecord is what a record of TLS carries.
const maxRecord = 16 << 10

// bufferSize holds nearly every head, with the body of a small message. Who needs
// more for a body has it moved in steps.
const bufferSize = 16 << 10

// wideSize is for a large body that cannot be spliced: one system call for several records
// of TLS.
const wideSize = 64 << 10

var (
	buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}
	wide    = sync.Pool{New: func() any { return new([wideSize]byte) }}
)

// began is what instants are counted from: the monotonic clock alone is half as dear
// as time.Now.
var began = time.Now()

// Instant is a time of this process, in ns since it began. 0 is none.
type Instant int64

// Now is the present.
func Now() Instant { return Instant(time.Since(began)) }

// After is d later.
func (i Instant) After(d time.Duration) Instant { return i + Instant(d) }

// Sub is how long ago o was, at i.
func (i Instant) Sub(o Instant) time.Duration { return time.Duration(i - o) }

func (i Instant) time() time.Time {
	if i == 0 {
		return time.Time{}
	}
	return began.Add(time.Duration(i))
}

// Conn is one end of a relay: a connection, and what was read from it and is not
// used yet. Its methods are for one goroutine at a time; Close and Poke are for any.
//
// It holds a buffer only while there is something in it. Deadlines are set rarely:
// one that is earlier than needed stays, and what waits looks at the clock when it
// comes.
type Conn struct {
	conn net.Conn
	tcp  *net.TCPConn    // to read from and splice without TLS in between; else nil
	raw  syscall.RawConn // of tcp
	sock syscall.RawConn // of the TCP connection, also below TLS; nil if there is none
	// below is what TLS reads from and writes to; nil if there is no TLS, or another one.
	below *Direct

	b      []byte
	pooled bool
	r, w   int // b[r:w] is there

	deadlines

	// Functions for raw and sock, made once, and their results.
	try, tryW, tryA, peek func(fd uintptr) bool
	n                     int
	err                   error
	first                 [1]byte
	unsent                []byte            // what tryWrite writes
	asking                *[bufferSize]byte // where unsent is, of ask; nil when it was sent

	// Last is how the newest body came over it that did not come with its head. It belongs
	// to who uses the connection, who may empty it.
	Last Flow

	writeTimeout time.Duration // see SetWriteTimeout
	resting      bool          // between two requests
	in, out      int64         // bytes, until Traffic was asked last
	idleSince    Instant       // see Pool
	reused       bool          // see Pool
	broken       bool          // it is not to be used again
	release      func()        // called once when it is closed; may be nil
	once         sync.Once
	pokes        atomic.Bool
}

// deadlines that are set.
type deadlines struct{ readBy, writeBy Instant }

var (
	errFull = errors.New("the buffer is full")
	// errLate is a wait that has come to its end.
	errLate = os.ErrDeadlineExceeded
)

// NewConn makes a Conn of a TCP connection, or one with TLS over TCP; of any other
// it can be less sure what has become of it. release, which may be nil, is called
// once when it has been closed.
func NewConn(c net.Conn, release func()) *Conn {
	x := &Conn{conn: c, release: release}
	under := c
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		under = t.NetConn()
	}
	x.below = directOf(under)
	if s, ok := under.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			x.sock = raw
		}
	}
	if tcp, ok := c.(*net.TCPConn); ok && rawReads {
		x.tcp, x.raw = tcp, x.sock
	}
	x.try, x.tryW, x.tryA, x.peek = x.tryRead, x.tryWrite, x.tryAsk, x.tryPeek
	return x
}

// directOf finds the Direct below TLS; nil if there is none.
func directOf(c net.Conn) *Direct {
	for {
		switch x := c.(type) {
		case interface{ direct() *Direct }:
			return x.direct()
		case interface{ Below() net.Conn }:
			c = x.Below()
		default:
			return nil
		}
	}
}

// SetWriteTimeout bounds the time in which the peer takes nothing of what is written to it;
// 0 is five minutes, and for a body that streams over plain TCP any time at all. It is
// called before the first use.
func (c *Conn) SetWriteTimeout(d time.Duration) { c.writeTimeout = d }

// stall is the longest time for a write without anything moving.
func (c *Conn) stall() time.Duration {
	if c.writeTimeout > 0 {
		return c.writeTimeout
	}
	return stallLimit
}

// Buffered is what was read and is not used yet.
func (c *Conn) Buffered() []byte { return c.b[c.r:c.w] }

// skip uses n bytes of what was read.
func (c *Conn) skip(n int) {
	c.r += n
	if c.r == c.w {
		c.r, c.w = 0, 0
	}
}

// take makes sure that there is a buffer.
func (c *Conn) take() {
	if c.b == nil {
		c.b, c.pooled = buffers.Get().(*[bufferSize]byte)[:], true
	}
}

// rest gives the buffer back where nothing is in it.
func (c *Conn) rest() {
	if c.b == nil || c.r != c.w {
		return
	}
	c.give()
	c.b, c.r, c.w = nil, 0, 0
}

// give gives the buffer back, whatever is in it.
func (c *Conn) give() {
	switch {
	case !c.pooled:
	case len(c.b) == wideSize:
		wide.Put((*[wideSize]byte)(c.b))
	default:
		buffers.Put((*[bufferSize]byte)(c.b))
	}
}

// widen makes room for a large body, with what there is of it.
func (c *Conn) widen() {
	if len(c.b) >= wideSize {
		return
	}
	b := wide.Get().(*[wideSize]byte)[:]
	n := copy(b, c.b[c.r:c.w])
	c.give()
	c.b, c.r, c.w, c.pooled = b, 0, n, true
}

// room makes room for more; errFull where there is none.
func (c *Conn) room() error {
	if c.w < len(c.b) || c.b == nil {
		return nil
	}
	if c.r == 0 {
		return errFull
	}
	c.w = copy(c.b, c.b[c.r:c.w])
	c.r = 0
	return nil
}

// grow makes room at any price up to limit.
func (c *Conn) grow(limit int) error {
	err := c.room()
	if err == nil || len(c.b) >= limit {
		return err
	}
	larger := make([]byte, min(4*len(c.b), limit))
	copy(larger, c.b[:c.w])
	c.give()
	c.b, c.pooled = larger, false
	return nil
}

// fill reads what is there, at least a byte, and waits for it until then (0: for
// ever). io.EOF is the end; errLate that the time has come.
func (c *Conn) fill(until Instant) error {
	if err := c.room(); err != nil {
		return err
	}
	for {
		if until != 0 && (c.readBy == 0 || c.readBy > until) {
			c.readUntil(until)
		}
		n, err := c.read()
		if n > 0 {
			c.w += n
			c.in += int64(n)
			return nil
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		// Earlier than needed, or Poke.
		late := until != 0 && Now() >= until
		c.readUntil(until)
		if late || c.poked() {
			return errLate
		}
	}
}

func (c *Conn) readUntil(t Instant) {
	c.readBy = t
	_ = c.conn.SetReadDeadline(t.time()) // fails only on a closed connection, which the read says
}

// read is one successful read. It holds no buffer while it waits, unless there is
// something in it, or, over TLS, a request is being served.
func (c *Conn) read() (int, error) {
	if c.raw != nil {
		c.n, c.err = 0, nil
		if err := c.raw.Read(c.try); err != nil {
			return 0, err
		}
		return c.n, c.err
	}
	if c.resting && c.b == nil {
		// A byte at first, so that nothing is held meanwhile. The rest of its record
		// comes with the next read, without asking the system.
		n, err := c.conn.Read(c.first[:])
		if n > 0 {
			c.take()
			c.b[0] = c.first[0]
		}
		return n, err
	}
	c.take()
	return c.conn.Read(c.b[c.w:])
}

// write sends all of p; it takes at most stall without anything moving.
func (c *Conn) write(p []byte, now Instant) error {
	limit := c.stall()
	until := now.After(limit)
	for {
		c.writeWithin(now, limit)
		n, err := c.put(p)
		if err == nil {
			return nil
		}
		if c.raw == nil || !errors.Is(err, os.ErrDeadlineExceeded) {
			return err
		}
		now = Now()
		if p = p[n:]; n == 0 && now >= until {
			return errLate
		}
		if n > 0 {
			until = now.After(limit)
		}
		c.writeBy = 0
	}
}

// writeWithin sees to it that a write that begins now ends at the limit or earlier. A
// write over TLS that ends too early is the end of the connection, so that one has at
// least half of the limit and at most all of it.
func (c *Conn) writeWithin(now Instant, limit time.Duration) {
	until := now.After(limit)
	if c.raw == nil {
		if limit = max(limit, c.stall()); c.writeBy < now.After(limit/2) {
			c.writeBy = now.After(limit)
			_ = c.conn.SetWriteDeadline(c.writeBy.time()) // fails only on a closed connection, which the write says
		}
		return
	}
	if c.writeBy == 0 || c.writeBy > until {
		c.writeBy = until
		_ = c.conn.SetWriteDeadline(until.time()) // as above
	}
}

// put writes once, all of p if it can; the deadline may come before.
func (c *Conn) put(p []byte) (n int, err error) {
	if c.raw == nil {
		return c.putRecords(p)
	}
	c.unsent, c.err = p, nil
	if err = c.raw.Write(c.tryW); err == nil {
		err = c.err
	}
	n = len(p) - len(c.unsent)
	c.out += int64(n)
	c.unsent = nil
	return n, err
}

// putRecords is put over TLS. What does not fit into a record has the system wait for the next
// one, so that the peer is not woken for each of them.
func (c *Conn) putRecords(p []byte) (n int, err error) {
	for {
		one := p[n:min(n+maxRecord, len(p))]
		if c.below != nil {
			c.below.more(n+len(one) < len(p))
		}
		k, err := c.conn.Write(one)
		n += k
		c.out += int64(k)
		if err != nil || n >= len(p) {
			return n, err
		}
		c.writeWithin(Now(), c.stall())
	}
}

// fillOn reads on after fill, over TLS, as long as records are there: they are passed on in one
// write then. An error comes again when it is waited for more.
func (c *Conn) fillOn() {
	if c.below == nil || len(c.b) < wideSize {
		return
	}
	c.below.hurry(true)
	for len(c.b)-c.w >= maxRecord {
		n, err := c.conn.Read(c.b[c.w:])
		c.w += n
		c.in += int64(n)
		if err != nil {
			break
		}
	}
	c.below.hurry(false)
}

// ask writes p, which is in out, and reads what comes then; it gives out back as soon
// as it is written. It is for a connection on which nothing is to come before. errLate
// means that nothing has come yet.
func (c *Conn) ask(p []byte, out *[bufferSize]byte, until Instant) error {
	c.asking, c.unsent = out, p
	for {
		c.n, c.err = 0, nil
		if c.readBy == 0 || c.readBy > until {
			c.readUntil(until)
		}
		err := c.raw.Read(c.tryA)
		switch {
		case c.asking == nil: // it was sent
			c.out += int64(len(p))
			if err == nil {
				c.w += c.n
				c.in += int64(c.n)
				err = c.err
			}
			return err
		case err == nil && c.err == nil: // not all could be
			rest := c.unsent
			c.out += int64(len(p) - len(rest))
			err = c.write(rest, Now())
			c.asked()
			if err != nil {
				return &sendError{err}
			}
			return errLate // nobody has looked yet
		case err == nil:
			err = c.err
		case errors.Is(err, os.ErrDeadlineExceeded) && Now() < until:
			c.readUntil(until) // earlier than needed
			continue
		}
		c.asked()
		return &sendError{err}
	}
}

// asked gives back what ask has borrowed.
func (c *Conn) asked() {
	if c.asking != nil {
		buffers.Put(c.asking)
	}
	c.asking, c.unsent = nil, nil
}

// sendError is an error of ask before all was written.
type sendError struct{ err error }

func (e *sendError) Error() string { return e.err.Error() }
func (e *sendError) Unwrap() error { return e.err }

// Traffic is how many bytes were read from it and written to it since it was asked
// last.
func (c *Conn) Traffic() (in, out int64) {
	in, out, c.in, c.out = c.in, c.out, 0, 0
	return in, out
}

// Watch waits until the peer has ended the connection (true), or has said something, or
// Poke ends the wait. It is for another goroutine while nobody uses the connection.
func (c *Conn) Watch() (left bool) {
	if c.sock == nil {
		return false
	}
	c.n, c.err = 0, nil
	err := c.sock.Read(func(fd uintptr) bool {
		c.peek(fd)
		return !errors.Is(c.err, syscall.EAGAIN)
	})
	if err != nil {
		return !errors.Is(err, os.ErrDeadlineExceeded)
	}
	return c.err != nil || c.n == 0
}

// state of a connection, as far as one can see without reading.
type state uint8

const (
	silent   state = iota // nothing came
	readable              // something came
	ended                 // its end came
	broken                // it was reset
)

// look finds out what has come, without waiting.
func (c *Conn) look() state {
	if c.r != c.w {
		return readable
	}
	return c.arrived()
}

// arrived is look at what was not read yet.
func (c *Conn) arrived() state {
	if c.sock == nil {
		return silent
	}
	c.n, c.err = 0, nil
	if err := c.sock.Control(func(fd uintptr) { c.peek(fd) }); err != nil {
		return broken
	}
	switch {
	case c.err == nil && c.n > 0:
		return readable
	case c.err == nil:
		return ended
	case errors.Is(c.err, syscall.EAGAIN):
		return silent
	}
	return broken
}

// copyBuffered appends what is buffered, at most limit bytes.
func (c *Conn) copyBuffered(dst []byte, limit int64) []byte {
	n := int(min(limit, int64(c.w-c.r)))
	dst = append(dst, c.b[c.r:c.r+n]...)
	c.skip(n)
	return dst
}

// Poke ends a wait of fill, which then says errLate. It is for any goroutine; one
// that comes between two waits is noticed by the first check of the next.
func (c *Conn) Poke() {
	c.pokes.Store(true)
	_ = c.conn.SetReadDeadline(began) // fails only on a closed connection
}

func (c *Conn) poked() bool { return c.pokes.Load() && c.pokes.Swap(false) }

// Close closes the connection. It is for any goroutine.
func (c *Conn) Close() error {
	err := c.conn.Close()
	if c.release != nil {
		c.once.Do(c.release)
	}
	return err
}

// Cut closes it such that its peer can tell: what was said is not all.
func (c *Conn) Cut() {
	if tcp, ok := c.conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // fails only on a closed connection
	} else if t, ok := c.conn.(interface{ NetConn() net.Conn }); ok {
		_ = t.NetConn().Close() // without the closing alert of TLS
	}
	_ = c.Close()
}

// Net is the connection itself. It must not be read while data is buffered.
func (c *Conn) Net() net.Conn { return c.conn }
