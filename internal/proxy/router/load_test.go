package router

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
	"github.com/verge-edge/verge/internal/wire"
)

// What an answer took teaches the policy, without the way to the endpoint.
func TestAnAnswerTeaches(t *testing.T) {
	now := time.Now()
	e := &Endpoint{id: "a", index: 0}
	s := &Service{
		view:      route.NewView(1, []route.Endpoint{{ID: "a", Ready: true, RTT: 40 * time.Millisecond, Source: route.Measured}}),
		endpoints: []*Endpoint{e},
	}
	sent := s.Began(e, now)
	before := s.view.Endpoints[0].Load
	s.Took(e, sent, now, 140*time.Millisecond)
	got := s.view.Endpoints[0].Load
	if got == before {
		t.Errorf("nothing was learnt: %+v", got)
	}
	var want route.Load
	want.Answered(now, want.Began(now), 100*time.Millisecond)
	if got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// The load of an endpoint outlives a new set of routes, and the end of its own route.
func TestLoadOutlivesRoutes(t *testing.T) {
	s := &Service{Key: "app.web"}
	update := func(instances ...string) {
		rt := &wire.Route{App: "app", Service: "web"}
		for _, id := range instances {
			rt.Endpoints = append(rt.Endpoints, wire.Endpoint{Instance: id, Cluster: "c", Worker: "w", Address: "a"})
		}
		s.update(rt, func(wire.Endpoint) bool { return false }, func(err error) { t.Error(err) })
	}
	update("app.web.0", "app.web.1")
	e := s.endpoints[0]
	s.Began(e, time.Now())
	s.Began(e, time.Now())
	want := *s.loadLocked(e)
	update("app.web.2", e.Instance)
	if got := *s.loadLocked(e); e.index < 0 || got != want {
		t.Errorf("with others: %+v, want %+v", got, want)
	}
	update("app.web.2")
	if got := *s.loadLocked(e); e.index >= 0 || got != want {
		t.Errorf("without it: %+v, want %+v", got, want)
	}
	s.Ended(e, false)
	if got := s.loadLocked(e).InFlight; got != 1 {
		t.Errorf("%d requests", got)
	}
}
