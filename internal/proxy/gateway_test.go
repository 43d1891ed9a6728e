package proxy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/wire"
)

const host = "shop.example"

// client of a gateway that keeps its connections to itself.
func client(t testing.TB) *http.Client {
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: 20 * time.Second}
}

func (w *worker) request(t testing.TB, method, host, path string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+w.GatewayAddr()+path, body)
	must(t, err)
	req.Host = host
	return req
}

// fetch returns status and body.
func fetch(t testing.TB, c *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := c.Do(req)
	must(t, err)
	body, err := io.ReadAll(res.Body)
	must(t, err)
	must(t, res.Body.Close())
	return res, string(body)
}

func says(s string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(w, s)
	})
}

func TestGatewayRotatesPerRequest(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addHTTP(t, "app.web.0", says("zero"))
	b.addHTTP(t, "app.web.1", says("one"))
	a.SetRoutes([]wire.Route{hostRoute("Shop.Example", a.endpoint("app.web.0"), b.endpoint("app.web.1"))})
	c := client(t)
	got := map[string]int{}
	for i := range 10 {
		// Case, port and final dot of the host are of no meaning.
		h := []string{host, "SHOP.example:8480", "shop.example."}[i%3]
		res, body := fetch(t, c, a.request(t, "POST", h, "/", strings.NewReader("x")))
		if res.StatusCode != 200 {
			t.Fatalf("status %d: %s", res.StatusCode, body)
		}
		got[body]++
	}
	if !maps.Equal(got, map[string]int{"zero": 5, "one": 5}) {
		t.Fatalf("got %v", got)
	}
	eventually(t, "the last request has ended", func() bool {
		e := a.Stats().Services[0].Endpoints
		return e[0].Active == 0 && e[1].Active == 0
	})
	for _, e := range a.Stats().Services[0].Endpoints {
		// Connections are kept: there is not one for each request. One of which the end of
		// an answer has just been read may not be back when the next request comes.
		if e.Requests != 5 || e.Connections >= e.Requests {
			t.Errorf("endpoint %+v", e)
		}
	}
}

func TestGatewayProblems(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	dead := a.addGreeter(t, "app.web.0")
	dead.kill()
	notReady := a.addGreeter(t, "app.web.1")
	a.engine.set("app.web.1", notReady.addr, fmt.Errorf("%w: check failed", local.ErrNotReady))
	c := client(t)
	for name, k := range map[string]struct {
		host      string
		endpoints []wire.Endpoint
		status    int
		code      string
		retry     string
	}{
		"unknown host": {"other.example", nil, 404, "unknown-host", ""},
		"none":         {host, nil, 503, "no-endpoint", "1"},
		"not ready":    {host, []wire.Endpoint{a.endpoint("app.web.1")}, 503, "no-endpoint", "1"},
		"dead":         {host, []wire.Endpoint{a.endpoint("app.web.0")}, 502, "upstream-failed", ""},
	} {
		a.SetRoutes([]wire.Route{hostRoute(host, k.endpoints...)})
		res, body := fetch(t, c, a.request(t, "GET", k.host, "/", nil))
		var p wire.Problem
		if err := json.Unmarshal([]byte(body), &p); err != nil {
			t.Errorf("%s: %q: %v", name, body, err)
		}
		if res.StatusCode != k.status || p.Code != k.code || p.Remedy == "" ||
			res.Header.Get("Retry-After") != k.retry ||
			res.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %v %+v", name, res.StatusCode, res.Header, p)
		}
		if k.status == 404 && !strings.Contains(p.Detail, k.host) {
			t.Errorf("%s: %q does not name the host", name, p.Detail)
		}
	}
	st := a.Stats().Gateway
	if st.UnknownHost != 1 || st.NoEndpoint != 2 || st.Failed != 1 || st.Requests != 4 {
		t.Errorf("stats %+v", st)
	}
}

// Whoever asks while instances die gets an answer: a connection that is refused
// is tried elsewhere with its body, one that breaks only for what may be repeated.
func TestGatewayLosesNoRequestToADeadEndpoint(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	echo := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil {
			_, _ = w.Write(body)
		}
	})
	dies, diesToo := a.addHTTP(t, "app.web.0", echo), b.addHTTP(t, "app.web.1", echo)
	a.addHTTP(t, "app.web.2", echo)
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"), b.endpoint("app.web.1"),
		a.endpoint("app.web.2"))})
	c := client(t)
	post := func() {
		t.Helper()
		body := strings.Repeat("body", 1000)
		if res, got := fetch(t, c, a.request(t, "POST", host, "/", strings.NewReader(body))); res.StatusCode != 200 ||
			got != body {
			t.Fatalf("status %d, %d bytes", res.StatusCode, len(got))
		}
	}
	must(t, dies.Close())
	must(t, diesToo.Close())
	for range 6 {
		post()
	}
}

func TestGatewayRepeatsOnlyWhatMayBeRepeated(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	var broken atomic.Int64
	i := startInstance(t, "app.web.0", "", func(c net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
			broken.Add(1)
			netconn.Cut(c)
		}
	})
	a.engine.set(i.id, i.addr, nil)
	a.addHTTP(t, "app.web.1", says("one"))
	c := client(t)
	for _, k := range []struct {
		method, body string
		status       int
	}{{"GET", "", 200}, {"DELETE", "", 200}, {"PUT", "x", 502}, {"POST", "", 502}, {"POST", "x", 502}} {
		// New routes without and with the endpoint: nothing is ejected.
		a.SetRoutes([]wire.Route{hostRoute(host)})
		broken.Store(0)
		s := a.endpoint("app.web.1")
		s.Suspect = true // so that the other one is asked first
		a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint(i.id), s)})
		var body io.Reader
		if k.body != "" {
			body = strings.NewReader(k.body)
		}
		res, got := fetch(t, c, a.request(t, k.method, host, "/", body))
		if res.StatusCode != k.status || broken.Load() != 1 {
			t.Errorf("%s %q: status %d %s, asked the broken one %d times", k.method, k.body, res.StatusCode, got,
				broken.Load())
		}
		// Not its state: it accepts connections, so a probe lets it in again soon.
		if st := a.Stats().Services[0].Endpoints[0]; st.Instance != i.id || st.Failures != 1 {
			t.Errorf("%s: endpoint %+v", k.method, st)
		}
	}
}

func TestGatewayHeaders(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	got := make(chan *http.Request, 1)
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) { got <- req }))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"))})
	req := a.request(t, "GET", host, "/a%2Fb?x=1;y=2", nil)
	for _, h := range []string{"X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Prefix", "Forwarded", "X-Real-Ip"} {
		req.Header.Set(h, "forged")
	}
	req.Header.Set("Connection", "X-Hop")
	req.Header.Set("X-Hop", "1")
	fetch(t, client(t), req)
	up := <-got
	want := map[string]string{
		"X-Forwarded-For": "127.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": host,
		"X-Forwarded-Prefix": "", "Forwarded": "for=127.0.0.1;host=" + host + ";proto=http", "X-Real-Ip": "",
		"X-Hop": "",
	}
	for h, v := range want {
		if up.Header.Get(h) != v {
			t.Errorf("%s is %q, want %q", h, up.Header.Get(h), v)
		}
	}
	if up.Host != host || up.RequestURI != "/a%2Fb?x=1;y=2" {
		t.Errorf("host %q, URI %q", up.Host, up.RequestURI)
	}
}

func TestGatewayUpgradesAndStreams(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	next := make(chan struct{})
	b.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get("Upgrade") != "shout" {
			// The second event is sent only after the first was seen.
			for i := range 2 {
				_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
				w.(http.Flusher).Flush()
				<-next
			}
			return
		}
		w.Header().Set("Connection", "Upgrade")
		w.Header().Set("Upgrade", "shout")
		w.WriteHeader(http.StatusSwitchingProtocols)
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		line, _ := rw.ReadString('\n')
		_, _ = io.WriteString(c, strings.ToUpper(line))
		_ = c.Close()
	}))
	a.SetRoutes([]wire.Route{hostRoute(host, b.endpoint("app.web.0"))})

	res, err := client(t).Do(a.request(t, "GET", host, "/", nil))
	must(t, err)
	events := bufio.NewReader(res.Body)
	for range 2 {
		if line, err := events.ReadString('\n'); err != nil || !strings.HasPrefix(line, "data") {
			t.Fatalf("event %q, %v", line, err)
		}
		_, err = events.ReadString('\n')
		must(t, err)
		next <- struct{}{}
	}
	must(t, res.Body.Close())

	c, err := net.Dial("tcp", a.GatewayAddr())
	must(t, err)
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n", host)
	must(t, err)
	r := bufio.NewReader(c)
	up, err := http.ReadResponse(r, nil)
	must(t, err)
	if up.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", up.StatusCode)
	}
	// Routes that change do not touch it.
	a.SetRoutes(nil)
	_, err = io.WriteString(c, "hello\n")
	must(t, err)
	if line, err := r.ReadString('\n'); err != nil || line != "HELLO\n" {
		t.Fatalf("%q, %v", line, err)
	}
	must(t, c.Close())
	must(t, b.WaitIdle(t.Context(), "app.web.0"))
}

// Routes are replaced all the time, yet no request fails and none that runs is
// broken; an endpoint that is gone keeps no connection.
func TestGatewayUnderChangingRoutes(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addHTTP(t, "app.web.0", says("zero"))
	b.addHTTP(t, "app.web.1", says("one"))
	hold := make(chan struct{})
	entered := make(chan struct{})
	b.addHTTP(t, "app.web.2", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(entered)
		<-hold
		_, _ = io.WriteString(w, "two")
	}))
	a.SetRoutes([]wire.Route{hostRoute(host, b.endpoint("app.web.2"))})
	held := make(chan string, 1)
	c := client(t)
	heldReq := a.request(t, "GET", host, "/", nil)
	go func() {
		res, err := c.Do(heldReq)
		if err != nil {
			held <- err.Error()
			return
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		held <- fmt.Sprint(string(body), err)
	}()
	<-entered
	all := []wire.Endpoint{a.endpoint("app.web.0"), b.endpoint("app.web.1")}
	a.SetRoutes([]wire.Route{hostRoute(host, all...)})
	var stop atomic.Bool
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for !stop.Load() {
				body := bytes.Repeat([]byte("x"), 100)
				res, err := c.Do(a.request(t, "POST", host, "/", bytes.NewReader(body)))
				if err != nil {
					t.Error(err)
					return
				}
				_, err = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != 200 {
					t.Errorf("status %d, %v", res.StatusCode, err)
					return
				}
				done <- struct{}{}
			}
		})
	}
	// New routes whenever a request ended, while the others are on their way.
	for n := 0; n < 300 && !t.Failed(); n++ {
		select {
		case <-done:
		case <-time.After(20 * time.Second):
			t.Error("no request ends")
		}
		a.SetRoutes([]wire.Route{hostRoute(host, all[n%2])})
	}
	stop.Store(true)
	go func() {
		wg.Wait()
		close(done)
	}()
	for range done {
	}
	close(hold)
	if got := <-held; got != "two<nil>" {
		t.Errorf("held request: %s", got)
	}
	a.SetRoutes(nil)
	must(t, a.WaitIdle(t.Context(), "app.web.0"))
	must(t, b.WaitIdle(t.Context(), "app.web.1"))
	must(t, b.WaitIdle(t.Context(), "app.web.2"))
}

// A gateway's kept connections do not hold up the end of an instance.
func TestGatewayLetsGoOfADrainingInstance(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	a.addHTTP(t, "app.web.0", says("zero"))
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("app.web.0"))})
	c := client(t)
	fetch(t, c, a.request(t, "GET", host, "/", nil))
	// The client has its answer a moment before the request is over here.
	eventually(t, "nothing is in flight between two requests", func() bool { return a.InFlight("app.web.0") == 0 })
	a.engine.set("app.web.0", "", local.ErrDraining)
	a.LocalChanged()
	must(t, a.WaitIdle(t.Context(), "app.web.0"))
	if res, body := fetch(t, c, a.request(t, "GET", host, "/", nil)); res.StatusCode != 503 {
		t.Fatalf("status %d: %s", res.StatusCode, body)
	}
}

func TestGatewayConnectionLimit(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", func(o *Options) { o.MaxConns = 1 })
	first, err := net.Dial("tcp", a.GatewayAddr())
	must(t, err)
	eventually(t, "first is counted", func() bool { return a.Stats().Gateway.Open == 1 })
	// The reset may come before the dial has returned.
	if second, err := net.Dial("tcp", a.GatewayAddr()); err == nil {
		must(t, second.SetDeadline(time.Now().Add(20*time.Second)))
		if _, err := second.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("beyond the limit: %v", err)
		}
		must(t, second.Close())
	}
	must(t, first.Close())
	eventually(t, "room again", func() bool { return a.Stats().Gateway.Open == 0 })
	if n := a.Stats().Gateway.Rejected; n != 1 {
		t.Fatalf("%d rejected", n)
	}
}
