package proxy

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"testing"

	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/local"
	"github.com/verge-edge/verge/internal/wire"
)

// A large body for a replica that drains, of which this router does not know yet, goes to
// another one, whole: its worker says whether it may come before more of it is on its way
// than can be sent again.
func TestLargeBodiesLeaveADrainingReplica(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	large := bytes.Repeat([]byte("0123456789abcdef"), 1<<19)
	sum := fmt.Sprintf("%x", sha256.Sum256(large))
	summed := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Header.Get(httpmsg.HeaderHold) != "" {
			t.Error("the instance is told what is between routers")
		}
		h := sha256.New()
		if _, err := io.Copy(h, req.Body); err != nil {
			t.Error(err)
		}
		_, _ = fmt.Fprintf(w, "%x", h.Sum(nil))
	})
	for name, c := range map[string]struct {
		client *http.Client
		length int64
	}{
		"of known length": {client(t), int64(len(large))},
		"in chunks":       {client(t), -1},
		"HTTP/2":          {h2Client(t), int64(len(large))},
		"HTTP/2, of any":  {h2Client(t), -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, b, d := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil), newWorker(t, ca, "d", nil)
			b.addHTTP(t, "app.web.0", summed)
			d.addHTTP(t, "app.web.1", summed)
			last := d.endpoint("app.web.1")
			last.Suspect = true // so that b is asked first
			rt := requestRoute("http", wire.RequestRules{}, b.endpoint("app.web.0"), last)
			for _, w := range []*worker{a, b, d} {
				w.SetRoutes([]wire.Route{rt})
			}
			post := func() {
				t.Helper()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.entryURL(t, "http", "/"),
					io.NopCloser(bytes.NewReader(large)))
				must(t, err)
				req.ContentLength = c.length
				res, err := c.client.Do(req)
				must(t, err)
				got, err := io.ReadAll(res.Body)
				must(t, err)
				must(t, res.Body.Close())
				if res.StatusCode != http.StatusOK || string(got) != sum {
					t.Fatalf("%d %.300s", res.StatusCode, got)
				}
			}
			post()
			if n := a.Stats().Services[0].Endpoints[0].Requests; n != 1 {
				t.Fatalf("the first replica was asked %d times", n)
			}
			b.engine.set("app.web.0", b.engine.at("app.web.0"), local.ErrDraining)
			b.LocalChanged()
			post()
			post()
		})
	}
}
