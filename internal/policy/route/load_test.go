package route_test

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
)

func TestLoadCounts(t *testing.T) {
	now := time.Unix(100, 0)
	var l route.Load
	l.Ended(false) // never began
	for range 3 {
		l.Began(loadTime)
	}
	l.Ended(false)
	l.Report(now, 4, 2)
	if l.InFlight != 2 || l.Since != 0 || l.Others != 4 || l.Queue != 4 || l.Running != 2 || !l.Reported.Equal(now) {
		t.Errorf("after a report: %+v", l)
	}
	l.Began(loadTime)
	if l.InFlight != 3 || l.Since != 1 {
		t.Errorf("one more: %+v", l)
	}
	l.Ended(false)
	if l.InFlight != 2 || l.Since != 1 {
		t.Errorf("an older one ended: %+v", l)
	}
	l.Report(now, -1, 2) // nobody else
	if l.Others != 0 || l.Queue != 0 {
		t.Errorf("the others went: %+v", l)
	}
}

// A load that changes leaves the shares of connections as they are.
func TestSetLoadKeepsShares(t *testing.T) {
	v := route.NewView(1, endpoints(4))
	p := made(t, policies()[3], 1)
	p.Pick(v, route.Request{})
	allocs := testing.AllocsPerRun(100, func() {
		l := v.Endpoints[1].Load
		l.Began(loadTime)
		v.SetLoad(1, l)
		p.Pick(v, route.Request{Bytes: 100})
	})
	if allocs != 0 || v.Endpoints[1].Load.InFlight == 0 {
		t.Errorf("%v allocations, %+v", allocs, v.Endpoints[1].Load)
	}
	e := v.Endpoints[1]
	e.Load, e.Suspect = route.Load{}, true
	if v.Set(1, e); v.Endpoints[1].Load.InFlight == 0 || !v.Endpoints[1].Suspect {
		t.Errorf("Set forgot the load: %+v", v.Endpoints[1])
	}
}
