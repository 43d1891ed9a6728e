package instances_test

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/instances"
)

// A service that nobody has room for says so in its route, as long as that is so; and
// what keeps its instance from running is in the report of its scaling.
func TestARouteWithoutEndpointsSaysWhy(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.SetCPU(1000)
	s.Share("web", 1, func(v *api.Service) {
		v.Resources.CPU = 5000
		v.Ports = []api.Port{{Name: "http", Protocol: "http"}}
	})
	s.Ticks(5, time.Second)
	r := s.Model.Routes["app.web"]
	if r == nil || len(r.Endpoints) != 0 || r.Lacks != "there is no room for an instance, which needs 5 cpu" {
		t.Fatalf("the route says %+v\n%s", r, s.Dump())
	}
	if n := s.Model.Names["app.web"]; n == nil || n.Lacks != "" || !n.Unasked {
		t.Errorf("to who does not use it %+v is told", n)
	}
	i := s.Model.Insts["app.web.0"]
	if got := instances.Trouble(s.Model.Begin(), i); !strings.Contains(got, "app.web.0") ||
		!strings.Contains(got, "5 cpu") {
		t.Errorf("the trouble of %+v is %q", i, got)
	}
	s.SetCPU(16000)
	s.Ticks(8, time.Second)
	if r := s.Model.Routes["app.web"]; r == nil || len(r.Endpoints) != 1 || r.Lacks != "" {
		t.Errorf("with room the route says %+v\n%s", r, s.Dump())
	}
	if got := instances.Trouble(s.Model.Begin(), s.Model.Insts["app.web.0"]); got != "" {
		t.Errorf("it runs, and its trouble is %q", got)
	}
}
