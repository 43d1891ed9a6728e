package call

import (
	"math"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/orca"
	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/proxy/http1"
)

// The way of a large body is the line's, that of a small one is part of what requests take
// at an endpoint, and what a client dawdles is nobody's.
func TestWhoseTheWaitIs(t *testing.T) {
	for _, x := range []struct {
		bytes    int64
		by, want time.Duration
	}{
		{route.LargeBody, 0, time.Second}, {route.LargeBody, time.Hour, time.Second},
		{route.LargeBody - 1, 0, 0}, {route.LargeBody - 1, time.Second / 2, time.Second / 2},
		{1, time.Hour, time.Second},
	} {
		var c Call
		if c.Uploaded(hop{Waited: time.Second}, x.bytes, x.by); c.Waited != x.want {
			t.Errorf("%d bytes, of which the client was waited for %v: %v is not work, want %v", x.bytes, x.by,
				c.Waited, x.want)
		}
	}
}

// What routers tell each other is taken out of a report, whoever has put it in.
func TestHopsAreTakenOut(t *testing.T) {
	var r orca.Report
	r.Set("a", 1)
	TellHop(&r, http1.Flow{Bytes: 1 << 20, Took: time.Second, Waited: time.Second / 2})
	r.Set(HopMade, 20)
	r.Set("b", 2)
	h := TakeHop(&r)
	if h.Waited != time.Second/2 || h.Bps != 1<<20 || h.made != 20*time.Millisecond || len(r.Named()) != 2 {
		t.Errorf("%+v, and left is %v", h, r.Named())
	}
	if h = TakeHop(&r); h != (hop{made: -1}) {
		t.Errorf("%+v of nothing", h)
	}
	r.Set(hopWaited, math.MaxFloat64)
	if h = TakeHop(&r); h.Waited < 0 {
		t.Errorf("%+v", h)
	}
}
