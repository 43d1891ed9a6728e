package proxy

import (
	"net/http"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/wire"
)

// A fault of the router itself ends the connection that it happened on, and nothing else.
func TestAFaultEndsOneConnection(t *testing.T) {
	t.Parallel()
	const id = "app.web.0"
	a := newWorker(t, newAuthority(t), "a", nil)
	a.addHTTP(t, id, says("fine"))
	addr, err := a.engine.Target(id, "http")
	must(t, err)
	a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint(id))})
	fault := func(wire.InstanceID) { panic("a fault") }
	a.engine.wake.Store(&fault)
	c := client(t)
	for range 3 {
		a.engine.set(id, "", local.ErrAsleep)
		if res, err := c.Do(a.request(t, "POST", host, "/", nil)); err == nil {
			_ = res.Body.Close()
			t.Errorf("the faulty one: %s", res.Status)
		}
		a.engine.set(id, addr, nil)
		a.services.Local.SettleAll()
		if res, body := fetch(t, c, a.request(t, "GET", host, "/", nil)); res.StatusCode != http.StatusOK ||
			body != "fine" {
			t.Errorf("the next: %s: %s", res.Status, body)
		}
	}
	<-a.Drained(id) // nothing of it is counted as under way
}
