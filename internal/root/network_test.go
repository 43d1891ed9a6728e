package root

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/wire"
)

func TestARestoredRootKeepsNumbersAndLeases(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("old", 2, nil)
	s.ticks(2, time.Second)
	disk := s.copied()
	s.apply("late", 2, nil)
	s.ticks(12, time.Second) // both have asked for more since
	late, edge, fog := s.m.apps["late"].Number, s.m.net.leases["edge"], s.m.net.leases["fog"]
	old := 0
	for _, name := range []string{"edge", "fog"} {
		var l wire.ClusterLease
		if err := json.Unmarshal(disk[keyLease+name+leaseOf], &l); err != nil {
			t.Fatal(err)
		}
		old += lease.Count(l.Subnets)
	}
	if late == 0 || lease.Count(edge.Subnets)+lease.Count(fog.Subnets) <= old {
		t.Fatalf("nothing happened after the backup: %+v %+v", edge, fog)
	}
	s.restored(disk)
	s.ticks(6, time.Second)
	if got := s.m.apps["late"].Number; got != late {
		t.Errorf("the number of late was %d and is %d", late, got)
	}
	for name, was := range map[string]*wire.ClusterLease{"edge": edge, "fog": fog} {
		is := s.m.net.leases[name]
		if len(lease.Without(was.Numbers, is.Numbers))+len(lease.Without(was.Subnets, is.Subnets)) > 0 || is.Index != was.Index {
			t.Errorf("%s had %+v and has %+v", name, was, is)
		}
	}
	s.apply("new", 1, nil)
	s.ticks(3, time.Second)
	if got := s.m.apps["new"].Number; got < late+1<<16 {
		t.Errorf("a new application has number %d, too near to what may have been given after the backup", got)
	}
}

// What a removed cluster had is given to nobody while its certificates count, and
// neither is what a node had whose name another one has now.
func TestWhatARemovedClusterHadRests(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.ticks(3, time.Second)
	had := s.m.net.leases["edge"]
	until := s.now.Add(time.Hour)
	for name, rec := range map[string]string{"edge": "k1", "fog": "k2"} {
		c := s.m.clusters[name]
		c.KeyHash = rec
		l := *s.m.net.leases[name]
		l.Key = rec
		s.m.net.leases[name] = &l
	}
	s.m.gone["k1"] = &enroll.Gone{Until: until}
	delete(s.m.clusters, "edge")
	delete(s.fakes, "edge")
	s.m.clusters["fog"].KeyHash = "k3"
	s.fakes["fog"].lease = nil
	s.tick(time.Second)
	fog := s.m.net.leases["fog"]
	if s.m.net.leases["edge"] != nil || fog == nil || fog.Key != "k3" {
		t.Fatalf("edge has %+v, fog %+v", s.m.net.leases["edge"], fog)
	}
	if len(lease.Without(had.Subnets, fog.Subnets)) != len(had.Subnets) {
		t.Errorf("fog was given what edge had: %+v of %+v", fog, had)
	}
	s.now = until.Add(time.Second)
	s.tick(time.Second)
	if n := len(s.m.serviceNetwork().Rests); n != 2 {
		t.Errorf("%d rests are left, want the two of fog's former key: %+v", n, s.m.serviceNetwork().Rests)
	}
}

// An application that began at a site keeps its number when the root takes it over.
func TestAnApplicationKeepsTheNumberOfItsSite(t *testing.T) {
	s := newSim(t, "edge", "fog")
	n, _ := lease.SiteApp(s.m.net.leases["edge"].Index, 5, func(uint32) bool { return false })
	s.m.clusters["edge"].locals = map[string]*wire.LocalChange{"mine.web": {App: "mine", Service: "web", AppNumber: n}}
	s.m.clusters["fog"].locals = map[string]*wire.LocalChange{"liar.web": {App: "liar", Service: "web", AppNumber: n}}
	s.apply("liar", 1, nil)
	s.apply("mine", 1, nil)
	s.ticks(2, time.Second)
	if got := s.m.apps["mine"].Number; got != n {
		t.Errorf("it has number %d, want %d", got, n)
	}
	if got := s.m.apps["liar"].Number; got == n || got == 0 {
		t.Errorf("a cluster has put an application on a number of another cluster's: %d", got)
	}
	if r := s.m.routes["mine.web"]; r.AppNumber != n {
		t.Errorf("its route says %d", r.AppNumber)
	}
}

// What a cluster says about addresses is passed on only where it is its own to say.
func TestAddressesOfOthersAreNotPassedOn(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("a", 1, nil)
	s.ticks(3, time.Second)
	var id wire.InstanceID
	var at string
	for name, f := range s.fakes {
		for i := range f.runs {
			id, at = i, name
		}
	}
	l, app := s.m.net.leases[at], s.m.apps["a"].Number
	six := func(worker, app uint32) netip.Addr {
		b := l.Prefix.Addr().As16()
		b[6], b[7], b[8], b[9] = byte(worker>>24), byte(worker>>16), byte(worker>>8), byte(worker)
		b[10], b[11], b[12], b[15] = byte(app>>16), byte(app>>8), byte(app), 1
		return netip.AddrFrom16(b)
	}
	mine := six(l.Numbers[0].From, app)
	say := func(addrs ...netip.Addr) []netip.Addr {
		f := s.fakes[at]
		r := f.runs[id]
		r.Addrs, r.Relay = addrs, at+"/r"
		f.runs[id] = r
		s.tick(time.Second)
		return s.m.routes["a.web"].Endpoints[0].Addrs
	}
	if got := say(mine); !slices.Equal(got, []netip.Addr{mine}) {
		t.Errorf("its own: %v", got)
	}
	if got := s.m.routes["a.web"].Endpoints[0].Relay; got != at+"/r" {
		t.Errorf("its relay is %q", got)
	}
	if got := say(six(l.Numbers[0].From+1<<30, app), six(l.Numbers[0].From, app+1)); len(got) != 0 {
		t.Errorf("others': %v", got)
	}
}

func TestRelaysAreHandedOn(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.m.net.relay = &wire.Relay{Name: "root", Key: "k", Addresses: []string{"h:1"}}
	s.tick(time.Second)
	need := &wire.NetworkNeed{Relays: []wire.Relay{{Name: "edge/x", Key: "k"}, {Name: "fog/y"}, {Name: "edge/z", Key: strings.Repeat("k", maxName+1)}}}
	checkNeed(need, "edge")
	if len(need.Relays) != 1 {
		t.Fatalf("of what edge says counts %+v", need.Relays)
	}
	s.m.clusters["edge"].agg.Network = need
	s.m.net.relay = &wire.Relay{Name: "root", Key: "k", Addresses: []string{"h:1"}}
	tx := s.m.step(s.now)
	fog := tx.leases["fog"]
	if fog == nil || len(fog.Relays) != 2 || fog.Relays[0].Name != "root" || fog.Relays[1].Name != "edge/x" {
		t.Fatalf("fog is told of %+v", fog)
	}
	tx.Done()
	if l := s.m.step(s.now).leases; l["edge"] != nil || l["fog"] != nil {
		t.Errorf("again: %+v", l)
	}
	s.m.clusters["edge"].agg = nil // the root has started again
	if l := s.m.step(s.now).leases["fog"]; l != nil {
		t.Errorf("a relay is forgotten because its cluster has not been heard yet: %+v", l)
	}
}

func TestPoolsCanBeChangedWhileNobodyHasAny(t *testing.T) {
	store := bus.NewMemStore()
	open := func(pool, services string) (*core, error) {
		c := &core{store: store, log: slog.New(slog.DiscardHandler), events: obs.NewEvents(time.Now(), 0)}
		if err := c.init(t.Context(), time.Minute, time.Now()); err != nil {
			t.Fatal(err)
		}
		p, _ := netip.ParsePrefix(pool)
		sv, _ := netip.ParsePrefix(services)
		return c, c.openNetwork(t.Context(), netip.Prefix{}, p, sv)
	}
	first, err := open("", "")
	if err != nil {
		t.Fatal(err)
	}
	a := first.m.serviceNetwork()
	if a.Prefix.Bits() != 48 || a.Prefix.Addr().As16()[0] != 0xfd || a.Pool != lease.DefaultPool {
		t.Fatalf("the network is %+v", a)
	}
	if _, err := open("10.129.0.0/17", "10.128.0.0/9"); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("overlapping pools: %v", err)
	}
	second, err := open("10.200.0.0/16", "")
	if err != nil || second.m.serviceNetwork().Prefix != a.Prefix || second.m.serviceNetwork().Pool.String() != "10.200.0.0/16" || second.m.serviceNetwork().Services != a.Services {
		t.Fatalf("%+v %v", second.m.serviceNetwork(), err)
	}
	l := wire.ClusterLease{Cluster: "edge", Pool: second.m.serviceNetwork().Pool, Subnets: []wire.Block{{N: 1}}}
	b, err := json.Marshal(l)
	if err == nil {
		_, err = store.Put(t.Context(), keyLease+"edge"+leaseOf, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open("10.201.0.0/16", ""); err == nil || !strings.Contains(err.Error(), "--network-pool 10.200.0.0/16") {
		t.Errorf("a pool that is in use was changed: %v", err)
	}
	if err := second.openNetwork(t.Context(), netip.MustParsePrefix("fe80::/48"), netip.Prefix{}, netip.Prefix{}); err == nil || !strings.Contains(err.Error(), "fd12:") {
		t.Errorf("a prefix that is not unique local: %v", err)
	}
	other := &core{store: store, log: slog.New(slog.DiscardHandler), events: obs.NewEvents(time.Now(), 0)}
	if err := other.init(t.Context(), time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := other.openNetwork(t.Context(), netip.MustParsePrefix("fd99::/48"), netip.Prefix{}, netip.Prefix{}); err == nil || !strings.Contains(err.Error(), "--network-prefix "+a.Prefix.String()) {
		t.Errorf("a prefix that is in use was changed: %v", err)
	}
	if third, err := open("", "10.31.0.0/16"); err != nil || third.m.serviceNetwork().Pool != second.m.serviceNetwork().Pool {
		t.Errorf("the services' pool: %v", err)
	}
}

// What a descriptor says about who may reach a service, and where, is in its route;
// an address that is not the root's to give, or another service's, is refused.
func TestRoutesSayWhatMayBeReached(t *testing.T) {
	s := newSim(t, "edge")
	s.apply("a", 1, func(v *api.Service) { v.Export, v.ServiceIP = true, "10.30.0.10" })
	s.ticks(2, time.Second)
	if r := s.m.routes["a.web"]; !r.Export || r.ServiceIP.String() != "10.30.0.10" {
		t.Errorf("its route says export %v at %s", r.Export, r.ServiceIP)
	}
	s.apply("b", 1, nil)
	s.ticks(2, time.Second)
	if r := s.m.routes["b.web"]; r.Export || r.ServiceIP.IsValid() {
		t.Errorf("a route says export %v at %s", r.Export, r.ServiceIP)
	}
	spec := func(app, ip string) *api.Application {
		return &api.Application{Application: app, Services: map[string]*api.Service{"web": {ServiceIP: ip}}}
	}
	for _, tc := range []struct{ app, ip, says string }{
		{"a", "10.30.0.10", ""}, {"a", "10.30.0.11", ""}, {"c", "10.30.0.10", "that of a.web"}, {"c", "10.31.0.1", "10.30.0.0/16"}, {"c", "", ""},
		{"c", "10.30.0.0", "the first or the last of 10.30.0.0/16"}, {"c", "10.30.255.255", "the first or the last"}, {"c", "10.30.0.1", ""}, {"c", "10.30.255.254", ""},
	} {
		err := s.m.addressesFree(access.Who{Admin: true}, spec(tc.app, tc.ip))
		if (err == nil) != (tc.says == "") || err != nil && !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s at %q: %v", tc.app, tc.ip, err)
		}
	}
	if err := s.m.addressesFree(access.Who{}, spec("c", "10.30.0.10")); err == nil || strings.Contains(err.Error(), "a.web") {
		t.Errorf("somebody else is told: %v", err)
	}
}
