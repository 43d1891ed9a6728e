package call

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/scale"
	"github.com/verge-edge/verge/internal/proxy/httpmsg"
	"github.com/verge-edge/verge/internal/proxy/router"
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

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
