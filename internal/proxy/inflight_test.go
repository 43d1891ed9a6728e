package proxy

import (
	"io"
	"net/http"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// Requests keep an instance awake as long as they last; connections that are kept for
// the next one, here and between workers, and probes do not.
func TestWhatKeepsAwake(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	more := make(chan struct{})
	const id = "app.web.0"
	a.addHTTP(t, id, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello")
		if r.URL.Path == "/stream" {
			_ = http.NewResponseController(w).Flush()
			<-more
		}
	}))
	rt := requestRoute("http", wire.RequestRules{Elastic: true}, a.endpoint(id))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	still := func(what string) {
		t.Helper()
		eventually(t, what+" ends", func() bool { return a.InFlight(id) == 0 })
		last := a.LastRequest(id)
		if last.IsZero() || !a.LastRequest(id).Equal(last) {
			t.Errorf("%s: it is in use since %s", what, last)
		}
	}
	c := client(t) // it keeps its connections
	for name, url := range map[string]string{"here": a.entryURL(t, "http", "/"), "there": b.entryURL(t, "http", "/")} {
		if res, body := get(t, c, url); res.StatusCode != http.StatusOK || body != "hello" {
			t.Fatalf("%s: %s %s", name, res.Status, body)
		}
		still("a request " + name)
		// One whose answer has begun and does not end is in use all the time.
		res, err := c.Get(url + "stream")
		must(t, err)
		first := a.LastRequest(id)
		eventually(t, "it is in use "+name, func() bool { return a.LastRequest(id).After(first) })
		more <- struct{}{}
		_, err = io.ReadAll(res.Body)
		must(t, err)
		must(t, res.Body.Close())
		still("a stream " + name)
	}
	last := a.LastRequest(id)
	for _, w := range []*worker{a, b} {
		conn, release, err := w.services.Dial(t.Context(), w.services.Find("app.web").All()[0], "http", router.ForProbe)
		must(t, err)
		must(t, conn.Close())
		release()
	}
	eventually(t, "probes end", func() bool { return a.InFlight(id) == 0 })
	if got := a.LastRequest(id); !got.Equal(last) {
		t.Errorf("probes count as requests: %s after", got.Sub(last))
	}
}
