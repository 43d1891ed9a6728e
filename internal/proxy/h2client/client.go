package h2client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// maxConns of one Client, for servers that take few requests over each.
const maxConns = 64

// ErrUnprocessed is that the server has not begun with a request, for sure: it may be
// asked again, whatever its method.
var ErrUnprocessed = errors.New("the server has not taken the request")

// errNotWanted: the caller would not have the connection.
var errNotWanted = errors.New("the request was taken back")

// Options of a Client.
type Options struct {
	// Dial opens a connection. It is not ended with the request that it was begun for,
	// since others may wait for it as well; wanted is done when nobody does.
	Dial func(wanted context.Context) (net.Conn, error)
	// Idle is how long a connection is kept that carries nothing; 0: for ever.
	Idle time.Duration
	// MaxHead bounds the head of an answer, and its trailers, in bytes.
	MaxHead uint32
	// Once: each connection is for one request.
	Once bool
	// Log receives internal errors; nil: none.
	Log *slog.Logger
}

// Client has connections to one server. It is safe for concurrent use.
type Client struct {
	o       Options
	waiting atomic.Int32 // of those below

	mu      sync.Mutex // before that of a conn; guards below
	conns   []*conn
	dialing *dialing
	room    chan struct{} // closed when there may be room for those who wait; nil: nobody does
}

// dialing is a connection on its way.
type dialing struct {
	done chan struct{} // closed when it has come, or not
	err  error         // of it, after done

	waiters int // guarded by Client.mu
	forget  context.CancelFunc
}

// New makes a Client, which opens connections when they are needed.
func New(o Options) *Client { return &Client{o: o} }

// Hooks are what the caller wants to know of a request.
type Hooks struct {
	// GotConn is called when there is a connection for it; false: it was cancelled, and nothing
	// is sent.
	GotConn func() bool
	// Interim is called with each interim answer (1xx), by the goroutine that asks.
	Interim func(code int, h textproto.MIMEHeader)
}

// Do sends a request and returns the head of its answer. The body of the answer is to be
// closed. The body of the request is read by another goroutine until its end, or until
// the answer has ended; who takes the request back must have it return from Read. The
// context of the request ends all. ErrUnprocessed says that it may be sent again.
func (cl *Client) Do(req *http.Request, h Hooks) (*http.Response, error) {
	ctx := req.Context()
	c, err := cl.reserve(ctx)
	if err != nil {
		return nil, err
	}
	if h.GotConn != nil && !h.GotConn() {
		c.unreserve()
		return nil, errNotWanted
	}
	s, err := c.open(req)
	if err != nil {
		return nil, err
	}
	return s.await(ctx, h.Interim)
}

// CloseIdleConnections closes what carries nothing, and has the others closed after what
// they carry.
func (cl *Client) CloseIdleConnections() {
	cl.mu.Lock()
	conns := cl.conns
	cl.conns = nil
	cl.mu.Unlock()
	for _, c := range conns {
		c.retire()
	}
}

// reserve finds or opens a connection that has room for a stream.
func (cl *Client) reserve(ctx context.Context) (*conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cl.mu.Lock()
	c := cl.freeLocked()
	cl.mu.Unlock()
	if c != nil {
		return c, nil
	}
	cl.waiting.Add(1) // who makes room from here on says so
	defer cl.waiting.Add(-1)
	for {
		cl.mu.Lock()
		if c := cl.freeLocked(); c != nil {
			cl.mu.Unlock()
			return c, nil
		}
		d := cl.dialing
		if d == nil && len(cl.conns) < maxConns {
			d = cl.dialLocked()
		}
		var come <-chan struct{}
		if d != nil {
			d.waiters++
			come = d.done
		}
		if cl.room == nil {
			cl.room = make(chan struct{})
		}
		room := cl.room
		cl.mu.Unlock()
		var err error
		select {
		case <-come:
			err = d.err
		case <-room:
		case <-ctx.Done():
			err = ctx.Err()
		}
		cl.leave(d)
		if err != nil {
			return nil, err
		}
	}
}

func (cl *Client) freeLocked() *conn {
	for _, c := range cl.conns {
		if c.reserve() {
			return c
		}
	}
	return nil
}

// leave says that one waits less for d; nil is nothing.
func (cl *Client) leave(d *dialing) {
	if d == nil {
		return
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if d.waiters--; d.waiters > 0 {
		return
	}
	d.forget()
	if cl.dialing == d {
		cl.dialing = nil // who comes now needs one that is wanted
	}
}

// dialLocked begins to open a connection.
func (cl *Client) dialLocked() *dialing {
	wanted, forget := context.WithCancel(context.Background())
	d := &dialing{done: make(chan struct{}), forget: forget}
	cl.dialing = d
	go func() { // ends when Dial does
		nc, err := cl.o.Dial(wanted)
		var c *conn
		if err == nil {
			c = newConn(cl, nc)
		}
		cl.mu.Lock()
		if cl.dialing == d {
			cl.dialing = nil
		}
		if d.err = err; c != nil {
			cl.conns = append(cl.conns, c)
		}
		cl.mu.Unlock()
		close(d.done)
		if c != nil {
			c.run()
		}
	}()
	return d
}

// fault is deferred: it makes an error of a panic.
func (cl *Client) fault(err *error) {
	what := recover()
	if what == nil {
		return
	}
	*err = fmt.Errorf("a fault of this program: %v", what)
	if cl.o.Log != nil {
		cl.o.Log.Error("a connection made the router panic, please report this", "what", what, "stack",
			string(debug.Stack()))
	}
}

// drop forgets a connection that takes nothing more.
func (cl *Client) drop(c *conn) {
	cl.mu.Lock()
	defer cl.mu.Unlock()
	if i := slices.Index(cl.conns, c); i >= 0 {
		cl.conns = slices.Delete(cl.conns, i, i+1)
	}
	cl.freedLocked()
}

// freed says that there may be room.
func (cl *Client) freed() {
	if cl.waiting.Load() == 0 {
		return
	}
	cl.mu.Lock()
	defer cl.mu.Unlock()
	cl.freedLocked()
}

func (cl *Client) freedLocked() {
	if cl.room != nil {
		close(cl.room)
		cl.room = nil
	}
}
