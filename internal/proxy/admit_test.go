package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/router"
	"github.com/verge-edge/verge/internal/wire"
)

// instance is the endpoint of instance i.
func instanceAt(s *router.Service, i int) *router.Endpoint {
	id := fmt.Sprintf("app.web.%d", i)
	all := s.All()
	return all[slices.IndexFunc(all, func(e *router.Endpoint) bool { return e.Instance == id })]
}

// busy has n requests at an endpoint, which does 10 a second by its report.
func busy(s *router.Service, i, n int) {
	e := instanceAt(s, i)
	var r orca.Report
	httpmsg.SetQueueMetrics(&r, scale.Report{Exec: 100 * time.Millisecond, Work: 100 * time.Millisecond})
	s.Reported(e, &r)
	at := slices.IndexFunc(s.Stats().Endpoints, func(st router.EndpointStats) bool { return st.Instance == e.Instance })
	for have := s.Stats().Endpoints[at].InFlight; have < n; have++ {
		s.Began(e, time.Now())
	}
	for have := s.Stats().Endpoints[at].InFlight; have > n; have-- {
		s.Ended(e, false)
	}
}

// What admission refuses is counted, and asked for as any other request is.
func TestAdmissionAtTheGateway(t *testing.T) {
	t.Parallel()
	ca := newAuthority(t)
	a := newWorker(t, ca, "a", nil)
	leave := make(chan struct{})
	a.slow(t, a, "app.web.0", "slow", leave)
	rt := hostRoute(host, a.endpoint("app.web.0"))
	rt.Requests = wire.RequestRules{Needed: true, Concurrency: 1, SLO: 1, Elastic: true}
	a.SetRoutes([]wire.Route{rt})
	s := a.services.Find("app.web")
	busy(s, 0, 0)
	first := make(chan string, 1)
	go func() {
		_, body := fetch(t, client(t), a.request(t, "GET", host, "/", nil))
		first <- body
	}()
	eventually(t, "one runs", func() bool { return a.InFlight("app.web.0") == 1 })
	for range 3 {
		res, body := fetch(t, client(t), a.request(t, "GET", host, "/", nil))
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "too-slow") {
			t.Fatalf("%d %v: %s", res.StatusCode, res.Header, body)
		}
	}
	close(leave)
	if got := <-first; got != "slow" {
		t.Errorf("the one that was let in: %q", got)
	}
	st := a.Stats().Services[0]
	if st.Hopeless != 3 || st.Failures != 3 || st.Full != 0 {
		t.Errorf("counted %d, %d failures, %d full", st.Hopeless, st.Failures, st.Full)
	}
	if d := a.Demand(); len(d) != 1 || d[0].Requests != 4 || d[0].Refused != 3 {
		t.Errorf("demand %+v", d)
	}
}
