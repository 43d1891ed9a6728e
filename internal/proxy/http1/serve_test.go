package http1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/http1/http1test"
	"github.com/verge-edge/verge/internal/proxy/http1/message"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// relayed is a Backend that sends all to one address, as a bare relay would.
type relayed struct {
	addr    string
	pool    Pool
	marks   message.Marks
	dialed  atomic.Int64
	wait    func(Instant) error
	late    bool                  // the time of a request is over when it is asked
	askErr  atomic.Pointer[error] // of the last Ask that failed
	waiting atomic.Int64
}

func (b *relayed) Waits(now Instant) error {
	b.waiting.Add(1)
	if b.wait != nil {
		return b.wait(now)
	}
	return nil
}

func (b *relayed) Serve(_ context.Context, x *Exchange) bool {
	for try := 0; ; try++ {
		up := b.pool.Get(x.Began, x.Request.Idempotent() && x.Request.Length == 0)
		if up == nil {
			conn, err := net.Dial("tcp", b.addr)
			if err != nil {
				x.Refuse(http.StatusBadGateway, "", nil, nil)
				return true
			}
			b.dialed.Add(1)
			up = NewConn(conn, nil)
		}
		if b.late {
			x.Deadline = x.Began
		}
		err := x.Ask(up, &b.marks)
		if err != nil {
			b.askErr.Store(&err)
			up.Cut()
			if x.Repeatable() && try < 2 && (x.Request.Idempotent() || isUnsent(err)) {
				continue
			}
			x.Refuse(http.StatusBadGateway, "", nil, nil)
			return true
		}
		if ok, _ := x.Answer(up, nil); ok {
			b.pool.Put(up, Now())
		}
		return true
	}
}

func isUnsent(err error) bool { return err != nil && strings.Contains(err.Error(), ErrUnsent.Error()) }

// front is a relay in front of an upstream, with net/http for what it hands over.
type front struct {
	addr    string
	backend *relayed
	handed  atomic.Int64
}

var testLimits = Limits{Header: 10 * time.Second, Idle: time.Minute}

func startFront(t testing.TB, upstream string, l Limits) *front {
	t.Helper()
	f := &front{backend: &relayed{addr: upstream, pool: Pool{Max: 64, Idle: time.Minute}}}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	f.addr = ln.Addr().String()
	hand := NewListener(ln.Addr())
	other := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		f.handed.Add(1)
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		_, _ = fmt.Fprintf(w, "net/http %s %s %d", r.Method, r.URL, len(b))
	}), ReadHeaderTimeout: time.Minute}
	var wg sync.WaitGroup
	var mu sync.Mutex
	open := map[*Conn]struct{}{}
	wg.Go(func() { _ = other.Serve(hand) })
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			conn := NewConn(c, nil)
			mu.Lock()
			open[conn] = struct{}{}
			mu.Unlock()
			wg.Go(func() { Serve(t.Context(), conn, l, f.backend, hand.Give, nil) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		_ = other.Close()
		mu.Lock()
		for c := range open {
			c.Cut()
		}
		mu.Unlock()
		wg.Wait()
		f.backend.pool.Close()
	})
	return f
}

// startHTTP is an upstream by net/http.
func startHTTP(t testing.TB, h http.HandlerFunc) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = s.Serve(ln) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	return ln.Addr().String()
}

// startRaw is an upstream that does what handle says with each connection.
func startRaw(t testing.TB, handle func(c net.Conn, r *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { defer c.Close(); handle(c, bufio.NewReader(c)) })
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		mu.Lock()
		for _, c := range open {
			_ = c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return ln.Addr().String()
}

func dial(t testing.TB, addr string) (*net.TCPConn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(30*time.Second)))
	t.Cleanup(func() { _ = c.Close() })
	return c.(*net.TCPConn), bufio.NewReader(c)
}

func send(t testing.TB, c net.Conn, s string) {
	t.Helper()
	_, err := io.WriteString(c, s)
	must(t, err)
}

// answer reads a response to a request with this method.
func answer(t testing.TB, r *bufio.Reader, method string) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(r, &http.Request{Method: method})
	must(t, err)
	b, err := io.ReadAll(res.Body)
	must(t, err)
	return res, string(b)
}

func client(t testing.TB) *http.Client {
	tr := &http.Transport{MaxIdleConnsPerHost: 64}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("X-Sum", fmt.Sprintf("%x", sha256.Sum256(b)))
	w.Header().Set("X-Seen", r.Method+" "+r.URL.String()+" "+r.Host)
	if r.URL.Query().Has("chunked") {
		for len(b) > 0 {
			n := min(len(b), 5000)
			_, _ = w.Write(b[:n])
			b = b[n:]
			w.(http.Flusher).Flush()
		}
		return
	}
	w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	_, _ = w.Write(b)
}

// TestBodiesOfAllSizes: they arrive as they were sent, both ways, over one kept
// connection, in steps, by splice and with chunks.
func TestBodiesOfAllSizes(t *testing.T) {
	f := startFront(t, startHTTP(t, echo), testLimits)
	c := client(t)
	for _, size := range []int{0, 1, 1000, bufferSize - 300, bufferSize, bufferSize + 1, 40_000, 243 << 10, 3 << 20} {
		for _, query := range []string{"", "?chunked"} {
			body := bytes.Repeat([]byte("0123456789abcde\n"), size/16+1)[:size]
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+f.addr+"/x"+query, bytes.NewReader(body))
			must(t, err)
			res, err := c.Do(req)
			must(t, err)
			got, err := io.ReadAll(res.Body)
			must(t, err)
			must(t, res.Body.Close())
			if !bytes.Equal(got, body) {
				t.Fatalf("%d bytes%s: got %d others back", size, query, len(got))
			}
		}
	}
	if n := f.handed.Load(); n != 0 {
		t.Errorf("%d requests were handed over", n)
	}
	if n := f.backend.dialed.Load(); n != 1 {
		t.Errorf("%d connections to the upstream, want 1", n)
	}
}

// TestHandover: what is unusual is served by net/http on the same connection, after
// what was usual, with nothing lost.
func TestHandover(t *testing.T) {
	up := startHTTP(t, echo)
	for name, second := range map[string]string{
		"HTTP/1.0":   "GET /odd HTTP/1.0\r\nHost: a\r\n\r\n",
		"chunked":    "POST /odd HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
		"expect":     "POST /odd HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3\r\n\r\nabc",
		"upgrade":    "GET /odd HTTP/1.1\r\nHost: a\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
		"folded":     "GET /odd HTTP/1.1\r\nHost: a\r\nX-Long: a\r\n b\r\n\r\n",
		"large head": "GET /odd HTTP/1.1\r\nHost: a\r\nX-Long: " + strings.Repeat("a", 20_000) + "\r\n\r\n",
		"many":       "GET /odd HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: y\r\n", 200) + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := startFront(t, up, testLimits)
			c, r := dial(t, f.addr)
			send(t, c, "GET /plain HTTP/1.1\r\nHost: a\r\n\r\n"+second)
			if res, _ := answer(t, r, "GET"); res.Header.Get("X-Seen") != "GET /plain a" {
				t.Fatalf("the usual one was answered with %v", res)
			}
			res, err := http.ReadResponse(r, nil)
			must(t, err)
			for res.StatusCode == http.StatusContinue {
				res, err = http.ReadResponse(r, nil)
				must(t, err)
			}
			b, err := io.ReadAll(res.Body)
			must(t, err)
			if !strings.Contains(string(b), "net/http") || !strings.Contains(string(b), "/odd") {
				t.Fatalf("got %s %q", res.Status, b)
			}
		})
	}
}

// TestForbidden: what can only be an attack is refused, and the connection closed.
func TestForbidden(t *testing.T) {
	up := startHTTP(t, echo)
	f := startFront(t, up, testLimits)
	for name, bad := range http1test.Forbidden {
		t.Run(name, func(t *testing.T) {
			c, r := dial(t, f.addr)
			send(t, c, "GET / HTTP/1.1\r\nHost: a\r\n\r\n"+bad)
			if res, _ := answer(t, r, "GET"); res.StatusCode != http.StatusOK {
				t.Fatal(res.Status)
			}
			if res, _ := answer(t, r, "GET"); res.StatusCode != http.StatusBadRequest || !res.Close {
				t.Fatal(res.Status)
			}
			if _, err := r.ReadByte(); err == nil {
				t.Fatal("the connection goes on")
			}
		})
	}
	if f.handed.Load() != 0 {
		t.Error("something was handed over")
	}
}

// TestPipelined requests are answered in order.
func TestPipelined(t *testing.T) {
	f := startFront(t, startHTTP(t, echo), testLimits)
	c, r := dial(t, f.addr)
	var b strings.Builder
	for i := range 50 {
		fmt.Fprintf(&b, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n%05d", i, i)
	}
	send(t, c, b.String())
	for i := range 50 {
		if _, body := answer(t, r, "POST"); body != fmt.Sprintf("%05d", i) {
			t.Fatalf("answer %d is %q", i, body)
		}
	}
}

// TestHeadersOfAConnectionStay on that connection.
func TestHeadersOfAConnectionStay(t *testing.T) {
	seen := make(chan string, 1)
	up := startRaw(t, func(c net.Conn, r *bufio.Reader) {
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			head.WriteString(line)
			if line == "\r\n" {
				break
			}
		}
		seen <- head.String()
		send(t, c, "HTTP/1.1 200 Fine\nX-A: 1\nKeep-Alive: timeout=5\nConnection: keep-alive, X-Mine\nX-Mine: 1\nX-Fold: a\r\n\t b\r\n"+
			"endpoint-load-metrics: TEXT cpu=1\r\nContent-Length: 2\r\n\r\nok")
	})
	f := startFront(t, up, testLimits)
	f.backend.marks = message.Marks{Client: []byte("10.0.0.1"), Proto: "http", Strangers: true, Traceparent: []byte("00-1-2-3")}
	c, r := dial(t, f.addr)
	send(t, c, "GET /p?q=%zz HTTP/1.1\r\nhost:\ta.example \r\nConnection: keep-alive\r\nKeep-Alive: 5\r\nX-Forwarded-For: me\r\nX-Real-IP: me\r\nProxy-Connection: x\r\nX-B:  two words \r\n\r\n")
	res, body := answer(t, r, "GET")
	want := "GET /p?q=%zz HTTP/1.1\r\nhost: a.example\r\nX-B: two words\r\nX-Forwarded-For: 10.0.0.1\r\nX-Forwarded-Host: a.example\r\nX-Forwarded-Proto: http\r\nForwarded: for=10.0.0.1;host=a.example;proto=http\r\nTraceparent: 00-1-2-3\r\n\r\n"
	if got := <-seen; got != want {
		t.Errorf("the upstream saw\n%q, want\n%q", got, want)
	}
	if body != "ok" || res.Status != "200 Fine" || res.Header.Get("X-A") != "1" || strings.Join(strings.Fields(res.Header.Get("X-Fold")), " ") != "a b" ||
		len(res.Header) != 3 {
		t.Errorf("the client got %v %q", res, body)
	}
}

// TestUpstreamsThatMisbehave: the client gets an error or a connection that breaks,
// never half an answer for a whole one.
func TestUpstreamsThatMisbehave(t *testing.T) {
	head := func(r *bufio.Reader) { _, _ = http.ReadRequest(r) }
	for name, c := range map[string]struct {
		says string
		want int // 0: the answer breaks off
	}{
		"dies before":      {"", 502},
		"dies in head":     {"HTTP/1.1 200 OK\r\nContent-Le", 502},
		"dies in body":     {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", 0},
		"dies in a chunk":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc", 0},
		"no last chunk":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", 0},
		"chunks are wrong": {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n0\r\n\r\n", 0},
		"two lengths":      {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", 502},
		"length and chunk": {"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502},
		"another protocol": {"SSH-2.0-OpenSSH\r\n", 502},
		"switches":         {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 502},
		"injects":          {"HTTP/1.1 200 OK\r\nX: a\rSet-Cookie: b\r\n\r\n", 502},
		"huge head":        {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("a", message.MaxResponseHead) + "\r\n\r\n", 502},
	} {
		t.Run(name, func(t *testing.T) {
			up := startRaw(t, func(conn net.Conn, r *bufio.Reader) { head(r); send2(conn, c.says) })
			f := startFront(t, up, testLimits)
			conn, r := dial(t, f.addr)
			send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
			res, err := http.ReadResponse(r, nil)
			if err == nil && c.want == 0 {
				_, err = io.ReadAll(res.Body)
			}
			if c.want == 0 {
				if err == nil {
					t.Fatal("the answer looks whole")
				}
				return
			}
			must(t, err)
			if res.StatusCode != c.want {
				t.Fatal(res.Status)
			}
		})
	}
}

func send2(c net.Conn, s string) { _, _ = io.WriteString(c, s) }

// TestWaysToAnswer: all that a server may say is passed on as it was meant.
func TestWaysToAnswer(t *testing.T) {
	big := strings.Repeat("x", 100_000)
	for name, c := range map[string]struct {
		method, says, body string
		status             int
		closes             bool
		n                  int64
	}{
		"until the end":     {"GET", "HTTP/1.1 200 OK\r\n\r\n" + big, big, 200, true, -1},
		"HTTP/1.0":          {"GET", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false, 2},
		"HEAD":              {"HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n", "", 200, false, 5000},
		"HEAD chunked":      {"HEAD", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "", 200, false, -1},
		"204":               {"GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 204, false, 0},
		"304 with a length": {"GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 77\r\n\r\n", "", 304, false, 0},
		"no reason":         {"GET", "HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false, 2},
		"trailers":          {"GET", "HTTP/1.1 200 OK\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX-T: 1\r\n\r\n", "ok", 200, false, -1},
		"interim":           {"GET", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", "ok", 200, false, 2},
		"many fields":       {"GET", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Many: "+strings.Repeat("y", 500)+"\r\n", 150) + "Content-Length: 2\r\n\r\nok", "ok", 200, false, 2},
	} {
		t.Run(name, func(t *testing.T) {
			up := startRaw(t, func(conn net.Conn, r *bufio.Reader) {
				_, _ = http.ReadRequest(r)
				send2(conn, c.says)
			})
			f := startFront(t, up, testLimits)
			conn, r := dial(t, f.addr)
			send(t, conn, c.method+" / HTTP/1.1\r\nHost: a\r\n\r\n")
			res, body := answer(t, r, c.method)
			if res.StatusCode == 103 {
				if res.Header.Get("Link") != "a" {
					t.Error("the hint lost its link")
				}
				res, body = answer(t, r, c.method)
			}
			if res.StatusCode != c.status || body != c.body || res.Close != c.closes || res.ContentLength != c.n {
				t.Fatalf("got %s, %d bytes, close %v, length %d", res.Status, len(body), res.Close, res.ContentLength)
			}
			if c.status == 304 && res.Header.Get("Content-Length") != "77" {
				t.Error("the length is lost")
			}
			if name == "trailers" && res.Trailer.Get("X-T") != "1" {
				t.Error("the trailer is lost")
			}
		})
	}
}

// TestEarlyAnswer: one that comes before all of the request's body was sent is passed
// on, also where the rest of it is waited for with the answer being read.
func TestEarlyAnswer(t *testing.T) {
	t.Run("refused", func(t *testing.T) {
		up := startRaw(t, func(conn net.Conn, r *bufio.Reader) {
			_, _ = http.ReadRequest(r)
			send2(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno")
		})
		f := startFront(t, up, testLimits)
		conn, r := dial(t, f.addr)
		send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n"+strings.Repeat("x", 30_000))
		if res, body := answer(t, r, "POST"); res.StatusCode != 413 || body != "no" {
			t.Fatal(res.Status)
		}
	})
	t.Run("both at a time", func(t *testing.T) {
		const size = 8 << 20
		up := startRaw(t, func(conn net.Conn, r *bufio.Reader) {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			send2(conn, fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", size))
			_, _ = io.Copy(struct{ io.Writer }{conn}, req.Body)
		})
		f := startFront(t, up, testLimits)
		conn, r := dial(t, f.addr)
		want := bytes.Repeat([]byte("0123456789abcdef"), size/16)
		var wg sync.WaitGroup
		defer wg.Wait()
		wg.Go(func() {
			send2(conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
			_, _ = conn.Write(want)
		})
		if _, body := answer(t, r, "POST"); body != string(want) {
			t.Fatalf("%d bytes came back", len(body))
		}
		send(t, conn, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
	})
}

// TestKeptConnectionThatEnded is noticed before it is used.
func TestKeptConnectionThatEnded(t *testing.T) {
	ended := make(chan struct{}, 10)
	up := startRaw(t, func(conn net.Conn, r *bufio.Reader) {
		_, _ = http.ReadRequest(r)
		send2(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") // and ends, which it does not say
		_ = conn.Close()
		ended <- struct{}{}
	})
	f := startFront(t, up, testLimits)
	conn, r := dial(t, f.addr)
	for range 5 {
		send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
		if res, body := answer(t, r, "POST"); res.StatusCode != 200 || body != "ok" {
			t.Fatal(res.Status)
		}
		<-ended
	}
}

// TestHalfClosed clients get their answer.
func TestHalfClosed(t *testing.T) {
	f := startFront(t, startHTTP(t, echo), testLimits)
	conn, r := dial(t, f.addr)
	send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc")
	must(t, conn.CloseWrite())
	if res, body := answer(t, r, "POST"); res.StatusCode != 200 || body != "abc" {
		t.Fatal(res.Status)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Fatal("the connection goes on")
	}
}

// TestSlowHeads are refused, and silence is ended.
func TestSlowHeads(t *testing.T) {
	f := startFront(t, startHTTP(t, echo), Limits{Header: 50 * time.Millisecond, Idle: 50 * time.Millisecond})
	conn, r := dial(t, f.addr)
	send(t, conn, "GET / HTTP/1.1\r\nHost:")
	if res, _ := answer(t, r, "GET"); res.StatusCode != http.StatusRequestTimeout {
		t.Fatal(res.Status)
	}
	conn, r = dial(t, f.addr)
	if _, err := r.ReadByte(); err == nil {
		t.Fatal("somebody speaks first")
	}
	_ = conn.Close()
	conn, r = dial(t, f.addr)
	send(t, conn, "GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	if res, _ := answer(t, r, "GET"); res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
	if _, err := r.ReadByte(); err == nil {
		t.Fatal("somebody speaks first")
	}
}

// TestUpstreamThatIsSilent is looked after while it is waited for.
func TestUpstreamThatIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up := startRaw(t, func(net.Conn, *bufio.Reader) { <-ctx.Done() })
	f := startFront(t, up, testLimits)
	f.backend.wait = func(Instant) error { return io.ErrNoProgress }
	conn, r := dial(t, f.addr)
	send(t, conn, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx")
	if res, _ := answer(t, r, "POST"); res.StatusCode != http.StatusBadGateway {
		t.Fatal(res.Status)
	}
}

// A request that comes to its turn when its time is over is late; nobody has broken a
// connection.
func TestLateBeforeItIsSent(t *testing.T) {
	asked := make(chan struct{}, 1)
	up := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked <- struct{}{} }), ReadHeaderTimeout: time.Minute}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	var served sync.WaitGroup
	served.Go(func() { _ = up.Serve(ln) })
	t.Cleanup(func() {
		_ = up.Close()
		served.Wait()
	})
	f := startFront(t, ln.Addr().String(), testLimits)
	over := errors.New("its time is over")
	f.backend.late, f.backend.wait = true, func(Instant) error { return over }
	res, err := http.Get("http://" + f.addr + "/")
	must(t, err)
	must(t, res.Body.Close())
	if err := f.backend.askErr.Load(); err == nil {
		t.Error("it was sent")
	} else if !errors.Is(*err, over) || errors.Is(*err, ErrBroken) {
		t.Errorf("it is told as %v", *err)
	}
	select {
	case <-asked:
		t.Error("it was asked all the same")
	default:
	}
}
