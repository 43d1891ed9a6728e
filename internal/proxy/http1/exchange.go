package http1

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// How an exchange failed. An error of Ask or Answer is one of them, or what Waits
// returned.
var (
	// ErrClient: the client has gone, or broke off its request.
	ErrClient = errors.New("the client broke off")
	// ErrSlow is an ErrClient: nothing of its body came for too long. It may be told so
	// by Refuse.
	ErrSlow = fmt.Errorf("%w: its body came too slowly", ErrClient)
	// ErrUnsent: the upstream had ended the connection before it read anything of the
	// request; nothing is lost if it is asked again.
	ErrUnsent = errors.New("a kept connection had ended")
	// ErrBroken: the upstream's connection broke, or ended too early.
	ErrBroken = errors.New("the connection broke before all was answered")
	// ErrMalformed: what the upstream said is no HTTP/1.1.
	ErrMalformed = message.ErrMalformed
)

// Times and amounts that bound an exchange.
const (
	// stallLimit is how long a side may take nothing of what is for it, or the client
	// say nothing of its body.
	stallLimit = 5 * time.Minute
	// requestStall is how long a client may pause within its request's body.
	requestStall = 60 * time.Second
	// HoldLimit is how long what is left of a body waits for the upstream's 100, if Hold:
	// a queue may be longer, a router of another version does not say it.
	HoldLimit = 500 * time.Millisecond
	// maxInterim responses before the response.
	maxInterim = 16
	// lingerLimit is for how long, and lingerBytes how much, a client is listened to
	// that was answered before it had said everything: a socket that is closed with
	// something unread is reset, and the answer may be lost with it.
	lingerLimit = 500 * time.Millisecond
	lingerBytes = 1 << 20
)

// Waiter is asked each second that an exchange waits for its upstream.
type Waiter interface {
	// Waits returns an error to end the wait, which Ask then returns.
	Waits(now Instant) error
}

// Exchange is a request on its way and its response. It belongs to the goroutine of
// its connection and is used again for the next request.
type Exchange struct {
	// Request is that of the client. Its slices are valid until Answer, Refuse, or an
	// Ask that had more of a body to send than was there with the head.
	Request message.Request
	// Response is valid after Ask, until Answer.
	Response message.Response
	// Began is when the head was complete.
	Began Instant
	// Deadline for the head of the response, 0 none: Waits is called then. Set it before
	// Ask.
	Deadline Instant
	// Strict clients say nothing before they are answered; one that does has left.
	Strict bool
	// Quiet: load reports in the trailers of the response are not for the client; those
	// in its head never are.
	Quiet bool
	// Hold has an upstream that is a router say 100 before it gets what did not come with
	// the head of a body, so that the request can go elsewhere if it is refused. Set it
	// before Ask.
	Hold bool
	// Own is the name of a field, in small letters, that no upstream may say; "" none.
	Own string
	// Sent and Received are bytes of bodies, to the upstream and from it.
	Sent, Received int64
	// Up is how the body of the request came, as far as it did not come with the head. It
	// is known after Ask, where it ended before the answer came, and zero else.
	Up Flow
	// Down is how the body of the response came, as Up. It is known after Answer.
	Down Flow

	client *Conn
	waiter Waiter
	body   int64 // of the request: how much of it is in the buffer, behind the head
	asked  bool  // more of the body was read than the buffer kept

	answered bool // something of a final response was written
	last     bool // the client's connection ends
	cut      bool // in a way that the client can tell

	move    mover       // of bodies
	rest    *restOfBody // that is being sent while the answer comes
	watchUp *Conn
	watch   func() error // waits, made once
	early   func() error // looksEarly, made once
}

// restOfBody is the rest of a request's body after an early answer.
type restOfBody struct {
	move    mover
	stopped atomic.Bool
	done    chan struct{}
	err     error
	ended   Instant
}

// Flow is how a body went through.
type Flow struct {
	// Bytes that came, and the time from the head to their end.
	Bytes int64
	Took  time.Duration
	// Waited is the part of Took in which who sends was waited for, Held that in which who
	// takes was.
	Waited, Held time.Duration
}

// flow is that of a body whose head came at began, of which first bytes came with it.
func (m *mover) flow(began, ended Instant, first int64) Flow {
	return Flow{Bytes: m.moved - first, Took: ended.Sub(began), Waited: m.waited, Held: m.held}
}

// Uploaded is Up for a body that is known to have arrived: whoever has sent it may not
// have said so here yet, and is waited for a moment.
func (x *Exchange) Uploaded(moment time.Duration) Flow {
	if r := x.rest; r != nil && x.Up == (Flow{}) {
		t := time.NewTimer(moment)
		defer t.Stop()
		select {
		case <-r.done:
			x.sentRest()
		case <-t.C:
		}
	}
	return x.Up
}

// sentRest notes how the rest of a body went that has been sent.
func (x *Exchange) sentRest() {
	if r := x.rest; r.err == nil {
		x.Up = r.move.flow(x.Began, r.ended, 0)
	}
}

var (
	errEarly   = errors.New("an answer came early")
	errStopped = errors.New("stopped")
)

// jointly are for the head of a request and the begin of a large body.
var jointly = sync.Pool{New: func() any { return new([2 * bufferSize]byte) }}

// exchanges are not kept by connections that rest: the places for fields are large.
var exchanges = sync.Pool{New: func() any {
	x := &Exchange{}
	x.watch, x.early = x.waits, x.looksEarly
	return x
}}

func newExchange(c *Conn, b Waiter) *Exchange {
	x := exchanges.Get().(*Exchange)
	x.client, x.waiter = c, b
	return x
}

// forget gives x back.
func (x *Exchange) forget() {
	x.client, x.waiter, x.watchUp, x.move, x.rest = nil, nil, nil, mover{}, nil
	x.Request.Reset()
	x.Response.Reset()
	x.Strict, x.Quiet, x.Hold, x.Own = false, false, false, ""
	exchanges.Put(x)
}

func (x *Exchange) begin(now Instant) {
	c := x.client
	x.Began, x.Deadline, x.Sent, x.Received = now, 0, 0, 0
	x.body = min(int64(len(c.Buffered())-x.Request.Size()), x.Request.Length)
	x.Up, x.Down = Flow{}, Flow{}
	x.asked, x.answered, x.cut, x.rest, x.watchUp = false, false, false, nil, nil
	x.last = x.Request.Close
}

// Repeatable says whether all of the request is still there, to be sent to somebody else:
// what has not been read from the client yet is.
func (x *Exchange) Repeatable() bool { return !x.asked }

// Whole says whether all of the request has come.
func (x *Exchange) Whole() bool { return x.body == x.Request.Length }

// Bounds of Gather.
const (
	gatherMost = 64 << 10
	gatherFor  = 100 * time.Millisecond
)

// Gather waits a moment for the rest of a body that is not large, so that the request
// stays Repeatable when it has been sent. Who pauses within his body is asked for the rest
// when it is needed. It is called before Ask.
func (x *Exchange) Gather() {
	c := x.client
	if x.asked || x.Whole() || x.Request.Length > gatherMost {
		return
	}
	until, all := Now().After(gatherFor), x.Request.Size()+int(x.Request.Length)
	for c.w-c.r < all && c.grow(gatherMost+bufferSize) == nil && c.fill(until) == nil {
	}
	x.Request.Parse(c.Buffered()) // it has said yes to these bytes before, which may be elsewhere now
	x.body = min(int64(c.w-c.r-x.Request.Size()), x.Request.Length)
}

// Ask sends the request to up and waits for the head of the response; interim
// responses are passed on. Without error Answer is next, else another Ask, if
// Repeatable, or Refuse. What up is told is m.
func (x *Exchange) Ask(up *Conn, m *message.Marks) error {
	c := x.client
	out := buffers.Get().(*[bufferSize]byte)
	b := message.AppendRequest(out[:0], &x.Request, m)
	if x.holds() {
		b = append(append(b[:len(b)-len("\r\n")], holdLine...), "\r\n"...)
	}
	kept := c.b[c.r+x.Request.Size():][:x.body]
	whole := len(b)+len(kept) <= cap(b)
	if whole {
		b = append(b, kept...)
	}
	var err error
	if up.raw != nil && whole && x.body == x.Request.Length && up.r == up.w && cap(b) == bufferSize {
		x.Sent, x.watchUp = x.body, up
		err = up.ask(b, out, x.nextLook())
		var send *sendError
		switch {
		case err == nil || errors.Is(err, errLate) && !errors.As(err, &send):
			return x.awaitHead(up)
		case !errors.As(err, &send):
			return x.ended(up, err)
		case errors.Is(err, errLate):
			// Its time was over when it came to its turn: nobody broke anything.
			if why := x.waits(); why != nil {
				return x.failed(up, why)
			}
		}
	} else {
		switch {
		case len(b)+len(kept) > 2*bufferSize:
			if err = up.write(b, Now()); err == nil {
				err = up.write(kept, Now())
			}
		case !whole:
			// Another copy is cheaper than another segment, which wakes the upstream.
			two := jointly.Get().(*[2 * bufferSize]byte)
			err = up.write(append(append(two[:0], b...), kept...), Now())
			jointly.Put(two)
		default:
			err = up.write(b, Now())
		}
		buffers.Put(out)
	}
	if err != nil {
		// It may have said why before it ended.
		if up.look() != readable {
			return x.unsent(up, err)
		}
		up.broken = true
	}
	x.Sent = x.body
	x.watchUp = up
	if x.body < x.Request.Length && err == nil {
		if x.holds() {
			switch goes, err := x.await(up, Now().After(HoldLimit)); {
			case err != nil:
				return err
			case !goes:
				up.broken = true // it still waits for the rest
				return nil
			}
		}
		if err := x.sendBody(up); err != nil {
			return err
		}
	}
	return x.awaitHead(up)
}

// holdLine is message.HoldField as it is sent.
const holdLine = "Verge-Hold: 1\r\n"

// holds: the rest of the body is held back.
func (x *Exchange) holds() bool { return x.Hold && x.Request.Length > gatherMost && !x.Whole() }

// Continue tells a router which holds the rest of its body back that it may come.
func (x *Exchange) Continue() error {
	if x.asked || x.Whole() || x.Request.Get(message.HoldField) == nil {
		return nil
	}
	if err := x.client.write([]byte("HTTP/1.1 100 Continue\r\n\r\n"), Now()); err != nil {
		x.last = true
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	return nil
}

// unsent judges a connection that did not take all of the request.
func (x *Exchange) unsent(up *Conn, err error) error {
	if up.reused && x.Repeatable() && !errors.Is(err, errLate) {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// ended judges the end of a connection on which nothing of a response came. If the
// request may be sent twice, a kept connection that ended then says nothing of its
// upstream, which ends such connections when it likes; else nobody knows what became
// of it.
func (x *Exchange) ended(up *Conn, err error) error {
	if up.reused && x.Repeatable() && x.Request.Idempotent() {
		return fmt.Errorf("%w: %w", ErrUnsent, err)
	}
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// sendBody sends the part of the body that did not come with the head.
func (x *Exchange) sendBody(up *Conn) error {
	c := x.client
	x.asked = true
	left := x.Request.Length - x.body
	c.skip(x.Request.Size() + int(x.body))
	x.move = mover{dst: up, src: c, left: left, watch: x.early, limit: requestStall}
	if up.raw == nil {
		// Over TLS nobody sees that an answer is there while a write is stuck.
		x.sendRest(up)
		return nil
	}
	err := x.move.run()
	x.Sent += x.move.moved
	if err == nil {
		x.Up = x.move.flow(x.Began, x.move.last, 0)
		return nil
	}
	if errors.Is(err, errEarly) {
		x.sendRest(up)
		return nil
	}
	x.move.close()
	var side *sideError
	if errors.As(err, &side) && side.src {
		return x.brokeOff(err)
	}
	if side == nil {
		x.last = true
		return err // of watch
	}
	if side != nil && up.look() == readable {
		x.last, up.broken = true, true // it has said why it takes no more
		return nil
	}
	x.last = true
	return fmt.Errorf("%w: %w", ErrBroken, err)
}

// brokeOff judges a client that sent no more of its body.
func (x *Exchange) brokeOff(err error) error {
	x.last = true
	if errors.Is(err, errLate) {
		return fmt.Errorf("%w: %w", ErrSlow, err)
	}
	x.cut = true
	return fmt.Errorf("%w: %w", ErrClient, err)
}

// looksEarly stops the sending of a body that got stuck where the answer is there.
func (x *Exchange) looksEarly() error {
	if x.watchUp.look() != silent {
		return errEarly
	}
	if x.client.arrived() == broken {
		return fmt.Errorf("%w: its connection was reset", ErrClient)
	}
	if x.waiter != nil {
		return x.waiter.Waits(Now())
	}
	return nil
}

// sendRest sends the rest of the body beside the answer.
func (x *Exchange) sendRest(up *Conn) {
	r := &restOfBody{move: x.move, done: make(chan struct{})}
	x.move = mover{}
	r.move.watch = func() error {
		if r.stopped.Load() {
			return errStopped
		}
		return nil
	}
	x.rest = r
	go func() {
		defer close(r.done)
		r.err = r.move.run()
		r.ended = Now()
		r.move.close()
		var side *sideError
		if errors.As(r.err, &side) && side.src {
			up.Poke() // the answer to half a request is of no use
		}
	}()
}

// joinRest ends the sending of the rest, which is of no use after the answer; the
// connections are then of no further use, unless all was sent.
func (x *Exchange) joinRest(up *Conn) {
	r := x.rest
	if r == nil {
		return
	}
	select {
	case <-r.done:
	default:
		r.stopped.Store(true)
		x.client.Poke()
		_ = up.conn.SetWriteDeadline(began)
		<-r.done
	}
	x.Sent += r.move.moved
	if r.err != nil {
		x.last, up.broken = true, true
	}
	up.writeBy = 0
	x.rest = nil
}

// waits looks around while the head of a response, or more of its body, is awaited.
func (x *Exchange) waits() error {
	if r := x.rest; r != nil {
		select {
		case <-r.done:
			var side *sideError
			if errors.As(r.err, &side) && side.src {
				return fmt.Errorf("%w: %w", ErrClient, r.err)
			}
		default:
		}
	} else if x.left() {
		return fmt.Errorf("%w: its connection has ended", ErrClient)
	}
	if x.waiter == nil {
		return nil
	}
	return x.waiter.Waits(Now())
}

// left: the client has gone. A client that has only closed its side looks the same; it has its
// answer if that came soon.
func (x *Exchange) left() bool {
	switch x.client.arrived() {
	case broken, ended:
		return true
	case readable:
		// Over TLS an end is something to read too.
		return x.Strict
	case silent:
	}
	return false
}

// awaitHead reads until the head of the response is there.
func (x *Exchange) awaitHead(up *Conn) error {
	_, err := x.await(up, 0)
	return err
}

// await reads until the head of the response is there, or, where held is not 0, until the
// upstream says 100 or that instant is over: goes is true then.
func (x *Exchange) await(up *Conn, held Instant) (goes bool, _ error) {
	some := false
	for interim := 0; ; {
		if up.r != up.w {
			some = true
			size, err := x.Response.Parse(up.Buffered(), x.Request.Head())
			if err != nil {
				return false, x.failed(up, err)
			}
			if size > 0 {
				if !x.Response.Interim() {
					return false, nil
				}
				if interim++; interim > maxInterim {
					return false, x.failed(up, message.Malformed("more interim responses than there can be"))
				}
				if err := x.passInterim(); err != nil {
					return false, x.failed(up, err)
				}
				goes = held != 0 && x.Response.Status == 100
				up.skip(size)
				if goes {
					return true, nil
				}
				continue
			}
			if err := up.grow(message.MaxResponseHead); err != nil {
				return false, x.failed(up, message.Malformed("its head is too large"))
			}
		}
		look := x.nextLook()
		if held != 0 {
			look = min(look, held)
		}
		err := up.fill(look)
		switch {
		case err == nil:
		case errors.Is(err, errLate):
			if err := x.waits(); err != nil {
				return false, x.failed(up, err)
			}
			if held != 0 && Now() >= held {
				return true, nil
			}
		case some:
			return false, x.failed(up, fmt.Errorf("%w: %w", ErrBroken, err))
		default:
			return false, x.failed(up, x.ended(up, err))
		}
	}
}

// nextLook is when to look around while the head is awaited.
func (x *Exchange) nextLook() Instant {
	now := Now()
	if x.Deadline == 0 {
		return now.After(lookEvery)
	}
	return min(now.After(lookEvery), max(x.Deadline, now+1))
}

// failed ends the work beside a failed Ask.
func (x *Exchange) failed(up *Conn, err error) error {
	if r := x.rest; r != nil {
		x.joinRest(up)
		var side *sideError
		if errors.As(r.err, &side) && side.src {
			err = x.brokeOff(r.err)
		}
	}
	x.Response.Reset()
	return err
}

// passInterim passes an interim response on, but for 100, which no client that is
// served here has asked for.
func (x *Exchange) passInterim() error {
	if x.Response.Status == 100 {
		return nil
	}
	b := message.AppendResponse(make([]byte, 0, 1<<10), &x.Response, nil, x.Own, false)
	if err := x.client.write(b, Now()); err != nil {
		x.last = true
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	return nil
}

// Answer passes the response on to the client, with extra fields, each ended by
// CRLF. reusable: up is ready for the next request; it is closed otherwise. An error
// says which side broke; the client knows then that it has not got everything.
func (x *Exchange) Answer(up *Conn, extra []byte) (reusable bool, err error) {
	res := &x.Response
	x.drop()
	x.last = x.last || res.Body == message.UntilDone
	x.move = mover{dst: x.client, src: up, watch: x.watch}
	m := &x.move
	switch res.Body {
	case message.NoBody:
	case message.Sized:
		m.left = res.Length
	case message.Chunked:
		m.framing = &message.Chunks{Quiet: x.Quiet}
	case message.UntilDone:
		m.ends = true
	}
	err = x.sendHead(up, extra)
	if err == nil && res.Body != message.NoBody {
		if m.left > 0 || m.ends || m.framing != nil {
			began, first := Now(), m.moved
			err = m.run()
			x.Down = m.flow(began, m.last, first)
			up.Last = x.Down // before somebody else has it
		} else {
			err = m.run()
		}
	}
	m.close()
	x.Received = m.moved
	x.joinRest(up)
	if err == nil {
		reusable = !res.Close && !up.broken && up.r == up.w
		if reusable {
			up.rest()
		} else {
			_ = up.Close()
		}
		return reusable, nil
	}
	x.last, x.cut = true, true
	up.Cut()
	var side *sideError
	if errors.As(err, &side) && side.src {
		return false, fmt.Errorf("%w: %w", ErrBroken, err)
	}
	return false, fmt.Errorf("%w: %w", ErrClient, err)
}

// sendHead sends the head of the response, and what is there of a small body with
// it.
func (x *Exchange) sendHead(up *Conn, extra []byte) error {
	res, m := &x.Response, &x.move
	out := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(out)
	b := message.AppendResponse(out[:0], res, extra, x.Own, x.last)
	up.skip(res.Size())
	if res.Body == message.Sized {
		n := min(res.Length, int64(up.w-up.r))
		if int64(len(b))+n <= bufferSize {
			b = up.copyBuffered(b, n)
			m.left -= n
			m.moved = n
		}
	} else if res.Body == message.Chunked && len(b)+up.w-up.r <= bufferSize {
		n, err := m.framing.Next(up.Buffered())
		if err != nil {
			return &sideError{src: true, err: err}
		}
		b = up.copyBuffered(b, int64(n))
		m.moved = int64(n)
	}
	x.answered = true
	if err := x.client.write(b, Now()); err != nil {
		return &sideError{err: err}
	}
	return nil
}

// Take reads the body of a response that is not for the client, at most limit bytes of
// it, instead of Answer. reusable: up is ready for the next request; else it is closed.
func (x *Exchange) Take(up *Conn, limit int) (body []byte, reusable bool) {
	res := &x.Response
	up.skip(res.Size())
	if res.Body == message.Sized && res.Length <= int64(limit) {
		for int64(up.w-up.r) < res.Length && up.fill(Now().After(lookEvery)) == nil {
		}
		body = up.copyBuffered(nil, res.Length)
	}
	x.joinRest(up)
	known := res.Body == message.Sized || res.Body == message.NoBody
	if known && int64(len(body)) == max(res.Length, 0) && !res.Close && !up.broken && up.r == up.w {
		up.rest()
		return body, true
	}
	_ = up.Close()
	return body, false
}

// drop forgets what the buffer has of the request.
func (x *Exchange) drop() {
	if !x.asked {
		x.client.skip(x.Request.Size() + int(x.body))
		x.asked = true
	}
	if x.Sent < x.Request.Length && x.rest == nil {
		x.last = true // the client will go on sending what nobody reads
	}
}

// Refuse answers without an upstream. fields, each ended by CRLF, and body, of this
// content type, are added. The connection goes on, unless there is a body to come.
func (x *Exchange) Refuse(status int, contentType string, fields, body []byte) {
	if x.answered {
		x.last, x.cut = true, true
		return
	}
	unread := x.asked || !x.Whole()
	x.Sent = x.Request.Length
	x.drop()
	x.last = x.last || unread
	b := make([]byte, 0, 256+len(fields)+len(body))
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(append(append(b, ' '), statusText(status)...), "\r\n"...)
	b = append(b, "Date: "...)
	b = append(time.Now().UTC().AppendFormat(b, "Mon, 02 Jan 2006 15:04:05 GMT"), "\r\n"...)
	if contentType != "" {
		b = append(append(append(b, "Content-Type: "...), contentType...), "\r\n"...)
	}
	b = strconv.AppendInt(append(b, "Content-Length: "...), int64(len(body)), 10)
	b = append(append(b, "\r\n"...), fields...)
	if x.last {
		b = append(b, "Connection: close\r\n"...)
	}
	b = append(b, "\r\n"...)
	if !x.Request.Head() {
		b = append(b, body...)
	}
	x.answered = true
	if err := x.client.write(b, Now()); err != nil {
		x.last, x.cut = true, true
	}
}

// Abandon ends the connection without an answer, which the client can tell.
func (x *Exchange) Abandon() { x.last, x.cut = true, true }

// linger closes a connection whose client may still be sending.
func linger(c *Conn) {
	if h, ok := c.conn.(interface{ CloseWrite() error }); ok && h.CloseWrite() == nil {
		until := Now().After(lingerLimit)
		_ = c.conn.SetReadDeadline(until.time()) // as above
		c.r, c.w = 0, 0
		c.rest()
		_, _ = io.CopyN(io.Discard, c.conn, lingerBytes) // all that is to be said was said
	}
	_ = c.Close()
}
