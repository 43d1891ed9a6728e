package h2guard

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Bounds on the frames of a peer of HTTP/2 that carry nothing: empty DATA, CONTINUATION,
// and all control frames. They cost the reader work, and the sender nothing.
const (
	// MaxIdleFrames may come at once, and idleFramesRate more each second.
	MaxIdleFrames  = 10_000
	idleFramesRate = 500
	// idleFramesFor each frame of a request or an answer in return: a peer may acknowledge what it gets by two
	// WINDOW_UPDATE frames and a PING, and may give up a stream.
	idleFramesFor = 4
)

var (
	errFrameFlood = errors.New("too many frames of HTTP/2 that carry nothing")
	errHeadLate   = errors.New("a head of HTTP/2 took too long")
	errNoPreface  = errors.New("the connection does not begin with the preface of HTTP/2")
)

// Guard is a connection that speaks HTTP/2, below the server of net/http or below package
// h2client, which bound neither the time of a header block nor the number of frames that
// carry nothing. It follows the frames both ways and cuts a connection that exceeds either bound.
type Guard struct {
	net.Conn
	within  time.Duration  // for a header block
	flooded *atomic.Uint64 // counts what was cut

	in, out frames // of the goroutine that reads, and of the one that writes

	mu     sync.Mutex // guards below
	budget frameBudget
	block  time.Time   // when the header block that is coming began; zero: none is
	timer  *time.Timer // runs while armed
	armed  bool
	cut    error
}

// Client guards a connection of a client that speaks HTTP/2. A header block may take
// within; flooded counts the connections that were cut.
func Client(c net.Conn, within time.Duration, flooded *atomic.Uint64) *Guard {
	return &Guard{
		Conn: c, within: within, flooded: flooded,
		in: frames{preface: http2.ClientPreface}, budget: frameBudget{left: MaxIdleFrames, at: time.Now()},
	}
}

// Server guards a connection to an instance that speaks HTTP/2: whoever wrote it may
// be as hostile as a client.
func Server(c net.Conn, within time.Duration) *Guard {
	return &Guard{
		Conn: c, within: within, flooded: new(atomic.Uint64),
		out: frames{preface: http2.ClientPreface}, budget: frameBudget{left: MaxIdleFrames, at: time.Now()},
	}
}

// NetConn is the connection below.
func (g *Guard) NetConn() net.Conn { return g.Conn }

// Cut cuts the connection below.
func (g *Guard) Cut() { netconn.Cut(g.Conn) }

// CloseWrite passes a half-close on.
func (g *Guard) CloseWrite() error {
	netconn.CloseWrite(g.Conn)
	return nil
}

// Close implements net.Conn.
func (g *Guard) Close() error {
	g.mu.Lock()
	if g.timer != nil {
		g.timer.Stop()
	}
	g.mu.Unlock()
	return g.Conn.Close()
}

// Read implements net.Conn.
func (g *Guard) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		k, wrong := g.in.step(b)
		if b = b[k:]; wrong != nil {
			return 0, wrong
		}
		if !g.in.begun && !g.in.ended {
			continue
		}
		if why := g.came(&g.in); why != nil {
			netconn.Cut(g.Conn)
			return 0, why
		}
	}
	if err != nil {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.cut != nil {
			err = g.cut
		}
	}
	return n, err
}

// came notes what has come of a frame.
func (g *Guard) came(f *frames) error {
	head := f.kind == http2.FrameHeaders || f.kind == http2.FrameContinuation
	idle := f.begun && f.idle()
	if !head && !idle {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if idle && !g.budget.spend(time.Now) {
		g.cutLocked(errFrameFlood)
		return g.cut
	}
	if f.begun && f.kind == http2.FrameHeaders {
		g.block = time.Now()
	}
	if f.ended && head && f.flags.Has(http2.FlagHeadersEndHeaders) { // that of CONTINUATION is the same
		g.block = time.Time{}
	}
	if !g.block.IsZero() && !g.armed {
		g.armed = true
		if g.timer == nil {
			g.timer = time.AfterFunc(g.within, g.look)
		} else {
			g.timer.Reset(g.within)
		}
	}
	return nil
}

// look cuts the connection if a header block takes too long. One timer serves many blocks, most
// of which are complete when it fires.
func (g *Guard) look() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.armed = false
	if g.block.IsZero() || g.cut != nil {
		return
	}
	if left := g.within - time.Since(g.block); left > 0 {
		g.armed = true
		g.timer.Reset(left)
		return
	}
	g.cutLocked(errHeadLate)
	netconn.Cut(g.Conn)
}

func (g *Guard) cutLocked(why error) {
	if g.cut == nil {
		g.cut = why
		g.flooded.Add(1)
	}
}

// Write implements net.Conn.
func (g *Guard) Write(p []byte) (int, error) {
	answers, resets := 0, 0
	for b := p; len(b) > 0; {
		k, _ := g.out.step(b)
		b = b[k:]
		if !g.out.begun {
			continue
		}
		switch g.out.kind {
		case http2.FrameHeaders, http2.FrameData:
			answers++
		case http2.FrameRSTStream:
			resets++ // of what came for a stream that has ended, for one
		}
	}
	if answers > 0 || resets > 0 {
		g.mu.Lock()
		g.budget.earn(answers*idleFramesFor - resets)
		g.mu.Unlock()
	}
	return g.Conn.Write(p)
}

// frameBudget is how many frames that carry nothing may still come.
type frameBudget struct {
	left int
	at   time.Time // until when the rate is in left
}

// spend takes one, if there is one. The clock is read only if none is left.
func (b *frameBudget) spend(now func() time.Time) bool {
	if b.left == 0 {
		t := now()
		b.left = int(min(t.Sub(b.at).Seconds()*idleFramesRate, MaxIdleFrames))
		b.at = t
	}
	if b.left == 0 {
		return false
	}
	b.left--
	return true
}

// earn adds n, which may be negative.
func (b *frameBudget) earn(n int) { b.left = min(max(b.left+n, 0), MaxIdleFrames) }

// frames follows the frames of one direction of a connection (RFC 9113, 4.1).
type frames struct {
	preface string // that is still to come
	head    [9]byte
	have    int // bytes of head
	left    int // bytes of the payload

	// Of the frame that step came to last. begun: its head and padding are known since that
	// step. ended: all of it is there since then.
	kind         http2.FrameType
	flags        http2.Flags
	length       int
	padding      int // with the byte that says so
	begun, ended bool
}

// step takes some of what has come next, up to an event, and returns how much.
func (f *frames) step(b []byte) (n int, err error) {
	f.begun, f.ended = false, false
	if f.preface != "" {
		n = min(len(b), len(f.preface))
		if string(b[:n]) != f.preface[:n] {
			return n, errNoPreface
		}
		f.preface = f.preface[n:]
		return n, nil
	}
	if f.have < len(f.head) {
		n = copy(f.head[f.have:], b)
		if f.have += n; f.have < len(f.head) {
			return n, nil
		}
		f.length = int(binary.BigEndian.Uint32(f.head[:4]) >> 8)
		f.left, f.padding = f.length, 0
		f.kind, f.flags = http2.FrameType(f.head[3]), http2.Flags(f.head[4])
		if f.padded() && f.left > 0 {
			return n, nil // with the next byte
		}
		f.begun = true
	} else {
		if f.left == f.length && f.padded() {
			f.padding, f.begun = 1+int(b[0]), true
		}
		n = min(len(b), f.left)
		f.left -= n
	}
	if f.left == 0 {
		f.ended, f.have = true, 0
	}
	return n, nil
}

// padded frames of data begin with the length of the padding.
func (f *frames) padded() bool { return f.kind == http2.FrameData && f.flags.Has(http2.FlagDataPadded) }

// idle frames carry nothing of a request.
func (f *frames) idle() bool {
	switch f.kind {
	case http2.FrameHeaders:
		return false
	case http2.FrameData:
		return f.length <= f.padding && !f.flags.Has(http2.FlagDataEndStream)
	}
	return true
}
