package proxy

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/verge-edge/verge/internal/wire"
)

// seenBy is an instance that notes the first line of each request, as it comes, and what
// headers it has.
type seenBy struct {
	mu    sync.Mutex
	heads []string // all of each head
}

func (s *seenBy) serve(c net.Conn) {
	r := bufio.NewReader(c)
	for {
		var head strings.Builder
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if line == "\r\n" {
				break
			}
			head.WriteString(line)
		}
		req, err := http.ReadRequest(bufio.NewReader(io.MultiReader(strings.NewReader(head.String()+"\r\n"), r)))
		if err == nil {
			_, err = io.Copy(io.Discard, req.Body)
		}
		s.mu.Lock()
		s.heads = append(s.heads, head.String())
		s.mu.Unlock()
		if err != nil {
			return
		}
		if _, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ngood"); err != nil {
			return
		}
		if req.ContentLength != 0 {
			return // more of the connection may have been read than belongs to the request
		}
	}
}

func (s *seenBy) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	heads := s.heads
	s.heads = nil
	return heads
}

// ways from a client to an instance: here or there, at the entry of a service or a gateway.
func ways(t *testing.T, run func(t *testing.T, addr string, seen *seenBy)) {
	t.Helper()
	for name, way := range map[string]struct{ far, gate bool }{"Here": {}, "There": {far: true},
		"Gateway": {gate: true}, "GatewayThere": {far: true, gate: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			a := newWorker(t, ca, "a", nil)
			home := a
			if way.far {
				home = newWorker(t, ca, "b", nil)
			}
			seen := &seenBy{}
			i := startInstance(t, "app.web.0", "", seen.serve)
			home.engine.set(i.id, i.addr, nil)
			rt := requestRoute("http", wire.RequestRules{}, home.endpoint(i.id))
			if way.gate {
				rt.Ports = publishedAs("http", "a")
			}
			a.SetRoutes([]wire.Route{rt})
			home.SetRoutes([]wire.Route{rt})
			addr := a.GatewayAddr()
			if !way.gate {
				addr = a.addr(t, "http")
			}
			run(t, addr, seen)
		})
	}
}

// overH2 sends one request of HTTP/2 with these fields, and returns its status ("" where
// there is none) and whether the server ended the stream or the connection with an error.
func overH2(t testing.TB, addr string, body []byte, fields ...string) (status string, reset bool) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer func() { _ = c.Close() }()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(c, http2.ClientPreface)
	must(t, err)
	fr := http2.NewFramer(c, c)
	fr.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	must(t, fr.WriteSettings())
	must(t, fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block(t, fields...),
		EndStream: body == nil, EndHeaders: true}))
	if body != nil {
		_ = fr.WriteData(1, true, body) // the server may have had enough
	}
	for {
		f, err := fr.ReadFrame()
		if err != nil {
			return status, true
		}
		switch f := f.(type) {
		case *http2.MetaHeadersFrame:
			status = f.PseudoValue("status")
			if f.StreamEnded() {
				return status, false
			}
		case *http2.DataFrame:
			if f.StreamEnded() {
				return status, false
			}
		case *http2.RSTStreamFrame, *http2.GoAwayFrame:
			return status, true
		}
	}
}

// raw sends these bytes over a connection of their own, and returns all that comes until
// the server closes it, which the last of the requests must lead to.
func raw(t testing.TB, addr, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	must(t, err)
	defer func() { _ = c.Close() }()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, _ = io.WriteString(c, text) // it may be refused before all of it is there
	all, _ := io.ReadAll(c)        // a reset may follow
	return string(all)
}

// What is well-formed in HTTP/2 alone does not reach an instance that speaks HTTP/1.1.
func TestMalformedHTTP2(t *testing.T) {
	t.Parallel()
	get := func(path string) []string {
		return []string{":method", "GET", ":scheme", "http", ":authority", "a", ":path", path}
	}
	ways(t, func(t *testing.T, addr string, seen *seenBy) {
		for name, fields := range map[string][]string{
			"a space in the path":     get("/x HTTP/1.1"),
			"a space in the query":    get("/x?a b"),
			"a fragment":              get("/x#y"),
			"a fragment in the query": get("/x?a#y"),
			"beyond ASCII":            get("/\xc3\xa9"),
			"beyond ASCII in a query": get("/?\xc3\xa9"),
			"two slashes and a space": get("//x y"),
			"an absolute URI":         get("http://a/"),
			"asterisk":                get("*"),
			"POST *":                  {":method", "POST", ":scheme", "http", ":authority", "a", ":path", "*"},
			"a space in the method": {":method", "GET /y HTTP/1.1", ":scheme", "http", ":authority", "a", ":path",
				"/"},
			"a space in the authority": {":method", "GET", ":scheme", "http", ":authority", "a b", ":path", "/"},
			"a path in the authority":  {":method", "GET", ":scheme", "http", ":authority", "a/b", ":path", "/"},
			"a user in the authority":  {":method", "GET", ":scheme", "http", ":authority", "b@a", ":path", "/"},
			"another host":             append(get("/"), "host", "b"),
			"a length without a body":  append(get("/"), "content-length", "5"),
			"a signed length":          append(get("/"), "content-length", "+0"),
			"TRACE":                    {":method", "TRACE", ":scheme", "http", ":authority", "a", ":path", "/"},
		} {
			status, reset := overH2(t, addr, nil, fields...)
			if !strings.HasPrefix(status, "4") && !(status == "" && reset) {
				t.Errorf("%s: status %q", name, status)
			}
			if heads := seen.take(); len(heads) > 0 {
				t.Errorf("%s: the instance got %q", name, heads)
			}
		}
		for name, fields := range map[string][]string{
			"a usual path": get("/x%20y?a=%23&b={}|^"),
			"two slashes":  get("//x/y"),
			"with a host":  append(get("/"), "host", "a"),
		} {
			if status, _ := overH2(t, addr, nil, fields...); status != "200" {
				t.Errorf("%s: status %q", name, status)
			}
			if heads := seen.take(); len(heads) != 1 || !strings.HasPrefix(heads[0],
				fields[1]+" "+fields[7]+" HTTP/1.1\r\n") {
				t.Errorf("%s: the instance got %q", name, heads)
			}
		}
	})
}

// The same of HTTP/1, on the fast path and off it.
func TestMalformedHTTP1(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, addr string, seen *seenBy) {
		for name, text := range map[string]string{
			"a fragment":         "GET /x#y HTTP/1.1\r\nHost: a\r\n\r\n",
			"beyond ASCII":       "GET /\xc3\xa9 HTTP/1.1\r\nHost: a\r\n\r\n",
			"POST *":             "POST * HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
			"a user in the host": "GET / HTTP/1.1\r\nHost: b@a\r\n\r\n",
			"TRACE":              "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n",
			"a coding in HTTP/1.0": "POST / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n" +
				"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
			"a size that is none": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n",
			"a size of minus":     "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n\r\n",
			"a size too large": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
				"fffffffffffffffff\r\n",
			"a chunk that is too long": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n" +
				"0\r\n\r\n",
			"a bare line feed": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n1\na\r\n" +
				"0\r\n\r\n",
			"a trailer without colon": "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" +
				"what\r\n\r\n",
		} {
			got := raw(t, addr, text+"GET /smuggled HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			if !strings.HasPrefix(got, "HTTP/1.1 4") || strings.Count(got, "HTTP/1.1 ") != 1 && name != "TRACE" {
				t.Errorf("%s: %.200q", name, got)
			}
			if name == "TRACE" {
				seen.take() // the connection goes on with the next request
			}
			for _, head := range seen.take() {
				if !strings.HasPrefix(head, "POST / ") {
					t.Errorf("%s: the instance got %q", name, head)
				}
			}
		}
	})
}

// A request to change to HTTP/2 would lead all that follows past the router.
func TestNoUpgradeToHTTP2(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, addr string, seen *seenBy) {
		for _, to := range []string{"h2c", "websocket, h2c", "H2C"} {
			raw(t, addr, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: "+to+
				"\r\nHTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\n")
			if heads := seen.take(); len(heads) != 1 || strings.Contains(heads[0], "Upgrade") {
				t.Errorf("the instance got %q", heads)
			}
		}
	})
}

// What only a gateway may say cannot be said by a client in another spelling.
func TestDisguisedNames(t *testing.T) {
	t.Parallel()
	ways(t, func(t *testing.T, addr string, seen *seenBy) {
		gate := strings.HasPrefix(t.Name(), "TestDisguisedNames/Gateway")
		for _, name := range []string{"X_Forwarded_For", "x-forwarded_for", "X.Forwarded.Host", "X_Real_IP",
			"Transfer_Encoding", "Content_Length", "Verge_Timeout"} {
			raw(t, addr, fmt.Sprintf("GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n%s: 192.0.2.99\r\n"+
				"Api_Key: k\r\n\r\n", name))
			one := seen.take()
			overH2(t, addr, nil, ":method", "GET", ":scheme", "http", ":authority", "a", ":path", "/",
				strings.ToLower(name), "192.0.2.99", "api_key", "k")
			for _, heads := range [][]string{one, seen.take()} {
				if len(heads) != 1 || !strings.Contains(strings.ToLower(heads[0]), "api_key: k") {
					t.Errorf("%s: the instance got %q", name, heads)
				} else if gate && strings.Contains(heads[0], "192.0.2.99") {
					t.Errorf("%s reached the instance: %q", name, heads)
				}
			}
		}
	})
}

// Both parsers of answers judge one alike.
func TestMalformedAnswersAlike(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	for name, answer := range map[string]string{
		"a space before the colon": "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello",
		"a name with a space":      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX y: 1\r\n\r\nhello",
		"no colon":                 "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nwhat\r\n\r\nhello",
		"a signed length":          "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
		"two lengths":              "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 4\r\n\r\nhello",
		"an unknown coding":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
		"no HTTP":                  "hello\r\n\r\n",
		"NUL in a value":           "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX: a\x00b\r\n\r\nhello",
	} {
		for _, home := range []*worker{a, b} {
			i := startInstance(t, "app.web."+home.name, "", func(c net.Conn) {
				r := bufio.NewReader(c)
				for {
					line, err := r.ReadString('\n')
					if err != nil {
						return
					}
					if line == "\r\n" {
						_, _ = io.WriteString(c, answer) // the router may have left
						return
					}
				}
			})
			home.engine.set(i.id, i.addr, nil)
			rt := requestRoute("http", wire.RequestRules{}, home.endpoint(i.id))
			a.SetRoutes([]wire.Route{rt})
			b.SetRoutes([]wire.Route{rt})
			for driver, more := range map[string]string{"fast": "", "full": "Expect: 100-continue\r\n"} {
				got := raw(t, a.addr(t, "http"), "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n"+more+
					"Content-Length: 0\r\n\r\n")
				if !strings.HasPrefix(got, "HTTP/1.1 502 ") {
					t.Errorf("%s, instance of %s, driver %s: %.100q", name, home.name, driver, got)
				}
			}
			a.SetRoutes(nil)
			b.SetRoutes(nil)
			i.kill()
		}
	}
}

// Nor can it be said in trailers, which some servers add to the fields of the head.
func TestTrailersOfStrangers(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	got := make(chan http.Header, 1)
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body) // what is wrong with it the trailers show
		got <- req.Trailer
	}))
	rt := requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"))
	rt.Ports = append(rt.Ports, publishedAs("http", "a")...)
	a.SetRoutes([]wire.Route{rt})
	const text = "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTrailer: Sum, X-Forwarded-For\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n" +
		"5\r\nhello\r\n0\r\nSum: 1\r\nX-Forwarded-For: 192.0.2.99\r\nX_Real_Ip: 192.0.2.99\r\n" +
		"Forwarded: for=192.0.2.99\r\n\r\n"
	for name, addr := range map[string]string{"gateway": a.GatewayAddr(), "entry": a.addr(t, "http")} {
		raw(t, addr, text)
		trailers := <-got
		if said := trailers["X-Forwarded-For"] != nil; trailers.Get("Sum") != "1" || said != (name == "entry") ||
			name == "gateway" && len(trailers) != 1 {
			t.Errorf("%s: the instance got %v", name, trailers)
		}
	}
}
