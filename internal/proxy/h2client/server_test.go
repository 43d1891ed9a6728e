package h2client

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
)

// serve runs a server of the standard library and returns a Client of it.
func serve(t *testing.T, h http.HandlerFunc) *Client {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	srv := &http.Server{Handler: h, Protocols: new(http.Protocols)}
	srv.Protocols.SetUnencryptedHTTP2(true)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(ln)
	}()
	cl := New(Options{MaxHead: 64 << 10, Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", ln.Addr().String())
	}})
	t.Cleanup(func() {
		cl.CloseIdleConnections()
		_ = srv.Close()
		<-done
	})
	return cl
}

// Bodies of all sizes go both ways, many at a time, with and without a length.
func TestBodies(t *testing.T) {
	t.Parallel()
	cl := serve(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Length", fmt.Sprint(req.ContentLength))
		if req.ContentLength >= 0 {
			w.Header().Set("Content-Length", fmt.Sprint(req.ContentLength))
		}
		_, _ = io.Copy(w, req.Body)
	})
	var all sync.WaitGroup
	for _, size := range []int{0, 1, 100, 16 << 10, 16<<10 + 1, 65535, 65536, 300_000, 3 << 20} {
		for _, told := range []bool{true, false} {
			all.Go(func() {
				text := make([]byte, size)
				_, _ = rand.Read(text)
				req := newRequest(t.Context(), t, "POST", io.NopCloser(bytes.NewReader(text)))
				length := "-1"
				if told {
					req.ContentLength, length = int64(size), fmt.Sprint(size)
					if size == 0 {
						req.Body = http.NoBody
					}
				}
				r := <-ask(cl, req)
				if r.err != nil || r.body != string(text) || r.res.StatusCode != 200 ||
					r.res.Header.Get("Length") != length {
					t.Errorf("%d bytes: %v, %d bytes, %v", size, r.res, len(r.body), r.err)
				}
				if told && r.err == nil && r.res.ContentLength != int64(size) {
					t.Errorf("%d bytes: a length of %d", size, r.res.ContentLength)
				}
			})
		}
	}
	all.Wait()
}

// Messages go both ways while both sides are open.
func TestBothWays(t *testing.T) {
	t.Parallel()
	cl := serve(t, func(w http.ResponseWriter, req *http.Request) {
		rc := http.NewResponseController(w)
		_ = rc.Flush()
		b := make([]byte, 100)
		for {
			n, err := req.Body.Read(b)
			_, _ = w.Write(b[:n])
			_ = rc.Flush()
			if err != nil {
				return
			}
		}
	})
	body, more := io.Pipe()
	res, err := cl.Do(newRequest(t.Context(), t, "POST", body), Hooks{})
	must(t, err)
	defer res.Body.Close()
	for i := range 100 {
		want := fmt.Sprintf("message %d", i)
		_, err := io.WriteString(more, want)
		must(t, err)
		got := make([]byte, len(want))
		if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != want {
			t.Fatalf("%q, %v", got, err)
		}
	}
	must(t, more.Close())
	if b, err := io.ReadAll(res.Body); err != nil || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
}

// Heads arrive as they were sent, also large ones, and trailers of both sides.
func TestHeads(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("large ", 5000) // more than a frame
	cl := serve(t, func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		h := req.Header
		if err != nil || string(b) != "body" || req.Method != "PUT" || req.Host != "host:80" ||
			req.RequestURI != "/a%2Fb?c=d" ||
			h.Get("Large") != large || h.Get("Cookie") != "a=1; b=2; c=3" ||
			!slices.Equal(h["Two"], []string{"1", "2"}) ||
			h.Get("Traceparent") != "unique" || h.Get("Connection") != "" || h.Get("User-Agent") != "" ||
			req.Trailer.Get("After") != "all" {
			t.Errorf("%q, %v: %s %s %s %v %v", b, err, req.Method, req.Host, req.RequestURI, h, req.Trailer)
		}
		w.Header().Set("Trailer", "Told")
		w.Header()["Two"] = []string{"1", "2"}
		w.Header().Set("Large", large)
		_, _ = io.WriteString(w, "answer")
		w.Header().Set("Told", "told")
		w.Header().Set(http.TrailerPrefix+"Untold", "untold")
	})
	for range 3 { // the tables of HPACK go on
		req := newRequest(t.Context(), t, "PUT", io.NopCloser(strings.NewReader("body")))
		req.URL.RawPath, req.URL.Path, req.URL.RawQuery, req.Host = "/a%2Fb", "/a/b", "c=d", "host:80"
		req.Header = http.Header{
			"Large": {large}, "Cookie": {"a=1; b=2", "c=3"}, "Two": {"1", "2"}, "Traceparent": {"unique"},
			"Connection": {"x"}, "User-Agent": {""},
		}
		req.Trailer = http.Header{"After": {"all"}}
		r := <-ask(cl, req)
		r.is(t, "answer")
		if h := r.res.Header; h.Get("Large") != large || !slices.Equal(h["Two"], []string{"1", "2"}) ||
			h.Get("Trailer") != "" {
			t.Errorf("%v", h)
		}
		if tr := r.res.Trailer; tr.Get("Told") != "told" || tr.Get("Untold") != "untold" {
			t.Errorf("trailers %v", tr)
		}
	}
}

// What no server should see is not sent, and costs nothing but the request.
func TestBadRequests(t *testing.T) {
	t.Parallel()
	cl := serve(t, func(w http.ResponseWriter, req *http.Request) {
		if req.Method == "POST" {
			if _, err := io.ReadAll(req.Body); err == nil {
				t.Error("a body that broke off was taken for a whole one")
			}
			return
		}
		w.Header().Set("Content-Length", "5")
	})
	for name, change := range map[string]func(*http.Request){
		"name":  func(r *http.Request) { r.Header["a b"] = []string{"x"} },
		"value": func(r *http.Request) { r.Header["A"] = []string{"x\r\ny: z"} },
		"host":  func(r *http.Request) { r.Host = "a\x00b" },
		"path":  func(r *http.Request) { r.URL.Opaque = "no/slash" },
		"length": func(r *http.Request) {
			r.Method, r.ContentLength = "POST", 10
			r.Body = io.NopCloser(strings.NewReader("short"))
		},
		"long": func(r *http.Request) {
			r.Method, r.ContentLength = "POST", 2
			r.Body = io.NopCloser(strings.NewReader("long"))
		},
		"large": func(r *http.Request) { r.Header["A"] = []string{strings.Repeat("x", 20<<20)} },
	} {
		req := newRequest(t.Context(), t, "GET", nil)
		if change(req); name == "large" {
			r := <-ask(cl, newRequest(t.Context(), t, "HEAD", nil)) // the server's settings have come
			must(t, r.err)
		}
		if r := <-ask(cl, req); r.err == nil {
			t.Errorf("%s: %v", name, r.res)
		}
	}
	// The length of an answer to HEAD is that of another one.
	r := <-ask(cl, newRequest(t.Context(), t, "HEAD", nil))
	if r.err != nil || r.body != "" || r.res.ContentLength != 5 {
		t.Errorf("%v, %v", r.res, r.err)
	}
}
