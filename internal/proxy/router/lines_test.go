package router

import (
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// What is known is of the worker, also of its new instances, and what nothing confirms is
// forgotten: a line that was thin once is tried again.
func TestWidthsOfLinesAge(t *testing.T) {
	t.Parallel()
	a := testServices(t)
	rt := testRoute(behind("app.web.0", "b", "127.0.0.1:1"))
	testRoutes(a, []wire.Route{rt})
	first := endpointOf(a, "app.web.0")
	a.Crossed(first, false, route.LargeBody-1, 5e5, true) // small ones teach nothing
	a.Crossed(first, false, route.LargeBody, math.Inf(1), true)
	a.Crossed(first, false, route.LargeBody, 1e6, true)
	a.Crossed(first, true, route.LargeBody, 2e6, true)
	if there, back, _ := first.Learnt(); there != 1e6 || back != 2e6 {
		t.Fatalf("%v there, %v back", there, back)
	}
	rt.Endpoints = []wire.Endpoint{behind("app.web.1", "b", "127.0.0.1:1")}
	testRoutes(a, []wire.Route{rt})
	next := endpointOf(a, "app.web.1")
	if there, back, _ := next.Learnt(); there != 1e6 || back != 2e6 {
		t.Fatalf("a new instance there: %v there, %v back", there, back)
	}
	if l := a.Lines.Known(time.Now()); len(l) != 1 || l[0].Name != "b" || l[0].There != 1e6 || l[0].Back != 2e6 {
		t.Errorf("lines %+v", l)
	}
	aged := func(d time.Duration) float64 {
		next.service.mu.Lock()
		next.service.agedLocked(time.Now().Add(d))
		next.service.mu.Unlock()
		there, _, _ := next.Learnt()
		return there
	}
	if aged(route.LineAge-time.Minute) == 0 {
		t.Error("it was forgotten too early")
	}
	if aged(route.LineAge) != 0 {
		t.Error("it was not forgotten")
	}
}

// Of large bodies one tries a line of which nothing is known; as long as it is on its way,
// the others see for how long already. One of which something was known once is tried
// again by one, and what was known holds for the others.
func TestOneBodyTriesALine(t *testing.T) {
	t.Parallel()
	a := testServices(t)
	testRoutes(a, []wire.Route{testRoute(behind("app.web.0", "b", "127.0.0.1:1"), behind("app.web.1", "b", "127.0.0.1:1"))})
	first, second := endpointOf(a, "app.web.0"), endpointOf(a, "app.web.1")
	trial := func(e *Endpoint) int64 {
		e.service.mu.Lock()
		defer e.service.mu.Unlock()
		return e.service.view.Endpoints[e.index].Load.Trial.Bytes
	}
	if a.Tries(first, route.LargeBody-1, route.LargeBody-1) || trial(first) != 0 {
		t.Error("a small body tries a line")
	}
	if !a.Tries(first, route.LargeBody, 0) || a.Tries(second, route.LargeBody, 0) || trial(first) != route.LargeBody || trial(second) != route.LargeBody {
		t.Error("not one of two bodies tries the line of both")
	}
	if a.Tried(first); trial(first) != 0 || trial(second) != 0 {
		t.Error("it is tried without end")
	}
	a.Crossed(first, false, route.BoundBody, 1e9, false)
	if there, _, _ := first.Learnt(); there != 0 || a.Tries(first, route.LargeBody, 0) {
		t.Errorf("the line was not what held a body up, and %v is taken for what it carries", there)
	}
	a.Crossed(first, false, route.BoundBody, 1e6, true)
	a.Crossed(first, true, route.BoundBody, 2e6, true)
	later := func() { // it is too old
		a.Lines.mu.Lock()
		l := width{worker: a.Lines.by[first.Address].worker}
		long := time.Now().Add(-route.LineAge)
		l.Crossed(long, false, route.BoundBody, 1e6, true)
		l.Crossed(long, true, route.BoundBody, 2e6, true)
		a.Lines.by[first.Address] = l
		a.Lines.mu.Unlock()
		a.widened(first.Address, time.Now())
	}
	if later(); a.Tries(first, route.LargeBody-1, 0) {
		t.Error("a small body tries a line")
	}
	if there, back, _ := second.Learnt(); there != 0 || back != 0 {
		t.Fatalf("too old: %v and %v", there, back)
	}
	if a.Tries(first, route.LargeBody, route.LargeBody) || trial(first) != 0 {
		t.Error("what was known is not enough")
	}
	if there, back, _ := second.Learnt(); there != 1e6 || back != 2e6 {
		t.Errorf("while one tries the line the others see %v and %v", there, back)
	}
}

func TestLinesAreBounded(t *testing.T) {
	now := time.Now()
	x := lines{by: map[string]width{}}
	crossed := func(at time.Time) (w width) {
		w.Crossed(at, false, route.BoundBody, 1e6, true)
		return w
	}
	for n := range maxLines {
		x.by[strconv.Itoa(n)] = crossed(now.Add(-time.Duration(n)))
	}
	if x.roomLocked(now) {
		t.Error("there are more than there may be")
	}
	x.by["0"] = crossed(now.Add(-route.LineAge))
	if !x.roomLocked(now) || len(x.by) != maxLines-1 {
		t.Error("old ones stay")
	}
}

func TestMeanSizes(t *testing.T) {
	var z sizes
	if there, back := z.expect(-1); there != 0 || back != 0 {
		t.Error("something is known of nothing")
	}
	for range 100 {
		z.body.Add(1000)
		z.body.Add(-1)
		z.answer.Add(10)
	}
	if there, back := z.expect(-1); there != 1000 || back != 10 {
		t.Errorf("%v there, %v back", there, back)
	}
	if there, _ := z.expect(7); there != 7 {
		t.Errorf("a request says 7, and %v is taken", there)
	}
	for range 100 {
		z.body.Add(2000)
	}
	if there, _ := z.expect(-1); there < 1950 {
		t.Errorf("%v: the old ones are not forgotten", there)
	}
}
