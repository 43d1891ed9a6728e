package proxy

import (
	"bytes"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/http1"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

// thinLine passes connections on to addr and back, at so many bytes a second each way; 0
// is no bound.
func thinLine(t *testing.T, addr string, there, back int) string {
	t.Helper()
	const piece = 8 << 10
	pass := func(dst, src net.Conn, rate int) {
		defer netconn.Cut(dst)
		defer netconn.Cut(src)
		if rate == 0 {
			_, _ = io.Copy(dst, src)
			return
		}
		// As a line has it: what waits, waits at the sender.
		_ = src.(*net.TCPConn).SetReadBuffer(2 * piece)
		tick := time.NewTicker(time.Second * piece / time.Duration(rate))
		defer tick.Stop()
		buf := make([]byte, piece)
		for due := 0; ; {
			n, err := src.Read(buf)
			if _, werr := dst.Write(buf[:n]); err != nil || werr != nil {
				return
			}
			for due += n; due >= piece; due -= piece {
				<-tick.C
			}
		}
	}
	i := startInstance(t, "line", "", func(c net.Conn) {
		to, err := net.Dial("tcp", addr)
		if err != nil {
			return
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			pass(c, to, back)
		}()
		pass(to, c, there)
		<-ended
	})
	return i.addr
}

// lineScene is a router with two replicas elsewhere: a near one behind a thin line, and
// one that is farther behind a wide line. Each answers with its name, and as many bytes
// more as is asked for.
func lineScene(t *testing.T, there, back int) (here *worker, thin *endpoint) {
	t.Helper()
	ca := newAuthority(t)
	far := &fixedDistances{rtt: map[string]time.Duration{"thin": time.Millisecond, "wide": 50 * time.Millisecond}, version: 1}
	here = newWorker(t, ca, "here", func(o *Options) { o.Distances = far })
	a, b := newWorker(t, ca, "thin", nil), newWorker(t, ca, "wide", nil)
	for w, id := range map[*worker]string{a: "app.web.0", b: "app.web.1"} {
		w.addHTTP(t, id, http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
			_, _ = io.Copy(io.Discard, req.Body)
			more, _ := strconv.Atoi(req.URL.Query().Get("more"))
			rw.Header().Set("Content-Length", strconv.Itoa(len(w.name)+more))
			_, _ = io.WriteString(rw, w.name)
			_, _ = rw.Write(make([]byte, more))
		}))
	}
	near := a.endpoint("app.web.0")
	near.Address = thinLine(t, near.Address, there, back)
	rt := requestRoute("http", wire.RequestRules{}, near, b.endpoint("app.web.1"))
	rt.SetPolicy(api.Policy{Name: api.PolicyFastest})
	for _, w := range []*worker{here, a, b} {
		w.SetRoutes([]wire.Route{rt})
	}
	return here, here.endpointOf("app.web.0")
}

// ask sends a body and asks for so many bytes, and says who answered.
func askFor(t *testing.T, c *http.Client, w *worker, size, more int) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.entryURL(t, "http", "/?more="+strconv.Itoa(more)), bytes.NewReader(make([]byte, size)))
	must(t, err)
	_, body := fetch(t, c, req)
	return body[:min(4, len(body))]
}

// Large bodies go to the replica behind the wide line, and small ones to the near one, as
// soon as one large body has shown what the line is. What it took to get there is not
// taken for the work of the instance.
func TestLargeBodiesTakeTheWideLine(t *testing.T) {
	t.Parallel()
	const size, line = 512 << 10, 1 << 20
	for name, c := range map[string]func(testing.TB) *http.Client{"fast path": client, "all of HTTP": h2Client} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := c(t)
			here, thin := lineScene(t, line, 0)
			for range 5 {
				if got := askFor(t, c, here, 10, 0); got != "thin" {
					t.Fatalf("a small body went to %s", got)
				}
			}
			if got := askFor(t, c, here, size, 0); got != "thin" {
				t.Fatalf("nothing is known of the lines, and a large body went to %s", got)
			}
			there, _, _ := thin.learnt()
			// A busy machine makes the line thinner, and nothing makes it wider.
			if there <= 0 || there > 1.25*line {
				t.Fatalf("the line carries %v bytes a second, and %v was found", line, there)
			}
			for range 5 {
				if got := askFor(t, c, here, size, 0); got != "wide" {
					rep, _ := here.Route("app.web")
					t.Fatalf("a large body went to %s: %+v", got, rep)
				}
				if got := askFor(t, c, here, 10, 0); got != "thin" {
					rep, _ := here.Route("app.web")
					t.Fatalf("a small body went to %s: %+v", got, rep)
				}
			}
			if _, _, exec := thin.learnt(); exec.Seconds() > 0.5*size/there {
				t.Errorf("the instance is said to work for %v: that is the way of a body", exec)
			}
		})
	}
}

// Where answers are large the way back counts.
func TestLargeAnswersTakeTheWideLine(t *testing.T) {
	t.Parallel()
	const size, line = 512 << 10, 1 << 20
	here, thin := lineScene(t, 0, line)
	c := client(t)
	asked := 0
	for ; askFor(t, c, here, 0, size) == "thin"; asked++ {
		if asked == 4 {
			rep, _ := here.Route("app.web")
			t.Fatalf("large answers come over the thin line: %+v", rep)
		}
	}
	if _, back, _ := thin.learnt(); asked == 0 || back <= 0 || back > 1.25*line {
		t.Fatalf("the line carries %v bytes a second, and %v was found by %d answers", line, back, asked)
	}
	for range 5 {
		if got := askFor(t, c, here, 0, size); got != "wide" {
			t.Fatalf("a large answer came from %s", got)
		}
	}
}

// A client that dawdles, and an instance that does, say nothing of the line between them.
func TestWhoDawdlesIsNoThinLine(t *testing.T) {
	t.Parallel()
	const size, pieces = 16 << 10, 8
	dawdle := func(w io.Writer) {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for range pieces {
			if _, err := w.Write(make([]byte, size)); err != nil {
				return
			}
			if f, ok := w.(http.Flusher); ok {
				f.Flush()
			}
			<-tick.C
		}
	}
	ca := newAuthority(t)
	here, there := newWorker(t, ca, "here", nil), newWorker(t, ca, "there", nil)
	there.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if n, _ := io.Copy(io.Discard, req.Body); n == 0 {
			w.Header().Set("Content-Length", strconv.Itoa(pieces*size))
			dawdle(w)
		}
	}))
	rt := requestRoute("http", wire.RequestRules{}, there.endpoint("app.web.0"))
	here.SetRoutes([]wire.Route{rt})
	there.SetRoutes([]wire.Route{rt})
	c, e := client(t), here.endpointOf("app.web.0")
	for range 2 { // the second one brings what is known of the first
		_ = askFor(t, c, here, 0, 0)
	}
	began := time.Now()
	r, w := io.Pipe()
	go func() {
		dawdle(w)
		_ = w.Close()
	}()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, here.entryURL(t, "http", "/"), r)
	must(t, err)
	req.ContentLength = pieces * size
	fetch(t, c, req)
	took := time.Since(began)
	up, back, _ := e.learnt()
	if up != 0 || back != 0 {
		t.Errorf("the line is said to carry %v and %v bytes a second", up, back)
	}
	q := there.services.locals.get("app.web.0").queue.Report(time.Now())
	if q.Exec-q.Work < took/(2*3) { // a mean of three requests
		t.Errorf("of %v, in which most was waited for the client, %v is said to be work", q.Exec, q.Work)
	}
}

// What is known is of the worker, also of its new instances, and what nothing confirms is
// forgotten: a line that was thin once is tried again.
func TestWidthsOfLinesAge(t *testing.T) {
	t.Parallel()
	a := testServices(t)
	rt := testRoute(behind("app.web.0", "b", "127.0.0.1:1"))
	testRoutes(a, []wire.Route{rt})
	first := endpointOf(a, "app.web.0")
	a.crossed(first, false, route.LargeBody-1, 5e5, true) // small ones teach nothing
	a.crossed(first, false, route.LargeBody, math.Inf(1), true)
	a.crossed(first, false, route.LargeBody, 1e6, true)
	a.crossed(first, true, route.LargeBody, 2e6, true)
	if there, back, _ := first.learnt(); there != 1e6 || back != 2e6 {
		t.Fatalf("%v there, %v back", there, back)
	}
	rt.Endpoints = []wire.Endpoint{behind("app.web.1", "b", "127.0.0.1:1")}
	testRoutes(a, []wire.Route{rt})
	next := endpointOf(a, "app.web.1")
	if there, back, _ := next.learnt(); there != 1e6 || back != 2e6 {
		t.Fatalf("a new instance there: %v there, %v back", there, back)
	}
	if l := a.lines.known(time.Now()); len(l) != 1 || l[0].Name != "b" || l[0].There != 1e6 || l[0].Back != 2e6 {
		t.Errorf("lines %+v", l)
	}
	aged := func(d time.Duration) float64 {
		next.service.mu.Lock()
		next.service.agedLocked(time.Now().Add(d))
		next.service.mu.Unlock()
		there, _, _ := next.learnt()
		return there
	}
	if aged(route.LineAge-time.Minute) == 0 {
		t.Error("it was forgotten too early")
	}
	if aged(route.LineAge) != 0 {
		t.Error("it was not forgotten")
	}
}

// Of large bodies one tries a line of which nothing is known; as long as it is on its way,
// the others see for how long already. One of which something was known once is tried
// again by one, and what was known holds for the others.
func TestOneBodyTriesALine(t *testing.T) {
	t.Parallel()
	a := testServices(t)
	testRoutes(a, []wire.Route{testRoute(behind("app.web.0", "b", "127.0.0.1:1"), behind("app.web.1", "b", "127.0.0.1:1"))})
	first, second := endpointOf(a, "app.web.0"), endpointOf(a, "app.web.1")
	trial := func(e *endpoint) int64 {
		e.service.mu.Lock()
		defer e.service.mu.Unlock()
		return e.service.view.Endpoints[e.index].Load.Trial.Bytes
	}
	if a.tries(first, route.LargeBody-1, route.LargeBody-1) || trial(first) != 0 {
		t.Error("a small body tries a line")
	}
	if !a.tries(first, route.LargeBody, 0) || a.tries(second, route.LargeBody, 0) || trial(first) != route.LargeBody || trial(second) != route.LargeBody {
		t.Error("not one of two bodies tries the line of both")
	}
	if a.tried(first); trial(first) != 0 || trial(second) != 0 {
		t.Error("it is tried without end")
	}
	a.crossed(first, false, route.BoundBody, 1e9, false)
	if there, _, _ := first.learnt(); there != 0 || a.tries(first, route.LargeBody, 0) {
		t.Errorf("the line was not what held a body up, and %v is taken for what it carries", there)
	}
	a.crossed(first, false, route.BoundBody, 1e6, true)
	a.crossed(first, true, route.BoundBody, 2e6, true)
	later := func() { // it is too old
		a.lines.mu.Lock()
		l := width{worker: a.lines.by[first.Address].worker}
		long := time.Now().Add(-route.LineAge)
		l.Crossed(long, false, route.BoundBody, 1e6, true)
		l.Crossed(long, true, route.BoundBody, 2e6, true)
		a.lines.by[first.Address] = l
		a.lines.mu.Unlock()
		a.widened(first.Address, time.Now())
	}
	if later(); a.tries(first, route.LargeBody-1, 0) {
		t.Error("a small body tries a line")
	}
	if there, back, _ := second.learnt(); there != 0 || back != 0 {
		t.Fatalf("too old: %v and %v", there, back)
	}
	if a.tries(first, route.LargeBody, route.LargeBody) || trial(first) != 0 {
		t.Error("what was known is not enough")
	}
	if there, back, _ := second.learnt(); there != 1e6 || back != 2e6 {
		t.Errorf("while one tries the line the others see %v and %v", there, back)
	}
}

func TestLinesAreBounded(t *testing.T) {
	now := time.Now()
	x := lines{by: map[string]width{}}
	crossed := func(at time.Time) (w width) {
		w.Crossed(at, false, route.BoundBody, 1e6, true)
		return w
	}
	for n := range maxLines {
		x.by[strconv.Itoa(n)] = crossed(now.Add(-time.Duration(n)))
	}
	if x.roomLocked(now) {
		t.Error("there are more than there may be")
	}
	x.by["0"] = crossed(now.Add(-route.LineAge))
	if !x.roomLocked(now) || len(x.by) != maxLines-1 {
		t.Error("old ones stay")
	}
}

// The way of a large body is the line's, that of a small one is part of what requests take
// at an endpoint, and what a client dawdles is nobody's.
func TestWhoseTheWaitIs(t *testing.T) {
	for _, x := range []struct {
		bytes    int64
		by, want time.Duration
	}{
		{route.LargeBody, 0, time.Second}, {route.LargeBody, time.Hour, time.Second},
		{route.LargeBody - 1, 0, 0}, {route.LargeBody - 1, time.Second / 2, time.Second / 2}, {1, time.Hour, time.Second},
	} {
		var c call
		if c.uploaded(hop{waited: time.Second}, x.bytes, x.by); c.waited != x.want {
			t.Errorf("%d bytes, of which the client was waited for %v: %v is not work, want %v", x.bytes, x.by, c.waited, x.want)
		}
	}
}

func TestMeanSizes(t *testing.T) {
	var z sizes
	if there, back := z.expect(-1); there != 0 || back != 0 {
		t.Error("something is known of nothing")
	}
	for range 100 {
		z.body.add(1000)
		z.body.add(-1)
		z.answer.add(10)
	}
	if there, back := z.expect(-1); there != 1000 || back != 10 {
		t.Errorf("%v there, %v back", there, back)
	}
	if there, _ := z.expect(7); there != 7 {
		t.Errorf("a request says 7, and %v is taken", there)
	}
	for range 100 {
		z.body.add(2000)
	}
	if there, _ := z.expect(-1); there < 1950 {
		t.Errorf("%v: the old ones are not forgotten", there)
	}
}

// What routers tell each other is taken out of a report, whoever has put it in.
func TestHopsAreTakenOut(t *testing.T) {
	var r orca.Report
	r.Set("a", 1)
	tellHop(&r, http1.Flow{Bytes: 1 << 20, Took: time.Second, Waited: time.Second / 2})
	r.Set(hopMade, 20)
	r.Set("b", 2)
	h := takeHop(&r)
	if h.waited != time.Second/2 || h.bps != 1<<20 || h.made != 20*time.Millisecond || len(r.Named()) != 2 {
		t.Errorf("%+v, and left is %v", h, r.Named())
	}
	if h = takeHop(&r); h != (hop{made: -1}) {
		t.Errorf("%+v of nothing", h)
	}
	r.Set(hopWaited, math.MaxFloat64)
	if h = takeHop(&r); h.waited < 0 {
		t.Errorf("%+v", h)
	}
}
