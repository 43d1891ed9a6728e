package proxytest

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

// script answers each request with what its path says, byte by byte, and closes the
// connection where that is in it.
func script(answers map[string]string) func(net.Conn) {
	return func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			answer := answers[req.URL.Path]
			text, ends := strings.CutSuffix(answer, "<close>")
			if _, err := io.WriteString(c, text); err != nil || ends {
				return
			}
		}
	}
}

const good = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"

func upstreamDies(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{}, script(map[string]string{
		"/before": "<close>",
		"/in":     "HTTP/1.1 200 OK\r\nContent-Le<close>",
		"/after":  "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<close>",
		"/middle": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nsome<close>",
		"/chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nsome\r\n<close>",
		"/until":  "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nall<close>",
		"/good":   good,
	}))
	c := client(t, false)
	for _, method := range []string{"GET", "POST"} {
		for path, early := range map[string]bool{"/before": true, "/in": true, "/after": false, "/middle": false,
			"/chunk": false} {
			res, got, err := do(t, c, method, "http://"+addr+path, nil, nil)
			switch {
			case early && (err != nil || res.StatusCode != http.StatusBadGateway &&
				res.StatusCode != http.StatusServiceUnavailable):
				t.Errorf("%s %s: %v, %v", method, path, res, err)
			case !early && err == nil && res.StatusCode != http.StatusBadGateway:
				t.Errorf("%s %s: a whole answer, %d %q", method, path, res.StatusCode, got)
			}
		}
	}
	if _, got, err := do(t, c, "GET", "http://"+addr+"/until", nil, nil); err != nil || string(got) != "all" {
		t.Errorf("until its end: %q, %v", got, err)
	}
	if res, got, err := do(t, c, "GET", "http://"+addr+"/good", nil, nil); err != nil || string(got) != "good" {
		t.Errorf("after all that: %v, %q, %v", res, got, err)
	}
}

// upstreamEnds: an instance may end a connection after any answer without a word. What
// may be sent twice is asked over another one then, and its client sees nothing of it.
func upstreamEnds(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{}, script(map[string]string{"/": good + "<close>"}))
	c := client(t, false)
	for i := range 200 {
		if res, got, err := do(t, c, "GET", "http://"+addr+"/", nil, nil); err != nil || string(got) != "good" {
			t.Fatalf("request %d: %v, %q, %v", i, res, got, err)
		}
	}
}

// upstreamLies: more than was announced is nobody's answer.
func upstreamLies(t *testing.T, build Build) {
	const stolen = "HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nstolen"
	addr := build(t, "http", wire.RequestRules{}, script(map[string]string{
		"/more":   "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + stolen,
		"/none":   "HTTP/1.1 204 No Content\r\n\r\n" + stolen,
		"/head":   "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood" + stolen,
		"/unused": "HTTP/1.1 304 Not Modified\r\nContent-Length: 4\r\n\r\ngood" + stolen,
		"/both":   "HTTP/1.1 200 OK\r\nContent-Length: 100\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ngood\r\n0\r\n\r\n",
		"/two":    "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\ngood<close>",
		"/minus":  "HTTP/1.1 200 OK\r\nContent-Length: -4\r\n\r\ngood<close>",
		"/good":   good,
	}))
	for path, method := range map[string]string{"/more": "GET", "/none": "GET", "/head": "HEAD", "/unused": "GET",
		"/both": "GET", "/two": "GET", "/minus": "GET"} {
		c := client(t, false)
		_, _, _ = do(t, c, method, "http://"+addr+path, nil, nil) // whatever that is
		for range 3 {
			res, got, err := do(t, c, "GET", "http://"+addr+"/good", nil, nil)
			if err != nil || string(got) != "good" && res.StatusCode < 500 {
				t.Errorf("after %s: %v, %q, %v", path, res, got, err)
			}
		}
	}
}

// upstreamInjects: no answer makes two, and none has a header that no client could read
// alike.
func upstreamInjects(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{}, script(map[string]string{
		"/cr":   "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-A: a\rX-Injected: 1\r\n\r\ngood<close>",
		"/nul":  "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-A: a\x00b\r\n\r\ngood<close>",
		"/name": "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX A: a\r\n\r\ngood<close>",
		"/line": "HTTP/1.1 200\rX-Injected: 1\r\nContent-Length: 4\r\n\r\ngood<close>",
		"/what": "hello\r\n\r\n<close>",
		"/much": "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 300<<10) + "\r\nContent-Length: 4\r\n\r\ngood<close>",
	}))
	for _, path := range []string{"/cr", "/nul", "/name", "/line", "/what", "/much"} {
		c := dial(t, addr)
		c.say("GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		all, err := io.ReadAll(c.r)
		if err != nil && !closed(err) {
			t.Errorf("%s: %v", path, err)
		}
		head, _, _ := bytes.Cut(all, []byte("\r\n\r\n"))
		for line := range strings.SplitSeq(string(head), "\r\n") {
			if strings.ContainsAny(line, "\r\n\x00") || strings.HasPrefix(line, "X-Injected") {
				t.Errorf("%s: line %q", path, line)
			}
		}
		if path == "/what" || path == "/much" {
			if !bytes.HasPrefix(all, []byte("HTTP/1.1 502")) {
				t.Errorf("%s: %.80q", path, all)
			}
		}
	}
}

// smuggling: whatever is open to two readings is refused, or passed on in one; what
// follows in the same bytes is a request of its own to everybody or to nobody.
func smuggling(t *testing.T, build Build) {
	var mu sync.Mutex
	var seen []string
	addr := build(t, "http", wire.RequestRules{}, func(c net.Conn) {
		r := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(r)
			if err != nil {
				return
			}
			b, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			mu.Lock()
			seen = append(seen, req.URL.Path+" "+string(b))
			mu.Unlock()
			if _, err := io.WriteString(c, good); err != nil {
				return
			}
		}
	})
	const inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n"
	chunked := "0\r\n\r\n" + inner
	for name, text := range map[string]string{
		"both lengths": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(len(chunked)) +
			"\r\nTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"two lengths": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: " +
			strconv.Itoa(len(inner)) + "\r\n\r\n" + inner,
		"a list of lengths": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0, " + strconv.Itoa(len(inner)) +
			"\r\n\r\n" + inner,
		"a signed length": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +" + strconv.Itoa(len(inner)) +
			"\r\n\r\n" + inner,
		"a length of letters": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x0\r\n\r\n" + inner,
		"an unknown coding":   "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n" + chunked,
		"two codings":         "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, identity\r\n\r\n" + chunked,
		"a coding twice": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n" +
			"Transfer-Encoding: identity\r\n\r\n" + chunked,
		"a hidden coding": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(len(chunked)) +
			"\r\nTransfer-Encoding : chunked\r\n\r\n" + chunked,
		"a folded coding": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(len(chunked)) +
			"\r\nTransfer-Encoding:\r\n chunked\r\n\r\n" + chunked,
		"a coding after a CR": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(len(chunked)) +
			"\r\nX: y\rTransfer-Encoding: chunked\r\n\r\n" + chunked,
		"a coding after a NUL": "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: " + strconv.Itoa(len(chunked)) +
			"\r\nX: y\x00Transfer-Encoding: chunked\r\n\r\n" + chunked,
		"a chunk too large": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"fffffffffffffffff\r\n" + inner,
		"a chunk of minus": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n" + inner,
		"a chunk without end": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n" +
			"\r\n" + inner,
		"a CR in the target":    "GET /x\rGET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n",
		"a space in the target": "GET /x HTTP/1.1 HTTP/1.1\r\nHost: a\r\n\r\n",
		"two hosts":             "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
		"no host":               "GET / HTTP/1.1\r\n\r\n",
		"a bad host":            "GET / HTTP/1.1\r\nHost: a b\r\n\r\n",
	} {
		mu.Lock()
		seen = nil
		mu.Unlock()
		c := dial(t, addr)
		c.say(text)
		if h, ok := c.Conn.(interface{ CloseWrite() error }); ok {
			_ = h.CloseWrite()
		}
		all, err := io.ReadAll(c.r)
		if err != nil && !closed(err) {
			t.Errorf("%s: %v", name, err)
		}
		mu.Lock()
		for _, s := range seen {
			if strings.HasPrefix(s, "/smuggled") && name != "both lengths" {
				t.Errorf("%s: the instance saw %q; the client %.200q", name, seen, all)
			}
		}
		// Where the coding counts, what follows is a request like any other, and is
		// answered as one.
		if name == "both lengths" && len(seen) != bytes.Count(all, []byte("good")) && len(all) > 0 {
			t.Errorf("%s: the instance saw %q; the client %.200q", name, seen, all)
		}
		mu.Unlock()
	}
}

// foreign: who speaks something else is told at once, and what to do about it, unless he
// is a stranger, who can do nothing about it.
func (traits Traits) foreign(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{}, func(c net.Conn) {
		b := make([]byte, 100)
		n, _ := c.Read(b)
		if n > 0 {
			t.Errorf("the instance got %q", b[:n])
		}
	})
	for name, text := range map[string]string{
		"TLS":        "\x16\x03\x01\x00\xf5\x01\x00\x00\xf1\x03\x03",
		"PostgreSQL": "\x00\x00\x00\x08\x04\xd2\x16\x2f",
		"MQTT":       "\x10\x0c\x00\x04MQTT\x04\x02\x00\x3c\x00\x00",
		"Redis":      "*1\r\n$4\r\nPING\r\n",
		"a line":     "EHLO example.org\r\n",
		"lines":      "EHLO example.org\r\n\r\n",
		"HTTP/0.9":   "GET /\r\n",
	} {
		c := dial(t, addr)
		c.say(text)
		res, err := http.ReadResponse(c.r, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		b, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if res.StatusCode != http.StatusBadRequest || strings.Contains(string(b), "protocol: tcp") == traits.Gateway {
			t.Errorf("%s was answered with %d: %q", name, res.StatusCode, b)
		}
	}
}

func largeHeads(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{}, script(map[string]string{"/": good}))
	for name, text := range map[string]string{
		"one header":   "GET / HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("a", 200<<10) + "\r\n\r\n",
		"many headers": "GET / HTTP/1.1\r\nHost: a\r\n" + strings.Repeat("X: a\r\n", 50_000) + "\r\n",
		"the target":   "GET /" + strings.Repeat("a", 200<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n",
	} {
		c := dial(t, addr)
		c.say(text)
		all, err := io.ReadAll(c.r)
		if err != nil && !closed(err) || len(all) > 0 && !bytes.HasPrefix(all, []byte("HTTP/1.1 4")) {
			t.Errorf("%s: %.80q, %v", name, all, err)
		}
	}
}

// headers of one connection stay on it; who asks and for how long is told.
func (traits Traits) headers(t *testing.T, build Build) {
	seen := make(chan http.Header, 1)
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			seen <- req.Header
			h := w.Header()
			h.Set("Connection", "X-Mine")
			h.Set("X-Mine", "1")
			h.Set("Keep-Alive", "timeout=5")
			h["X-Two"] = []string{"a", "b"}
		})))
	c := client(t, false)
	res, _, err := do(t, c, "GET", "http://"+addr+"/", nil, func(req *http.Request) {
		req.Header = http.Header{
			"Connection": {"X-Hop, keep-alive"}, "X-Hop": {"1"}, "Proxy-Authorization": {"secret"}, "Te": {"gzip"},
			"Cookie": {"a=1", "b=2"}, "User-Agent": {""},
		}
	})
	must(t, err)
	got := <-seen
	for _, name := range []string{"X-Hop", "Proxy-Authorization", "Te", "User-Agent", "Keep-Alive"} {
		if v, ok := got[name]; ok {
			t.Errorf("the instance got %s %q", name, v)
		}
	}
	if v := got.Get("X-Forwarded-For"); !strings.HasPrefix(v, "127.") || got.Get("X-Forwarded-Proto") != "http" ||
		got.Get("X-Forwarded-Host") != addr {
		t.Errorf("who asks: %v", got)
	}
	if f := got.Get("Forwarded"); !strings.Contains(f, "for=127.") || !strings.Contains(f, "proto=http") {
		t.Errorf("Forwarded: %q", f)
	}
	if p := strings.Split(got.Get("Traceparent"), "-"); len(p) != 4 || len(p[1]) != 32 || len(p[2]) != 16 {
		t.Errorf("Traceparent: %q", got.Get("Traceparent"))
	}
	if res.Header.Get("X-Mine") != "" || res.Header.Get("Keep-Alive") != "" || len(res.Header["X-Two"]) != 2 {
		t.Errorf("the client got %v", res.Header)
	}
	if v := res.Header.Get("Endpoint-Load-Metrics"); traits.Gateway && v != "" || !traits.Gateway &&
		!strings.HasPrefix(v, "TEXT ") {
		t.Errorf("load report %q", res.Header.Get("Endpoint-Load-Metrics"))
	}
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	_, _, err = do(t, c, "GET", "http://"+addr+"/", nil,
		func(req *http.Request) { req.Header.Set("Traceparent", parent) })
	must(t, err)
	if got := <-seen; got.Get("Traceparent") != parent {
		t.Errorf("Traceparent became %q", got.Get("Traceparent"))
	}
}

// deadlines end what takes too long, and are told to the instance.
func deadlines(t *testing.T, build Build) {
	left := make(chan string, 64)
	until := func(leave <-chan struct{}) http.HandlerFunc {
		return func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path != "/slow" {
				_ = http.NewResponseController(w).Flush() // the answer has begun in time
			}
			left <- req.Header.Get("Verge-Timeout")
			select {
			case <-leave:
			case <-req.Context().Done():
			}
		}
	}
	addr := build(t, "http", wire.RequestRules{Concurrency: -1}, Handler(t, until(nil)))
	c := client(t, false)
	patiently(t, "no request reached the instance in time", func(d time.Duration) bool {
		res, got, err := do(t, c, "GET", "http://"+addr+"/slow", nil, func(req *http.Request) {
			req.Header.Set("Verge-Timeout", fmt.Sprint(d.Milliseconds()))
		})
		must(t, err)
		if res.StatusCode != http.StatusGatewayTimeout || !strings.Contains(string(got), "too-late") {
			t.Errorf("%d %s", res.StatusCode, got)
		}
		select {
		case told := <-left:
			if ms, err := strconv.Atoi(told); err != nil || ms > int(d.Milliseconds()) {
				t.Errorf("the instance was told %s of %s", told, d)
			}
			return true
		default:
			return false
		}
	})
	// The timeout of the service is for the head of an answer.
	patiently(t, "no answer began in time", func(d time.Duration) bool {
		leave := make(chan struct{})
		addr := build(t, "http", wire.RequestRules{Concurrency: -1, Timeout: api.Duration(d)}, Handler(t, until(leave)))
		if res, _, err := do(t, c, "GET", "http://"+addr+"/slow", nil, nil); err != nil ||
			res.StatusCode != http.StatusGatewayTimeout {
			t.Errorf("%v, %v", res, err)
		}
		time.AfterFunc(d+d/2, func() { close(leave) }) // the answer goes on longer than that
		res, _, err := do(t, c, "GET", "http://"+addr+"/begun", nil, nil)
		must(t, err)
		if res.StatusCode == http.StatusGatewayTimeout {
			return false
		}
		if res.StatusCode != http.StatusOK {
			t.Error(res.Status)
		}
		return true
	})
}

// patiently gives what has a time limit more and more time until it succeeds: how much
// is enough depends on the load of the machine.
func patiently(t *testing.T, otherwise string, try func(limit time.Duration) bool) {
	t.Helper()
	for d := 100 * time.Millisecond; d < timeout/2; d *= 2 {
		if try(d) {
			return
		}
	}
	t.Error(otherwise)
}

// h2: clients may speak HTTP/2 to an instance that does not.
func h2(t *testing.T, build Build) {
	addr := build(t, "http", wire.RequestRules{},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Trailer", "After")
			b, _ := io.ReadAll(req.Body)
			_, _ = fmt.Fprintf(w, "%d %s", req.ProtoMajor, b)
			w.Header().Set("After", "all")
		})))
	c := client(t, true)
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			res, got, err := do(t, c, "POST", "http://"+addr+"/", strings.NewReader("body"), nil)
			if err != nil || res.ProtoMajor != 2 || string(got) != "1 body" || res.Trailer.Get("After") != "all" {
				t.Errorf("%v %q %v", res, got, err)
			}
		})
	}
	all.Wait()
}

// rapidReset: requests that are taken back at once cost their client, and nobody else.
func rapidReset(t *testing.T, build Build) {
	var running atomic.Int32
	addr := build(t, "http", wire.RequestRules{Concurrency: 5, QueueMax: 5},
		Handler(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if req.URL.Path == "/good" {
				_, _ = io.WriteString(w, "good")
				return
			}
			running.Add(1)
			defer running.Add(-1)
			<-req.Context().Done()
		})))
	c := dial(t, addr)
	c.say(http2.ClientPreface)
	fr := http2.NewFramer(c.Conn, c.r)
	must(t, fr.WriteSettings())
	var head bytes.Buffer
	enc := hpack.NewEncoder(&head)
	for id := uint32(1); id < 2000; id += 2 {
		head.Reset()
		for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":authority", "a"},
			{":path", "/hang"}} {
			must(t, enc.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}))
		}
		if fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: head.Bytes(), EndStream: true,
			EndHeaders: true}) != nil ||
			fr.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
			break // it has had enough
		}
	}
	res, got, err := do(t, client(t, true), "GET", "http://"+addr+"/good", nil, nil)
	for i := 0; i < 200 && err == nil &&
		res.StatusCode == http.StatusServiceUnavailable; i++ { // the last ones may still be on their way out
		res, got, err = do(t, client(t, true), "GET", "http://"+addr+"/good", nil, nil)
	}
	if err != nil || string(got) != "good" {
		t.Errorf("somebody else: %v %q %v", res, got, err)
	}
	eventually(t, "what was taken back has ended", func() bool { return running.Load() == 0 })
}

// eventually waits until ok; sockets have no virtual clock.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(timeout); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
