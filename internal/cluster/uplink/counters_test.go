package uplink_test

import (
	"errors"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/views"
	"github.com/verge-edge/verge/internal/wire"
)

func TestRestartsAreCounted(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	want := func(what string, n uint64) {
		t.Helper()
		if got := s.Model.Counted().Restarts; got != n {
			t.Fatalf("%s: %d restarts, want %d\n%s", what, got, n, s.Dump())
		}
	}
	program := func(cmd string) func(*api.Service) {
		return func(svc *api.Service) { svc.Command = []string{cmd} }
	}
	s.Share("web", 2, nil)
	s.Ticks(4, time.Second)
	want("first runs", 0)
	for _, f := range s.Workers {
		if st, ok := f.Statuses["app.web.0"]; ok {
			st.Restarts = 2
			f.Statuses["app.web.0"] = st
		}
	}
	s.Ticks(2, time.Second)
	want("in place", 2)
	s.Restart()
	s.Ticks(4, time.Second)
	want("another process of the cluster", 2)
	s.Share("web", 2, func(svc *api.Service) { svc.Policy.Name = api.PolicyClosest })
	s.Ticks(4, time.Second)
	want("other terms", 2)
	s.Share("web", 2, program("y"))
	s.Ticks(8, time.Second)
	want("another program", 2)
	s.Share("web", 3, program("y"))
	s.Ticks(4, time.Second)
	want("one more", 2)
	s.MarkRestart("web", 1)
	s.Ticks(4, time.Second)
	want("asked for", 2)

	// A lost worker: what it ran runs elsewhere. When it is back its own stays, and
	// has not been started again.
	lost := s.Model.Insts["app.web.0"].Worker
	s.Workers[lost].Linked = false
	s.Ticks(40, time.Second)
	want("replaced", 2)
	s.Workers[lost].Linked = true
	s.Ticks(10, time.Second)
	want("the original is back", 2)
	if i := s.Model.Insts["app.web.0"]; i.Worker != lost || i.State != wire.Running {
		t.Fatalf("it is %s on %s\n%s", i.State, i.Worker, s.Dump())
	}
	s.MarkRestart("web", 0)
	s.Ticks(4, time.Second)
	want("asked for again", 2)

	// It goes on elsewhere, and then nowhere.
	s.Model.Far["app.web"] = &wire.Route{V: wire.Version, App: "app", Service: "web"}
	s.Unshare("web")
	s.Ticks(6, time.Second)
	want("gone from here", 2)
	if s.Model.Counters["app"] == nil || s.Model.Counters["app"].Restarts != 2 {
		t.Errorf("counts of what goes on elsewhere: %v", s.Model.Counters)
	}
	delete(s.Model.Far, "app.web")
	s.Ticks(2, time.Second)
	want("gone", 2)
	if len(s.Model.Counters) != 1 || s.Model.Counters[wire.GoneCounters] == nil {
		t.Errorf("counts of what is gone: %v", s.Model.Counters)
	}
	s.Share("web", 1, nil)
	s.Ticks(4, time.Second)
	want("it begins anew", 2)
	s.Restart()
	want("stored", 2)

	// What a worker gives up is started again on another one, and the instance knows it
	// there.
	for _, f := range s.Workers {
		f.Broken["api"] = "exit"
	}
	s.Share("api", 1, nil)
	s.Tick(time.Second)
	s.Tick(time.Second)
	for _, f := range s.Workers {
		delete(f.Broken, "api")
	}
	s.Ticks(4, time.Second)
	i := s.Model.Insts["app.api.0"]
	if i.State != wire.Running || i.Restarts != 0 || i.Again() < 1 || i.Again() != len(i.Avoid) {
		t.Errorf("started again on another worker: %+v", i)
	}
	want("on another worker", 2+uint64(i.Again())) //nolint:gosec // not negative
	// An instance of a version before this one knows those of its incarnation only.
	if n := (&wire.Instance{RunHistory: wire.RunHistory{Restarts: 3, Starts: 9}}).Again(); n != 3 {
		t.Errorf("of an older record: %d", n)
	}
}

// What counts as a change is a service that is to be otherwise here, not a revision.
func TestChangesAreCounted(t *testing.T) {
	s := clustertest.NewSite(t)
	want := func(what string, n uint64) {
		t.Helper()
		if got := s.Core.M.Counted(); got.Changes != n || got.Restarts != 0 {
			t.Fatalf("%s: %s, want %d", what, got, n)
		}
	}
	s.Give(clustertest.Web(2, "a"), 2)
	want("added", 1)
	s.Give(clustertest.Web(2, "a"), 2)
	want("another revision of the same", 1)
	s.Give(clustertest.Web(5, "a"), 2)
	want("scaled elsewhere", 1)
	s.Give(clustertest.Web(5, "a"), 3)
	want("scaled here", 2)
	s.ScaleLocal(1)
	want("scaled by the site", 3)
	s.Reopen()
	s.Settle()
	want("another process", 3)
	if since := uplink.SinceAway(s.Core); since.Changes != 0 {
		t.Errorf("since the process started: %+v", since)
	}
	if v := views.Apps(s.Core.M); len(v) != 1 || v[0].Tally.Changes != 3 {
		t.Errorf("%+v", v)
	}

	// A change while the root is away, and one when it is back.
	uplink.OnUpReply(s.Core, nil)
	uplink.OnUpReply(s.Core, errors.New("nobody answers"))
	s.ScaleLocal(2)
	uplink.OnUpReply(s.Core, nil)
	s.Give(clustertest.Web(5, "b"), 3)
	want("another program", 5)
	if since := uplink.SinceAway(s.Core); since.Changes != 2 || since.Restarts != 0 {
		t.Errorf("since the root was lost: %+v", since)
	}
	s.Give(nil, 0)
	want("another program", 6)
	if len(s.Core.M.Counters) != 1 || s.Core.M.Counters[wire.GoneCounters] == nil {
		t.Errorf("counts of what is gone: %v", s.Core.M.Counters)
	}
}
