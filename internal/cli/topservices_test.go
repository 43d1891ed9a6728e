package cli

import (
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func TestTopServices(t *testing.T) {
	f := newFixture(t, &resttest.Fake{})
	f.fake.Apps = []apiv1.AppView{{Name: "shop",
		Services: []apiv1.ServiceView{{Name: "f", Most: 10}, {Name: "db", Wanted: 2},
			{Name: "quiet", Wanted: 1, Most: 3}}}}
	d := rpc.ScaleDecision{V: 1, Want: 4, Rate: 180, Refused: 9, Waiting: 3, Exec: api.Duration(20 * time.Millisecond),
		SLO: api.Duration(500 * time.Millisecond)}
	e := rpc.ScaleDecision{V: 1, Want: 1, Rate: 20, Exec: api.Duration(40 * time.Millisecond),
		SLO: api.Duration(500 * time.Millisecond)}
	given := rpc.Give{From: "edge", To: "fog", N: 2, Why: "edge has no room"}
	f.fake.Scales = []rpc.ScaleReport{
		{V: 1, Cluster: "edge", App: "shop", Service: "f", Placed: 1, Awake: 1, Short: 3, Now: &d,
			Gives: []rpc.Give{given}},
		{V: 1, Cluster: "fog", App: "shop", Service: "f", Placed: 3, Awake: 2, Extra: 2, Now: &e,
			Gives: []rpc.Give{given}},
		{V: 1, Cluster: "west", App: "shop", Service: "quiet", Problem: "it is away"},
	}
	for name, line := range map[string]string{
		"top-services": "top services", "top-services-wide": "top services -o wide",
		"top-services-json": "top services -o json", "top-services-app": "top services --app other",
	} {
		args := strings.Fields(line)
		f.golden(name, f.run(args...), args...)
	}
}
