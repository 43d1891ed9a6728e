package proxy

import (
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/proxy/failure"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// A stream that is not opened in time is no sign of a dead worker where another one was
// opened meanwhile; without that it is.
func TestTooLateIsNotGone(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a, b := newWorker(t, ca, "a", nil), newWorker(t, ca, "b", nil)
	b.addHTTP(t, "app.web.0", says("zero"))
	b.addHTTP(t, "app.web.1", says("one"))
	rt := requestRoute("http", wire.RequestRules{}, b.endpoint("app.web.0"), b.endpoint("app.web.1"))
	a.SetRoutes([]wire.Route{rt})
	b.SetRoutes([]wire.Route{rt})
	all := a.services.Find("app.web").All()
	_, connecting := (&net.Dialer{Deadline: time.Unix(1, 0)}).DialContext(t.Context(), "tcp", b.DataAddr())
	late := func(began time.Time) {
		for _, err := range []error{os.ErrDeadlineExceeded, fmt.Errorf("reach its data port: %w", connecting)} {
			a.services.Judge(all[0], &failure.OpenError{Blame: failure.BlameWorker, Err: err, Began: began})
		}
	}
	before := time.Now()
	conn, release, err := a.services.OpenStream(t.Context(), t.Context(), all[1], "http")
	must(t, err)
	defer release()
	defer func() { _ = conn.Close() }()
	late(before)
	if s := a.state("app.web.0"); s != router.EndpointOK {
		t.Errorf("it is %q although its worker was reached", s)
	}
	late(time.Now())
	if !all[0].Lost.Load() {
		t.Error("it is still asked although nothing was heard of its worker")
	}
}
