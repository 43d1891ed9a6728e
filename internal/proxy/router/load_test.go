package router

import (
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/policy/route"
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
	before := e.load
	s.Took(e, sent, now, 140*time.Millisecond)
	if e.load == before || s.view.Endpoints[0].Load != e.load {
		t.Errorf("nothing was learnt, or the view does not know: %+v", e.load)
	}
	var want route.Load
	want.Answered(now, want.Began(now), 100*time.Millisecond)
	if e.load != want {
		t.Errorf("%+v, want %+v", e.load, want)
	}
}
