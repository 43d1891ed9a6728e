package http1

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
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
}

// Serve serves the requests of a client one after the other until the connection
// ends, and closes it. It is handed over, with what was read of it, as soon as a
// request is not for this package. Whoever cuts the connection ends Serve.
// draining, which may be nil, says whether the connection is to end after the
// request.
func Serve(ctx context.Context, c *Conn, l Limits, b Backend, handover func(net.Conn), draining func() bool) {
	x := &Exchange{client: c, waiter: b}
	x.watch, x.early = x.waits, x.looksEarly
	until := Now().After(l.Header)
	for {
		switch readHead(c, &x.Request, until, l.Header) {
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
			refuse(c, http.StatusBadRequest, x.Request.Why)
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

// readHead reads the head of the next request. The first byte is waited for until
// then, and the rest for limit.
func readHead(c *Conn, r *Request, until Instant, limit time.Duration) readResult {
	first := c.r == c.w
	if !first {
		until = Now().After(limit)
	}
	r.seen = 0
	c.rest()
	c.resting = first
	defer func() { c.resting = false }()
	for {
		if c.r != c.w {
			switch r.Parse(c.Buffered()) {
			case Understood:
				return understood
			case Unusual:
				return unusual
			case Forbidden:
				return forbidden
			case Incomplete:
			}
			if first {
				first = false
				until = Now().After(limit)
			}
		}
		switch err := c.fill(until); {
		case err == nil:
		case errors.Is(err, errLate) && Now() < until: // a Poke that came after its time
		case errors.Is(err, errFull):
			return unusual // a large head: net/http knows how large one may be
		case errors.Is(err, errLate) && !first:
			return late
		case errors.Is(err, io.EOF) && !first:
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
