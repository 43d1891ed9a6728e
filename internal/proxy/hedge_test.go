package proxy

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/data"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// farWorker is a worker behind a line, and its endpoint as others are told of it.
func farWorker(t *testing.T, ca *authority, name string, id wire.InstanceID) (*worker, *line, wire.Endpoint) {
	t.Helper()
	w := newWorker(t, ca, name, nil)
	l := newLine(t, w.DataAddr())
	e := w.endpoint(id)
	e.Address = l.ln.Addr().String()
	return w, l, e
}

func (w *worker) endpointOf(id wire.InstanceID) *router.Endpoint {
	for _, e := range w.services.Find("app.web").All() {
		if e.Instance == id {
			return e
		}
	}
	return nil
}

// A worker that takes connections and then says nothing (it is stopped) does not
// hold up clients while there are others, is asked last while it is not known what
// is the matter, and is out of the rotation when it is.
func TestSilentWorkersAreOvertaken(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	_, l1, far1 := farWorker(t, ca, "b", "app.web.1")
	_, l2, far2 := farWorker(t, ca, "c", "app.web.2")
	a.addGreeter(t, "app.web.0")
	last := a.endpoint("app.web.0")
	last.Suspect = true // so that the others are asked first
	a.SetRoutes([]wire.Route{webRoute(last, far1, far2)})
	l1.silent.Store(true)
	l2.silent.Store(true)
	begin := time.Now()
	for n := range 6 {
		c, who, err := greetFrom(a.addr(t, "tcp"))
		if err != nil || who != "app.web.0" {
			t.Fatalf("connection %d: %s, %v", n, who, err)
		}
		must(t, c.Close())
	}
	// Two are waited for once each; a dial that hangs takes five seconds.
	if took := time.Since(begin); took < 2*router.MinHedgeAfter || took > 2*router.MinHedgeAfter+2*time.Second {
		t.Errorf("six connections took %s", took)
	}
	eventually(t, "both are found to be gone", func() bool {
		return a.state("app.web.1") == router.EndpointEjected && a.state("app.web.2") == router.EndpointEjected
	})
	eventually(t, "nobody waits for them any more", func() bool {
		return !a.endpointOf("app.web.1").IsLate() && !a.endpointOf("app.web.2").IsLate()
	})
}

// The same for requests, also for one that may not be sent twice: as long as no
// connection has taken it, it was not sent.
func TestRequestsOvertakeSilentWorkers(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	b, l, far := farWorker(t, ca, "b", "app.web.1")
	var posts atomic.Int64
	answer := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		if err == nil && string(body) == "order" {
			posts.Add(1)
		}
		_, _ = io.WriteString(w, "taken")
	})
	a.addHTTP(t, "app.web.0", answer)
	b.addHTTP(t, "app.web.1", answer)
	last := a.endpoint("app.web.0")
	last.Suspect = true
	a.SetRoutes([]wire.Route{hostRoute(host, last, far)})
	l.silent.Store(true)
	c := client(t)
	begin := time.Now()
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			res, err := c.Do(a.request(t, "POST", host, "/", strings.NewReader("order")))
			if err != nil {
				t.Error(err)
				return
			}
			if res.StatusCode != 200 {
				t.Errorf("status %d", res.StatusCode)
			}
			_ = res.Body.Close()
		})
	}
	all.Wait()
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("it took %s", took)
	}
	if n := posts.Load(); n != 5 {
		t.Errorf("5 orders were taken %d times", n)
	}
	eventually(t, "it is found to be gone", func() bool { return a.state("app.web.1") == router.EndpointEjected })
}

// One that is only slow is waited for where there is nobody else, is not blamed,
// and has more time the next time. What it opens too late is closed.
func TestSlowWorkersAreWaitedFor(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	b, l, far := farWorker(t, ca, "b", "app.web.1")
	b.addGreeter(t, "app.web.1")
	a.SetRoutes([]wire.Route{webRoute(far)})
	greeted := make(chan error, 1)
	greet := func(want string) {
		c, who, err := greetFrom(a.addr(t, "tcp"))
		if err == nil {
			_ = c.Close()
			if who != want {
				err = fmt.Errorf("it was %s, not %s", who, want)
			}
		}
		greeted <- err
	}
	slow := func() (release func()) {
		release = l.hold()
		t.Cleanup(release)
		return release
	}
	late := func() bool { return a.endpointOf("app.web.1").IsLate() }

	release := slow()
	go greet("app.web.1")
	eventually(t, "it is late", late)
	release()
	must(t, <-greeted)
	if e := a.endpointOf("app.web.1"); e.HedgeAfter() <= router.MinHedgeAfter ||
		a.state("app.web.1") != router.EndpointOK {
		t.Errorf("after a slow one there is a timeout of %s, and it is %s", e.HedgeAfter(), a.state("app.web.1"))
	}

	a.addGreeter(t, "app.web.0")
	last := a.endpoint("app.web.0")
	last.Suspect = true
	a.SetRoutes([]wire.Route{webRoute(last, far)})
	release = slow()
	go greet("app.web.0")
	must(t, <-greeted)
	served := b.Stats().Data.Served
	release()
	eventually(t, "what came too late is closed", func() bool {
		st := b.Stats().Data
		return st.Served > served && st.Open == 0 && !late()
	})
	if a.state("app.web.1") != router.EndpointOK {
		t.Errorf("a slow one is %s", a.state("app.web.1"))
	}
}

// The same for requests.
func TestSlowWorkersAreWaitedForByRequests(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	b, l, far := farWorker(t, ca, "b", "app.web.1")
	b.addHTTP(t, "app.web.1", says("b"))
	_, gone, broken := farWorker(t, ca, "c", "app.web.2")
	must(t, gone.ln.Close())
	a.SetRoutes([]wire.Route{hostRoute(host, far, broken)})
	release := l.hold()
	defer release()
	answered := make(chan string, 1)
	go func() {
		_, body := fetch(t, client(t), a.request(t, "POST", host, "/", strings.NewReader("x")))
		answered <- body
	}()
	eventually(t, "it is late", func() bool { return a.endpointOf("app.web.1").IsLate() })
	release()
	if body := <-answered; body != "b" {
		t.Errorf("answered: %s", body)
	}
}

// What was sent to a worker that fell silent waits, since nobody knows what became
// of it. When the cluster gives the worker up it ends at once.
func TestWhatWasSentEndsWithTheRoute(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			t.Parallel()
			ca := newAuthority(t)
			a := newWorker(t, ca, "a", nil)
			b, l, far := farWorker(t, ca, "b", "app.web.1")
			arrived := make(chan struct{}, 1)
			over := make(chan struct{})
			b.addHTTP(t, "app.web.1", http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
				arrived <- struct{}{}
				select {
				case <-over:
				case <-req.Context().Done():
				}
			}))
			defer close(over)
			a.SetRoutes([]wire.Route{hostRoute(host, far)})
			status := make(chan int, 1)
			go func() {
				res, _ := fetch(t, client(t), a.request(t, "POST", host, "/", strings.NewReader("x")))
				status <- res.StatusCode
			}()
			<-arrived
			l.silent.Store(true)
			if known { // the router has found out by itself
				eventually(t, "it is out of the rotation",
					func() bool { return a.state("app.web.1") == router.EndpointEjected })
			}
			select {
			case s := <-status:
				t.Fatalf("a request that may not be sent twice was answered with %d", s)
			default:
			}
			begin := time.Now()
			a.SetRoutes([]wire.Route{hostRoute(host)})
			if s := <-status; s != 502 {
				t.Errorf("status %d", s)
			}
			took, most := time.Since(begin), time.Second
			if !known {
				most += data.PathTimeout // it is asked once
			}
			if took > most {
				t.Errorf("it took %s", took)
			}
		})
	}
}
