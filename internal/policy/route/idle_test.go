package route_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
)

// Of endpoints that are alike but for the requests there, fastest takes one with the fewest: none is
// idle while another's queue is longer. At another distance one is left idle only for as much as that
// costs.
func TestFastestLeavesNobodyIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		took := time.Duration(rapid.IntRange(1, 1000).Draw(t, "took")) * time.Millisecond
		places := rapid.SampledFrom([]int{0, 1, 4, 16}).Draw(t, "places")
		least := 1 << 30
		var list []route.Endpoint
		for i := range rapid.IntRange(2, 12).Draw(t, "n") {
			var l route.Load
			l.Concurrency = places
			for k := range 60 {
				s := l.Began(loadTime)
				l.Heard(loadTime)
				l.Ended(true)
				l.Report(loadTime, 0, 0)
				l.Answered(loadTime, s, took*time.Duration(1+k%3))
			}
			there := rapid.IntRange(0, 40).Draw(t, "there")
			for range there {
				l.Began(loadTime)
			}
			least = min(least, there)
			list = append(list, loaded(fmt.Sprint(i), 1, l))
		}
		v := route.NewView(rapid.Uint64().Draw(t, "seed"), list)
		p := made(t, api.Policy{Name: api.PolicyFastest}, 1)
		i, ok := p.Pick(v, route.Request{Now: loadTime})
		if !ok || v.Endpoints[i].Load.InFlight != least {
			t.Fatalf("picked one with %d there, %d are the fewest", v.Endpoints[i].Load.InFlight, least)
		}
		// One that is idle, and too far to be worth it while the near one is: but not by more than the
		// distance and the time of a request.
		if places == 0 {
			return
		}
		near, far := v.Endpoints[i], v.Endpoints[i]
		near.ID, far.ID, far.RTT = "near", "far", 2*took
		near.Load.InFlight, far.Load.InFlight = places*12, 0
		v = route.NewView(1, []route.Endpoint{near, far})
		if i, _ := made(t, api.Policy{Name: api.PolicyFastest}, 1).Pick(v, route.Request{Now: loadTime}); v.Endpoints[i].ID != "far" {
			t.Fatalf("the far one is idle, and the near one has a queue of eleven times its places")
		}
	})
}
