package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

// Backend answers requests.
type Backend interface {
	Waiter
	// Serve answers the request of x by Ask and Answer, or by Refuse, or Abandon. With
	// false it has done nothing of this: the connection is handed over. The context is
	// that of the function Serve.
	Serve(ctx context.Context, x *Exchange) bool
}

// Limits of a client's connection.
type Limits struct {
	// Header is how long a head may take, from its first byte; and how long the first
	// byte of a connection may.
	Header time.Duration
	// Idle is how long a connection is kept between requests.
	Idle time.Duration
	// Foreign is what to do about it, said to who speaks something else than HTTP; ""
	// is nothing.
	Foreign string
}

// Serve serves the requests of a client one after the other until the connection
// ends, and closes it. It is handed over, with what was read of it, as soon as a
// request is not for this package. Whoever cuts the connection ends Serve.
// draining, which may be nil, says whether the connection is to end after the
// request.
func Serve(ctx context.Context, c *Conn, l Limits, b Backend, handover func(net.Conn), draining func() bool) {
	var x *Exchange // while there is something to read
	until := Now().After(l.Header)
	for {
		if c.r == c.w {
			if x != nil {
				x.forget()
				x = nil
			}
			if !c.await(until) {
				_ = c.Close()
				return
			}
		}
		if x == nil {
			x = newExchange(c, b)
		}
		switch readHead(c, &x.Request, l.Header) {
		case gone:
			_ = c.Close()
			return
		case unusual:
			handover(replayOf(c))
			return
		case late:
			refuse(c, http.StatusRequestTimeout, "the head of the request took too long")
			return
		case forbidden:
			why := x.Request.Why
			if x.Request.Foreign && l.Foreign != "" {
				why += "; " + l.Foreign
			}
			refuse(c, http.StatusBadRequest, why)
			return
		case understood:
		}
		x.begin(Now())
		if draining != nil && draining() {
			x.last = true
		}
		if !b.Serve(ctx, x) {
			handover(replayOf(c))
			return
		}
		if !x.answered {
			x.last, x.cut = true, true
		}
		if x.last {
			if x.cut {
				c.Cut()
			} else {
				linger(c)
			}
			return
		}
		until = Now().After(l.Idle)
	}
}

type readResult uint8

const (
	understood readResult = iota
	unusual
	forbidden
	late
	gone
)

// await waits for the first byte of a request; false: it did not come in time.
func (c *Conn) await(until Instant) bool {
	c.rest()
	c.resting = true
	defer func() { c.resting = false }()
	for {
		err := c.fill(until)
		if err == nil {
			return true
		}
		if !errors.Is(err, errLate) || Now() >= until {
			return false
		}
		// A Poke that came after its time.
	}
}

// readHead reads the head of the next request, of which something is there, within the
// limit.
func readHead(c *Conn, r *message.Request, limit time.Duration) readResult {
	until := Instant(0)
	for r.Reset(); ; {
		switch r.Parse(c.Buffered()) {
		case message.Understood:
			return understood
		case message.Unusual:
			return unusual
		case message.Forbidden:
			return forbidden
		case message.Incomplete:
		}
		if until == 0 {
			until = Now().After(limit)
		}
		switch err := c.fill(until); {
		case err == nil:
		case errors.Is(err, errLate) && Now() < until: // as above
		case errors.Is(err, errFull):
			return unusual // a large head: net/http knows how large one may be
		case errors.Is(err, errLate):
			return late
		case errors.Is(err, io.EOF):
			return forbidden // half a head is none
		default:
			return gone
		}
	}
}

// refuse answers what is no request, and closes.
func refuse(c *Conn, status int, why string) {
	x := &Exchange{client: c}
	x.last = true
	x.asked = true
	if why == "" {
		why = "the request is incomplete"
	}
	x.Refuse(status, "text/plain; charset=utf-8", nil, []byte(why+"\n"))
	if x.cut {
		c.Cut()
		return
	}
	linger(c)
}

func statusText(status int) string { return http.StatusText(status) }
