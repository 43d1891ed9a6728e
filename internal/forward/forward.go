package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	// Streams with windows and half-close over one connection, kept up by libp2p; the
	// HTTP/2 of the library ends both directions together.
	"github.com/libp2p/go-yamux/v5"
)

const (
	// MaxConnections are carried at a time.
	MaxConnections = 32
	// dialWithin is how long a connection to the instance may take.
	dialWithin = 10 * time.Second
	// outage is how long the way between both ends may be gone: what is longer ends
	// the session that it goes by, too.
	outage = 3 * time.Minute
	window = 256 << 10
	// maxWord bounds the name of a port, and what is said of a failure.
	maxWord = 255
)

// Answers to who opens a connection.
const (
	opened = iota
	failed // followed by a word
)

func config() *yamux.Config {
	c := yamux.DefaultConfig()
	c.EnableKeepAlive = false // the session is asked all the time
	c.MeasureRTTInterval = 24 * time.Hour
	c.ConnectionWriteTimeout = outage
	c.AcceptBacklog = MaxConnections
	c.MaxIncomingStreams = MaxConnections
	c.InitialStreamWindowSize, c.MaxStreamWindowSize = window, window
	c.MaxMessageSize = 16 << 10
	c.LogOutput = io.Discard
	return c
}

// Serve connects what the other end opens with dial, which is given the name of a
// port, until conn or ctx ends. It returns when all connections have ended.
func Serve(ctx context.Context, conn net.Conn, dial func(ctx context.Context, port string) (net.Conn, error)) error {
	s, err := yamux.Server(conn, config(), nil)
	if err != nil {
		return fmt.Errorf("carry connections: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	defer s.Close() //nolint:errcheck // it has ended anyway
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	for {
		st, err := s.AcceptStream()
		if err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if errors.Is(err, io.EOF) || errors.Is(err, yamux.ErrSessionShutdown) {
				return nil
			}
			return fmt.Errorf("carry connections: %w", err)
		}
		all.Go(func() { serveOne(ctx, st, dial) })
	}
}

// serveOne connects one stream.
func serveOne(ctx context.Context, st *yamux.Stream, dial func(context.Context, string) (net.Conn, error)) {
	end := context.AfterFunc(ctx, func() { _ = st.Reset() })
	defer end()
	_ = st.SetReadDeadline(time.Now().Add(dialWithin)) // of a stream it never fails
	port, err := readWord(st)
	if err != nil {
		_ = st.Reset() // nobody is there, or nobody that speaks this
		return
	}
	_ = st.SetReadDeadline(time.Time{}) // as above
	dialing, cancel := context.WithTimeout(ctx, dialWithin)
	conn, err := dial(dialing, port)
	cancel()
	if err != nil {
		_ = writeWord(st, failed, err.Error()) // the other end sees it closed
		_ = st.Close()
		return
	}
	if _, err := st.Write([]byte{opened}); err != nil {
		_ = st.Reset()
		_ = conn.Close()
		return
	}
	relay(ctx, st, conn)
}

// Client opens connections at the other end.
type Client struct{ s *yamux.Session }

// NewClient is the client on conn, which it closes with itself.
func NewClient(conn net.Conn) (*Client, error) {
	s, err := yamux.Client(conn, config(), nil)
	if err != nil {
		return nil, fmt.Errorf("carry connections: %w", err)
	}
	return &Client{s: s}, nil
}

// Close ends all connections.
func (c *Client) Close() { _ = c.s.Close() } // it has ended either way

// Ended is closed when nothing can be opened any more.
func (c *Client) Ended() <-chan struct{} { return c.s.CloseChan() }

// ErrEnded is why nothing can be opened any more: the way to the other end is gone.
var ErrEnded = errors.New("the session has ended")

// Carry opens a connection to a port and carries conn over it until both directions
// have ended, or ctx. It closes conn. The error says why it could not be opened; with
// ErrEnded nothing of conn was read, and it is left open: another Client may carry it.
func (c *Client) Carry(ctx context.Context, conn net.Conn, port string) error {
	st, err := c.open(ctx, port)
	if err != nil {
		if ctx.Err() != nil || !errors.Is(err, ErrEnded) {
			abort(conn)
		}
		return err
	}
	relay(ctx, st, conn)
	return nil
}

// open opens a stream to a port.
func (c *Client) open(ctx context.Context, port string) (*yamux.Stream, error) {
	st, err := c.s.OpenStream(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a connection: %w", c.ended(err))
	}
	defer context.AfterFunc(ctx, func() { _ = st.Reset() })()
	if err := writeWord(st, 0, port); err != nil {
		_ = st.Reset()
		return nil, fmt.Errorf("open a connection: %w", c.ended(err))
	}
	var answer [1]byte
	if _, err := io.ReadFull(st, answer[:]); err != nil {
		_ = st.Reset()
		return nil, fmt.Errorf("open a connection: %w", c.ended(err))
	}
	if answer[0] == opened {
		return st, nil
	}
	why, err := readText(st)
	_ = st.Close()
	if err != nil {
		return nil, fmt.Errorf("open a connection: %w", err)
	}
	return nil, errors.New(why)
}

// ended adds ErrEnded to an error where the session is the reason.
func (c *Client) ended(err error) error {
	if c.s.IsClosed() {
		return errors.Join(ErrEnded, err)
	}
	return err
}

// writeWord writes a kind, unless it is 0, and a word.
func writeWord(w io.Writer, kind byte, word string) error {
	word = word[:min(len(word), maxWord)]
	var b []byte
	if kind != 0 {
		b = append(b, kind)
	}
	_, err := w.Write(append(append(b, byte(len(word))), word...))
	return err
}

func readWord(r io.Reader) (string, error) {
	var n [1]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return "", err
	}
	b := make([]byte, n[0])
	_, err := io.ReadFull(r, b)
	return string(b), err
}

// readText is a word as it may be shown.
func readText(r io.Reader) (string, error) {
	s, err := readWord(r)
	if err == nil && s == "" {
		s = "the other end does not say why"
	}
	return s, err
}

// duplex is a connection whose directions end apart.
type duplex interface {
	net.Conn
	CloseWrite() error
}

// relay carries both directions until both have ended, or one has failed, or ctx has
// ended; both ends are closed then.
func relay(ctx context.Context, st *yamux.Stream, conn net.Conn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cut := func() {
		_ = st.Reset() // it may have ended
		abort(conn)
	}
	defer context.AfterFunc(ctx, cut)()
	var both sync.WaitGroup
	both.Go(func() {
		_, err := io.Copy(st, conn)
		if err == nil {
			err = st.CloseWrite()
		}
		if err != nil {
			cancel()
		}
	})
	both.Go(func() {
		_, err := io.Copy(conn, onlyReader{st})
		if d, ok := conn.(duplex); err == nil && ok {
			err = d.CloseWrite()
		}
		if err != nil {
			cancel()
		}
	})
	both.Wait()
	if ctx.Err() == nil {
		_ = st.Close()
		_ = conn.Close()
	}
}

// onlyReader hides all but Read.
type onlyReader struct{ io.Reader }

// abort closes a connection such that its other end sees that something was lost.
func abort(conn net.Conn) {
	if t, ok := conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // else it is closed in order
	}
	_ = conn.Close()
}
