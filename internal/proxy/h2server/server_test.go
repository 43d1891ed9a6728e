package h2server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/verge-edge/verge/internal/proxy/h2client"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var quiet = slog.New(slog.DiscardHandler)

// served serves connections by a handler until the test ends, and returns where.
func served(t testing.TB, o Options, h http.HandlerFunc) string {
	t.Helper()
	o.Handler, o.Log = h, quiet
	if o.Idle == 0 {
		o.Idle = time.Minute
	}
	if o.MaxHead == 0 {
		o.MaxHead = 64 << 10
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = 250
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = c.Close() })()
				Serve(ctx, c, o)
			})
		}
	})
	t.Cleanup(func() {
		_ = ln.Close()
		cancel()
		all.Wait()
	})
	return ln.Addr().String()
}

// asker sends a request and returns the head of its answer.
type asker func(req *http.Request) (*http.Response, error)

// askers are those that the server has to do with.
func askers(t *testing.T, addr string) map[string]asker {
	t.Helper()
	std := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	std.Protocols.SetUnencryptedHTTP2(true)
	own := h2client.New(h2client.Options{MaxHead: 64 << 10, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}})
	t.Cleanup(std.CloseIdleConnections)
	t.Cleanup(own.CloseIdleConnections)
	return map[string]asker{
		"net/http": std.RoundTrip,
		"h2client": func(req *http.Request) (*http.Response, error) { return own.Do(req, h2client.Hooks{}) },
	}
}

func request(t *testing.T, method, addr, path string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+addr+path, body)
	must(t, err)
	return req
}

func all(t *testing.T, res *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(res.Body)
	must(t, err)
	must(t, res.Body.Close())
	return string(b)
}

func TestRequests(t *testing.T) {
	t.Parallel()
	addr := served(t, Options{}, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/echo":
			w.Header().Set("X-Cookie", strings.Join(req.Header["Cookie"], "|"))
			w.Header().Set("X-Was", req.Method+" "+req.RequestURI+" "+req.Host+" "+req.Proto+" "+
				strconv.FormatInt(req.ContentLength, 10))
			_, _ = io.Copy(w, req.Body)
		case "/none":
			w.WriteHeader(http.StatusNoContent)
		case "/only-head": // as gRPC does where there is nothing but trailers
			w.Header().Set("Grpc-Status", "5")
		case "/trailers":
			w.Header().Set("Trailer", "X-Announced")
			_, _ = io.WriteString(w, "body")
			w.Header().Set("X-Announced", "a")
			w.Header().Set(http.TrailerPrefix+"X-Not", "b")
		case "/early":
			w.Header().Set("X-Hint", "1")
			w.WriteHeader(http.StatusEarlyHints)
			w.Header().Del("X-Hint")
			_, _ = io.WriteString(w, "done")
		case "/large":
			n, _ := strconv.Atoi(req.URL.RawQuery)
			_, _ = w.Write(bytes.Repeat([]byte{'x'}, n))
		}
	})
	large := strings.Repeat("0123456789abcdef", 200_000)
	for name, ask := range askers(t, addr) {
		t.Run(name, func(t *testing.T) {
			req := request(t, "POST", addr, "/echo?q=%20", strings.NewReader("hello"))
			req.Header["Cookie"] = []string{"a=1; b=2"}
			res, err := ask(req)
			must(t, err)
			if got := all(t, res); got != "hello" || res.Header.Get("X-Was") != "POST /echo?q=%20 "+addr+" HTTP/2.0 5" ||
				res.Header.Get("X-Cookie") != "a=1; b=2" || res.Header.Get("Date") == "" {
				t.Errorf("%q, %v", got, res.Header)
			}
			res, err = ask(request(t, "POST", addr, "/echo", struct{ io.Reader }{strings.NewReader(large)}))
			must(t, err)
			if got := all(t, res); sha256.Sum256([]byte(got)) != sha256.Sum256([]byte(large)) {
				t.Errorf("%d bytes of %d came back, or others", len(got), len(large))
			}
			res, err = ask(request(t, "GET", addr, "/large?3000000", nil))
			must(t, err)
			if got := all(t, res); len(got) != 3_000_000 {
				t.Errorf("%d bytes", len(got))
			}
			res, err = ask(request(t, "HEAD", addr, "/large?100", nil))
			must(t, err)
			if got := all(t, res); got != "" || res.StatusCode != http.StatusOK {
				t.Errorf("HEAD: %q, %s", got, res.Status)
			}
			res, err = ask(request(t, "GET", addr, "/none", nil))
			must(t, err)
			if got := all(t, res); got != "" || res.StatusCode != http.StatusNoContent {
				t.Errorf("%q, %s", got, res.Status)
			}
			res, err = ask(request(t, "POST", addr, "/only-head", strings.NewReader("x")))
			must(t, err)
			if got := all(t, res); got != "" || res.Header.Get("Grpc-Status") != "5" {
				t.Errorf("%q, %v", got, res.Header)
			}
			res, err = ask(request(t, "GET", addr, "/trailers", nil))
			must(t, err)
			if got := all(t, res); got != "body" || res.Trailer.Get("X-Announced") != "a" || res.Trailer.Get("X-Not") != "b" {
				t.Errorf("%q, %v", got, res.Trailer)
			}
			res, err = ask(request(t, "GET", addr, "/early", nil))
			must(t, err)
			if got := all(t, res); got != "done" || res.Header.Get("X-Hint") != "" {
				t.Errorf("%q, %v", got, res.Header)
			}
		})
	}
}

// Both directions of a request go on at the same time, and trailers of a request come after it.
func TestBothWays(t *testing.T) {
	t.Parallel()
	addr := served(t, Options{}, func(w http.ResponseWriter, req *http.Request) {
		_ = http.NewResponseController(w).Flush()
		b := make([]byte, 100)
		for {
			n, err := req.Body.Read(b)
			_, _ = w.Write(b[:n])
			_ = http.NewResponseController(w).Flush()
			if err != nil {
				_, _ = fmt.Fprintf(w, "%v %s", err, req.Trailer.Get("X-Sum"))
				return
			}
		}
	})
	for name, ask := range askers(t, addr) {
		t.Run(name, func(t *testing.T) {
			r, w := io.Pipe()
			req := request(t, "POST", addr, "/", r)
			req.Trailer = http.Header{"X-Sum": nil}
			res, err := ask(req)
			must(t, err)
			b := make([]byte, 4)
			for i := range 20 {
				say := fmt.Sprintf("%04d", i)
				_, err := io.WriteString(w, say)
				must(t, err)
				if _, err := io.ReadFull(res.Body, b); err != nil || string(b) != say {
					t.Fatalf("%q, %v", b, err)
				}
			}
			req.Trailer["X-Sum"] = []string{"42"}
			must(t, w.Close())
			if got := all(t, res); got != "EOF 42" {
				t.Errorf("%q", got)
			}
		})
	}
}

// A client that takes its request back ends its context and its body; an answer that breaks off is
// not taken for a whole one; a body that nobody reads does not hold up the connection.
func TestEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan error, 2)
	addr := served(t, Options{}, func(w http.ResponseWriter, req *http.Request) {
		switch req.URL.Path {
		case "/wait":
			_ = http.NewResponseController(w).Flush()
			_, err := req.Body.Read(make([]byte, 1))
			<-req.Context().Done()
			ended <- err
		case "/break":
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "/deaf":
			w.WriteHeader(http.StatusTeapot)
		case "/late":
			rc := http.NewResponseController(w)
			must(t, rc.SetReadDeadline(time.Now().Add(time.Millisecond)))
			_, err := req.Body.Read(make([]byte, 1))
			_, _ = fmt.Fprint(w, err)
		}
	})
	for name, ask := range askers(t, addr) {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			r, w := io.Pipe()
			defer func() { must(t, w.Close()) }()
			res, err := ask(request(t, "POST", addr, "/wait", r).WithContext(ctx))
			must(t, err)
			cancel()
			_ = res.Body.Close()
			if err := <-ended; err == nil {
				t.Error("the body of a request that was taken back is read as if it were whole")
			}
			res, err = ask(request(t, "GET", addr, "/break", nil))
			must(t, err)
			if b, err := io.ReadAll(res.Body); err == nil {
				t.Errorf("%q is taken for a whole answer", b)
			}
			_ = res.Body.Close()
			for range 8 { // more than fits into the window of the connection
				res, err = ask(request(t, "POST", addr, "/deaf", bytes.NewReader(make([]byte, 400_000))))
				must(t, err)
				if res.StatusCode != http.StatusTeapot {
					t.Errorf("%s", res.Status)
				}
				_ = res.Body.Close()
			}
			slow, later := io.Pipe()
			res, err = ask(request(t, "POST", addr, "/late", slow))
			must(t, err)
			if got := all(t, res); !strings.Contains(got, "timeout") {
				t.Errorf("%q", got)
			}
			must(t, later.Close())
		})
	}
}

// A connection that is to end takes no more requests, and ends with those that it carries.
func TestLeaving(t *testing.T) {
	t.Parallel()
	begun, leave := make(chan struct{}), make(chan struct{})
	addr := served(t, Options{}, func(w http.ResponseWriter, req *http.Request) {
		if req.URL.Path == "/last" {
			w.Header().Set("Connection", "close")
			return
		}
		close(begun)
		<-leave
		_, _ = io.WriteString(w, "whole")
	})
	c, fr := dialed(t, addr)
	open(t, fr, 1, "/long", true)
	<-begun
	open(t, fr, 3, "/last", true)
	var goAway *http2.GoAwayFrame
	for goAway == nil {
		f, err := fr.ReadFrame()
		must(t, err)
		goAway, _ = f.(*http2.GoAwayFrame)
	}
	if goAway.LastStreamID != 3 || goAway.ErrCode != http2.ErrCodeNo {
		t.Errorf("%v", goAway)
	}
	open(t, fr, 5, "/late", false)
	must(t, fr.WriteData(5, true, []byte("ignored")))
	close(leave)
	got := ""
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		if d, ok := f.(*http2.DataFrame); ok && d.StreamID == 1 {
			got += string(d.Data())
		}
	}
	if got != "whole" {
		t.Errorf("%q", got)
	}
	_ = c.Close()
}

// A connection that rests for too long is ended, and says so.
func TestIdle(t *testing.T) {
	t.Parallel()
	addr := served(t, Options{Idle: 20 * time.Millisecond}, func(http.ResponseWriter, *http.Request) {})
	_, fr := dialed(t, addr)
	open(t, fr, 1, "/", true)
	said := false
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			break
		}
		_, is := f.(*http2.GoAwayFrame)
		said = said || is
	}
	if !said {
		t.Error("it ends without a word")
	}
}

// Interim answers come while the answer is made.
func TestInterim(t *testing.T) {
	t.Parallel()
	hinted := make(chan struct{})
	addr := served(t, Options{}, func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Expect") != "" {
			t.Error("it is for this server alone")
		}
		if req.URL.Path == "/expect" {
			_, _ = io.Copy(w, req.Body)
			return
		}
		w.WriteHeader(http.StatusEarlyHints)
		<-hinted
	})
	own := h2client.New(h2client.Options{MaxHead: 64 << 10, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}})
	defer own.CloseIdleConnections()
	_, err := own.Do(request(t, "GET", addr, "/", nil), h2client.Hooks{
		Interim: func(code int, _ textproto.MIMEHeader) {
			if code == http.StatusEarlyHints {
				close(hinted)
			}
		},
	})
	must(t, err)
	req := request(t, "POST", addr, "/expect", strings.NewReader("wanted"))
	req.Header.Set("Expect", "100-continue")
	res, err := own.Do(req, h2client.Hooks{})
	must(t, err)
	if got := all(t, res); got != "wanted" {
		t.Errorf("%q", got)
	}
}
