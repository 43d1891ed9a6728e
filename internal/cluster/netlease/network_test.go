package netlease_test

import (
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus/bustest"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/controller"
	"github.com/verge-edge/verge/internal/cluster/netlease"
	"github.com/verge-edge/verge/internal/cluster/reconcile"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/uplink"
	"github.com/verge-edge/verge/internal/cluster/workers"
	"github.com/verge-edge/verge/internal/enroll"
	"github.com/verge-edge/verge/internal/policy/lease"
	"github.com/verge-edge/verge/internal/policy/lease/appnumber"
	"github.com/verge-edge/verge/internal/policy/lease/grant"
	"github.com/verge-edge/verge/internal/wire"
)

// A worker is told what it has of the network, signed, before anything else; what
// cannot be signed now is told later.
func TestWorkersAreToldTheirSignedLease(t *testing.T) {
	c := clustertest.NewCore(t, bustest.NewMemStore())
	now := time.Now()
	c.M.Peer = func(worker string) string { return "opaque-" + worker }
	c.M.Workers["w1"] = state.NewWorker(state.WorkerRecord{V: wire.Version, Info: wire.WorkerInfo{Name: "w1"},
		KeyHash: "k1"}, now)
	blocks := wire.ClusterLease{
		V: wire.Version, Cluster: "edge", Index: 1,
		Prefix: grant.NewNetwork([5]byte{1}, lease.DefaultPool, lease.DefaultServices).Prefix,
		Pool:   lease.DefaultPool, Services: lease.DefaultServices, Numbers: []wire.Block{{From: 9, N: 9}},
		Subnets: []wire.Block{{From: 1, N: 2}},
	}
	take := func(l wire.ClusterLease) {
		t.Helper()
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		d := uplink.FromRoot(c)
		to := d.Have()
		to.Inc, to.N = "root", to.N+1
		if err := d.Take(t.Context(), false, []wire.Change{{Key: "lease.net", Value: b}}, to, nil); err != nil {
			t.Fatal(err)
		}
		if _, err := controller.Pass(t.Context(), c, now, true); err != nil {
			t.Fatal(err)
		}
	}
	fail := errors.New("the key cannot be read")
	netlease.NetworkOf(c.M).Signs = "first"
	c.Sign = func(l wire.Lease) (wire.SignedLease, error) {
		b, _ := json.Marshal(l)
		return wire.SignedLease{Body: b, Sig: []byte(netlease.NetworkOf(c.M).Signs)}, fail
	}
	foreign := blocks
	foreign.Cluster = "other"
	take(foreign)
	if netlease.Blocks(c.M) != nil {
		t.Fatalf("another cluster's part was taken: %+v", netlease.Blocks(c.M))
	}
	take(blocks)
	if netlease.ToldTable.Rows(c.M.DB)["w1"] != nil || netlease.LeaseTable.Rows(c.M.DB)["w1"] != nil {
		t.Fatal("a worker was told what is not signed")
	}
	fail = nil
	told := func() wire.Network {
		t.Helper()
		if _, err := controller.Pass(t.Context(), c, now, true); err != nil {
			t.Fatal(err)
		}
		e, err := c.RecordStore.Get(t.Context(), netlease.KeyNet+"w1"+netlease.Of)
		if err != nil {
			t.Fatal(err)
		}
		var n wire.Network
		if err := json.Unmarshal(e.Value, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	first := told()
	var l wire.Lease
	if err := json.Unmarshal(first.Lease.Body, &l); err != nil || l.Number != 9 ||
		l.IPv4.String() != "10.128.1.0/24" || l.Worker != "w1" || string(first.Lease.Sig) != "first" {
		t.Fatalf("told %s %q, %v", first.Lease.Body, first.Lease.Sig, err)
	}
	// With another key all of them are signed again, and stay what they are.
	netlease.NetworkOf(c.M).Signs = "second"
	second := told()
	if string(second.Lease.Sig) != "second" || string(second.Lease.Body) != string(first.Lease.Body) {
		t.Errorf("with another key it is told %s %q", second.Lease.Body, second.Lease.Sig)
	}
	rev := workers.DesiredOf(c, "w1").Rev()
	var away wire.Lease
	if err := json.Unmarshal(second.Away.Body, &away); err != nil || away.Worker == "w1" ||
		away.Worker != c.M.Peer("w1") || away.Number != l.Number || string(second.Away.Sig) != "second" {
		t.Errorf("others are shown %s %q, %v", second.Away.Body, second.Away.Sig, err)
	}
	if again := told(); workers.DesiredOf(c, "w1").Rev() != rev || string(again.Lease.Sig) != "second" {
		t.Error("it is told the same again")
	}
	// A root that does not know it any more takes nothing away.
	if err := uplink.FromRoot(c).Take(t.Context(), true, nil, wire.Rev{Inc: "other", N: 1}, nil); err != nil ||
		netlease.Blocks(c.M) == nil {
		t.Errorf("the part of the network is gone: %v", err)
	}
}

func TestWhatARemovedWorkerHadRests(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Ticks(2, time.Second)
	one, two := *s.Workers["w1"].Lease, *s.Workers["w2"].Lease
	until := s.Now.Add(time.Hour)
	for name, key := range map[string]string{"w1": "k1", "w2": "k2"} {
		w, l := s.Model.Workers[name], *netlease.LeaseTable.Rows(s.Model.DB)[name]
		w.KeyHash, l.Key = key, key
		netlease.LeaseTable.Rows(s.Model.DB)[name] = &l
	}
	s.Model.Gone["k1"] = &enroll.Gone{Until: until}
	delete(s.Model.Workers, "w1")
	delete(s.Workers, "w1")
	s.Model.Workers["w2"].KeyHash = "k3" // another node has its name now
	s.Workers["w2"].Lease = nil
	delete(netlease.ToldTable.Rows(s.Model.DB), "w2")
	s.AddWorker("w3")
	s.Ticks(2, time.Second)
	got := *s.Workers["w2"].Lease
	if netlease.LeaseTable.Rows(s.Model.DB)["w1"] != nil || got.Number == two.Number || got.IPv4 == two.IPv4 &&
		got.IPv4.IsValid() {
		t.Errorf("w2 has what the node before it had: %+v", got)
	}
	if l := s.Workers["w3"].Lease; l.Number == one.Number || l.IPv4.IsValid() && l.IPv4 == one.IPv4 {
		t.Errorf("w3 was given what w1 had: %+v", l)
	}
	if n := netlease.Need(s.Model); n.Numbers != 4 || n.Subnets != 4 {
		t.Errorf("it needs %+v, want for two workers and two that rest", n)
	}
	s.Now = until.Add(time.Second)
	s.Ticks(2, time.Second)
	if l := s.Workers["w3"].Lease; !l.IPv4.IsValid() {
		t.Errorf("a /24 is free again, and w3 has none: %+v", l)
	}
}

// A cluster that was restored gives to nobody what a worker may have that joined
// after the backup, and workers go on with what they have.
func TestARestoredClusterKeepsLeases(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Ticks(2, time.Second)
	given, disk := maps.Clone(s.Model.FromRoot), maps.Clone(s.Disk)
	for _, l := range []string{netlease.KeyLease + "w1", netlease.KeyNet + "w1" + netlease.Of} {
		delete(disk, l) // it had none yet
	}
	s.AddWorker("lost") // joins after the backup, and is not known then
	s.Ticks(2, time.Second)
	one, lost := *s.Workers["w1"].Lease, *s.Workers["lost"].Lease
	s.Workers["lost"].Linked = false
	gone := s.Workers["lost"]
	delete(s.Workers, "lost")
	s.RestoreFrom(disk)
	s.HearRoot(given)
	s.Ticks(3, time.Second)
	if got := *s.Workers["w1"].Lease; got != one {
		t.Errorf("w1 had %+v and has %+v", one, got)
	}
	s.AddWorker("new")
	s.Ticks(3, time.Second)
	if s.Workers["new"].Lease != nil {
		t.Errorf("a new worker was given %+v of what is not accounted for", s.Workers["new"].Lease)
	}
	more := *netlease.Blocks(s.Model)
	if n := netlease.Need(s.Model); n.Numbers < 41 {
		t.Fatalf("it does not ask for more: %+v", n)
	}
	more.Numbers = append(slices.Clone(more.Numbers), wire.Block{From: 900, N: 9})
	s.GrantLease(more)
	s.Workers["lost"] = gone // still there, on the data path
	s.Model.Workers["lost"] = state.NewWorker(state.WorkerRecord{Info: wire.WorkerInfo{Name: "lost"}, Revoked: s.Now},
		s.Now)
	s.Ticks(3, time.Second)
	if got := s.Workers["new"].Lease; got == nil || got.Number < 900 || got.Number == lost.Number {
		t.Errorf("the new worker has %+v", got)
	}
}

// An application that begins at the site has a number of the cluster's; one that
// the root knows has the root's, and what runs keeps what it began with.
func TestNumbersOfApplications(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 1, nil) // without a number: as if it began here
	s.Ticks(4, time.Second)
	n := s.Model.Routes["app.web"].AppNumber
	if !appnumber.SiteOwns(3, n) || s.Model.Orders[s.Instance("app.web.0").Worker+".app.web.0"].AppNumber != n {
		t.Fatalf("it has number %d", n)
	}
	s.Restart()
	s.Ticks(3, time.Second)
	if got := s.Model.Routes["app.web"].AppNumber; got != n {
		t.Errorf("after a restart it has %d", got)
	}
	// The root takes it over under another number.
	sh := *s.Model.FromRoot["app.web"]
	sh.AppNumber = 77
	s.Model.FromRoot["app.web"] = &sh
	reconcile.Effect(s.Model)
	s.Ticks(2, time.Second)
	i := s.Instance("app.web.0")
	if got := s.Model.Orders[i.Worker+".app.web.0"].AppNumber; got != n {
		t.Errorf("what runs has number %d in its order", got)
	}
	s.MarkRestart("web", -1)
	s.Ticks(10, time.Second)
	i = s.Instance("app.web.0")
	if got := s.Model.Orders[i.Worker+".app.web.0"].AppNumber; got != 77 {
		t.Errorf("started again it has number %d", got)
	}
	s.Unshare("web")
	s.Ticks(10, time.Second)
	if len(netlease.NumberTable.Rows(s.Model.DB)) != 0 {
		t.Errorf("numbers are left: %v", netlease.NumberTable.Rows(s.Model.DB))
	}
}

func TestRelaysComeNearestFirst(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2", "w3")
	overlay := &wire.NetworkInfo{Mode: wire.NetworkOverlay}
	s.Model.Workers["w1"].Info.Network, s.Model.Workers["w2"].Info.Network = overlay,
		&wire.NetworkInfo{Mode: wire.NetworkOverlay, Relay: &wire.Relay{Name: "me", Key: "k"}}
	netlease.Blocks(s.Model).Relays = []wire.Relay{{Name: "root"}, {Name: "fog/x"}}
	s.Ticks(2, time.Second)
	names := func(worker string) (out []string) {
		for _, r := range netlease.ToldTable.Rows(s.Model.DB)[worker].Relays {
			out = append(out, r.Name)
		}
		return out
	}
	if got := names("w1"); !slices.Equal(got, []string{"edge/w2", "root", "fog/x"}) {
		t.Errorf("w1 is told of %v", got)
	}
	if got := names("w2"); !slices.Equal(got, []string{"root", "fog/x"}) {
		t.Errorf("w2 is told of %v", got)
	}
	if got := netlease.Need(s.Model).Relays; len(got) != 1 || got[0].Name != "edge/w2" || got[0].Key != "k" {
		t.Errorf("the root is told of %+v", got)
	}
	w1 := s.Model.Workers["w1"]
	if got := netlease.In(s.Model.Begin()).RelayOf(w1); got != "" {
		t.Errorf("a worker with an address is reached through %q", got)
	}
	w1.Info.Address = ""
	if got := netlease.In(s.Model.Begin()).RelayOf(w1); got != "edge/w2" {
		t.Errorf("a worker without an address is reached through %q", got)
	}
	w1.Info.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay, Via: "root"}
	if got := netlease.In(s.Model.Begin()).RelayOf(w1); got != "root" {
		t.Errorf("a worker that says root is reached through %q", got)
	}
	if got := netlease.In(s.Model.Begin()).RelayOf(s.Model.Workers["w3"]); got != "" {
		t.Errorf("a worker without the overlay is reached through %q", got)
	}
}

// What a worker has is said within the cluster; to others only of what is shared by it.
func TestProcessorsAreToldToThoseWhoNeedThem(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	for policy, said := range map[string]bool{api.PolicyClosest: false, api.PolicyWeighted: true} {
		s.Share("web", 1, func(v *api.Service) { v.Policy.Name = policy })
		s.Ticks(4, time.Second)
		has := s.Model.Workers["w1"].Info.Capacity.CPU
		if e := s.Model.Routes["app.web"].Endpoints[0]; has == 0 || e.CPU != has {
			t.Errorf("%s: the route says %v, the worker has %v", policy, e.CPU, has)
		}
		if up := s.Model.Ups["app.web.0"]; (up.CPU == has) != said {
			t.Errorf("%s: the root is told %v", policy, up.CPU)
		}
	}
}

// With export: relay no worker's address leaves the cluster.
func TestOnlyARelayIsNamed(t *testing.T) {
	s := clustertest.NewSim(t, "w1")
	s.Model.Workers["w1"].Info.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay}
	netlease.Blocks(s.Model).Relays = []wire.Relay{{Name: "root"}}
	s.Share("web", 1, nil)
	s.Ticks(4, time.Second)
	if up := s.Model.Ups["app.web.0"]; up.Address == "" || up.Relay != "" || len(up.Addrs) != 2 {
		t.Fatalf("the root is told %+v", up)
	}
	netlease.NetworkOf(s.Model).RelayOnly = true
	s.Ticks(2, time.Second)
	if up := s.Model.Ups["app.web.0"]; up.Address != "" || up.Relay != "root" || len(up.Addrs) != 2 {
		t.Errorf("the root is told address %q, relay %q, %v", up.Address, up.Relay, up.Addrs)
	}
	if e := s.Model.Routes["app.web"].Endpoints[0]; e.Address == "" {
		t.Error("within the cluster the address is gone too")
	}
}
