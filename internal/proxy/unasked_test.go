package proxy

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/wire"
)

// The first connection or request to a service whose endpoints are not here waits
// until they are, and is refused with the reason if they are not told. Later ones ask
// nobody.
func TestTheFirstUseWaitsForEndpoints(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	var a *worker
	var asked atomic.Int32
	var answer atomic.Pointer[func() error]
	tell := func(routes ...wire.Route) {
		f := func() error { a.SetRoutes(routes); return nil }
		answer.Store(&f)
	}
	refuse := func() {
		f := func() error { return errors.New("the cluster is away") }
		answer.Store(&f)
	}
	a = newWorker(t, ca, "a", func(o *Options) {
		o.Ask = func(_ context.Context, service string) error {
			asked.Add(1)
			if service != "app.web" {
				t.Errorf("asked for %s", service)
			}
			return (*answer.Load())()
		}
	})
	a.addGreeter(t, "app.web.0")

	away := webRoute()
	away.Unasked = true
	a.SetRoutes([]wire.Route{away})
	addr := a.addr(t, "tcp") // it has an address at once
	refuse()
	if _, id, err := greetFrom(addr); err == nil {
		t.Fatalf("%s answers", id)
	}
	tell(webRoute(a.endpoint("app.web.0")))
	if got := visit(t, addr, 5); got["app.web.0"] != 5 || asked.Load() != 2 {
		t.Errorf("visited %v, asked %d times", got, asked.Load())
	}
	if at := a.LastUse("app.web"); time.Since(at) > time.Minute {
		t.Errorf("last used %s", at)
	}
	if at := a.LastUse("app.none"); !at.IsZero() {
		t.Errorf("what is not there was used %s", at)
	}

	a.addHTTP(t, "app.web.1", says("one"))
	gone := hostRoute(host)
	gone.Unasked = true
	a.SetRoutes([]wire.Route{gone})
	refuse()
	c := client(t)
	res, body := fetch(t, c, a.request(t, "GET", host, "/", nil))
	if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, "the cluster is away") ||
		res.Header.Get("Retry-After") == "" {
		t.Errorf("%s: %s", res.Status, body)
	}
	tell(hostRoute(host, a.endpoint("app.web.1")))
	if res, body := fetch(t, c,
		a.request(t, "POST", host, "/", strings.NewReader("x"))); res.StatusCode != http.StatusOK || body != "one" {
		t.Errorf("%s: %s", res.Status, body)
	}
	// What has none is another matter.
	tell(hostRoute(host))
	a.SetRoutes([]wire.Route{gone})
	if res, body := fetch(t, c, a.request(t, "GET", host, "/", nil)); res.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(body, "no-endpoint") {
		t.Errorf("%s: %s", res.Status, body)
	}
}
