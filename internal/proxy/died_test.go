package proxy

import (
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

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

	answers := make(chan int, 1)
	ask, c := w.request(t, "POST", host, "/", nil), client(t)
	go func() {
		res, err := c.Do(ask)
		if err != nil {
			answers <- 0
			return
		}
		_ = res.Body.Close() // of no interest
		answers <- res.StatusCode
	}()
	eventually(t, "it was asked", func() bool { return w.state("app.web.0") == EndpointEjected })
	back, err := net.Listen("tcp", addr)
	must(t, err)
	srv := &http.Server{Handler: says("back"), ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.Serve(back)
	}()
	if status := <-answers; status != http.StatusOK {
		t.Errorf("answered %d", status)
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
