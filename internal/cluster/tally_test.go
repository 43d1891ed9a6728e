package cluster

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRestartsAreCounted(t *testing.T) {
	s := newSim(t, "w1", "w2", "w3")
	want := func(what string, n uint64) {
		t.Helper()
		if got := s.m.Counted().Restarts; got != n {
			t.Fatalf("%s: %d restarts, want %d\n%s", what, got, n, s.dump())
		}
	}
	program := func(cmd string) func(*api.Service) {
		return func(svc *api.Service) { svc.Command = []string{cmd} }
	}
	s.share("web", 2, nil)
	s.ticks(4, time.Second)
	want("first runs", 0)
	for _, f := range s.fakes {
		if st, ok := f.has["app.web.0"]; ok {
			st.Restarts = 2
			f.has["app.web.0"] = st
		}
	}
	s.ticks(2, time.Second)
	want("in place", 2)
	s.restart()
	s.ticks(4, time.Second)
	want("another process of the cluster", 2)
	s.share("web", 2, func(svc *api.Service) { svc.Policy.Name = api.PolicyClosest })
	s.ticks(4, time.Second)
	want("other terms", 2)
	s.share("web", 2, program("y"))
	s.ticks(8, time.Second)
	want("another program", 2)
	s.share("web", 3, program("y"))
	s.ticks(4, time.Second)
	want("one more", 2)
	s.again("web", 1)
	s.ticks(4, time.Second)
	want("asked for", 2)

	// A lost worker: what it ran runs elsewhere. When it is back its own stays, and
	// has not been started again.
	lost := s.m.Insts["app.web.0"].Worker
	s.fakes[lost].linked = false
	s.ticks(40, time.Second)
	want("replaced", 2)
	s.fakes[lost].linked = true
	s.ticks(10, time.Second)
	want("the original is back", 2)
	if i := s.m.Insts["app.web.0"]; i.Worker != lost || i.State != wire.Running {
		t.Fatalf("it is %s on %s\n%s", i.State, i.Worker, s.dump())
	}
	s.again("web", 0)
	s.ticks(4, time.Second)
	want("asked for again", 2)

	// It goes on elsewhere, and then nowhere.
	s.m.Far["app.web"] = &wire.Route{V: wire.Version, App: "app", Service: "web"}
	s.unshare("web")
	s.ticks(6, time.Second)
	want("gone from here", 2)
	if s.m.Tallies["app"] == nil || s.m.Tallies["app"].Restarts != 2 {
		t.Errorf("counts of what goes on elsewhere: %v", s.m.Tallies)
	}
	delete(s.m.Far, "app.web")
	s.ticks(2, time.Second)
	want("gone", 2)
	if len(s.m.Tallies) != 1 || s.m.Tallies[wire.TallyGone] == nil {
		t.Errorf("counts of what is gone: %v", s.m.Tallies)
	}
	s.share("web", 1, nil)
	s.ticks(4, time.Second)
	want("it begins anew", 2)
	s.restart()
	want("stored", 2)

	// What a worker gives up is started again on another one, and the instance knows it
	// there.
	for _, f := range s.fakes {
		f.broken["api"] = "exit"
	}
	s.share("api", 1, nil)
	s.tick(time.Second)
	s.tick(time.Second)
	for _, f := range s.fakes {
		delete(f.broken, "api")
	}
	s.ticks(4, time.Second)
	i := s.m.Insts["app.api.0"]
	if i.State != wire.Running || i.Restarts != 0 || i.Again() < 1 || i.Again() != len(i.Avoid) {
		t.Errorf("started again on another worker: %+v", i)
	}
	want("on another worker", 2+uint64(i.Again())) //nolint:gosec // not negative
	// An instance of a version before this one knows those of its incarnation only.
	if n := (&wire.Instance{Restarts: 3, Starts: 9}).Again(); n != 3 {
		t.Errorf("of an older record: %d", n)
	}
}

// What counts as a change is a service that is to be otherwise here, not a revision.
func TestChangesAreCounted(t *testing.T) {
	s := newSite(t)
	want := func(what string, n uint64) {
		t.Helper()
		if got := s.c.m.Counted(); got.Changes != n || got.Restarts != 0 {
			t.Fatalf("%s: %s, want %d", what, got, n)
		}
	}
	s.give(web(2, "a"), 2)
	want("added", 1)
	s.give(web(2, "a"), 2)
	want("another revision of the same", 1)
	s.give(web(5, "a"), 2)
	want("scaled elsewhere", 1)
	s.give(web(5, "a"), 3)
	want("scaled here", 2)
	s.scale(1)
	want("scaled by the site", 3)
	s.reopen()
	s.settle()
	want("another process", 3)
	if since := s.c.sinceAway(); since.Changes != 0 {
		t.Errorf("since the process started: %+v", since)
	}
	if v := s.c.m.apps(); len(v) != 1 || v[0].Tally.Changes != 3 {
		t.Errorf("%+v", v)
	}

	// A change while the root is away, and one when it is back.
	s.c.onUpReply(nil)
	s.c.onUpReply(errors.New("nobody answers"))
	s.scale(2)
	s.c.onUpReply(nil)
	s.give(web(5, "b"), 3)
	want("another program", 5)
	if since := s.c.sinceAway(); since.Changes != 2 || since.Restarts != 0 {
		t.Errorf("since the root was lost: %+v", since)
	}
	s.give(nil, 0)
	want("another program", 6)
	if len(s.c.m.Tallies) != 1 || s.c.m.Tallies[wire.TallyGone] == nil {
		t.Errorf("counts of what is gone: %v", s.c.m.Tallies)
	}
}

// startedAnew is how many incarnations of what there is came after a first one.
func startedAnew(m *model) (n int) {
	for _, i := range m.Insts {
		n += i.Incarnation - 1
	}
	return n
}
