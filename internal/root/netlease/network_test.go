package netlease_test

import (
	"encoding/json"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/obs"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/appnumber"
	"github.com/verge-edge/verge/internal/policy/lease/block"
	"github.com/verge-edge/verge/internal/root/controller"
	"github.com/verge-edge/verge/internal/root/core"
	"github.com/verge-edge/verge/internal/root/netlease"
	"github.com/verge-edge/verge/internal/root/reconcile"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

func TestARestoredRootKeepsNumbersAndLeases(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Apply("old", 2, nil)
	s.Ticks(2, time.Second)
	disk := s.Backup()
	s.Apply("late", 2, nil)
	s.Ticks(12, time.Second) // both have asked for more since
	late, edge, fog := s.Model.Apps["late"].Number, state.LeaseTable.Rows(s.Model.DB)["edge"],
		state.LeaseTable.Rows(s.Model.DB)["fog"]
	old := 0
	for _, name := range []string{"edge", "fog"} {
		var l wire.ClusterLease
		if err := json.Unmarshal(disk[state.KeyLease+name+state.LeaseSuffix], &l); err != nil {
			t.Fatal(err)
		}
		old += block.Count(l.Subnets)
	}
	if late == 0 || block.Count(edge.Subnets)+block.Count(fog.Subnets) <= old {
		t.Fatalf("nothing happened after the backup: %+v %+v", edge, fog)
	}
	s.RestoreFrom(disk)
	s.Ticks(6, time.Second)
	if got := s.Model.Apps["late"].Number; got != late {
		t.Errorf("the number of late was %d and is %d", late, got)
	}
	for name, was := range map[string]*wire.ClusterLease{"edge": edge, "fog": fog} {
		is := state.LeaseTable.Rows(s.Model.DB)[name]
		if len(block.Without(was.Numbers, is.Numbers))+len(block.Without(was.Subnets, is.Subnets)) > 0 ||
			is.Index != was.Index {
			t.Errorf("%s had %+v and has %+v", name, was, is)
		}
	}
	s.Apply("new", 1, nil)
	s.Ticks(3, time.Second)
	if got := s.Model.Apps["new"].Number; got < late+1<<16 {
		t.Errorf("a new application has number %d, too near to what may have been given after the backup", got)
	}
}

// What a removed cluster had is given to nobody while its certificates count, and
// neither is what a node had whose name another one has now.
func TestWhatARemovedClusterHadRests(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	s.Ticks(3, time.Second)
	had := state.LeaseTable.Rows(s.Model.DB)["edge"]
	until := s.Now.Add(time.Hour)
	for name, rec := range map[string]string{"edge": "k1", "fog": "k2"} {
		c := s.Model.Clusters[name]
		c.KeyHash = rec
		l := *state.LeaseTable.Rows(s.Model.DB)[name]
		l.Key = rec
		state.LeaseTable.Rows(s.Model.DB)[name] = &l
	}
	s.Model.Gone["k1"] = &enroll.Gone{Until: until}
	delete(s.Model.Clusters, "edge")
	delete(s.Clusters, "edge")
	s.Model.Clusters["fog"].KeyHash = "k3"
	s.Clusters["fog"].Lease = nil
	s.Tick(time.Second)
	fog := state.LeaseTable.Rows(s.Model.DB)["fog"]
	if state.LeaseTable.Rows(s.Model.DB)["edge"] != nil || fog == nil || fog.Key != "k3" {
		t.Fatalf("edge has %+v, fog %+v", state.LeaseTable.Rows(s.Model.DB)["edge"], fog)
	}
	if len(block.Without(had.Subnets, fog.Subnets)) != len(had.Subnets) {
		t.Errorf("fog was given what edge had: %+v of %+v", fog, had)
	}
	s.Now = until.Add(time.Second)
	s.Tick(time.Second)
	if n := len(s.Model.ServiceNetwork().Rests); n != 2 {
		t.Errorf("%d rests are left, want the two of fog's former key: %+v", n, s.Model.ServiceNetwork().Rests)
	}
}

// An application that began at a site keeps its number when the root takes it over.
func TestAnApplicationKeepsTheNumberOfItsSite(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	n, _ := appnumber.NextAtSite(state.LeaseTable.Rows(s.Model.DB)["edge"].Index, 5, func(uint32) bool { return false })
	s.Model.Clusters["edge"].Locals = map[string]*wire.LocalChange{"mine.web": {App: "mine", Service: "web", AppNumber: n}}
	s.Model.Clusters["fog"].Locals = map[string]*wire.LocalChange{"liar.web": {App: "liar", Service: "web", AppNumber: n}}
	s.Apply("liar", 1, nil)
	s.Apply("mine", 1, nil)
	s.Ticks(2, time.Second)
	if got := s.Model.Apps["mine"].Number; got != n {
		t.Errorf("it has number %d, want %d", got, n)
	}
	if got := s.Model.Apps["liar"].Number; got == n || got == 0 {
		t.Errorf("a cluster has put an application on a number of another cluster's: %d", got)
	}
	if r := s.Model.Routes["mine.web"]; r.AppNumber != n {
		t.Errorf("its route says %d", r.AppNumber)
	}
}

func TestRelaysAreHandedOn(t *testing.T) {
	s := roottest.NewSim(t, "edge", "fog")
	netlease.Memory(s.Model).Relay = &wire.Relay{Name: "root", Key: "k", Addresses: []string{"h:1"}}
	s.Tick(time.Second)
	need := &wire.NetworkNeed{Relays: []wire.Relay{{Name: "edge/x", Key: "k"}, {Name: "fog/y"},
		{Name: "edge/z", Key: strings.Repeat("k", state.MaxName+1)}}}
	netlease.CheckNeed(need, "edge")
	if len(need.Relays) != 1 {
		t.Fatalf("of what edge says counts %+v", need.Relays)
	}
	s.Model.Clusters["edge"].Aggregate.Network = need
	netlease.Memory(s.Model).Relay = &wire.Relay{Name: "root", Key: "k", Addresses: []string{"h:1"}}
	tx := reconcile.Step(s.Model, s.Now)
	fog := state.LeaseTable.Changes(tx.Rows)["fog"]
	if fog == nil || len(fog.Relays) != 2 || fog.Relays[0].Name != "root" || fog.Relays[1].Name != "edge/x" {
		t.Fatalf("fog is told of %+v", fog)
	}
	tx.Done()
	if l := state.LeaseTable.Changes(reconcile.Step(s.Model, s.Now).Rows); l["edge"] != nil || l["fog"] != nil {
		t.Errorf("again: %+v", l)
	}
	s.Model.Clusters["edge"].Aggregate = nil // the root has started again
	if l := state.LeaseTable.Changes(reconcile.Step(s.Model, s.Now).Rows)["fog"]; l != nil {
		t.Errorf("a relay is forgotten because its cluster has not been heard yet: %+v", l)
	}
}

func TestPoolsCanBeChangedWhileNobodyHasAny(t *testing.T) {
	store := bustest.NewMemStore()
	open := func(pool, services string) (*core.Core, error) {
		c := &core.Core{RecordStore: store, Logger: slog.New(slog.DiscardHandler),
			EventRing: obs.NewEvents(time.Now(), 0, state.Tier)}
		if err := controller.Init(t.Context(), c, time.Minute, time.Now()); err != nil {
			t.Fatal(err)
		}
		p, _ := netip.ParsePrefix(pool)
		sv, _ := netip.ParsePrefix(services)
		return c, core.OpenNetwork(t.Context(), c, netip.Prefix{}, p, sv)
	}
	first, err := open("", "")
	if err != nil {
		t.Fatal(err)
	}
	a := first.M.ServiceNetwork()
	if a.Prefix.Bits() != 48 || a.Prefix.Addr().As16()[0] != 0xfd || a.Pool != lease.DefaultPool {
		t.Fatalf("the network is %+v", a)
	}
	if _, err := open("10.129.0.0/17", "10.128.0.0/9"); err == nil || !strings.Contains(err.Error(), "overlap") {
		t.Errorf("overlapping pools: %v", err)
	}
	second, err := open("10.200.0.0/16", "")
	if err != nil || second.M.ServiceNetwork().Prefix != a.Prefix ||
		second.M.ServiceNetwork().Pool.String() != "10.200.0.0/16" || second.M.ServiceNetwork().Services != a.Services {
		t.Fatalf("%+v %v", second.M.ServiceNetwork(), err)
	}
	l := wire.ClusterLease{Cluster: "edge", Pool: second.M.ServiceNetwork().Pool, Subnets: []wire.Block{{N: 1}}}
	b, err := json.Marshal(l)
	if err == nil {
		_, err = store.Put(t.Context(), state.KeyLease+"edge"+state.LeaseSuffix, b)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := open("10.201.0.0/16", ""); err == nil ||
		!strings.Contains(err.Error(), "--network-pool 10.200.0.0/16") {
		t.Errorf("a pool that is in use was changed: %v", err)
	}
	if err := core.OpenNetwork(t.Context(), second, netip.MustParsePrefix("fe80::/48"), netip.Prefix{},
		netip.Prefix{}); err == nil || !strings.Contains(err.Error(), "fd12:") {
		t.Errorf("a prefix that is not unique local: %v", err)
	}
	other := &core.Core{RecordStore: store, Logger: slog.New(slog.DiscardHandler),
		EventRing: obs.NewEvents(time.Now(), 0, state.Tier)}
	if err := controller.Init(t.Context(), other, time.Minute, time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := core.OpenNetwork(t.Context(), other, netip.MustParsePrefix("fd99::/48"), netip.Prefix{},
		netip.Prefix{}); err == nil || !strings.Contains(err.Error(), "--network-prefix "+a.Prefix.String()) {
		t.Errorf("a prefix that is in use was changed: %v", err)
	}
	if third, err := open("", "10.31.0.0/16"); err != nil ||
		third.M.ServiceNetwork().Pool != second.M.ServiceNetwork().Pool {
		t.Errorf("the services' pool: %v", err)
	}
}
