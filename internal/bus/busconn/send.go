package busconn

import (
	"context"
	"net"
	"sync/atomic"
	"time"
)

const (
	// firstLook is when it is asked for the first time whether what was sent has been
	// acknowledged, mostLook the longest pause between two looks. Kernels wait up to
	// 40 ms with an acknowledgement, for data that it could go along with.
	firstLook = 50 * time.Millisecond
	mostLook  = time.Second
)

// outbox is the socket under a dialed connection, as of its last attempt to connect.
type outbox struct{ socket atomic.Pointer[net.TCPConn] }

// holds says how many bytes the other end's machine has not acknowledged; ok is false
// where nobody knows.
func (o *outbox) holds() (bytes int, ok bool) {
	if o == nil {
		return 0, false
	}
	s := o.socket.Load()
	if s == nil {
		return 0, false
	}
	return unacked(s)
}

// reached is how many bytes of the connection the other end's machine has acknowledged, 0
// where nobody knows.
func (o *outbox) reached() uint64 {
	s := o.socket.Load()
	if s == nil {
		return 0
	}
	n, _ := acked(s)
	return n
}

// overhead bounds what encryption adds to so many bytes.
func overhead(bytes int) int { return bytes/64 + 256 }

// Send implements Conn. What the kernel of the server's machine has acknowledged the
// server reads, or its end ends the connection: a ping behind each message would have it
// wake another goroutine and write, which was two fifths of what an orchestrator of ten
// thousand workers computes for a heartbeat. Where nobody can say what is acknowledged,
// it is a ping after all.
func (c *Conn) Send(ctx context.Context, subject string, data []byte) error {
	ctx, done := c.whileConnected(ctx)
	defer done()
	if err := c.Publish(subject, data); err != nil {
		return err
	}
	return wrapConnError("send to "+subject, endedBy(ctx, c.taken(ctx)))
}

// taken waits until the server's machine has all that was published so far.
func (c *Conn) taken(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, known := c.out.holds(); !known {
		return c.flush(ctx)
	}
	// Others may go on sending much, so that something is always on its way.
	buffered, err := c.nc.Buffered()
	if err != nil {
		return err
	}
	left, _ := c.out.holds()
	end := c.out.reached()
	if end > 0 {
		end += uint64(left + buffered + overhead(buffered)) //nolint:gosec // never negative
	}
	timer := time.NewTimer(firstLook)
	defer timer.Stop()
	for pause := firstLook; ; pause = min(2*pause, mostLook) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		}
		if end > 0 && c.out.reached() >= end {
			return nil
		}
		// First what the client holds: it goes from there to the socket.
		buffered, err := c.nc.Buffered()
		if err != nil {
			return err
		}
		left, known := c.out.holds()
		if !known {
			return c.flush(ctx)
		}
		if buffered == 0 && left == 0 {
			return nil
		}
		timer.Reset(pause)
	}
}

// littleLeft may be on its way still when it is drained. Kernels wait up to 40 ms with the
// acknowledgement of a last packet.
const littleLeft = 8 << 10

// Drained implements Conn.
func (c *Conn) Drained(ctx context.Context) error {
	ctx, done := c.whileConnected(ctx)
	defer done()
	for pause := time.Millisecond; ; pause = min(2*pause, firstLook) {
		buffered, err := c.nc.Buffered()
		if err != nil {
			return wrapConnError("look what was sent", err)
		}
		left, known := c.out.holds()
		if !known {
			return wrapConnError("wait for what was sent", endedBy(ctx, c.flush(ctx)))
		}
		if buffered+left <= littleLeft {
			return nil
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return wrapConnError("wait for what was sent", endedBy(ctx, ctx.Err()))
		case <-timer.C:
		}
	}
}

// flush waits for the server's answer to a ping, which comes after all that came before.
func (c *Conn) flush(ctx context.Context) error {
	if _, bounded := ctx.Deadline(); !bounded { // the library insists
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, PingInterval)
		defer cancel()
	}
	return c.nc.FlushWithContext(ctx)
}
