package router

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/eject"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// An outlier comes back when its time is over.
func TestOutlierReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Service{Key: "app.web"}
		s.policy = &route.RoundRobin{}
		rt := testRoute(wire.Endpoint{Instance: "app.web.0", Worker: "w"}, wire.Endpoint{Instance: "app.web.1", Worker: "w"})
		s.update(&rt, func(wire.Endpoint) bool { return true }, func(err error) { t.Error(err) })
		bad := s.endpoints[0]
		for range eject.OutlierAfter {
			s.AnsweredBy(bad, time.Now(), true, &orca.Report{})
		}
		picks := func() (n int) {
			for range 10 {
				if e, _, _, _ := s.pickFor(time.Now(), nil, nil, 0); e == bad {
					n++
				}
			}
			return n
		}
		if n := picks(); n != 0 {
			t.Fatalf("picked %d times while it is out", n)
		}
		time.Sleep(eject.FirstOut)
		if n := picks(); n != 5 {
			t.Fatalf("picked %d times when its time is over", n)
		}
	})
}
