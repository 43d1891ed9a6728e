package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/proxy/netconn"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRotationIsExactOverLocalAndRemote(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b, c := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil), newWorker(t, ca, "c", nil)
	a.addGreeter(t, "app.web.0")
	b.addGreeter(t, "app.web.1")
	c.addGreeter(t, "app.web.2")
	c.addGreeter(t, "app.web.3")
	a.SetRoutes([]wire.Route{webRoute(a.endpoint("app.web.0"), b.endpoint("app.web.1"), c.endpoint("app.web.2"),
		c.endpoint("app.web.3"))})
	a.patient()
	want := map[string]int{"app.web.0": 5, "app.web.1": 5, "app.web.2": 5, "app.web.3": 5}
	if got := visit(t, a.addr(t, "tcp"), 20); !maps.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
	st := a.Stats().Services[0]
	if st.Connections != 20 || st.Failures != 0 {
		t.Fatalf("stats %+v", st)
	}
	for _, e := range st.Endpoints {
		if e.Connections != 5 || e.State != router.EndpointOK {
			t.Errorf("endpoint stats %+v", e)
		}
	}
}

func TestDeadEndpointIsDroppedAtOnceAndReturnsAfterAProbe(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	local := a.addGreeter(t, "app.web.0")
	a.addGreeter(t, "app.web.1")
	remote := b.addGreeter(t, "app.web.2")
	a.SetRoutes([]wire.Route{webRoute(a.endpoint("app.web.0"), a.endpoint("app.web.1"), b.endpoint("app.web.2"))})
	addr := a.addr(t, "tcp")
	local.kill()
	remote.kill()
	// visit fails the test on any failed connection.
	if got := visit(t, addr, 12); got["app.web.1"] != 12 {
		t.Fatalf("got %v", got)
	}
	if s1, s2 := a.state("app.web.0"), a.state("app.web.2"); s1 != router.EndpointEjected ||
		s2 != router.EndpointEjected {
		t.Fatalf("states %s and %s", s1, s2)
	}
	startInstance(t, local.id, local.addr, greeter(local.id))
	startInstance(t, remote.id, remote.addr, greeter(remote.id))
	eventually(t, "both are back", func() bool {
		return a.state("app.web.0") == router.EndpointOK && a.state("app.web.2") == router.EndpointOK
	})
	if got := visit(t, addr, 6); got["app.web.0"] != 2 || got["app.web.2"] != 2 {
		t.Fatalf("after the return: %v", got)
	}
}

// All that is behind a dead worker is out after one failure, not one each.
func TestDeadWorkerIsDroppedAsAWhole(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addGreeter(t, "app.web.0")
	eps := []wire.Endpoint{a.endpoint("app.web.0")}
	for i := 1; i < 100; i++ {
		eps = append(eps, b.endpoint(fmt.Sprintf("app.web.%d", i)))
	}
	other := webRoute(b.endpoint("app.api.0"))
	other.Service = "api"
	a.SetRoutes([]wire.Route{webRoute(eps...), other})
	b.Close()
	if got := visit(t, a.addr(t, "tcp"), 5); got["app.web.0"] != 5 {
		t.Fatalf("got %v", got)
	}
	var failures uint64
	for _, s := range a.Stats().Services {
		for _, e := range s.Endpoints {
			failures += e.Failures
			if e.Worker == "b" && e.State != router.EndpointEjected {
				t.Fatalf("%s is %s", e.Instance, e.State)
			}
		}
	}
	if failures != 1 {
		t.Fatalf("%d tries failed, want 1", failures)
	}
}

// An instance that accepts and resets is as dead as one that refuses.
func TestResetBeforeAnAnswerEjects(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	for _, w := range []*worker{a, b} {
		id := "app.web." + w.name
		i := startInstance(t, id, "", func(c net.Conn) {
			_, _ = io.ReadFull(c, make([]byte, 1))
			netconn.Cut(c)
		})
		w.engine.set(id, i.addr, nil)
		a.SetRoutes([]wire.Route{webRoute(w.endpoint(id))})
		c, err := net.Dial("tcp", a.addr(t, "tcp"))
		must(t, err)
		_, err = c.Write([]byte("x"))
		must(t, err)
		if _, err := c.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
			t.Errorf("worker %s: client saw %v, want a reset", w.name, err)
		}
		must(t, c.Close())
		eventually(t, id+" has a failure", func() bool {
			return a.Stats().Services[0].Endpoints[0].Failures == 1
		})
	}
}

// A client that goes away says nothing about the endpoint.
func TestClientResetBlamesNobody(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	got := make(chan struct{})
	i := startInstance(t, "app.web.0", "", func(c net.Conn) {
		_, _ = io.ReadFull(c, make([]byte, 1))
		_, _ = c.Read(make([]byte, 1))
		close(got)
	})
	a.engine.set(i.id, i.addr, nil)
	a.SetRoutes([]wire.Route{webRoute(a.endpoint(i.id))})
	c, err := net.Dial("tcp", a.addr(t, "tcp"))
	must(t, err)
	_, err = c.Write([]byte("x"))
	must(t, err)
	eventually(t, "connection is proxied", func() bool { return a.InFlight(i.id) == 1 })
	netconn.Cut(c)
	<-got
	must(t, a.WaitIdle(t.Context(), i.id))
	eventually(t, "connection is closed", func() bool { return a.Stats().EntryConns == 0 })
	if st := a.Stats().Services[0].Endpoints[0]; st.Failures != 0 || st.State != router.EndpointOK {
		t.Fatalf("endpoint %+v", st)
	}
}

func TestDrainingTakesNothingNewAndKeepsWhatIsThere(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	i := b.addGreeter(t, "app.web.0")
	a.addGreeter(t, "app.web.1")
	a.SetRoutes([]wire.Route{webRoute(b.endpoint("app.web.0"))})
	addr := a.addr(t, "tcp")
	old, id, err := greetFrom(addr)
	must(t, err)
	if id != "app.web.0" {
		t.Fatalf("greeted by %s", id)
	}
	if b.InFlight("app.web.0") != 1 {
		t.Fatalf("%d connections in flight", b.InFlight("app.web.0"))
	}
	b.engine.set("app.web.0", i.addr, local.ErrDraining)
	b.LocalChanged()
	// The route of a is behind: the other endpoint must take all.
	a.SetRoutes([]wire.Route{webRoute(b.endpoint("app.web.0"), a.endpoint("app.web.1"))})
	if got := visit(t, addr, 6); got["app.web.1"] != 6 {
		t.Fatalf("got %v", got)
	}
	a.SetRoutes([]wire.Route{webRoute(a.endpoint("app.web.1"))})
	buf := make([]byte, 5)
	_, err = io.WriteString(old, "still")
	must(t, err)
	if _, err := io.ReadFull(old, buf); err != nil || string(buf) != "still" {
		t.Fatalf("old connection: %q, %v", buf, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := b.WaitIdle(ctx, "app.web.0"); err == nil {
		t.Fatal("idle with an open connection")
	}
	must(t, old.Close())
	must(t, b.WaitIdle(t.Context(), "app.web.0"))
}

func TestLocalChangedTakesOutAndBringsBack(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	i := a.addGreeter(t, "app.web.0")
	a.SetRoutes([]wire.Route{webRoute(a.endpoint("app.web.0"))})
	a.engine.set("app.web.0", i.addr, local.ErrNotReady)
	a.LocalChanged()
	eventually(t, "it is out", func() bool { return a.state("app.web.0") == router.EndpointEjected })
	a.engine.set("app.web.0", i.addr, nil)
	a.LocalChanged()
	eventually(t, "it is back", func() bool { return a.state("app.web.0") == router.EndpointOK })
}

func TestNoEndpointIsRefusedAtOnce(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	unreachable := wire.Endpoint{Instance: "app.web.0", Cluster: "edge", Worker: "x"}
	for name, eps := range map[string][]wire.Endpoint{
		"none": nil, "no path": {unreachable}, "refuses": {a.endpoint("app.web.1")},
	} {
		a.SetRoutes([]wire.Route{webRoute(eps...)})
		_, _, err := greetFrom(a.addr(t, "tcp"))
		if !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("%s: %v, want a reset", name, err)
		}
	}
	a.SetRoutes([]wire.Route{webRoute(unreachable)})
	if st := a.state("app.web.0"); st != router.EndpointNoPath {
		t.Errorf("state %q", st)
	}
	if st := a.Stats().Services[0]; st.Failures != 3 {
		t.Errorf("%d failures counted, want 3", st.Failures)
	}
}

// A worker of the same name in another cluster is another worker.
func TestClustersAreToldApart(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	a.addGreeter(t, "app.web.0")
	e := a.endpoint("app.web.0")
	e.Cluster, e.Address = "fog", ""
	a.SetRoutes([]wire.Route{webRoute(e)})
	if _, id, err := greetFrom(a.addr(t, "tcp")); err == nil {
		t.Fatalf("greeted by %s of this worker", id)
	}
}

func TestSuspectIsOnlyALastResort(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	a.addGreeter(t, "app.web.0")
	i := a.addGreeter(t, "app.web.1")
	s := a.endpoint("app.web.0")
	s.Suspect = true
	a.SetRoutes([]wire.Route{webRoute(s, a.endpoint("app.web.1"))})
	addr := a.addr(t, "tcp")
	if got := visit(t, addr, 4); got["app.web.1"] != 4 {
		t.Fatalf("got %v", got)
	}
	i.kill()
	if got := visit(t, addr, 4); got["app.web.0"] != 4 {
		t.Fatalf("after the good one died: %v", got)
	}
}

func TestHalfCloseBothWays(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	const size = 3 << 20 // beyond every buffer on the way
	for _, w := range []*worker{a, b} {
		id := "app.web." + w.name
		// Reads to the end, and only then answers: needs the half-close.
		i := startInstance(t, id, "", func(c net.Conn) {
			n, err := io.Copy(io.Discard, c)
			if err == nil {
				_, _ = fmt.Fprintf(c, "%d", n)
			}
		})
		w.engine.set(id, i.addr, nil)
		a.SetRoutes([]wire.Route{webRoute(w.endpoint(id))})
		c, err := net.Dial("tcp", a.addr(t, "tcp"))
		must(t, err)
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		_, err = c.Write(make([]byte, size))
		must(t, err)
		must(t, c.(*net.TCPConn).CloseWrite())
		got, err := io.ReadAll(c)
		if err != nil || string(got) != fmt.Sprint(size) {
			t.Errorf("worker %s: %q, %v", w.name, got, err)
		}
		must(t, c.Close())
		must(t, w.WaitIdle(t.Context(), id))
	}
}

// While routes are replaced all the time, no connection fails, and none that is
// open is touched.
func TestSetRoutesUnderLoad(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addGreeter(t, "app.web.0")
	a.addGreeter(t, "app.web.1")
	b.addGreeter(t, "app.web.2")
	all := []wire.Endpoint{a.endpoint("app.web.0"), a.endpoint("app.web.1"), b.endpoint("app.web.2")}
	a.SetRoutes([]wire.Route{webRoute(all...)})
	addr := a.addr(t, "tcp")
	held, _, err := greetFrom(addr)
	must(t, err)
	var stop atomic.Bool
	var wg sync.WaitGroup
	made := make(chan struct{})
	for range 4 {
		wg.Go(func() {
			for !stop.Load() {
				c, _, err := greetFrom(addr)
				if err != nil {
					t.Errorf("connection failed: %v", err)
					return
				}
				_ = c.Close()
				made <- struct{}{}
			}
		})
	}
	for n := 0; n < 200 && !t.Failed(); n++ {
		select {
		case <-made:
		case <-time.After(20 * time.Second):
			t.Error("no connection is made")
		}
		// The rotation of subsets always leaves somebody.
		a.SetRoutes([]wire.Route{webRoute(all[n%3], all[(n+1+n/3%2)%3])})
	}
	stop.Store(true)
	go func() {
		wg.Wait()
		close(made)
	}()
	for range made {
	}
	buf := make([]byte, 4)
	_, err = io.WriteString(held, "here")
	must(t, err)
	if _, err := io.ReadFull(held, buf); err != nil {
		t.Fatalf("held connection: %v", err)
	}
	must(t, held.Close())
}

func TestUnknownPolicyStillRoutes(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	a.addGreeter(t, "app.web.0")
	rt := webRoute(a.endpoint("app.web.0"))
	rt.Policy = "from-the-future"
	a.SetRoutes([]wire.Route{rt})
	if got := visit(t, a.addr(t, "tcp"), 2); got["app.web.0"] != 2 {
		t.Fatalf("got %v", got)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	good := Options{Worker: "a", Local: &fakeEngine{}}
	for name, change := range map[string]func(*Options){
		"no local":     func(o *Options) { o.Local = nil },
		"no worker":    func(o *Options) { o.Worker = "" },
		"no peer name": func(o *Options) { o.TLS = ca.identity(t, "worker/edge/a", "a") },
		"no identity":  func(o *Options) { o.DataAddr = "127.0.0.1:0" },
	} {
		o := good
		change(&o)
		if _, err := New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

// A port that is taken keeps neither the other port nor entries from working,
// and is opened once it is free.
func TestAPortIsTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	addr := taken.Addr().String()
	r, err := New(Options{
		Worker: "a", Local: &fakeEngine{}, PeerName: peerName, TLS: newAuthority(t).identity(t, "worker/edge/a", "a"),
		EntryHost: entryHost(t), DataAddr: "127.0.0.1:0", GatewayAddr: addr,
	})
	must(t, err)
	defer r.Close()
	if failed := r.Open(t.Context()); len(failed) != 2 || !errors.Is(failed[0], failure.ErrClosed) ||
		r.DataAddr() != "" {
		t.Fatalf("Open before Start: %v, data port at %q", failed, r.DataAddr())
	}
	must(t, r.Start(t.Context()))
	failed := r.Open(t.Context())
	if len(failed) != 1 || failed[0].Port != GatewayPort || failed[0].Addr != addr ||
		!errors.Is(failed[0], syscall.EADDRINUSE) {
		t.Fatalf("Open: %v", failed)
	}
	data := r.DataAddr()
	if data == "" || r.GatewayAddr() != "" {
		t.Fatalf("data port %q, gateway %q", data, r.GatewayAddr())
	}
	addrs, err := r.Reserve("app", "web", tcpPort)
	must(t, err)
	for _, a := range []string{data, addrs["tcp"]} {
		// An entry without endpoints resets at once, which a dial may already see.
		c, err := net.Dial("tcp", a)
		if errors.Is(err, syscall.ECONNRESET) {
			continue
		}
		must(t, err)
		must(t, c.Close())
	}
	must(t, taken.Close())
	if failed := r.Open(t.Context()); len(failed) != 0 {
		t.Fatalf("Open when it is free: %v", failed)
	}
	if r.GatewayAddr() != addr || r.DataAddr() != data {
		t.Errorf("gateway %q, data port %q before %q", r.GatewayAddr(), r.DataAddr(), data)
	}
	res, err := http.Get("http://" + addr)
	must(t, err)
	must(t, res.Body.Close())
	if res.StatusCode != http.StatusNotFound {
		t.Errorf("the gateway answers %d", res.StatusCode)
	}
	r.Close()
	if failed := r.Open(t.Context()); len(failed) != 0 {
		t.Errorf("Open after Close: %v", failed)
	}
}

// Close cuts what is open, waits, and leaves nothing behind.
func TestClose(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	// Addresses that nobody else is given when they are free again.
	own := func(o *Options) { o.DataAddr, o.GatewayAddr = o.EntryHost+":0", o.EntryHost+":0" }
	a, b := newWorker(t, ca, "a", own), newWorker(t, ca, "b", nil)
	a.addGreeter(t, "app.web.0")
	b.addGreeter(t, "app.web.1")
	entered := make(chan struct{})
	a.addHTTP(t, "app.api.0", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		close(entered)
		<-req.Context().Done()
	}))
	api := hostRoute(host, a.endpoint("app.api.0"))
	api.Service = "api"
	a.SetRoutes([]wire.Route{webRoute(a.endpoint("app.web.0"), b.endpoint("app.web.1")), api})
	addr, gate := a.addr(t, "tcp"), a.GatewayAddr()
	var open []net.Conn
	for range 2 {
		c, _, err := greetFrom(addr)
		must(t, err)
		open = append(open, c)
	}
	c, err := net.Dial("tcp", gate)
	must(t, err)
	_, err = fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", host)
	must(t, err)
	<-entered
	a.Close()
	a.Close()
	for i, c := range append(open, c) {
		must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
		if _, err := io.Copy(io.Discard, c); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("connection %d is still open", i)
		}
		must(t, c.Close())
	}
	must(t, a.WaitIdle(t.Context(), "app.web.0"))
	must(t, a.WaitIdle(t.Context(), "app.api.0"))
	must(t, b.WaitIdle(t.Context(), "app.web.1"))
	if len(a.Entries()) != 0 {
		t.Errorf("entries %v", a.Entries())
	}
	if _, err := a.Reserve("app", "late", tcpPort); err == nil {
		t.Error("Reserve works after Close")
	}
	if err := a.Start(t.Context()); err == nil {
		t.Error("Start works after Close")
	}
	for _, addr := range []string{addr, gate, a.DataAddr()} {
		if _, err := net.Dial("tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
