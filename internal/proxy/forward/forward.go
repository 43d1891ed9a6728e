package forward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/proxy/call"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/h2client"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/proxy/upstream"
	"github.com/verge-edge/verge/internal/wire"
)

// Rules is how a request is passed on.
type Rules struct {
	// Strangers ask, who are not believed who they say they are.
	Strangers bool
	// Report: the load report of the instance is passed on.
	Report bool
	// Prefix was taken away from the path; "" is nothing.
	Prefix string
}

// Forward passes one request of a client on to an instance of a service: the driver of
// a call for all of HTTP. It returns the status where this router answered itself, as no
// instance did, else 0.
func (f *Front) Forward(w http.ResponseWriter, req *http.Request, t router.Target, how Rules) int {
	var c call.Call
	if httpmsg.RefuseMethod(w, req) {
		return http.StatusMethodNotAllowed
	}
	if err := c.Begin(req.Context(), f.opts.Services, t.Service, t.Port,
		httpmsg.ClientDeadline(req.Header, time.Now())); err != nil {
		t.Service.Failures.Add(1)
		w.Header().Set("Retry-After", "1")
		httpmsg.Fail(w, req, http.StatusServiceUnavailable, "not-told",
			"try again in a moment; \"verge get clusters\" says whether it answers",
			"service "+t.Service.Key+": "+err.Error())
		c.End(req.Method, http.StatusServiceUnavailable, false)
		return http.StatusServiceUnavailable
	}
	// gRPC is nothing else than HTTP/2, whatever the port is declared as.
	h2 := t.Service.SpeaksH2(t.Port) || req.ProtoMajor == 2 && httpmsg.IsGRPC(req.Header)
	x := newExchange(f, w, req, t.Service.Key, h2)
	httpmsg.AddForwarded(x.out.Header, req, how.Strangers)
	if how.Strangers && x.body != nil && len(req.Trailer) > 0 {
		httpmsg.DropForwarded(req.Trailer) // what is announced, and then what has come
		x.body.atEnd = func() { httpmsg.DropForwarded(req.Trailer) }
	}
	if how.Prefix != "" {
		x.out.Header["X-Forwarded-Prefix"] = []string{how.Prefix}
	}
	httpmsg.AddTraceparent(x.out.Header)
	c.Repeat = x.body == nil && httpmsg.Idempotent(req.Method)
	if c.Body = req.ContentLength; x.body == nil {
		c.Body = 0
	}
	defer x.close()
	x.until(c.Deadline, c.Whole)

	err := x.ask(&c)
	if err != nil {
		status, broken := 0, x.body.failure()
		switch {
		case req.ProtoMajor == 1 && malformedBody(broken):
			status = http.StatusBadRequest
			httpmsg.FailMalformed(w, req, "the body is malformed: "+broken.Error())
		case req.Context().Err() == nil && broken == nil:
			status = c.Answer(w, req, err)
		}
		c.End(req.Method, status, false)
		if status == 0 {
			panic(http.ErrAbortHandler) // the client has left: nothing is an answer
		}
		return status
	}
	answered := false
	defer func() {
		x.leave(answered)
		if c.Body < 0 {
			c.Body = x.body.came().Bytes // so many at least
		}
		c.Back = x.received
		c.End(req.Method, x.res.StatusCode, true)
	}()
	answered = x.pass(how.Report)
	if x.trailed {
		c.Reported(&x.report)
	}
	return 0
}

// serveStream serves a request that another router sends for an instance of this
// worker: the queue, and the instance.
func (f *Front) serveStream(w http.ResponseWriter, req *http.Request, from *Conn) {
	x := newExchange(f, w, req, from.ID, req.ProtoMajor == 2)
	x.asked100 = x.body != nil && req.Header.Get(httpmsg.HeaderHold) != ""
	defer x.close()
	refuse := func(status int, why, detail string, again time.Duration) {
		h := w.Header()
		h.Set(httpmsg.HeaderRefused, why)
		if again > 0 {
			httpmsg.SetRetryAfter(w, again)
		}
		if x.asked100 && req.ProtoMajor == 1 {
			h.Set("Connection", "close") // else net/http reads the rest first, which is held back
		}
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, detail) // the other router may be gone
	}
	deadline := httpmsg.ClientDeadline(req.Header, time.Now())
	x.until(deadline, false)
	err := x.askHere(from.ID, from.Port, deadline)
	if err != nil {
		var re *failure.RefusedError
		var oe *failure.OpenError
		switch {
		case req.Context().Err() != nil:
			panic(http.ErrAbortHandler) // the other router has left: nothing is an answer
		case errors.Is(err, failure.ErrLate):
			refuse(http.StatusGatewayTimeout, failure.RefusedLate, err.Error(), 0)
		case errors.As(err, &re):
			refuse(http.StatusServiceUnavailable, re.Why, err.Error(), re.Again)
		case errors.As(err, &oe):
			refuse(http.StatusServiceUnavailable, failure.RefusedConnect, "the instance accepts no connection", 0)
		default:
			refuse(http.StatusBadGateway, failure.RefusedBroken, "the instance broke the connection", 0)
		}
		return
	}
	x.headCame()
	delete(x.res.Header, httpmsg.HeaderRefused) // not the instance's to say
	if up := x.body.came(); up.Took > 0 {
		call.TellHop(&x.report, up)
	}
	answered := false
	defer func() { x.leave(answered) }()
	answered = x.pass(true)
}

// exchange is a request and its answer on their way through this router.
type exchange struct {
	r    *router.Services
	f    *Front
	w    http.ResponseWriter
	req  *http.Request
	out  *http.Request // what is sent; its context ends with the exchange
	body *guardedBody  // nil: there is none
	h2   bool          // is spoken to the instance

	cancel   context.CancelCauseFunc
	timer    *time.Timer
	deadline time.Time // zero: none
	whole    bool      // the deadline is that of the whole answer

	res    *http.Response
	conn   *upstream.Conn // on which it came; nil: over HTTP/2
	report orca.Report
	// trailed: the report is that of the trailers.
	trailed bool
	// waited is how long the body of the request was waited for until the head of the
	// answer, and taking how long the client needed to take the received bytes of the
	// answer.
	waited, taking time.Duration
	received       int64
	// asked100: another router holds the rest of the body back until it is asked for it.
	asked100 bool
	// place at an instance of this worker while held.
	place local.Place
	held  bool
	// open: the answer is a call of gRPC, which is counted when its status has come. broke:
	// who makes it has broken it off.
	open, broke bool
}

func newExchange(f *Front, w http.ResponseWriter, req *http.Request, host string, h2 bool) *exchange {
	x := &exchange{f: f, r: f.opts.Services, w: w, req: req, h2: h2}
	// As it came: nothing here reads the query or changes the path.
	target := &url.URL{
		Scheme: "http", Host: host, // of no meaning: transports are per instance
		Path: req.URL.Path, RawPath: req.URL.RawPath, RawQuery: req.URL.RawQuery, ForceQuery: req.URL.ForceQuery,
	}
	if strings.HasPrefix(req.RequestURI, "/") && !strings.HasPrefix(req.RequestURI, "//") {
		path, _, _ := strings.Cut(req.RequestURI, "?")
		target.Opaque = path // what is not escaped as Go would do it stays so too
	}
	out := &http.Request{
		Method: req.Method, URL: target, Header: httpmsg.OutgoingHeader(req), Host: req.Host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, ContentLength: req.ContentLength, Trailer: req.Trailer,
	}
	if httpmsg.HasBody(req) {
		x.body = newGuardedBody(req.Body)
	}
	var ctx context.Context
	ctx, x.cancel = context.WithCancelCause(req.Context())
	x.out = out.WithContext(ctx)
	return x
}

// until bounds the time until the head of the answer, or that of the whole answer.
func (x *exchange) until(deadline time.Time, whole bool) {
	if !deadline.IsZero() {
		x.deadline, x.whole = deadline, whole
		x.timer = time.AfterFunc(time.Until(deadline), func() { x.cancel(failure.ErrLate) })
	}
}

// late says whether the deadline is over. The upstream knows the deadline too: a failure at that
// moment is due to it, even if the timer here has not fired yet.
func (x *exchange) late() bool {
	return !x.deadline.IsZero() && !time.Now().Before(x.deadline)
}

// headCame ends the time that bounds only that.
func (x *exchange) headCame() {
	if x.timer != nil && !x.whole {
		x.timer.Stop()
		x.deadline = time.Time{}
	}
}

func (x *exchange) close() {
	if x.timer != nil {
		x.timer.Stop()
	}
	x.body.letGo() // a transport may be waiting for it
	x.cancel(nil)
}

// leave gives back what the exchange has of an instance of this worker.
func (x *exchange) leave(answered bool) {
	if x.held {
		x.held = false
		x.place.Ticket.Waited(x.waited + x.taking)
		x.place.Leave(answered)
	}
}

// ask asks endpoints until one answers.
func (x *exchange) ask(c *call.Call) error {
	for {
		e, more := c.Next()
		if e == nil {
			break
		}
		if left, bounded := c.Left(); bounded {
			httpmsg.SetTimeLeft(x.out.Header, left)
		}
		var err error
		if e.Local {
			err = x.askHere(e.Instance, c.Port, c.Deadline)
			x.r.Judge(e, err)
			c.Waited = x.waited
		} else {
			var moved bool
			if moved, err = x.askThere(c, e, more); moved {
				continue
			}
		}
		if err == nil {
			if !c.Answered(x.res.StatusCode, &x.report, x.body.unread()) {
				x.body.letGo() // the instance may go on reading it
				x.headCame()
				return nil
			}
			_ = x.res.Body.Close()
			x.leave(false)
			continue
		}
		if x.req.Context().Err() != nil || x.body.failed() || errors.Is(err, failure.ErrLate) {
			return err // the client's doing, or nobody's any more
		}
		if !c.Failed(err, x.body.unread()) {
			break
		}
	}
	return c.Last
}

// try is the request as it is sent for the next time.
func (x *exchange) try(ctx context.Context) *http.Request {
	out := x.out.WithContext(ctx)
	if x.body != nil {
		body := x.body.try()
		if body == nil {
			body = http.NoBody // never: who is asked again has it
		}
		out.Body = body
	}
	return out
}

// askHere asks an instance of this worker. Without an error the exchange has a place
// there.
func (x *exchange) askHere(id wire.InstanceID, port string, deadline time.Time) error {
	if err := x.r.Local.Enter(x.out.Context(), &x.place, id, port, deadline); err != nil {
		return err
	}
	x.held = true
	if x.asked100 {
		x.asked100 = false
		x.w.WriteHeader(http.StatusContinue)
	}
	t := x.place.Endpoint.Transport(port, x.place.Addr, x.h2)
	res, err := x.roundTrip(x.out.Context(), t, nil) //nolint:bodyclose // pass or the next try closes it
	if err != nil {
		if cause := context.Cause(x.out.Context()); cause != nil {
			err = cause
		}
		if !x.body.failed() {
			x.place.Outcome(x.req.Context(), 0, err)
		}
		x.leave(false)
		return err
	}
	x.res = res
	x.headOutcome()
	x.waited = x.body.came().Waited
	x.reportHere()
	return nil
}

// reportHere reads the load report of an instance of this worker and adds to it what its
// queue has measured. By itself, since what calls deeper should need little stack: over
// HTTP/2 each request has a new one, and each time that it grows it is moved.
//
//go:noinline
func (x *exchange) reportHere() {
	x.report, _ = x.f.opts.Reports.FromHeader(x.res.Header)
	call.TakeHop(&x.report) // not the instance's to say
	httpmsg.SetQueueMetrics(&x.report, x.place.Report())
}

// askThere asks an instance of another worker, through its router.
func (x *exchange) askThere(c *call.Call, e *router.Endpoint, more bool) (moved bool, _ error) {
	sent, waits, done := x.r.Wait(x.out.Context(), e, c.Repeat, more && x.body.unread())
	defer done()
	res, err := x.roundTrip(context.WithValue(sent, upstream.WantedBy{}, sent), x.r.Transport(e, c.Port, x.h2), waits)
	if err != nil {
		e.Settle()
		switch {
		case context.Cause(x.out.Context()) != nil:
			return false, context.Cause(x.out.Context())
		case waits.State.Load() == router.WaitCanceled && x.body.unread():
			c.Picker.Again(e)
			return true, nil // no connection had taken it
		case failure.Abandoned(sent):
			e.Failures.Add(1)
			return false, &failure.OpenError{Blame: failure.BlameSelf, Target: e.Instance,
				Err: failure.ErrAbandoned} // nothing but time was lost
		}
		return false, err
	}
	if why := res.Header.Get(httpmsg.HeaderRefused); why != "" && res.StatusCode >= 500 {
		return false, x.refusal(e, res, why)
	}
	x.res = res
	x.report, _ = x.f.opts.Reports.FromHeader(res.Header)
	h, up := call.TakeHop(&x.report), x.body.came()
	c.Uploaded(h, up.Bytes, up.Waited)
	return false, nil
}

// refusal is what another router says instead of an answer.
func (x *exchange) refusal(e *router.Endpoint, res *http.Response, why string) error {
	detail, _ := io.ReadAll(io.LimitReader(res.Body, 512)) // what there is of it
	_ = res.Body.Close()
	err := errors.New(strings.ToValidUTF8(string(detail), "?"))
	switch why {
	case failure.RefusedBroken:
		return &failure.BrokenError{Err: err}
	case failure.RefusedConnect:
		oe := &failure.OpenError{Blame: failure.BlameEndpoint, Target: e.Instance, Err: err}
		x.r.Judge(e, oe)
		return oe
	}
	return &failure.RefusedError{Why: why, Err: err, Again: httpmsg.ParseRetryAfter(res.Header.Get("Retry-After"))}
}

// roundTrip sends the request under ctx, for w where it can be canceled. An
// UnsentError says that nothing of it was sent.
func (x *exchange) roundTrip(ctx context.Context, t *upstream.Transport, w *router.Waiter) (res *http.Response,
	err error) {
	for range upstream.MaxIdleTries {
		// A kept connection that had ended says nothing about the peer.
		if res, err = x.oneTrip(ctx, t, w); err == nil || !errors.Is(err, failure.ErrEnded) || !x.body.unread() ||
			ctx.Err() != nil {
			return res, err
		}
	}
	if t.H1 != nil {
		t.CloseIdleConnections() // over HTTP/2 others are under way on what there is
	}
	return x.oneTrip(ctx, t, w)
}

func (x *exchange) oneTrip(ctx context.Context, t *upstream.Transport, w *router.Waiter) (*http.Response, error) {
	if t.H2 != nil {
		return x.overH2(ctx, t.H2, w)
	}
	var on *upstream.Conn
	var before int64
	var mu sync.Mutex // guards over
	over := false
	trace := &httptrace.ClientTrace{
		GotConn: func(i httptrace.GotConnInfo) {
			c, ok := i.Conn.(*upstream.Conn)
			if ok {
				on, before = c, c.Writes.Load()
			}
			if w != nil && !w.State.CompareAndSwap(router.WaitsForConn, router.HasConn) &&
				w.State.Load() == router.WaitCanceled && ok {
				c.Barred.Store(true) // it is being asked elsewhere
			}
		},
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			mu.Lock()
			defer mu.Unlock()
			if !over {
				x.interim(code, h)
			}
			return nil
		},
	}
	out, sent := x.held100(x.try(httptrace.WithClientTrace(ctx, trace)), w)
	defer sent()
	res, err := t.H1.RoundTrip(out)
	mu.Lock()
	over = true
	mu.Unlock()
	switch {
	case err != nil && x.late():
		err = failure.ErrLate
	case err != nil && on != nil && on.Writes.Load() == before:
		err = &failure.UnsentError{Err: err}
	case err == nil:
		// Package http1 says the same of it. net/http lets names with a space pass, such
		// as "Content-Length ", and finds the end of the body otherwise.
		for name := range res.Header {
			if !httpguts.ValidHeaderFieldName(name) {
				_ = res.Body.Close()
				res, err = nil, fmt.Errorf("%w: %q is no name of a field", http1.ErrMalformed, name)
				break
			}
		}
	}
	x.conn = on
	return res, err
}

// overH2 is oneTrip over HTTP/2.
func (x *exchange) overH2(ctx context.Context, cl *h2client.Client, w *router.Waiter) (*http.Response, error) {
	x.conn = nil
	out, sent := x.held100(x.try(ctx), w)
	defer sent()
	res, err := cl.Do(out, h2client.Hooks{
		GotConn: func() bool {
			return w == nil || w.State.CompareAndSwap(router.WaitsForConn, router.HasConn) ||
				w.State.Load() != router.WaitCanceled
		},
		Interim: x.interim,
	})
	switch {
	case err == nil:
	case x.late():
		err = failure.ErrLate
	case errors.Is(err, h2client.ErrUnprocessed):
		err = &failure.UnsentError{Err: fmt.Errorf("%w: %w", failure.ErrEnded, err)}
	}
	return res, err
}

// held100 has another router, for which w waits, say 100 before more of a large body
// goes there than can be sent again. done is called when the head of the answer has come.
func (x *exchange) held100(out *http.Request, w *router.Waiter) (_ *http.Request, done func()) {
	if w == nil || x.body == nil || x.req.ContentLength >= 0 && x.req.ContentLength <= maxReplay {
		return out, func() {}
	}
	out.Header = out.Header.Clone()
	out.Header[httpmsg.HeaderHold] = []string{"1"}
	return out, x.body.hold()
}

// interim passes an interim answer on, except 100, which clients get when the body is read.
func (x *exchange) interim(code int, h textproto.MIMEHeader) {
	if code == http.StatusContinue {
		x.body.goOn()
		return
	}
	to := x.w.Header()
	for name, values := range h {
		to[name] = values
	}
	httpmsg.DropHopByHop(to)
	x.w.WriteHeader(code)
	clear(to) // they are not those of the answer
}

// pass passes the answer on; false where the instance broke off or the client left.
func (x *exchange) pass(report bool) bool {
	defer func() { _ = x.res.Body.Close() }()
	res, h := x.res, x.w.Header()
	upgraded := res.StatusCode == http.StatusSwitchingProtocols
	proto := httpmsg.UpgradeProtocol(res.Header)
	httpmsg.DropHopByHop(res.Header)
	for name, values := range res.Header {
		h[name] = values
	}
	report = x.tell(h, report)
	if upgraded {
		return x.upgrade(proto)
	}
	if _, typed := h["Content-Type"]; !typed {
		h["Content-Type"] = nil // else net/http would guess
	}
	if x.req.ProtoMajor == 2 {
		if _, dated := h["Date"]; !dated {
			h["Date"] = httpmsg.Dates.Now() // the server would write one for each answer
		}
		if _, long := h["Content-Length"]; !long && res.ContentLength < 0 {
			h["Content-Length"] = nil // else net/http would count what comes at once
		}
	}
	httpmsg.DropReports(res.Trailer)
	announced := len(res.Trailer)
	for name := range res.Trailer {
		h.Add("Trailer", name)
	}
	x.w.WriteHeader(res.StatusCode)
	if x.held && httpmsg.IsEventStream(res) {
		x.place.Rest()
	}
	done := x.copyBody()
	x.callOutcome(done)
	if !done && httpmsg.IsGRPC(x.req.Header) && x.late() {
		h[http.TrailerPrefix+"Grpc-Status"] = []string{strconv.Itoa(httpmsg.GRPCStatus(http.StatusGatewayTimeout))}
		return false
	}
	if !done {
		// The client must be able to tell it from an end.
		panic(http.ErrAbortHandler)
	}
	x.tellLast(h, report)
	if len(res.Trailer) > 0 && x.req.ProtoMajor == 1 {
		_ = http.NewResponseController(x.w).Flush() // trailers need chunks
	}
	for name, values := range res.Trailer {
		if len(res.Trailer) != announced {
			name = http.TrailerPrefix + name
		}
		h[name] = values
	}
	return true
}

// copyBody passes the body on as it comes; false where it broke off or nobody reads
// it.
func (x *exchange) copyBody() bool {
	res := x.res
	if res.Body == http.NoBody || res.ContentLength == 0 {
		return true
	}
	flush := http.NewResponseController(x.w).Flush
	ready := func() bool { return false }
	if b, ok := res.Body.(interface{ Ready() bool }); ok {
		ready = b.Ready // what is there already need not be sent by itself
	}
	if res.ContentLength < 0 && x.req.Method != http.MethodHead && !ready() {
		_ = flush() // the head comes before what may come much later
	}
	buf := relay.LargeBuffers.Get().(*[relay.LargeBuffer]byte)
	defer relay.LargeBuffers.Put(buf)
	for rest := res.ContentLength; ; {
		n, err := res.Body.Read(buf[:])
		if n > 0 {
			since := http1.Now()
			x.received += int64(n)
			if _, werr := x.w.Write(buf[:n]); werr != nil {
				return false
			}
			if rest -= int64(n); rest != 0 && err == nil && !ready() {
				if flush() != nil {
					return false
				}
			}
			x.taking += http1.Now().Sub(since)
		}
		if err != nil {
			x.broke = !errors.Is(err, io.EOF)
			return !x.broke
		}
	}
}

// upgrade makes of both connections one, for whatever is spoken from here on.
func (x *exchange) upgrade(proto string) bool {
	if want := httpmsg.UpgradeProtocol(x.req.Header); !strings.EqualFold(want, proto) || want == "" {
		clear(x.w.Header())
		httpmsg.Fail(x.w, x.req, http.StatusBadGateway, "upstream-failed", "look at what the instance answers",
			"the instance changes to another protocol than it was asked for: "+strconv.QuoteToASCII(proto))
		return false
	}
	upstream, ok := x.res.Body.(io.ReadWriteCloser)
	if !ok {
		panic(http.ErrAbortHandler)
	}
	if x.held {
		x.place.Rest() // it is a connection from here on
	}
	if x.conn != nil {
		x.conn.Upgraded.Store(true)
	}
	h := x.w.Header()
	h["Connection"], h["Upgrade"] = []string{"Upgrade"}, []string{proto}
	x.w.WriteHeader(http.StatusSwitchingProtocols)
	rc := http.NewResponseController(x.w)
	client, buffered, err := rc.Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	unfollow(client)
	if err := buffered.Flush(); err != nil {
		netconn.Cut(client)
		return false
	}
	_ = client.SetDeadline(time.Time{})
	// The context of a request ends when its connection is hijacked no more than the
	// Router: that of the server does.
	stop := context.AfterFunc(x.req.Context(), func() {
		netconn.Cut(client)
		_ = upstream.Close()
	})
	defer stop()
	// Only what was read already is taken from the server: it would take the end of the
	// client's side for its leaving.
	first := io.LimitReader(buffered.Reader, int64(buffered.Reader.Buffered()))
	splice(&hijacked{Conn: client, read: io.MultiReader(first, client)}, upstream, func() {
		if x.conn != nil {
			netconn.CloseWrite(x.conn)
		}
	})
	return true
}

// unfollow stops looking for requests on the connection of a client.
func unfollow(c net.Conn) {
	switch c := c.(type) {
	case *Conn:
		unfollow(c.Conn)
	case *netconn.HeldConn:
		unfollow(c.Conn)
	case *netconn.CountedConn:
		unfollow(c.Conn)
	default:
		http1.Unfollow(c)
	}
}

// hijacked is a client's connection that may have been read from.
type hijacked struct {
	net.Conn
	read io.Reader
}

// Read implements net.Conn.
func (c *hijacked) Read(p []byte) (int, error) { return c.read.Read(p) }

// splice copies both ways until upstream has ended, and closes both. Done is called when
// the client sends nothing more.
func splice(client net.Conn, upstream io.ReadWriteCloser, done func()) {
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := copyTo(upstream, client); err != nil {
			_ = upstream.Close()
			return
		}
		done()
	}()
	if err := copyTo(client, upstream); err != nil {
		netconn.Cut(client)
	}
	_ = client.Close()
	_ = upstream.Close()
	<-ended
}

func copyTo(dst io.Writer, src io.Reader) error {
	buf := relay.SmallBuffers.Get().(*[relay.SmallBuffer]byte)
	defer relay.SmallBuffers.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, buf[:])
	return err
}
