package route_test

import (
	"math"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/route"
)

// An estimate rises quickly, falls slowly and only by what the line has held up, and is
// forgotten.
func TestLine(t *testing.T) {
	now := time.Unix(1000, 0)
	var l route.Line
	for _, step := range []struct {
		after     time.Duration
		bytes     int64
		bps       float64
		held      bool
		low, high float64
	}{
		{0, route.LargeBody - 1, 1000, true, 0, 0},     // small ones teach nothing
		{0, route.BoundBody, 100, false, 0, 0},         // somebody was slow, but who?
		{0, route.BoundBody, 1000, true, 1000, 1000},   // the line
		{0, route.BoundBody, 100, false, 1000, 1000},   // who knows
		{0, route.BoundBody, 100, true, 700, 800},      // it was shared
		{0, route.BoundBody - 1, 1e6, false, 700, 800}, // that may have been in buffers
		{0, route.BoundBody, 3000, false, 1800, 2000},  // what carried so much can
		{0, route.LargeBody, 3000, true, 1900, 2100},   // less tells less
		{route.LineAge - 1, route.BoundBody, 2000, true, 1900, 2100},
		{route.LineAge, route.BoundBody, 500, false, 0, 0}, // too old: all is open again
		{0, route.BoundBody, math.Inf(1), true, 0, 0},
		{0, route.BoundBody, math.NaN(), true, 0, 0},
		{0, route.BoundBody, -1, true, 0, 0},
		{0, route.LargeBody, 500, true, 500, 500},
	} {
		now = now.Add(step.after)
		before := l
		news := l.Crossed(now, false, step.bytes, step.bps, step.held)
		if got := l.There.Known(now); got < step.low || got > step.high || l.Back.Known(now) != 0 || !news && l != before {
			t.Fatalf("after %+v: %v, news: %v", step, got, news)
		}
	}
	if until := l.Until(now); !until.Equal(now.Add(route.LineAge)) {
		t.Errorf("known until %v", until)
	}
	if l.Crossed(now, true, route.BoundBody, 7, true); l.Back.Known(now) != 7 || l.There.Known(now) != 500 {
		t.Error("one direction is taken for the other")
	}
}

// Of large bodies one tries a line of which nothing is known. One of which something was
// known once is tried again by one, and what was known holds for the others.
func TestOneTriesALine(t *testing.T) {
	now := time.Unix(1000, 0)
	var l route.Line
	try := func(there, back int64, wantMine, wantNews bool) {
		t.Helper()
		if mine, news := l.Try(now, there, back); mine != wantMine || news != wantNews {
			t.Errorf("mine %v, news %v", mine, news)
		}
	}
	try(route.LargeBody-1, 1<<40, false, false)
	try(route.LargeBody, 0, true, true)
	try(route.LargeBody, 0, false, false)
	l.Tried()
	l.Crossed(now, false, route.BoundBody, 1e9, false)
	try(route.LargeBody, 0, false, false) // it was not what held the body up
	l.Crossed(now, false, route.BoundBody, 1e6, true)
	l.Crossed(now, true, route.BoundBody, 2e6, true)
	now = now.Add(route.LineAge)
	try(10, 10, false, false)
	if l.There.Known(now) != 0 || l.Back.Known(now) != 0 {
		t.Error("nothing is forgotten")
	}
	try(route.LargeBody, 10, false, true)
	if l.There.Known(now) != 1e6 || l.Back.Known(now) != 0 {
		t.Error("who comes after him does not see what was known")
	}
	try(route.LargeBody, route.LargeBody, false, true)
	if l.Back.Known(now) != 2e6 {
		t.Error("nor of the way back")
	}
}

// Large bodies that are on their way to an endpoint are waited for by the next one.
func TestBodiesWaitForTheLine(t *testing.T) {
	now := time.Unix(1000, 0)
	var l route.Line
	if l.Crossed(now, false, 1<<20, 1<<20, true); l.There.Known(now) != 1<<20 {
		t.Fatal("the rate is not known")
	}
	for range 3 {
		if _, news := l.Try(now, 1<<20, 0); !news {
			t.Error("a body more on the way is no news")
		}
	}
	if got := l.Clear.Sub(now); got != 3*time.Second {
		t.Errorf("three bodies of a second take %v", got)
	}
	endless := l
	if endless.Try(now, 1<<40, 0); endless.Clear.Sub(now) != 10*time.Second {
		t.Errorf("an endless body holds up the next one for %v", endless.Clear.Sub(now))
	}
	near, far := loaded("a", 1, route.Load{Bandwidth: 1 << 20, Clear: l.Clear}), loaded("b", 1, route.Load{Bandwidth: 1 << 19})
	for later, want := range map[time.Duration]string{0: "b", 3 * time.Second: "a"} {
		if got := picked(t, api.PolicyFastest, route.Request{Now: now.Add(later), Bytes: 1 << 20}, near, far); got != want {
			t.Errorf("after %v: %s, want %s", later, got, want)
		}
	}
}
