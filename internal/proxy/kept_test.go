package proxy

import (
	"net/http"
	"strings"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// A POST must not be lost on a kept connection whose end has arrived but was not
// read yet: nothing of it was sent, so another instance gets it.
func TestPostIsNotLostOnAnEndedConnection(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	b := newWorker(t, ca, "b", nil)
	c := client(t)
	b.addHTTP(t, "shop.web.0", says("stays"))
	for range 300 {
		dying := a.addHTTP(t, "shop.web.1", says("dies"))
		a.SetRoutes([]wire.Route{hostRoute(host, a.endpoint("shop.web.1"), b.endpoint("shop.web.0"))})
		for range 4 { // so that connections are kept
			fetch(t, c, a.request(t, http.MethodGet, host, "/", nil))
		}
		must(t, dying.Close())
		for range 2 {
			res, body := fetch(t, c, a.request(t, http.MethodPost, host, "/", strings.NewReader("order")))
			if res.StatusCode != http.StatusOK || body != "stays" {
				t.Fatalf("%s %s", res.Status, body)
			}
		}
		a.SetRoutes(nil)
	}
}
