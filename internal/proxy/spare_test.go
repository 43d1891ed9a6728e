package proxy

import (
	"net/http"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// A spare is asked where all that the cluster names are out of rotation, and only then.
func TestSpare(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	a.addHTTP(t, "app.web.0", says("here"))
	there := b.addHTTP(t, "app.web.1", says("there"))
	spare := a.endpoint("app.web.0")
	spare.Spare = true
	rt := requestRoute("http", wire.RequestRules{}, b.endpoint("app.web.1"), spare)
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	c := client(t)
	for range 10 {
		if res, body := get(t, c, a.entryURL(t, "http", "/")); res.StatusCode != http.StatusOK || body != "there" {
			t.Fatalf("%s %q", res.Status, body)
		}
	}
	must(t, there.Close())
	for range 10 {
		if res, body := get(t, c, a.entryURL(t, "http", "/")); res.StatusCode != http.StatusOK || body != "here" {
			t.Fatalf("with all others gone: %s %q", res.Status, body)
		}
	}
	if state := a.state("app.web.0"); state != router.EndpointSpare {
		t.Errorf("it is shown as %q", state)
	}
	b.addHTTP(t, "app.web.1", says("again"))
	b.LocalChanged()
	eventually(t, "the one that the cluster names is back", func() bool {
		_, body := get(t, c, a.entryURL(t, "http", "/"))
		return body == "again"
	})
}
