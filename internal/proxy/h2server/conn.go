package h2server

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/frames"
)

const (
	// streamWindow bounds what of a body waits here for whoever reads it, connWindow what of all
	// of a connection does.
	streamWindow, connWindow = 1 << 20, 1 << 20
	// soon: so many bytes of an answer wait for more of it at most.
	soon = 4 << 10
	// firstFrame is within what time the client's preface and settings are to come.
	firstFrame = 10 * time.Second
	// lastWords is how long a connection that has ended may take for what is still to be written.
	lastWords = time.Second
)

// Options of a connection. All are needed.
type Options struct {
	// Handler makes the answers, each in a goroutine of its own. One that panics with
	// http.ErrAbortHandler breaks its answer off.
	Handler http.Handler
	// Idle is how long the connection is kept that carries nothing.
	Idle time.Duration
	// MaxHead bounds the head of a request, and its trailers, in bytes.
	MaxHead uint32
	// MaxStreams are the requests that may be under way.
	MaxStreams uint32
	// Log receives internal errors.
	Log *slog.Logger
}

// Serve serves the requests of a connection, from its preface on, until it ends, and closes it. It
// returns when all handlers have. The contexts of requests are made of ctx; whoever ends that has to
// close the connection too.
func Serve(ctx context.Context, nc net.Conn, o Options) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := newConn(ctx, nc, o)
	var writing sync.WaitGroup
	writing.Go(c.write)
	c.end(c.read())
	cancel()
	writing.Wait()
	c.handlers.Wait()
}

// conn is a connection. Two goroutines belong to it, one that reads and one that writes; both end
// with the socket.
type conn struct {
	o        Options
	ctx      context.Context
	nc       net.Conn
	remote   string
	over     chan struct{} // closed at the end
	handlers sync.WaitGroup
	in       reading // belongs to the goroutine that reads

	mu sync.Mutex // guards below
	session
}

// session is the state of a connection. It is not safe for concurrent use: conn has the lock.
type session struct {
	streams map[uint32]*stream
	running uint32 // handlers
	last    uint32 // stream that was begun
	ended   error  // nil: it lives
	closing bool   // no new streams
	idle    *time.Timer
	rested  time.Time // since when it carries nothing

	// What the client takes.
	window, first int64 // of the connection; of a new stream
	// What the client may send over the connection, and what of it was read and it does not know.
	recv   int64
	unsaid int

	out *frames.Writer
}

func newConn(ctx context.Context, nc net.Conn, o Options) *conn {
	c := &conn{
		o: o, ctx: ctx, nc: nc, remote: nc.RemoteAddr().String(), over: make(chan struct{}),
		session: session{
			out: frames.New(), streams: map[uint32]*stream{}, rested: time.Now(),
			window: frames.DefaultWindow, first: frames.DefaultWindow, recv: connWindow,
		},
	}
	_ = c.out.WriteSettings( // to memory
		http2.Setting{ID: http2.SettingMaxFrameSize, Val: frames.DefaultFrame},
		http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: o.MaxStreams},
		http2.Setting{ID: http2.SettingMaxHeaderListSize, Val: o.MaxHead},
		http2.Setting{ID: http2.SettingInitialWindowSize, Val: streamWindow})
	_ = c.out.WriteWindowUpdate(0, connWindow-frames.DefaultWindow)
	c.in.begin(c)
	c.out.Flush()
	return c
}

// write writes what others have put into out. Whoever has more to say at once is faster than this
// goroutine, so that all of it is one write.
func (c *conn) write() {
	var buf []byte
	for {
		ended := false
		select {
		case <-c.out.Pending():
		case <-c.over:
			ended = true
		}
		c.mu.Lock()
		buf = c.out.Take(buf)
		full := len(buf) >= frames.MaxUnwritten
		bye := c.closing && len(c.streams) == 0
		c.mu.Unlock()
		if len(buf) > 0 {
			if _, err := c.nc.Write(buf); err != nil {
				c.end(err)
				ended = true
			}
		}
		if bye && !ended {
			// What the client has sent meanwhile is read, for a while: a connection that is closed
			// with something unread is reset, and the last answer may be lost with it.
			_ = c.nc.SetReadDeadline(time.Now().Add(lastWords)) // as in end
			if h, ok := c.nc.(interface{ CloseWrite() error }); ok {
				_ = h.CloseWrite() // the client is told that it ends, or has gone
			}
			<-c.over
			ended = true
		}
		if ended {
			_ = c.nc.Close() // the goroutine that reads ends with it
			return
		}
		if buf = frames.Reusable(buf); full {
			c.mu.Lock()
			c.unblock()
			c.mu.Unlock()
		}
	}
}

// unblock wakes the answers that wait for room.
func (c *session) unblock() {
	for _, s := range c.streams {
		if s.blocked {
			s.blocked = false
			frames.Signal(s.send)
		}
	}
}

// end ends the connection, and everything that it carries with err. Who writes closes it.
func (c *conn) end(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF // it is none where somebody waits
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return
	}
	c.ended, c.closing = err, true
	if c.idle != nil {
		c.idle.Stop()
	}
	for id, s := range c.streams {
		delete(c.streams, id)
		s.fail(fmt.Errorf("over HTTP/2: %w", err))
	}
	close(c.over)
	_ = c.nc.SetWriteDeadline(time.Now().Add(lastWords)) // one that is closed says so when it is written to
}

// leave has the connection take nothing new, and end with what it carries.
func (c *session) leave(code http2.ErrCode) {
	if c.closing {
		return
	}
	c.closing = true
	_ = c.out.WriteGoAway(c.last, code, nil) // to memory
	c.out.Flush()
}

// forget forgets a stream, in good or bad order. A code tells the client, where tell is true.
func (c *session) forget(s *stream, tell bool, code http2.ErrCode) {
	if c.streams[s.id] != s {
		return
	}
	delete(c.streams, s.id)
	// What of the body nobody will read makes room on the connection.
	if n := s.waits; n > 0 {
		s.waits = 0
		c.taken(n)
	}
	if tell {
		_ = c.out.WriteRSTStream(s.id, code) // to memory
		c.out.Flush()
	}
	if len(c.streams) == 0 {
		c.rested = time.Now()
		if c.closing {
			c.out.Flush() // who writes ends it
		}
	}
}

// taken says that n bytes of bodies wait no longer; the client gets a window update when half
// of its window is used.
func (c *session) taken(n int) {
	if c.unsaid += n; c.unsaid < connWindow/2 || c.ended != nil {
		return
	}
	_ = c.out.WriteWindowUpdate(0, uint32(c.unsaid)) // to memory
	c.recv += int64(c.unsaid)
	c.unsaid = 0
	c.out.Flush()
}

// rest is called when the connection may have rested for long enough.
func (c *conn) rest() {
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.o.Idle - time.Since(c.rested)
	switch {
	case c.ended != nil:
	case len(c.streams) > 0:
		c.idle.Reset(c.o.Idle)
	case left > 0:
		c.idle.Reset(left)
	default:
		c.leave(http2.ErrCodeNo)
		c.out.Flush()
	}
}

// socket is where a connection is read from. Before it waits for more, those are woken for whom
// something has come: the end of a body often comes with the last of it.
type socket struct{ c *conn }

// Read implements io.Reader.
func (s *socket) Read(p []byte) (int, error) {
	s.c.in.rouse()
	return s.c.nc.Read(p)
}

// preface reads what a connection begins with.
func preface(r *bufio.Reader) error {
	b := make([]byte, len(http2.ClientPreface))
	if _, err := io.ReadFull(r, b); err != nil {
		return fmt.Errorf("read the preface: %w", err)
	}
	if string(b) != http2.ClientPreface {
		return errors.New("no preface of HTTP/2")
	}
	return nil
}
