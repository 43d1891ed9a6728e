// Package proxytest is what every way from a client to an instance must do right,
// whichever code carries the request: one suite for all drivers.
package proxytest

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// Build puts one instance behind a port that is routed by request, with these rules,
// and returns the address (host:port) at which clients reach it. The protocol of the
// port is "http" or "grpc". Instance serves each connection to the instance and may
// return before it closes it; the connection is closed then.
type Build func(t *testing.T, protocol string, rules wire.RequestRules, instance func(net.Conn)) (addr string)

// Traits are in what a way differs from others. The zero value is one for clients within
// the installation.
type Traits struct {
	// Gateway: its clients are strangers. They have to name a host, "a" or that of the
	// address, and are not told how much load an instance has.
	Gateway bool
}

// Run runs the suite.
func Run(t *testing.T, build Build, traits Traits) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Build)
	}{
		{"Methods", methods},
		{"Bodies", bodies},
		{"Targets", targets},
		{"Trailers", trailers},
		{"Interim", interim},
		{"ExpectContinue", expectContinue},
		{"Upgrade", upgrade},
		{"Events", events},
		{"KeepAlive", traits.keepAlive},
		{"HalfClose", halfClose},
		{"UpstreamDies", upstreamDies},
		{"UpstreamEnds", upstreamEnds},
		{"UpstreamLies", upstreamLies},
		{"UpstreamInjects", upstreamInjects},
		{"Smuggling", smuggling},
		{"Foreign", traits.foreign},
		{"LargeHeads", largeHeads},
		{"Headers", traits.headers},
		{"Deadlines", deadlines},
		{"Objective", objective},
		{"H2", h2},
		{"RapidReset", rapidReset},
		{"GRPC", grpcCalls},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(t, build) })
	}
}

// timeout with what should happen at once.
const timeout = 20 * time.Second

// Handler serves connections to an instance as an HTTP server would.
func Handler(t testing.TB, h http.Handler) func(net.Conn) {
	l := &handed{conns: make(chan net.Conn), over: make(chan struct{})}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: timeout, Protocols: new(http.Protocols)}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(l) // ends with the listener
	}()
	t.Cleanup(func() {
		_ = srv.Close()
		<-done
	})
	return func(c net.Conn) {
		ended := make(chan struct{})
		select {
		case l.conns <- &closing{Conn: c, ended: ended}:
			<-ended
		case <-l.over:
		}
	}
}

// handed is a listener of connections that were accepted elsewhere.
type handed struct {
	conns chan net.Conn
	over  chan struct{}
}

// Accept implements net.Listener.
func (l *handed) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.over:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *handed) Close() error {
	select {
	case <-l.over:
	default:
		close(l.over)
	}
	return nil
}

// Addr implements net.Listener.
func (l *handed) Addr() net.Addr { return &net.TCPAddr{} }

// closing says when it was closed.
type closing struct {
	net.Conn
	ended chan struct{}
}

// Close implements net.Conn.
func (c *closing) Close() error {
	select {
	case <-c.ended:
	default:
		close(c.ended)
	}
	return c.Conn.Close()
}

// CloseWrite passes a half-close on.
func (c *closing) CloseWrite() error {
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return errors.ErrUnsupported
}

// client of one test.
func client(t testing.TB, h2 bool) *http.Client {
	t.Helper()
	tr := &http.Transport{DisableCompression: true, Protocols: new(http.Protocols)}
	tr.Protocols.SetHTTP1(!h2)
	tr.Protocols.SetUnencryptedHTTP2(h2)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

func do(t testing.TB, c *http.Client, method, url string, body io.Reader, change func(*http.Request)) (*http.Response,
	[]byte, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, body)
	must(t, err)
	if change != nil {
		change(req)
	}
	res, err := c.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	return res, b, err
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// raw is a connection on which a test writes what no client would.
type raw struct {
	t testing.TB
	net.Conn
	r *bufio.Reader
}

func dial(t testing.TB, addr string) *raw {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, timeout)
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(timeout)))
	t.Cleanup(func() { _ = c.Close() })
	return &raw{t, c, bufio.NewReader(c)}
}

func (c *raw) say(s string) {
	c.t.Helper()
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.t.Logf("write: %v", err) // it may be refused already
	}
}

// answer reads one answer with its body.
func (c *raw) answer(method string) (*http.Response, string, error) {
	res, err := http.ReadResponse(c.r, &http.Request{Method: method})
	if err != nil {
		return nil, "", err
	}
	b, err := io.ReadAll(res.Body)
	return res, string(b), err
}

// noise is n bytes that nothing compresses or aligns.
func noise(n int) []byte {
	b := make([]byte, n)
	x := uint32(n)*2654435761 + 1
	for i := range b {
		x ^= x << 13
		x ^= x >> 17
		x ^= x << 5
		b[i] = byte(x)
	}
	return b
}

func methods(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			b, _ := io.ReadAll(req.Body)
			w.Header().Set("Method", req.Method)
			w.Header().Set("Length", fmt.Sprint(req.ContentLength))
			if req.Method != http.MethodHead {
				_, _ = w.Write(b)
			} else {
				w.Header().Set("Content-Length", "12345")
			}
		})))
	c := client(t, false)
	for _, m := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"} {
		var body io.Reader
		want := ""
		if slices.Contains([]string{"POST", "PUT", "PATCH", "PROPFIND"}, m) {
			want = "what " + m + " sends"
			body = strings.NewReader(want)
		}
		res, got, err := do(t, c, m, "http://"+addr+"/", body, nil)
		must(t, err)
		if res.StatusCode != 200 || res.Header.Get("Method") != m || string(got) != want {
			t.Errorf("%s: %d %v %q", m, res.StatusCode, res.Header, got)
		}
		if body != nil && res.Header.Get("Length") != fmt.Sprint(len(want)) {
			t.Errorf("%s: its length came as %s", m, res.Header.Get("Length"))
		}
		if m == "HEAD" && res.ContentLength != 12345 {
			t.Errorf("HEAD: length %d", res.ContentLength)
		}
	}
	if res, _, err := do(t, c, "POST", "http://"+addr+"/", http.NoBody, nil); err != nil ||
		res.Header.Get("Length") != "0" {
		t.Errorf("POST of nothing: %v %v", res, err)
	}
}

func bodies(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			b, err := io.ReadAll(req.Body)
			if err != nil {
				w.WriteHeader(http.StatusBadRequest)
				return
			}
			w.Header().Set("Sum", fmt.Sprintf("%x", sha256.Sum256(b)))
			w.Header().Set("Chunked", fmt.Sprint(req.ContentLength < 0))
			switch req.URL.Path {
			case "/chunked":
				_ = http.NewResponseController(w).Flush()
			case "/none":
				w.WriteHeader(http.StatusNoContent)
				return
			case "/not-modified":
				w.Header().Set("Etag", `"x"`)
				w.WriteHeader(http.StatusNotModified)
				return
			default:
				w.Header().Set("Content-Length", fmt.Sprint(len(b)))
			}
			_, _ = w.Write(b)
		})))
	c := client(t, false)
	for _, size := range []int{0, 1, 1000, 4096, 65536, 65537, 1 << 20} {
		for _, path := range []string{"/", "/chunked"} {
			for _, chunked := range []bool{false, true} {
				sent := noise(size)
				var body io.Reader = bytes.NewReader(sent)
				if chunked {
					body = io.MultiReader(body) // of unknown length
				}
				res, got, err := do(t, c, "POST", "http://"+addr+path, body, nil)
				if err != nil || !bytes.Equal(got, sent) || res.Header.Get("Sum") != fmt.Sprintf("%x",
					sha256.Sum256(sent)) {
					t.Errorf("%d bytes to %s, chunked %v: %d came back, %v", size, path, chunked, len(got), err)
				}
				if size > 0 && err == nil && res.Header.Get("Chunked") != fmt.Sprint(chunked) {
					t.Errorf("%d bytes, chunked %v: the instance saw %s", size, chunked, res.Header.Get("Chunked"))
				}
			}
		}
	}
	for path, status := range map[string]int{"/none": 204, "/not-modified": 304} {
		if res, got, err := do(t, c, "GET", "http://"+addr+path, nil, nil); err != nil || res.StatusCode != status ||
			len(got) > 0 {
			t.Errorf("%s: %v %q %v", path, res, got, err)
		}
	}
}

// targets pass as they were written.
func targets(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			_, _ = io.WriteString(w, req.RequestURI+" "+req.Host)
		})))
	for _, target := range []string{"/", "/a/../b", "/a%2Fb", "/a%2fb?x=1;y=2&z", "/?", "/%20%E2%82%AC", "/a;b=c",
		"/a//b", "/~x!$'()*+,", "/?a=%zz"} {
		c := dial(t, addr)
		c.say("GET " + target + " HTTP/1.1\r\nHost: Shop.Example:8080\r\n\r\n")
		if _, got, err := c.answer("GET"); err != nil || got != target+" Shop.Example:8080" {
			t.Errorf("%s came as %q, %v", target, got, err)
		}
	}
}

func trailers(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Trailer", "Announced")
			_, _ = io.Copy(w, req.Body)
			w.Header().Set("Announced", req.Trailer.Get("Sum"))
			w.Header().Set(http.TrailerPrefix+"Surprise", "too")
		})))
	res, got, err := do(t, client(t, false), "POST", "http://"+addr+"/", io.MultiReader(strings.NewReader("body")),
		func(req *http.Request) {
			req.Trailer = http.Header{"Sum": {"of all"}}
		})
	must(t, err)
	if string(got) != "body" || res.Trailer.Get("Announced") != "of all" || res.Trailer.Get("Surprise") != "too" {
		t.Errorf("%q, trailers %v", got, res.Trailer)
	}
}

func interim(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Link", "</a.css>; rel=preload")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("Link")
			_, _ = io.WriteString(w, "done")
		})))
	var codes []int
	res, got, err := do(t, client(t, false), "GET", "http://"+addr+"/", nil, func(req *http.Request) {
		*req = *req.WithContext(httptrace.WithClientTrace(req.Context(),
			&httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
				codes = append(codes, code)
				if h.Get("Link") == "" {
					t.Errorf("interim headers %v", h)
				}
				return nil
			}}))
	})
	must(t, err)
	if string(got) != "done" || !slices.Equal(codes, []int{103}) || res.Header.Get("Link") != "" {
		t.Errorf("%q after %v, %v", got, codes, res.Header)
	}
}

func expectContinue(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/no" {
				w.WriteHeader(http.StatusExpectationFailed)
				return
			}
			b, _ := io.ReadAll(req.Body)
			_, _ = w.Write(b)
		})))
	c := dial(t, addr)
	c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	if line, err := c.r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
		t.Fatalf("%q, %v", line, err)
	}
	if line, err := c.r.ReadString('\n'); err != nil || line != "\r\n" {
		t.Fatalf("%q, %v", line, err)
	}
	c.say("body")
	if _, got, err := c.answer("POST"); err != nil || got != "body" {
		t.Errorf("%q, %v", got, err)
	}
	c = dial(t, addr)
	c.say("POST /no HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n")
	if res, _, err := c.answer("POST"); err != nil || res.StatusCode != http.StatusExpectationFailed {
		t.Errorf("%v, %v", res, err)
	}
}

// shout changes to a protocol that sends back what comes, in capitals, and says bye when
// nothing more comes.
func shout(c net.Conn) {
	r := bufio.NewReader(c)
	req, err := http.ReadRequest(r)
	if err != nil || req.Header.Get("Upgrade") != "shout" {
		_, _ = io.WriteString(c, "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
		return
	}
	_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\nHELLO\n")
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			_, _ = io.WriteString(c, "BYE\n")
			return
		}
		if line == "leave\n" {
			return
		}
		_, _ = io.WriteString(c, strings.ToUpper(line))
	}
}

func upgrade(t *testing.T, build Build) {
	// What is upgraded holds no place: another request is answered.
	addr := build(t, "http", wire.RequestRules{Concurrency: 1, QueueMax: 1}, shout)
	ask := func(first string) *raw {
		c := dial(t, addr)
		c.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n" + first)
		res, err := http.ReadResponse(c.r, &http.Request{Method: "GET"})
		must(t, err)
		if res.StatusCode != 101 || res.Header.Get("Upgrade") != "shout" {
			t.Fatalf("%d %v", res.StatusCode, res.Header)
		}
		c.expect("HELLO\n")
		return c
	}
	// The first words may come with the request.
	one, two := ask("at once\n"), ask("")
	one.expect("AT ONCE\n")
	for _, word := range []string{"a\n", "b\n"} {
		two.say(word)
		two.expect(strings.ToUpper(word))
		one.say(word)
		one.expect(strings.ToUpper(word))
	}
	if h, ok := one.Conn.(interface{ CloseWrite() error }); ok {
		must(t, h.CloseWrite())
		one.expect("BYE\n")
	}
	two.say("leave\n")
	if b, err := io.ReadAll(two.r); err != nil && !errors.Is(err, net.ErrClosed) || len(b) > 0 {
		t.Errorf("after its end: %q, %v", b, err)
	}
	// An upgrade that is refused is an answer.
	c := dial(t, addr)
	c.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: whisper\r\n\r\n")
	if res, _, err := c.answer("GET"); err != nil || res.StatusCode != 426 {
		t.Errorf("%v, %v", res, err)
	}
}

func (c *raw) expect(want string) {
	c.t.Helper()
	got := make([]byte, len(want))
	if n, err := io.ReadFull(c.r, got); err != nil || string(got) != want {
		c.t.Fatalf("got %q (%v), want %q", got[:n], err, want)
	}
}

// events come when they are sent, and hold no place.
func events(t *testing.T, build Build) {
	next := make(chan string)
	addr := build(t, "http", wire.RequestRules{Concurrency: 1, QueueMax: 1},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			rc := http.NewResponseController(w)
			_ = rc.Flush()
			for {
				select {
				case s := <-next:
					_, _ = io.WriteString(w, "data: "+s+"\n\n")
					_ = rc.Flush()
				case <-req.Context().Done():
					return
				}
			}
		})))
	c := client(t, false)
	for range 3 { // the head comes before the first event
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+"/", nil)
		must(t, err)
		res, err := c.Do(req)
		must(t, err)
		defer func() { _ = res.Body.Close() }()
		if res.StatusCode != 200 {
			t.Fatal(res.Status)
		}
	}
	one := dial(t, addr)
	one.say("GET / HTTP/1.1\r\nHost: a\r\n\r\n")
	head, err := http.ReadResponse(one.r, &http.Request{Method: "GET"})
	must(t, err)
	heard := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(head.Body).ReadString('\n')
		heard <- line
	}()
	for i := 0; ; i++ {
		select {
		case next <- fmt.Sprint(i): // of one of them
			continue
		case line := <-heard:
			if !strings.HasPrefix(line, "data: ") {
				t.Errorf("heard %q", line)
			}
			return
		case <-time.After(timeout):
			t.Fatal("no event came")
		}
	}
}

func (traits Traits) keepAlive(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			b, _ := io.ReadAll(req.Body)
			_, _ = fmt.Fprintf(w, "%s %s", req.URL.Path, b)
		})))
	c := dial(t, addr)
	for i := range 20 {
		c.say(fmt.Sprintf("POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", i))
		if _, got, err := c.answer("POST"); err != nil || got != fmt.Sprintf("/%d abc", i) {
			t.Fatalf("%d: %q, %v", i, got, err)
		}
	}
	// Requests that do not wait for answers are answered in their order.
	c.say("GET /a HTTP/1.1\r\nHost: a\r\n\r\nGET /b HTTP/1.1\r\nHost: a\r\n\r\nPOST /c HTTP/1.1\r\nHost: a\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\nGET /d HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" +
		"\r\n")
	for _, want := range []string{"/a ", "/b ", "/c xyz", "/d "} {
		if _, got, err := c.answer("GET"); err != nil || got != want {
			t.Fatalf("%q, %v, want %q", got, err, want)
		}
	}
	if _, err := c.r.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("after Connection: close: %v", err)
	}
	c = dial(t, addr)
	host := ""
	if traits.Gateway {
		host = "Host: a\r\n"
	}
	c.say("GET /old HTTP/1.0\r\n" + host + "\r\n")
	if res, got, err := c.answer("GET"); err != nil || got != "/old " {
		t.Errorf("HTTP/1.0: %v %q %v", res, got, err)
	}
}

// halfClose: a client that has ended its side after the request gets the right answer
// or none, never a wrong one.
func halfClose(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, "answer")
		})))
	for range 5 {
		c := dial(t, addr)
		c.say("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			_ = h.CloseWrite()
		}
		res, got, err := c.answer("GET")
		if err == nil && (res.StatusCode != 200 || got != "answer") {
			t.Fatalf("%d %q", res.StatusCode, got)
		}
	}
	// Half of a request is none.
	c := dial(t, addr)
	c.say("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nhalf")
	if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		_ = h.CloseWrite()
	}
	if res, _, err := c.answer("POST"); err == nil && res.StatusCode < 400 && res.StatusCode != 200 {
		t.Errorf("half a request got %d", res.StatusCode)
	}
}

// closed says whether an error is that of a connection that is gone, and not of a test
// that waited in vain.
func closed(err error) bool { return err != nil && !errors.Is(err, os.ErrDeadlineExceeded) }
