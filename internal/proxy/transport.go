package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"sync"
	"syscall"
	"time"
)

// upstreamIdle is how long a connection to an instance is kept for the next
// request.
const upstreamIdle = 60 * time.Second

// RoundTrip implements http.RoundTripper: it asks endpoints until one answers.
// A request moves on as long as no connection took it; if a connection broke
// after that, once, and only if the request may be repeated.
func (g *gateway) RoundTrip(req *http.Request) (*http.Response, error) {
	x, ok := req.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, errors.New("proxy: request without a target")
	}
	var body *guardedBody
	if req.Body != nil && req.Body != http.NoBody {
		body = &guardedBody{ReadCloser: req.Body}
		guarded := *req
		guarded.Body = body
		req = &guarded
	}
	mayRepeat := body == nil && idempotent(req.Method)
	p := picker{service: x.service, distances: g.r.opts.Distances}
	last := errNoEndpoint
	broken := false // something is, or the routes are only behind
	for deadline := time.Now().Add(openTimeout); time.Now().Before(deadline); {
		e, more := p.next()
		if e == nil {
			break
		}
		asked, waits, done := g.r.wait(e, req, mayRepeat, more)
		res, err := g.ask(asked, e, x.port, waits)
		done()
		if err == nil {
			e.requests.Add(1)
			e.service.used(e)
			e.active.Add(1)
			x.endpoint, x.status = e, res.StatusCode
			return res, nil
		}
		if req.Context().Err() != nil || body.failed() {
			return nil, err // the client's doing
		}
		last = err
		if waits.state.Load() == overtaken && body.rewind() {
			p.again(e)
			continue // no connection had taken it
		}
		broken = broken || !notNow(err)
		if abandoned(asked) {
			e.failures.Add(1)
			continue // nothing but time was lost
		}
		var oe *openError
		if errors.As(err, &oe) {
			if !body.rewind() {
				break
			}
			continue
		}
		e.failures.Add(1)
		var ue *unsentError
		if errors.As(err, &ue) && body.rewind() {
			g.r.eject(e, "a kept connection had ended")
			continue
		}
		if brokenConn(err) {
			g.r.eject(e, "connection broke before an answer")
		}
		if !mayRepeat {
			break
		}
		mayRepeat = false
	}
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	if !broken && len(p.tried) > 0 {
		last = fmt.Errorf("%w: %w", errNoEndpoint, last)
	}
	return nil, fmt.Errorf("%d endpoints tried: %w", len(p.tried), last)
}

// ask sends the request to one endpoint, for w.
func (g *gateway) ask(req *http.Request, e *endpoint, port string, w *waiter) (*http.Response, error) {
	if e.local {
		// A kept connection would not notice that the instance is draining.
		if _, err := g.r.opts.Local.Target(e.Instance, port); err != nil {
			err = &openError{blame: blameEndpoint, target: e.Instance, err: err, notNow: true}
			g.r.judge(e, err)
			return nil, err
		}
	}
	var kept *keptConn
	var before int64
	req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if c, ok := i.Conn.(*keptConn); ok {
			kept, before = c, c.writes.Load()
			if !w.state.CompareAndSwap(waitsForConn, hasConn) && w.state.Load() == overtaken {
				c.barred.Store(true) // it is being asked elsewhere
			}
		}
	}}))
	res, err := g.r.transport(e, port).RoundTrip(req)
	if err != nil {
		e.settle()
		if kept != nil && kept.writes.Load() == before {
			err = &unsentError{err}
		}
	}
	return res, err
}

// transport returns the connections that are kept to a port of an endpoint. For
// one that is about to end none are kept.
func (r *Router) transport(e *endpoint, port string) *http.Transport {
	e.mu.Lock()
	defer e.mu.Unlock()
	ending := e.retired || e.parked
	if t := e.transports[port]; t != nil && !ending {
		return t
	}
	t := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			conn, release, err := r.dial(ctx, e, port)
			if err != nil {
				return nil, err
			}
			return newKeptConn(conn, release), nil
		},
		DisableCompression:     true, // bodies pass as they are
		DisableKeepAlives:      ending,
		MaxIdleConnsPerHost:    64,
		IdleConnTimeout:        upstreamIdle,
		ExpectContinueTimeout:  time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
	if ending {
		return t
	}
	if e.transports == nil {
		e.transports = map[string]*http.Transport{}
	}
	e.transports[port] = t
	return t
}

// retire notes that the endpoint is in no route any more, for good.
func (e *endpoint) retire() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retired = true
	e.closeIdleLocked()
}

// park notes whether the endpoint is one of this worker that takes nothing new.
func (e *endpoint) park(parked bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.parked = parked; parked {
		e.closeIdleLocked()
	}
}

// settle is called after each request: one that began when the endpoint was
// about to be retired or parked has made its transport keep connections again.
func (e *endpoint) settle() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.retired || e.parked {
		e.closeIdleLocked()
	}
}

// closeIdleLocked closes the connections to the endpoint that no request uses,
// and has the others closed after their request.
func (e *endpoint) closeIdleLocked() {
	for _, t := range e.transports {
		t.CloseIdleConnections()
	}
}

// idempotent methods may be sent twice (RFC 9110, 9.2.2).
func idempotent(method string) bool {
	return slices.Contains([]string{
		http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete,
	}, method)
}

// brokenConn is true for errors of a connection, not of what came over it.
func brokenConn(err error) bool {
	for _, b := range []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, syscall.EPIPE, syscall.ETIMEDOUT} {
		if errors.Is(err, b) {
			return true
		}
	}
	return false
}

// guardedBody is a request body that survives a try in which it was not read:
// http.Transport closes the body of whatever fails. The server closes it in the
// end. A nil one is a body that is not there.
type guardedBody struct {
	io.ReadCloser

	mu     sync.Mutex
	kept   []byte // what was read so far
	at     int    // how much of it the current try has read
	over   bool   // more was read than is kept
	broken bool
}

// maxReplay is how much of a body is kept for another try. A transport reads
// less than this before it writes the first byte.
const maxReplay = 64 << 10

// Read implements io.Reader.
func (b *guardedBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.at < len(b.kept) {
		n := copy(p, b.kept[b.at:])
		b.at += n
		return n, nil
	}
	n, err := b.ReadCloser.Read(p)
	if b.over = b.over || len(b.kept)+n > maxReplay; b.over {
		b.kept, b.at = nil, 0
	} else {
		b.kept = append(b.kept, p[:n]...)
		b.at = len(b.kept)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.broken = true
	}
	return n, err
}

// Close implements io.Closer; it leaves the body open.
func (b *guardedBody) Close() error { return nil }

// rewind makes the next Read begin with the first byte again; false if that is
// not kept any more.
func (b *guardedBody) rewind() bool {
	if b == nil {
		return true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = 0
	return !b.over
}

func (b *guardedBody) failed() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}
