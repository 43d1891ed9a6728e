package proxy

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/router"
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
func lineScene(t *testing.T, there, back int) (here *worker, thin *router.Endpoint) {
	t.Helper()
	ca := newAuthority(t)
	far := &fixedDistances{rtt: map[string]time.Duration{"thin": time.Millisecond, "wide": 50 * time.Millisecond},
		version: 1}
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
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		w.entryURL(t, "http", "/?more="+strconv.Itoa(more)), bytes.NewReader(make([]byte, size)))
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
			there, _, _ := thin.Learnt()
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
			if _, _, exec := thin.Learnt(); exec.Seconds() > 0.5*size/there {
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
	if _, back, _ := thin.Learnt(); asked == 0 || back <= 0 || back > 1.25*line {
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
	up, back, _ := e.Learnt()
	if up != 0 || back != 0 {
		t.Errorf("the line is said to carry %v and %v bytes a second", up, back)
	}
	q := there.services.Local.Get("app.web.0").Queue.Report(time.Now())
	if q.Exec-q.Work < took/(2*3) { // a mean of three requests
		t.Errorf("of %v, in which most was waited for the client, %v is said to be work", q.Exec, q.Work)
	}
}
