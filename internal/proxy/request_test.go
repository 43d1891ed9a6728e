package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/wire"
)

// requestRoute is app.web, routed by request.
func requestRoute(protocol string, rules wire.RequestRules, endpoints ...wire.Endpoint) wire.Route {
	rules.Needed = true
	return wire.Route{V: 1, App: "app", Service: "web", Endpoints: endpoints, Requests: rules,
		Ports: []api.Port{{Name: protocol, Protocol: protocol}}}
}

// entryURL is where app.web is reached on a worker.
func (w *worker) entryURL(t testing.TB, port, path string) string {
	t.Helper()
	return "http://" + w.addr(t, port) + path
}

// h2Client speaks HTTP/2 without TLS.
func h2Client(t testing.TB) *http.Client {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols), DisableCompression: true}
	tr.Protocols.SetUnencryptedHTTP2(true)
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func get(t testing.TB, c *http.Client, url string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	must(t, err)
	return fetch(t, c, req)
}

func TestRequestsRotateHereAndThere(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addHTTP(t, "app.web.0", says("zero"))
	b.addHTTP(t, "app.web.1", says("one"))
	rt := requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"), b.endpoint("app.web.1"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	// One connection of the client, and each request goes where it should.
	c := client(t)
	got := map[string]int{}
	for range 10 {
		res, body := get(t, c, a.entryURL(t, "http", "/"))
		got[body]++
		r, err := orca.Parse(res.Header.Get(orca.Header))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := httpmsg.QueueMetrics(&r); !ok {
			t.Fatalf("report %q is not ours", res.Header.Get(orca.Header))
		}
	}
	if got["zero"] != 5 || got["one"] != 5 {
		t.Fatalf("answers %v", got)
	}
	if n := b.Stats().Data.Accepted; n != 1 {
		t.Errorf("%d streams for five requests", n)
	}
}

func TestFullQueues(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	come, leave := make(chan string, 9), make(chan struct{})
	slow := func(name string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			come <- name
			select {
			case <-leave:
			case <-req.Context().Done():
			}
			_, _ = io.WriteString(w, name)
		})
	}
	a.addHTTP(t, "app.web.0", slow("zero"))
	b.addHTTP(t, "app.web.1", slow("one"))
	rt := requestRoute("http", wire.RequestRules{Concurrency: 1, QueueMax: -1}, a.endpoint("app.web.0"),
		b.endpoint("app.web.1"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	c := client(t)
	answers := make(chan string, 2)
	for range 2 {
		go func() {
			res, err := c.Get(a.entryURL(t, "http", "/"))
			if err != nil {
				answers <- err.Error()
				return
			}
			body, _ := io.ReadAll(res.Body)
			_ = res.Body.Close()
			answers <- string(body)
		}()
	}
	if one, two := <-come, <-come; one == two {
		t.Fatalf("both at %s", one)
	}
	res, body := get(t, c, a.entryURL(t, "http", "/"))
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "queue-full") {
		t.Fatalf("%d %v: %s", res.StatusCode, res.Header, body)
	}
	close(leave)
	if one, two := <-answers, <-answers; one == two || len(one)+len(two) != len("zeroone") {
		t.Fatalf("answers %q and %q", one, two)
	}
	if res, _ := get(t, c, a.entryURL(t, "http", "/")); res.StatusCode != 200 {
		t.Fatal(res.Status)
	}
}

// echoTrailers answers as gRPC does: a body while one comes, and a status after it.
var echoTrailers = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
	w.Header().Set("Trailer", "Grpc-Status")
	w.Header().Set("Content-Type", req.Header.Get("Content-Type"))
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex()
	_ = rc.Flush()
	buf := make([]byte, 100)
	for {
		n, err := req.Body.Read(buf)
		_, _ = w.Write(buf[:n])
		_ = rc.Flush()
		if err != nil {
			break
		}
	}
	w.Header().Set("Grpc-Status", "0")
	w.Header().Set(http.TrailerPrefix+"Proto", fmt.Sprint(req.ProtoMajor))
})

func TestGRPCStreamsBothWays(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, far := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			a := newWorker(t, ca, "a", nil)
			home := a
			if far {
				home = newWorker(t, ca, "b", nil)
			}
			home.addHTTP(t, "app.web.0", echoTrailers)
			rt := requestRoute("grpc", wire.RequestRules{}, home.endpoint("app.web.0"))
			a.SetRoutes([]wire.Route{rt})
			home.SetRoutes([]wire.Route{rt})
			r, w := io.Pipe()
			req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.entryURL(t, "grpc", "/svc/Method"),
				r)
			must(t, err)
			req.Header.Set("Content-Type", "application/grpc")
			req.Header.Set("Te", "trailers")
			res, err := h2Client(t).Do(req)
			must(t, err)
			for _, word := range []string{"one", "two", "three"} {
				_, err := io.WriteString(w, word)
				must(t, err)
				got := make([]byte, len(word))
				if _, err := io.ReadFull(res.Body, got); err != nil || string(got) != word {
					t.Fatalf("%q, %v", got, err)
				}
			}
			must(t, w.Close())
			if rest, err := io.ReadAll(res.Body); err != nil || len(rest) > 0 {
				t.Fatalf("%q, %v", rest, err)
			}
			if res.Trailer.Get("Grpc-Status") != "0" || res.Trailer.Get("Proto") != "2" {
				t.Fatalf("trailers %v", res.Trailer)
			}
		})
	}
}
