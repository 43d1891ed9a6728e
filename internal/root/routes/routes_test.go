package routes_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/reconcile"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

func TestARestartEmptiesNoRoute(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("app", 3, nil)
	s.Ticks(3, time.Second)
	for _, f := range s.Clusters {
		f.Linked = false
	}
	s.Reopen()
	s.Ticks(3, time.Second)
	ready, suspect := s.Endpoints("app")
	if ready+suspect != 3 {
		t.Fatalf("%d endpoints before anyone reported, want 3\n%s", ready+suspect, s.Dump())
	}
	for _, f := range s.Clusters {
		f.Linked = true
	}
	s.Ticks(3, time.Second)
	if ready, _ := s.Endpoints("app"); ready != 3 || s.Running("app") != 3 {
		t.Errorf("%d endpoints, %d run, want 3 and 3", ready, s.Running("app"))
	}
}

// A cluster that lies gets no traffic for what it was not given, and cannot keep
// others from being given it.
func TestAClusterSpeaksOnlyForWhatItWasGiven(t *testing.T) {
	s := roottest.NewSim(t, "edge", "evil")
	s.Apply("app", 1, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.Clusters["evil"].Linked = true
	lie := &wire.Reported{Instance: wire.Instance{V: wire.Version, ID: "app.web.0", App: "app", Service: "web",
		State: wire.Running, Conditions: wire.Conditions{Ready: true}}, Address: "evil:1"}
	for range 4 {
		s.Tick(time.Second)
		s.Model.Clusters["evil"].Seen["app.web.0"] = lie
		s.Now = s.Now.Add(time.Second)
		tx := reconcile.Step(s.Model, s.Now)
		tx.Done()
	}
	r := s.Model.Routes["app.web"]
	if len(r.Endpoints) != 1 || r.Endpoints[0].Cluster != "edge" {
		t.Errorf("routes to %+v", r.Endpoints)
	}
}

// What a cluster says about addresses is passed on only where it is its own to say.
func TestAddressesOfOthersAreNotPassedOn(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("a", 1, nil)
	s.Ticks(3, time.Second)
	var id wire.InstanceID
	var at string
	for name, f := range s.Clusters {
		for i := range f.Running {
			id, at = i, name
		}
	}
	l, app := state.LeaseTable.Rows(s.Model.DB)[at], s.Model.Apps["a"].Number
	six := func(worker, app uint32) netip.Addr {
		b := l.Prefix.Addr().As16()
		b[6], b[7], b[8], b[9] = byte(worker>>24), byte(worker>>16), byte(worker>>8), byte(worker)
		b[10], b[11], b[12], b[15] = byte(app>>16), byte(app>>8), byte(app), 1
		return netip.AddrFrom16(b)
	}
	mine := six(l.Numbers[0].From, app)
	say := func(addrs ...netip.Addr) []netip.Addr {
		f := s.Clusters[at]
		r := f.Running[id]
		r.Addrs, r.Relay = addrs, at+"/r"
		f.Running[id] = r
		s.Tick(time.Second)
		return s.Model.Routes["a.web"].Endpoints[0].Addrs
	}
	if got := say(mine); !slices.Equal(got, []netip.Addr{mine}) {
		t.Errorf("its own: %v", got)
	}
	if got := s.Model.Routes["a.web"].Endpoints[0].Relay; got != at+"/r" {
		t.Errorf("its relay is %q", got)
	}
	if got := say(six(l.Numbers[0].From+1<<30, app), six(l.Numbers[0].From, app+1)); len(got) != 0 {
		t.Errorf("others': %v", got)
	}
}

// What a descriptor says about who may reach a service, and where, is in its route;
// an address that is not the root's to give, or another service's, is refused.
func TestRoutesSayWhatMayBeReached(t *testing.T) {
	s := roottest.NewSim(t, "edge")
	s.Apply("a", 1, func(v *api.Service) { v.Export, v.ServiceIP = true, "10.30.0.10" })
	s.Ticks(2, time.Second)
	if r := s.Model.Routes["a.web"]; !r.Export || r.ServiceIP.String() != "10.30.0.10" {
		t.Errorf("its route says export %v at %s", r.Export, r.ServiceIP)
	}
	s.Apply("b", 1, nil)
	s.Ticks(2, time.Second)
	if r := s.Model.Routes["b.web"]; r.Export || r.ServiceIP.IsValid() {
		t.Errorf("a route says export %v at %s", r.Export, r.ServiceIP)
	}
	spec := func(app, ip string) *api.Application {
		return &api.Application{Application: app, Services: map[string]*api.Service{"web": {ServiceIP: ip}}}
	}
	for _, tc := range []struct{ app, ip, says string }{
		{"a", "10.30.0.10", ""}, {"a", "10.30.0.11", ""}, {"c", "10.30.0.10", "that of a.web"},
		{"c", "10.31.0.1", "10.30.0.0/16"}, {"c", "", ""},
		{"c", "10.30.0.0", "the first or the last of 10.30.0.0/16"}, {"c", "10.30.255.255", "the first or the last"},
		{"c", "10.30.0.1", ""}, {"c", "10.30.255.254", ""},
	} {
		err := netlease.AddressesFree(s.Model, access.Who{Admin: true}, spec(tc.app, tc.ip))
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s at %q: %v", tc.app, tc.ip, err)
		}
	}
	if err := netlease.AddressesFree(s.Model, access.Who{}, spec("c", "10.30.0.10")); err == nil ||
		strings.Contains(err.Error(), "a.web") {
		t.Errorf("somebody else is told: %v", err)
	}
}
