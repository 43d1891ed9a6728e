package h2client

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// server is one whose frames a test writes itself. It belongs to one goroutine.
type server struct {
	t    testing.TB
	nc   net.Conn
	fr   *http2.Framer
	enc  *hpack.Encoder
	head bytes.Buffer
	out  chan []byte // what is to be written; a pipe has no room of its own
	done chan struct{}
}

// conns gives a Client the client's ends of pipes, and a test the server's.
type conns struct {
	t    testing.TB
	came chan net.Conn
}

func newConns(t testing.TB) *conns { return &conns{t: t, came: make(chan net.Conn, 100)} }

func (p *conns) dial(context.Context) (net.Conn, error) {
	a, b := net.Pipe()
	p.came <- b
	return a, nil
}

// serve takes the next connection and greets with settings.
func (p *conns) serve(settings ...http2.Setting) *server {
	p.t.Helper()
	s := p.raw()
	must(p.t, s.fr.WriteSettings(settings...))
	return s
}

// raw takes the next connection and reads the client's preface.
func (p *conns) raw() *server {
	p.t.Helper()
	nc := <-p.came
	s := &server{t: p.t, nc: nc, out: make(chan []byte, 100_000), done: make(chan struct{})}
	s.fr = http2.NewFramer(s, nc)
	s.fr.AllowIllegalWrites = true
	s.fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	s.enc = hpack.NewEncoder(&s.head)
	go func() {
		defer close(s.done)
		for b := range s.out {
			if _, err := nc.Write(b); err != nil {
				for range s.out { // nobody reads the rest
				}
				return
			}
		}
	}()
	preface := make([]byte, len(http2.ClientPreface))
	_, err := io.ReadFull(nc, preface)
	must(p.t, err)
	if string(preface) != http2.ClientPreface {
		p.t.Fatalf("began with %q", preface)
	}
	return s
}

// Write implements io.Writer.
func (s *server) Write(p []byte) (int, error) {
	s.out <- bytes.Clone(p)
	return len(p), nil
}

func (s *server) close() {
	close(s.out)
	_ = s.nc.Close()
	<-s.done
}

// next is the next frame of type F.
func next[F http2.Frame](s *server) F {
	s.t.Helper()
	for {
		f, err := s.fr.ReadFrame()
		if err != nil {
			s.t.Fatalf("instead of a frame: %v", err)
		}
		if f, ok := f.(F); ok {
			return f
		}
	}
}

// request is the head of the next one.
func (s *server) request() *http2.MetaHeadersFrame {
	s.t.Helper()
	return next[*http2.MetaHeadersFrame](s)
}

// headers writes a head: names and values in turns.
func (s *server) headers(id uint32, end bool, fields ...string) {
	s.head.Reset()
	for i := 0; i < len(fields); i += 2 {
		must(s.t, s.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	must(s.t, s.fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: s.head.Bytes(), EndStream: end,
		EndHeaders: true}))
}

// answer is a whole one.
func (s *server) answer(id uint32, body string) {
	s.headers(id, false, ":status", "200")
	must(s.t, s.fr.WriteData(id, true, []byte(body)))
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newRequest(ctx context.Context, t testing.TB, method string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://a/path", body)
	must(t, err)
	return req
}

// result is what came of a request.
type result struct {
	res  *http.Response
	body string
	err  error
}

// ask sends a request and reads all of the answer, beside the test.
func ask(cl *Client, req *http.Request) <-chan result {
	ch := make(chan result, 1)
	go func() {
		res, err := cl.Do(req, Hooks{})
		if err != nil {
			ch <- result{err: err}
			return
		}
		b, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		ch <- result{res, string(b), err}
	}()
	return ch
}

func (r result) is(t testing.TB, body string) {
	t.Helper()
	if r.err != nil || r.body != body {
		t.Fatalf("%q, %v", r.body, r.err)
	}
}

func (r result) isUnprocessed(t testing.TB, want bool) {
	t.Helper()
	if r.err == nil || errors.Is(r.err, ErrUnprocessed) != want {
		t.Fatalf("%q, %v", r.body, r.err)
	}
}

func get(t testing.TB) *http.Request { return newRequest(t.Context(), t, "GET", nil) }

func post(t testing.TB, body string) *http.Request {
	return newRequest(t.Context(), t, "POST", io.NopCloser(strings.NewReader(body)))
}
