package fastpath

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/call"
	"github.com/verge-edge/verge/internal/proxy/counters"
	"github.com/verge-edge/verge/internal/proxy/entries"
	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/forward"
	"github.com/verge-edge/verge/internal/proxy/h2guard"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/http1/message"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/relay"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/proxy/upstream"
	"github.com/verge-edge/verge/internal/wire"
)

// Conn is the other driver of a call: plain HTTP/1.1 with known lengths, relayed in
// place (package http1), for one connection. What is more than that goes to the driver
// that knows all of HTTP, with the connection.
type Conn struct {
	d    *Driver
	r    *router.Services
	conn *http1.Conn
	to   forward.Conn // what it is for, without a connection
	name string       // of the service

	site    Site            // of a client of the gateway; else nil
	Quiet   bool            // the load report is not for the client
	traffic *counters.Bytes // nil where it is counted elsewhere
	Marks   message.Marks
	trace   [55]byte
	extra   []byte

	// Of the request that is being served.
	call   call.Call
	place  local.Place
	held   bool // place is
	report orca.Report
	up     *http1.Conn
	pool   *http1.Pool // where up belongs; nil: it is not kept
	gone   leaving
	wait   wait

	// made is how long the instance was waited for with the body of the answer before,
	// where that is news for the other router; below 0: it is not.
	made time.Duration
}

// foreign is what to do where something else is spoken.
const foreign = "the port of the service is declared with protocol http or grpc: declare it with protocol: tcp, and " +
	"its connections are passed on as they are"

// Site is what decides about the requests of a connection in place of its entry: which
// service they are for, and whether they are served here.
type Site interface {
	// Serve serves a request by Conn.Forward; false leaves it to the driver for all of HTTP.
	Serve(ctx context.Context, f *Conn, x *http1.Exchange) bool
}

// Driver serves connections on the fast path.
type Driver struct {
	Services *router.Services
	Front    *forward.Front // takes over what is more
	Log      *slog.Logger
	Reports  *httpmsg.LoadReports
	Flooded  *atomic.Uint64 // connections of HTTP/2 that were cut for it
	Spawn    func(func(context.Context)) bool
	Draining func() bool
	// HeaderTimeout is how long a header block of HTTP/2 may take.
	HeaderTimeout time.Duration
}

// ServeRequests gives a client's connection to the fast path if the port is routed by
// request; false: it is routed by connection.
func (d *Driver) ServeRequests(k entries.Key, c *net.TCPConn, release func()) bool {
	s := d.Services.Find(k.App + "." + k.Service)
	if s == nil || !s.ByRequest(k.Port) {
		return false
	}
	s.Connections.Add(1)
	d.serveEntry(c, &forward.Conn{Key: k, Release: release}, &s.Traffic)
	return true
}

// ServeStream serves a stream of another router for an instance of this worker, and calls
// release once when it has closed it.
func (d *Driver) ServeStream(c *tls.Conn, id wire.InstanceID, port string, release func(), t *counters.Bytes) {
	d.serveEntry(c, &forward.Conn{ID: id, Port: port, Release: release}, t)
}

// serveEntry serves a connection until it or the router ends, and releases it. It returns
// at once.
func (d *Driver) serveEntry(c net.Conn, to *forward.Conn, t *counters.Bytes) {
	f := &Conn{d: d, r: d.Services, to: forward.Conn{Key: to.Key, ID: to.ID, Port: to.Port}, traffic: t, made: -1}
	f.conn = http1.NewConn(c, to.Release)
	if to.ID == "" {
		f.name = to.Key.App + "." + to.Key.Service
		host, _, err := net.SplitHostPort(c.RemoteAddr().String())
		if err != nil {
			host = c.RemoteAddr().String()
		}
		f.Marks = message.Marks{Client: []byte(host), Proto: "http"}
	}
	f.wait.taken = f.taken
	ok := d.Spawn(func(ctx context.Context) {
		defer context.AfterFunc(ctx, f.conn.Cut)()
		http1.Serve(ctx, f.conn, http1.Limits{Header: forward.HeaderTimeout, Idle: forward.ClientIdle,
			Foreign: foreign}, f, func(c net.Conn) { f.handOver(ctx, c) }, d.Draining)
	})
	if !ok {
		f.conn.Cut() // the Router is closed
	}
}

// ServeSite serves the requests of a client for a site, until the connection or ctx ends.
// handOver takes over what is more than plain HTTP/1.1.
func (d *Driver) ServeSite(ctx context.Context, conn *http1.Conn, v Site, marks message.Marks, t *counters.Bytes,
	limits http1.Limits, handOver func(net.Conn)) {
	f := &Conn{d: d, r: d.Services, conn: conn, site: v, Marks: marks, traffic: t}
	f.wait.taken = f.taken
	defer context.AfterFunc(ctx, f.conn.Cut)()
	http1.Serve(ctx, f.conn, limits, f, handOver, d.Draining)
}

// handOver gives the connection to the driver for all of HTTP.
func (f *Conn) handOver(ctx context.Context, c net.Conn) {
	h2 := http1.IsHTTP2(c)
	c = &netconn.CountedConn{Conn: c, Traffic: f.traffic}
	if h2 && f.to.ID == "" { // other routers are trusted
		c = h2guard.Client(c, f.d.HeaderTimeout, f.d.Flooded)
	}
	to := &forward.Conn{Conn: c, Key: f.to.Key, ID: f.to.ID, Port: f.to.Port, Release: func() {}}
	if h2 {
		f.d.Front.ServeH2(ctx, to)
		return
	}
	f.d.Front.Give(to)
}

// Serve implements http1.Backend. A fault of ours ends this connection and no other, as
// in the server of the standard library.
func (f *Conn) Serve(ctx context.Context, x *http1.Exchange) (served bool) {
	defer f.count()
	defer func() {
		if what := recover(); what != nil {
			f.d.Log.Error("a request made the router panic, please report this", "what", what, "stack",
				string(debug.Stack()))
			f.leave(false)
			f.call.Release()
			x.Abandon()
			served = true
		}
	}()
	if f.site != nil {
		return f.site.Serve(ctx, f, x)
	}
	if f.to.ID != "" {
		f.serveStream(ctx, x)
		return true
	}
	s := f.r.Find(f.name)
	if s == nil || s.SpeaksH2(f.to.Key.Port) || x.Request.Get(LowTimeLeft) != nil ||
		x.Request.Get(LowGRPCTimeout) != nil {
		return false
	}
	f.Forward(ctx, x, s, f.to.Key.Port)
	return true
}

// count adds to what went over the connection.
func (f *Conn) count() {
	if f.traffic == nil {
		return
	}
	in, out := f.conn.Traffic()
	f.traffic.Received.Add(uint64(in))
	f.traffic.Sent.Add(uint64(out))
}

// Names of headers as http1 looks for them.
const (
	LowTimeLeft    = "verge-timeout"
	LowGRPCTimeout = "grpc-timeout"
	lowRefused     = "verge-refused"
	lowRetryAfter  = "retry-after"
)

// Forward passes a request on to an instance of a service, as package forward does.
func (f *Conn) Forward(ctx context.Context, x *http1.Exchange, s *router.Service, port string) int {
	c := &f.call
	x.Gather()
	method := methodName(x.Request.Method())
	if err := c.Begin(ctx, f.r, s, port, time.Time{}); err != nil {
		s.Failures.Add(1)
		c.End(method, http.StatusServiceUnavailable, false)
		refusal503(err, s).send(x)
		return http.StatusServiceUnavailable
	}
	x.Own, x.Quiet = lowRefused, f.Quiet
	f.traced(x)
	c.Repeat = x.Request.Length == 0 && x.Request.Idempotent()
	c.Body = x.Request.Length
	f.until(x, c.Deadline)

	err := f.ask(ctx, x)
	if err != nil {
		status, w := 0, &reply{h: http.Header{}}
		switch {
		case ctx.Err() == nil && f.site != nil && errors.Is(err, http1.ErrSlow):
			httpmsg.WriteProblem(w, httpmsg.SlowBody(api.DefaultBodyTimeout.Std()))
			status = w.status
		case errors.Is(err, http1.ErrClient) || ctx.Err() != nil:
		default:
			status = c.Answer(w, w.request(x), err)
		}
		c.End(method, status, false) // before its client knows
		if status == 0 {
			x.Abandon()
		} else {
			w.send(x)
		}
		return status
	}
	status := x.Response.Status
	answered := f.pass(x)
	f.idle(x)
	f.leave(answered)
	c.Back = x.Received
	c.End(method, status, true)
	return 0
}

// until bounds the time until the head of the answer.
func (f *Conn) until(x *http1.Exchange, deadline time.Time) {
	if !deadline.IsZero() {
		x.Deadline = http1.Now().After(time.Until(deadline))
	}
	f.wait.deadline = x.Deadline
}

// ask asks endpoints until one answers.
func (f *Conn) ask(ctx context.Context, x *http1.Exchange) error {
	c := &f.call
	for {
		e, more := c.Next()
		if e == nil {
			return c.Last
		}
		f.Marks.Extra = f.Marks.Extra[:0]
		if left, bounded := c.Left(); bounded {
			f.Marks.Extra = append(append(f.Marks.Extra, httpmsg.HeaderTimeLeft...), ": "...)
			f.Marks.Extra = strconv.AppendInt(f.Marks.Extra, max(left, 0).Milliseconds(), 10)
			f.Marks.Extra = append(f.Marks.Extra, "\r\n"...)
		}
		var err error
		if e.Local {
			err = f.askHere(ctx, x, e.Instance, c.Port, c.Deadline)
			f.r.Judge(e, err)
			c.Waited = x.Up.Waited
		} else {
			var moved bool
			if moved, err = f.askThere(ctx, x, e, more); moved {
				continue
			}
		}
		if err == nil {
			if !c.Answered(x.Response.Status, &f.report, x.Repeatable()) {
				return nil
			}
			f.drop(x)
			f.leave(false)
			continue
		}
		if errors.Is(err, http1.ErrClient) || errors.Is(err, failure.ErrLate) || ctx.Err() != nil {
			return err // the client's doing, or nobody's any more
		}
		if !c.Failed(err, x.Repeatable()) {
			return c.Last
		}
	}
}

// drop is the end of an answer that is not passed on.
func (f *Conn) drop(x *http1.Exchange) {
	if _, again := x.Take(f.up, relay.SmallBuffer); again {
		f.keep()
	}
}

// keep keeps the connection to the instance for the next request.
func (f *Conn) keep() {
	if f.pool == nil {
		_ = f.up.Close()
		return
	}
	f.pool.Put(f.up, http1.Now())
}

// leave gives back what the request has of an instance of this worker.
func (f *Conn) leave(answered bool) {
	if f.held {
		f.held = false
		f.place.Leave(answered)
	}
}

// idle notes for how long the instance of this worker had nothing to do for the request
// but to wait for those who ask.
func (f *Conn) idle(x *http1.Exchange) {
	if f.held {
		f.place.Ticket.Waited(x.Up.Waited + x.Down.Held)
	}
}

// askHere asks an instance of this worker.
func (f *Conn) askHere(ctx context.Context, x *http1.Exchange, id wire.InstanceID, port string,
	deadline time.Time) error {
	f.gone = leaving{Context: ctx, conn: f.conn}
	err := f.r.Local.Enter(&f.gone, &f.place, id, port, deadline)
	if left := f.gone.stop(); left && err != nil {
		return http1.ErrClient
	}
	if err != nil {
		return err
	}
	f.held, x.Hold = true, false
	if f.to.ID != "" {
		if err := x.Continue(); err != nil {
			f.leave(false)
			return err
		}
	}
	f.pool = f.place.Endpoint.Pool(port, f.place.Addr)
	for try := range upstream.MaxIdleTries + 1 {
		if f.up = f.kept(x, try); f.up == nil {
			f.up, err = f.dialHere(ctx, deadline)
		}
		if err == nil {
			err = f.sent(x)
		}
		if try == upstream.MaxIdleTries || !errors.As(err, new(*failure.UnsentError)) {
			break
		}
	}
	f.place.Outcome(ctx, x.Response.Status, err)
	if err != nil {
		f.leave(false)
		return err
	}
	call.TakeHop(&f.report) // not the instance's to say
	httpmsg.SetQueueMetrics(&f.report, f.place.Report())
	return nil
}

// kept is a connection of f.pool for the next try, nil where one is to be opened. After
// one that had ended the others are looked at, however lately they were used.
func (f *Conn) kept(x *http1.Exchange, try int) *http1.Conn {
	if f.pool == nil || try == upstream.MaxIdleTries {
		return nil
	}
	return f.pool.Get(x.Began, try == 0 && repeatable(x))
}

func (f *Conn) dialHere(ctx context.Context, deadline time.Time) (*http1.Conn, error) {
	if !deadline.IsZero() {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, deadline, failure.ErrLate)
		defer cancel()
	}
	conn, err := f.place.Endpoint.Dial(ctx, f.place.Addr)
	if err != nil {
		return nil, err
	}
	return http1.NewConn(conn, nil), nil
}

// repeatable requests may go to a connection that is not looked at before.
func repeatable(x *http1.Exchange) bool { return x.Request.Length == 0 && x.Request.Idempotent() }

// sent asks over f.up, and reads the load report of the answer.
func (f *Conn) sent(x *http1.Exchange) error {
	if err := x.Ask(f.up, &f.Marks); err != nil {
		f.up.Cut()
		if errors.Is(err, http1.ErrUnsent) {
			return &failure.UnsentError{Err: err}
		}
		return err
	}
	f.report = f.d.Reports.FromResponse(&x.Response)
	return nil
}

// pass passes the answer on; false where it was not passed on as a whole.
func (f *Conn) pass(x *http1.Exchange) bool {
	if f.held && isEvents(x.Response.Get("content-type")) {
		f.place.Rest()
	}
	if f.to.ID != "" {
		call.TellHop(&f.report, x.Up)
		if f.made >= 0 {
			f.report.Set(call.HopMade, float64(f.made)/1e6)
			f.made = -1
		}
	}
	f.extra = f.extra[:0]
	if !f.Quiet {
		f.extra = append(append(f.extra, orca.Header...), ": "...)
		f.extra = append(f.report.AppendText(f.extra), "\r\n"...)
	}
	again, err := x.Answer(f.up, f.extra)
	if again {
		f.keep()
	}
	return err == nil
}

func isEvents(contentType []byte) bool {
	const events = "text/event-stream"
	return len(contentType) >= len(events) && string(contentType[:len(events)]) == events
}

// serveStream serves a stream: another router asks for an instance of this
// worker.
func (f *Conn) serveStream(ctx context.Context, x *http1.Exchange) {
	x.Own, x.Strict = lowRefused, true
	h := http.Header{}
	for name, low := range map[string]string{httpmsg.HeaderTimeLeft: LowTimeLeft,
		httpmsg.HeaderGRPCTimeout: LowGRPCTimeout} {
		if v := x.Request.Get(low); v != nil {
			h[name] = []string{string(v)}
		}
	}
	deadline := time.Time{}
	if len(h) > 0 {
		deadline = httpmsg.ClientDeadline(h, time.Now())
	}
	f.until(x, deadline)
	err := f.askHere(ctx, x, f.to.ID, f.to.Port, deadline)
	if err == nil {
		answered := f.pass(x)
		f.idle(x)
		f.leave(answered)
		if x.Down.Bytes >= route.LargeBody/2 { // there it may have been more that came late
			f.made = x.Down.Waited
		}
		return
	}
	refuse := func(status int, why, detail string, again time.Duration) {
		fields := httpmsg.HeaderRefused + ": " + why + "\r\n"
		if again > 0 {
			fields += "Retry-After: " + httpmsg.RetryAfterSeconds(again) + "\r\n"
		}
		x.Refuse(status, "text/plain; charset=utf-8", []byte(fields), []byte(detail))
	}
	var re *failure.RefusedError
	var oe *failure.OpenError
	switch {
	case errors.Is(err, http1.ErrClient) || ctx.Err() != nil:
		x.Abandon()
	case errors.Is(err, failure.ErrLate):
		refuse(http.StatusGatewayTimeout, failure.RefusedLate, err.Error(), 0)
	case errors.As(err, &re):
		refuse(http.StatusServiceUnavailable, re.Why, err.Error(), re.Again)
	case errors.As(err, &oe):
		refuse(http.StatusServiceUnavailable, failure.RefusedConnect, "the instance accepts no connection", 0)
	default:
		refuse(http.StatusBadGateway, failure.RefusedBroken, "the instance broke the connection", 0)
	}
}

// traced gives a request that belongs to no trace one of its own: traced.
func (f *Conn) traced(x *http1.Exchange) {
	if x.Request.Traceparent() != nil {
		return
	}
	var id [24]byte
	for i := 0; i < len(id); i += 8 {
		binary.LittleEndian.PutUint64(id[i:], rand.Uint64()|1) // all zeroes mean none
	}
	copy(f.trace[:], "00-")
	hex.Encode(f.trace[3:], id[:16])
	f.trace[35] = '-'
	hex.Encode(f.trace[36:], id[16:])
	copy(f.trace[52:], "-00")
	f.Marks.Traceparent = f.trace[:]
}

// methodName is the method without a piece of memory of its own, where it is a usual
// one.
func methodName(m []byte) string {
	switch string(m) {
	case "GET":
		return http.MethodGet
	case "HEAD":
		return http.MethodHead
	case "PUT":
		return http.MethodPut
	case "POST":
		return http.MethodPost
	case "DELETE":
		return http.MethodDelete
	case "PATCH":
		return http.MethodPatch
	case "OPTIONS":
		return http.MethodOptions
	case "TRACE":
		return http.MethodTrace
	}
	return "_OTHER"
}

// leaving is the context of a request that waits in a queue: it ends when its client
// leaves. Nobody looks as long as nobody asks for that.
type leaving struct {
	context.Context
	conn *http1.Conn

	left chan struct{}
	over chan struct{} // closed when nobody looks any more
	gone atomic.Bool
}

// Done implements context.Context. It is called by one goroutine.
func (l *leaving) Done() <-chan struct{} {
	if l.left == nil {
		l.left, l.over = make(chan struct{}), make(chan struct{})
		left, over := l.left, l.over
		go func() {
			defer close(over)
			if l.conn.Watch() {
				l.gone.Store(true)
				close(left)
			}
		}()
	}
	return l.left
}

// Err implements context.Context.
func (l *leaving) Err() error {
	if l.gone.Load() {
		return context.Canceled
	}
	return l.Context.Err()
}

// Value implements context.Context; nothing of its parent is to be asked past it.
func (l *leaving) Value(any) any { return nil }

// stop ends the looking, and says whether the client has left.
func (l *leaving) stop() bool {
	if l.left != nil {
		l.conn.Poke()
		<-l.over
	}
	return l.gone.Load()
}

// reply is an http.ResponseWriter for what a router answers itself.
type reply struct {
	h      http.Header
	status int
	body   []byte
}

// Header implements http.ResponseWriter.
func (w *reply) Header() http.Header { return w.h }

// WriteHeader implements http.ResponseWriter.
func (w *reply) WriteHeader(status int) { w.status = status }

// Write implements http.ResponseWriter.
func (w *reply) Write(p []byte) (int, error) {
	w.body = append(w.body, p...)
	return len(p), nil
}

// request is as much of it as an answer depends on: whether it is of gRPC. A body that was
// passed on may have taken the place of the head; what is of gRPC comes by HTTP/2.
func (w *reply) request(x *http1.Exchange) *http.Request {
	h := http.Header{}
	if x.Whole() {
		if v := x.Request.Get("content-type"); v != nil {
			h.Set("Content-Type", string(v))
		}
	}
	return &http.Request{Header: h}
}

// send sends it.
func (w *reply) send(x *http1.Exchange) {
	var fields []byte
	for name, values := range w.h {
		for _, v := range values {
			if name != "Content-Type" {
				fields = append(fields, name+": "+v+"\r\n"...)
			}
		}
	}
	x.Refuse(w.status, w.h.Get("Content-Type"), fields, w.body)
}

// refusal503 is the answer if the instances of a service are unknown here.
func refusal503(err error, s *router.Service) *reply {
	w := &reply{h: http.Header{}}
	w.h.Set("Retry-After", "1")
	httpmsg.Fail(w, &http.Request{Header: http.Header{}}, http.StatusServiceUnavailable, "not-told",
		"try again in a moment; \"verge get clusters\" says whether it answers", "service "+s.Key+": "+err.Error())
	return w
}

var (
	_ http1.Backend   = (*Conn)(nil)
	_ context.Context = (*leaving)(nil)
)
