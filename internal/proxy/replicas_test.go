package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/eject"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// ask sends n requests at once and returns what they were answered.
func ask(t testing.TB, c *http.Client, url string, n int) <-chan string {
	t.Helper()
	out := make(chan string, n)
	for range n {
		go func() {
			res, err := c.Get(url)
			if err != nil {
				out <- err.Error()
				return
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err != nil || res.StatusCode != http.StatusOK {
				out <- res.Status + " " + string(body)
				return
			}
			out <- string(body)
		}()
	}
	return out
}

// A replica that drains gets nothing new, and loses nothing that it has or that waits
// for it.
func TestDrainLosesNothing(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, far := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			a := newWorker(t, ca, "a", nil)
			home := a
			if far {
				home = newWorker(t, ca, "b", nil)
			}
			leave := make(chan struct{})
			old := a.slow(t, home, "app.web.0", "old", leave)
			rt := requestRoute("http", wire.RequestRules{Concurrency: 2}, home.endpoint("app.web.0"))
			a.SetRoutes([]wire.Route{rt})
			home.SetRoutes([]wire.Route{rt})
			url := a.entryURL(t, "http", "/")
			first := ask(t, client(t), url, 5)
			eventually(t, "two run and three wait",
				func() bool { return home.InFlight("app.web.0") == 5 && old.Load() == 2 })

			home.addHTTP(t, "app.web.1", says("new"))
			rt.Endpoints = append([]wire.Endpoint(nil), home.endpoint("app.web.1"), home.endpoint("app.web.0"))
			home.engine.set("app.web.0", home.engine.at("app.web.0"), local.ErrDraining)
			home.LocalChanged()
			a.SetRoutes([]wire.Route{rt}) // which does not know yet that it drains
			home.SetRoutes([]wire.Route{rt})
			second := ask(t, client(t), url, 20)
			for range 20 {
				if got := <-second; got != "new" {
					t.Fatalf("while it drains: %s", got)
				}
			}
			select {
			case <-home.Drained("app.web.0"):
				t.Fatal("it is drained while requests run and wait")
			default:
			}
			close(leave)
			for range 5 {
				if got := <-first; got != "old" {
					t.Errorf("before it drained: %s", got)
				}
			}
			must(t, home.WaitIdle(t.Context(), "app.web.0"))
			if n := old.Load(); n != 5 {
				t.Errorf("it got %d requests", n)
			}
		})
	}
}

// slow adds an instance whose requests end when leave is closed; it counts them.
func (w *worker) slow(t testing.TB, home *worker, id wire.InstanceID, says string,
	leave <-chan struct{}) *atomic.Int32 {
	t.Helper()
	n := new(atomic.Int32)
	home.addHTTP(t, id, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		n.Add(1)
		select {
		case <-leave:
			_, _ = io.WriteString(w, says)
		case <-req.Context().Done():
		}
	}))
	return n
}

func (f *fakeEngine) at(id wire.InstanceID) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.target[id]
}

// A WebSocket to a replica that drains goes on until one side ends it, or until the
// replica has to go.
func TestUpgradedWhileDraining(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, far := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			a := newWorker(t, ca, "a", nil)
			home := a
			if far {
				home = newWorker(t, ca, "b", nil)
			}
			i := startInstance(t, "app.web.0", "", func(c net.Conn) {
				r := bufio.NewReader(c)
				if _, err := http.ReadRequest(r); err != nil {
					return
				}
				_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"+
					"Upgrade: echo\r\n\r\n")
				_, _ = io.Copy(c, r)
			})
			home.engine.set(i.id, i.addr, nil)
			rt := requestRoute("http", wire.RequestRules{}, home.endpoint(i.id))
			a.SetRoutes([]wire.Route{rt})
			home.SetRoutes([]wire.Route{rt})
			open := func() (net.Conn, *bufio.Reader) {
				c, err := net.Dial("tcp", a.addr(t, "http"))
				must(t, err)
				must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
				_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
				must(t, err)
				r := bufio.NewReader(c)
				if res, err := http.ReadResponse(r, nil); err != nil || res.StatusCode != 101 {
					t.Fatal(res, err)
				}
				return c, r
			}
			one, from := open()
			two, fromTwo := open()
			home.engine.set(i.id, i.addr, local.ErrDraining)
			home.LocalChanged()
			for range 3 {
				_, err := io.WriteString(one, "ping\n")
				must(t, err)
				if line, err := from.ReadString('\n'); err != nil || line != "ping\n" {
					t.Fatalf("%q, %v", line, err)
				}
			}
			must(t, one.Close())
			eventually(t, "one is left", func() bool { return home.InFlight(i.id) == 1 })
			i.kill() // its grace is over
			if line, err := fromTwo.ReadString('\n'); err == nil {
				t.Errorf("the other one reads %q", line)
			}
			must(t, home.WaitIdle(t.Context(), i.id))
			_ = two.Close()
		})
	}
}

func TestAsleep(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	for name, far := range map[string]bool{"here": false, "there": true} {
		t.Run(name, func(t *testing.T) {
			a := newWorker(t, ca, "a", nil)
			home := a
			if far {
				home = newWorker(t, ca, "b", nil)
			}
			home.addHTTP(t, "app.web.0", says("awake"))
			addr := home.engine.at("app.web.0")
			home.engine.set("app.web.0", "", local.ErrAsleep)
			e := home.endpoint("app.web.0")
			e.Asleep = true
			rt := requestRoute("http", wire.RequestRules{}, e)
			a.SetRoutes([]wire.Route{rt})
			home.SetRoutes([]wire.Route{rt})
			woken := make(chan wire.InstanceID, 99)
			wake := func(id wire.InstanceID) { woken <- id }
			home.engine.wake.Store(&wake)

			got := ask(t, client(t), a.entryURL(t, "http", "/"), 5)
			if id := <-woken; id != "app.web.0" {
				t.Fatal(id)
			}
			eventually(t, "all wait", func() bool { return home.InFlight("app.web.0") == 5 })
			home.engine.set("app.web.0", addr, nil)
			home.LocalChanged()
			for range 5 {
				if s := <-got; s != "awake" {
					t.Error(s)
				}
			}

			// One that cannot start is asked no more, and says so.
			home.engine.set("app.web.0", "", local.ErrAsleep)
			got = ask(t, client(t), a.entryURL(t, "http", "/"), 1)
			eventually(t, "it waits", func() bool { return home.InFlight("app.web.0") == 1 })
			home.engine.set("app.web.0", "", local.ErrNotReady)
			home.LocalChanged()
			if s := <-got; !strings.HasPrefix(s, "503") || !strings.Contains(s, "no-endpoint") {
				t.Error(s)
			}
		})
	}
}

// What may be asked again is, once and within the budget; what may not is not.
func TestRetries(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	var bad atomic.Int32
	a.addHTTP(t, "app.web.0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		bad.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	a.addHTTP(t, "app.web.1", says("good"))
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"),
		a.endpoint("app.web.1"))})
	c, url := client(t), a.entryURL(t, "http", "/")
	for bad.Load() < eject.OutlierAfter-1 {
		if res, body := get(t, c, url); res.StatusCode != 200 || body != "good" {
			t.Fatalf("%d %s", res.StatusCode, body)
		}
	}
	if st := a.Stats().Services[0]; st.Retries != eject.OutlierAfter-1 {
		t.Fatalf("%d retries, %d bad answers", st.Retries, bad.Load())
	}
	refused := 0
	for range 2 {
		res, err := c.Post(url, "text/plain", strings.NewReader("x"))
		must(t, err)
		must(t, res.Body.Close())
		if res.StatusCode == http.StatusServiceUnavailable {
			refused++
		}
	}
	if refused != 1 {
		t.Errorf("%d of two posts were refused", refused)
	}
	// It is out now: the fifth error in a row.
	for range 10 {
		get(t, c, url)
	}
	if st := a.Stats().Services[0]; st.Outliers != 1 || bad.Load() != 5 ||
		a.state("app.web.0") != router.EndpointEjected {
		t.Errorf("%d outliers, %d bad answers, %s", st.Outliers, bad.Load(), a.state("app.web.0"))
	}
}

// Where all answer with errors none is an outlier, and the budget ends the retries.
func TestPanic(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	var asked atomic.Int32
	bad := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.WriteHeader(http.StatusServiceUnavailable)
	})
	var endpoints []wire.Endpoint
	for _, id := range []wire.InstanceID{"app.web.0", "app.web.1", "app.web.2", "app.web.3"} {
		a.addHTTP(t, id, bad)
		endpoints = append(endpoints, a.endpoint(id))
	}
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, endpoints...)})
	c, url := client(t), a.entryURL(t, "http", "/")
	for range 100 {
		if res, _ := get(t, c, url); res.StatusCode != http.StatusServiceUnavailable {
			t.Fatal(res.Status)
		}
	}
	out := 0
	for _, e := range endpoints {
		if a.state(e.Instance) == router.EndpointEjected {
			out++
		}
	}
	if st := a.Stats().Services[0]; out != 2 || st.RetriesRefused == 0 || asked.Load() > 100+10+25 {
		t.Errorf("%d are out; %d asked, %d retries, %d refused", out, asked.Load(), st.Retries, st.RetriesRefused)
	}
}

// Whoever says how many run is told what came, and what the replicas can do.
func TestDemand(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	a.addHTTP(t, "app.web.0", says("hello"))
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{Elastic: true}, a.endpoint("app.web.0"))})
	if d := a.Demand(); len(d) != 0 {
		t.Fatalf("before anybody came: %+v", d)
	}
	c, url := client(t), a.entryURL(t, "http", "/")
	for range 7 {
		get(t, c, url)
	}
	a.engine.set("app.web.0", "", local.ErrNotReady)
	a.LocalChanged()
	if res, _ := get(t, c, url); res.StatusCode != http.StatusServiceUnavailable {
		t.Fatal(res.Status)
	}
	var d []wire.ServiceDemand
	eventually(t, "none is under way", func() bool {
		d = append(d, a.Demand()...)
		return a.services.Find("app.web").UnderWay() == 0
	})
	var n, refused uint64
	for _, x := range append(d, a.Demand()...) {
		n, refused = n+x.Requests, refused+x.Refused
	}
	if n != 8 || refused != 1 || d[0].Key() != "app.web" || len(d[0].Replicas) != 1 || d[0].Replicas[0].Exec <= 0 ||
		d[0].Replicas[0].RPS <= 0 {
		t.Fatalf("%d came, %d were refused: %+v", n, refused, d)
	}
	if d := a.Demand(); len(d) != 0 {
		t.Fatalf("told twice: %+v", d)
	}
}

// Requests of many clients over both ways, while replicas come and go: each is answered
// by somebody.
func TestReplicasComeAndGo(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	all := []wire.InstanceID{"app.web.0", "app.web.1", "app.web.2", "app.web.3"}
	home := map[wire.InstanceID]*worker{all[0]: a, all[1]: b, all[2]: a, all[3]: b}
	addrs := map[wire.InstanceID]string{}
	var endpoints []wire.Endpoint
	for _, id := range all {
		home[id].addHTTP(t, id, says("hello"))
		addrs[id] = home[id].engine.at(id)
		endpoints = append(endpoints, home[id].endpoint(id))
	}
	set := func(e ...wire.Endpoint) {
		rt := requestRoute("http", wire.RequestRules{Concurrency: 2}, e...)
		a.SetRoutes([]wire.Route{rt})
		b.SetRoutes([]wire.Route{rt})
	}
	set(endpoints...)
	url := a.entryURL(t, "http", "/")
	stop := make(chan struct{})
	var clients sync.WaitGroup
	var answered atomic.Int64
	for range 8 {
		clients.Go(func() {
			c := client(t)
			for {
				select {
				case <-stop:
					return
				default:
				}
				res, err := c.Get(url)
				if err != nil {
					t.Error(err)
					return
				}
				body, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || res.StatusCode != 200 {
					t.Errorf("%d %s %v", res.StatusCode, body, err)
					return
				}
				answered.Add(1)
			}
		})
	}
	for round := range 12 {
		before := answered.Load()
		id := all[round%len(all)]
		w := home[id]
		w.engine.set(id, addrs[id], local.ErrDraining)
		w.LocalChanged()
		if round%2 == 0 { // the routes may hear of it, or not
			set(append(append([]wire.Endpoint(nil), endpoints[:round%len(all)]...), endpoints[round%len(all)+1:]...)...)
		}
		must(t, w.WaitIdle(t.Context(), id))
		w.engine.set(id, addrs[id], nil)
		w.LocalChanged()
		set(endpoints...)
		eventually(t, "requests go on", func() bool { return answered.Load() > before+20 || t.Failed() })
	}
	close(stop)
	clients.Wait()
}

// A client that sends its head by the letter is cut off.
func TestSlowloris(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", func(o *Options) { o.HeaderTimeout = 200 * time.Millisecond })
	a.addHTTP(t, "app.web.0", says("hello"))
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"))})
	c, err := net.Dial("tcp", a.addr(t, "http"))
	must(t, err)
	defer func() { _ = c.Close() }()
	must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
	_, err = io.WriteString(c, "GET / HTTP/1.1\r\nHost: a\r\nX-Slow: ")
	must(t, err)
	if b, err := io.ReadAll(c); len(b) > 0 && !strings.HasPrefix(string(b), "HTTP/1.1 4") || err != nil &&
		!errors.Is(err, net.ErrClosed) && strings.Contains(err.Error(), "timeout") {
		t.Errorf("%q, %v", b, err)
	}
}

// The last replica that is known here drains, and its successor is known a moment
// later: the request in between is not refused.
func TestRoutesThatAreBehind(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addHTTP(t, "app.web.0", says("old"))
	b.addHTTP(t, "app.web.1", says("new"))
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"))})
	a.engine.set("app.web.0", "", local.ErrDraining)
	c := client(t)
	body := make(chan string, 1)
	go func() {
		_, text := get(t, c, a.entryURL(t, "http", "/"))
		body <- text
	}()
	s := a.services.Find("app.web")
	eventually(t, "it waits", func() bool {
		return s.Awaited()
	})
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, b.endpoint("app.web.1"))})
	if got := <-body; got != "new" {
		t.Errorf("answered %q", got)
	}
}
