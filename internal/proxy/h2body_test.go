package proxy

import (
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/verge-edge/verge/internal/wire"
)

// A request of HTTP/2 without a body is none with one of unknown length: it may be asked
// again where that is allowed, and the instance is not told to wait for chunks.
func TestH2RequestWithoutBody(t *testing.T) {
	t.Parallel()
	a := newWorker(t, newAuthority(t), "a", nil)
	var asked atomic.Int32
	answers := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.ContentLength != 0 || len(req.TransferEncoding) > 0 {
			t.Errorf("it has a body of %d, %v", req.ContentLength, req.TransferEncoding)
		}
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	a.addHTTP(t, "app.web.0", answers)
	a.addHTTP(t, "app.web.1", answers)
	a.SetRoutes([]wire.Route{requestRoute("http", wire.RequestRules{}, a.endpoint("app.web.0"), a.endpoint("app.web.1"))})
	res, err := h2Client(t).Get(a.entryURL(t, "http", "/"))
	must(t, err)
	must(t, res.Body.Close())
	if res.StatusCode != http.StatusOK || asked.Load() != 2 {
		t.Errorf("%s after %d tries", res.Status, asked.Load())
	}
}
