package relay

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/netconn"
)

// Sizes of buffers. A connection that rests, or that carries short messages,
// holds only the small one per direction. The large one (a TLS record) or, from
// socket to socket, the kernel's splice is taken while data comes faster than
// the small one holds: a splice costs a pipe (two descriptors) for as long as
// it lasts, too much for thousands of idle connections.
const (
	SmallBuffer = 2 << 10
	LargeBuffer = 16 << 10
	spliceBurst = 1 << 20
)

var (
	// SmallBuffers of SmallBuffer bytes.
	SmallBuffers = sync.Pool{New: func() any { return new([SmallBuffer]byte) }}
	// LargeBuffers of LargeBuffer bytes.
	LargeBuffers = sync.Pool{New: func() any { return new([LargeBuffer]byte) }}
)

// halfClosedIdle is how long a connection of which one direction has ended may be
// silent in the other one before it is cut. A client that is gone may have left
// no more than its end, and an instance need not notice that nobody reads.
const halfClosedIdle = 10 * time.Minute

// Streams copies bytes both ways until both directions have ended, or cuts both connections when ctx
// ends; see relay.
func Streams(ctx context.Context, client, upstream net.Conn, t *counters.Bytes) (broken bool) {
	stop := context.AfterFunc(ctx, func() {
		netconn.Cut(client)
		netconn.Cut(upstream)
	})
	defer stop()
	return relay(client, upstream, t) && ctx.Err() == nil
}

// relay copies both ways until both have ended, and closes both connections. An
// end of stream is passed on as a half-close; what is silent for halfClosedIdle
// after one is cut. Where reading breaks, the other side is cut off in a way that
// it can tell from an end. It reports whether upstream broke by itself before a
// byte came from it. The bytes are counted in t.
func relay(client, upstream net.Conn, t *counters.Bytes) (broken bool) {
	var (
		first    sync.Once   // who was it that broke?
		answered atomic.Bool // a byte came from upstream
		refused  atomic.Bool // upstream stopped taking bytes
		half     atomic.Bool // one direction has ended
		wg       sync.WaitGroup
	)
	abort := func() {
		netconn.Cut(client)
		netconn.Cut(upstream)
	}
	wg.Go(func() {
		switch err := pump(upstream, client, nil, &half, &t.Received); {
		case errors.Is(err, errRead):
			first.Do(func() {})
			abort()
		case err != nil:
			refused.Store(true)
		}
	})
	err := pump(client, upstream, &answered, &half, &t.Sent)
	if errors.Is(err, errRead) {
		first.Do(func() { broken = !answered.Load() })
		abort()
	}
	wg.Wait()
	// A reset is reported once, to the first caller: if that was the writer, the reader saw an
	// end.
	if err == nil && refused.Load() && !answered.Load() {
		broken = true
	}
	// Close after both sides ended is quiet; after an abort it does nothing.
	_ = client.Close()
	_ = upstream.Close()
	return broken
}

var (
	errRead  = errors.New("read")
	errWrite = errors.New("write")
)

// pump copies until src ends, then half-closes dst. Its error is errRead or
// errWrite: which side broke is all that the caller decides on. An errWrite
// ends only this direction: what dst sent before it went away is still to be
// delivered by the other one, which meets the end of dst by itself.
func pump(dst, src net.Conn, got, half *atomic.Bool, count *atomic.Uint64) error {
	small := SmallBuffers.Get().(*[SmallBuffer]byte)
	defer SmallBuffers.Put(small)
	for {
		if half.Load() {
			bound(dst, src)
		}
		m, rerr := src.Read(small[:])
		if m > 0 && got != nil {
			got.Store(true)
			got = nil
		}
		if m > 0 {
			n, err := dst.Write(small[:m])
			count.Add(uint64(n))
			if err != nil {
				return errWrite
			}
		}
		if rerr == nil && m == len(small) {
			rerr = burst(dst, src, count)
		}
		switch {
		case rerr == nil:
		case errors.Is(rerr, io.EOF):
			netconn.CloseWrite(dst)
			if !half.Swap(true) {
				bound(src, dst) // the other direction, which may be waiting already
			}
			return nil
		case errors.Is(rerr, errWrite):
			return errWrite
		default:
			return errRead
		}
	}
}

// bound cuts what goes from src to dst short if nothing moves for halfClosedIdle.
func bound(dst, src net.Conn) {
	end := time.Now().Add(halfClosedIdle)
	// An error means that it is closed, which is found out anyway.
	_ = src.SetReadDeadline(end)
	_ = dst.SetWriteDeadline(end)
}

// burst copies as long as much comes at a time. Its error is io.EOF at the end
// of src, errWrite, or any other where src broke.
func burst(dst, src net.Conn, count *atomic.Uint64) error {
	d, ok1 := dst.(*net.TCPConn)
	s, ok2 := src.(*net.TCPConn)
	if ok1 && ok2 {
		n, err := io.CopyN(d, s, spliceBurst)
		count.Add(uint64(n))
		if err == nil || errors.Is(err, io.EOF) {
			return err
		}
		if n > 0 && errors.Is(err, os.ErrDeadlineExceeded) {
			return nil // something moved: see bound
		}
		return blameSplice(s)
	}
	large := LargeBuffers.Get().(*[LargeBuffer]byte)
	defer LargeBuffers.Put(large)
	for {
		m, rerr := src.Read(large[:])
		if m > 0 {
			n, err := dst.Write(large[:m])
			count.Add(uint64(n))
			if err != nil {
				return errWrite
			}
		}
		if rerr != nil || m < SmallBuffer {
			return rerr
		}
	}
}

// blameSplice finds out which side broke a splice, which does not say so: a
// source that is still there has bytes or would wait for them; one that was
// reset ends. Nothing is read from it after this.
func blameSplice(src *net.TCPConn) error {
	if err := src.SetReadDeadline(time.Unix(1, 0)); err != nil {
		return errRead
	}
	var b [1]byte
	if _, err := src.Read(b[:]); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return errRead
	}
	return errWrite
}
