package proxy

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// A request of HTTP/2 without a body is none with one of unknown length: it may be asked
// again where that is allowed, and the instance is not told to wait for chunks.
func TestH2RequestWithoutBody(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	var asked atomic.Int32
	answers := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ContentLength != 0 || len(req.TransferEncoding) > 0 {
			t.Errorf("it has a body of %d, %v", req.ContentLength, req.TransferEncoding)
		}
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	a.addHTTP(t, "app.web.0", answers)
	a.addHTTP(t, "app.web.1", answers)
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"),
		a.endpoint("app.web.1"))})
	res, err := h2Client(t).Get(a.entryURL(t, "http", "/"))
	must(t, err)
	must(t, res.Body.Close())
	if res.StatusCode != http.StatusOK || asked.Load() != 2 {
		t.Errorf("%s after %d tries", res.Status, asked.Load())
	}
}

// An instance may speak both: what is gRPC goes to it over HTTP/2, all else over HTTP/1.1,
// at the same port.
func TestBothProtocolsAtOnePort(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	for _, home := range []*worker{a, b} {
		id := "app.web." + home.name
		home.addHTTP(t, id, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			w.Header().Set("Proto", req.Proto)
			w.Header().Set("Trailer", "After")
			got, _ := io.ReadAll(req.Body)
			_ = http.NewResponseController(w).Flush() // else the server counts the length
			_, _ = w.Write(got)
			w.Header().Set("After", "all")
		}))
		rt := requestRoute("http", wire.RequestRules{}, home.endpoint(id))
		a.SetRoutes([]wire.Route{rt})
		b.SetRoutes([]wire.Route{rt})
		for range 3 {
			for kind, proto := range map[string]string{"text/plain": "HTTP/1.1", "application/grpc": "HTTP/2.0"} {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.entryURL(t, "http", "/"),
					io.NopCloser(strings.NewReader("body")))
				must(t, err)
				req.Header.Set("Content-Type", kind)
				res, err := h2Client(t).Do(req)
				must(t, err)
				got, err := io.ReadAll(res.Body)
				must(t, err)
				must(t, res.Body.Close())
				if res.StatusCode != http.StatusOK || string(got) != "body" || res.Header.Get("Proto") != proto ||
					res.Trailer.Get("After") != "all" {
					t.Errorf("%s at %s: %s %v %q, trailers %v", kind, home.name, res.Status, res.Header, got,
						res.Trailer)
				}
				if _, err := http.ParseTime(res.Header.Get("Date")); err != nil {
					t.Errorf("%s: %v", kind, err)
				}
				if kind == "application/grpc" && res.ContentLength != -1 {
					t.Errorf("a length of %d that nobody has said", res.ContentLength)
				}
			}
		}
	}
}

// An instance that is about to end says so (GOAWAY), and takes nothing of what it has not
// begun with: that is asked again, whatever its method.
func TestInstanceGoesAway(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	var served atomic.Int32
	answers := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) })
	srv := a.addHTTP(t, "app.web.0", answers)
	a.SetRoutes([]wire.Route{requestRoute("grpc", wire.RequestRules{}, a.endpoint("app.web.0"))})
	c := h2Client(t)
	for i := range int32(20) {
		res, err := c.Post(a.entryURL(t, "grpc", "/"), "application/grpc", strings.NewReader("x"))
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode != http.StatusOK || served.Load() != i+1 {
			t.Fatalf("%s after %d", res.Status, served.Load())
		}
		if i%5 == 4 { // it ends its connections in good order and is there again
			must(t, srv.Shutdown(t.Context()))
			srv = a.addHTTP(t, "app.web.0", answers)
		}
	}
}
