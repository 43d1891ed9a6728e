package proxy

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// asks is the status of the answer to come; 0 where there is none.
func asks(c *http.Client, ask *http.Request) <-chan int {
	out := make(chan int, 1)
	go func() {
		res, err := c.Do(ask)
		if err != nil {
			out <- 0
			return
		}
		_ = res.Body.Close() // of no interest
		out <- res.StatusCode
	}()
	return out
}

// A request that finds every instance gone waits for a moment whether one comes back; it
// was told to none of them. Nobody waits for long, and not where many do.
func TestARequestOutlivesAllInstances(t *testing.T) {
	t.Parallel()
	w := newWorker(t, newAuthority(t), "a", nil)
	addr := "127.0.0.1:0"
	ln, err := net.Listen("tcp", addr)
	must(t, err)
	addr = ln.Addr().String()
	must(t, ln.Close())
	w.engine.set("app.web.0", addr, nil)
	w.SetRoutes([]wire.Route{hostRoute(host, w.endpoint("app.web.0"))})

	c := client(t)
	answer := asks(c, w.request(t, "POST", host, "/", nil))
	eventually(t, "it was asked", func() bool { return w.state("app.web.0") == router.EndpointEjected })
	back, err := net.Listen("tcp", addr)
	must(t, err)
	srv := &http.Server{Handler: says("back"), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(back)
	}()
	if got := <-answer; got != http.StatusOK {
		t.Errorf("answered %d", got)
	}
	must(t, srv.Close())
	<-done

	// Only so many may be asked again: most of many get their answer at once.
	var all sync.WaitGroup
	for range 40 {
		ask := w.request(t, "GET", host, "/", nil)
		all.Go(func() {
			res, err := c.Do(ask)
			if err != nil {
				t.Error(err)
				return
			}
			_ = res.Body.Close() // of no interest
			if res.StatusCode != http.StatusBadGateway {
				t.Errorf("answered %d", res.StatusCode)
			}
		})
	}
	all.Wait()
	if s := w.Stats().Services[0]; s.Retries == 0 || s.RetriesRefused < 20 {
		t.Errorf("%d waited, %d did not", s.Retries, s.RetriesRefused)
	}
}

// Where the last endpoint has just gone, a request waits for a moment whether one comes;
// where there was none before, it is answered at once.
func TestARequestOutlivesAnEmptyRoute(t *testing.T) {
	t.Parallel()
	w := newWorker(t, newAuthority(t), "a", nil)
	w.addHTTP(t, "app.web.0", says("back"))
	full, empty := hostRoute(host, w.endpoint("app.web.0")), hostRoute(host)
	c := client(t)
	w.SetRoutes([]wire.Route{empty})
	if got := <-asks(c, w.request(t, "POST", host, "/", nil)); got != http.StatusServiceUnavailable {
		t.Errorf("answered %d before there was an instance", got)
	}
	w.SetRoutes([]wire.Route{full})
	w.SetRoutes([]wire.Route{empty})
	answer := asks(c, w.request(t, "POST", host, "/", nil))
	s := w.services.Find("app.web")
	eventually(t, "it waits", func() bool {
		return s.Awaited()
	})
	w.SetRoutes([]wire.Route{full})
	if got := <-answer; got != http.StatusOK {
		t.Errorf("answered %d", got)
	}
}
