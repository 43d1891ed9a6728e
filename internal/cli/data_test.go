package cli

import (
	"net/netip"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/apiv1"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/rest/resttest"
	"github.com/verge-edge/verge/internal/wire"
	"github.com/verge-edge/verge/internal/wire/rpc"
)

func ago(d time.Duration) time.Time { return noon.Add(-d) }

func step3(cluster string, start time.Time) []wire.Transition {
	return []wire.Transition{
		{To: wire.Registered, At: start, Tier: "root"},
		{To: wire.Requested, At: start.Add(10 * time.Millisecond), Tier: "root"},
		{To: wire.ClusterScheduled, At: start.Add(20 * time.Millisecond), Tier: "root"},
		{To: wire.WorkerScheduled, At: start.Add(1 * time.Second), Tier: "cluster/" + cluster},
		{To: wire.Running, At: start.Add(2 * time.Second), Tier: "cluster/" + cluster},
	}
}

func instance(id, service string, ordinal int, cluster, worker string, start time.Time) apiv1.InstanceView {
	return apiv1.InstanceView{
		Instance: wire.Instance{
			V: 1, ID: id, App: "guestbook", Service: service, Ordinal: ordinal, Incarnation: 1, Revision: 3,
			Cluster: cluster, Worker: worker, State: wire.Running, Since: start.Add(2 * time.Second), Conditions: wire.Conditions{Ready: true},
			History: step3(cluster, start),
		},
		Source: "cluster/" + cluster, AgeSeconds: 2.4,
	}
}

// world is a small fleet in which something is wrong everywhere.
func world() *resttest.Fake {
	start := ago(3 * time.Minute)
	store := instance("guestbook.store.0", "store", 0, "edge", "w2", start)
	store.State, store.Ready, store.Reason, store.Restarts = wire.Failed, false, "exited 5 times in a row", 5
	store.LastExit = &wire.Exit{Code: 137, Signal: "KILL", At: ago(30 * time.Second), Attempt: 5}
	store.Avoid = []string{"w2"}
	store.History = append(store.History,
		wire.Transition{To: wire.Failed, At: ago(30 * time.Second), Tier: "cluster/edge",
			Why: "exited 5 times in a row"})
	store.Since = ago(30 * time.Second)
	lost := instance("guestbook.front.1", "front", 1, "fog", "fog/w1", start)
	lost.Unreachable, lost.AgeSeconds, lost.Source = true, 65, "root"
	gib := func(n float64) wire.Spread {
		return wire.Spread{Sum: n * (1 << 30), Mean: n * (1 << 29), Max: n * (1 << 29)}
	}
	edge := apiv1.ClusterView{Name: "edge", Areas: []string{"north", "coast"}, Connected: true, AgeSeconds: 1.2,
		Joined: ago(50 * time.Hour), Version: "v-test",
		Aggregate: &wire.Aggregate{Workers: 2, Areas: []string{"north"}, Runtimes: []string{"process"},
			FreeCapacity: wire.FreeCapacity{CPU: wire.Spread{Sum: 6500, Mean: 3250, Max: 4000}, Memory: gib(12.5), Disk: gib(80)}, Instances: 3,
			Capacity: api.Resources{CPU: 8000, Memory: 16 << 30, Disk: 100 << 30}, Details: true,
			WorkerKinds: wire.WorkerKinds{Architectures: map[string]int{"arm64": 2}, Labels: map[string]int{"site=shop": 2, "gpu=no": 1}},
			Disc:        &wire.Disc{Center: api.Point{48.14, 11.58}, RadiusKm: 3, Workers: 2},
			Site:        wire.Site{Operator: "ACME", Location: &api.Point{48, 11}, Labels: map[string]string{"site": "shop"}}}}
	edge.Tally = &wire.Counters{Restarts: 5, Changes: 3}
	fog := apiv1.ClusterView{Tally: &wire.Counters{Restarts: 1, Changes: 4},
		SinceAway: &apiv1.CountersSince{At: ago(time.Hour), Counters: wire.Counters{Changes: 3}}, Name: "fog",
		AgeSeconds: 65, Joined: ago(3 * time.Hour),
		Aggregate: &wire.Aggregate{Workers: 1, Suspect: 1,
			Capacity: api.Resources{CPU: 4000, Memory: 8 << 30, Disk: 10 << 30}}}
	cloud := apiv1.ClusterView{Name: "cloud", AgeSeconds: -1, Joined: ago(time.Minute)}
	w1 := rpc.WorkerView{WorkerInfo: wire.WorkerInfo{V: 1, Name: "w1", Version: "v-test",
		Capacity: api.Resources{CPU: 4000, Memory: 8 << 30, Disk: 50 << 30},
		Arch:     "arm64", OS: "linux", Runtimes: []string{"process"},
		Labels:  map[string]string{"rack": "1", "gpu": "no"},
		Address: "10.0.0.1:8474", Gateway: "127.0.0.1:8480",
		Location: &api.Point{48.137, 11.575}, Features: []string{"cgroup2", "nftables"},
		HostPaths: []string{"/srv/media"}},
		Cluster: "edge", Status: "ready", AgeSeconds: 0.8,
		Used: api.Resources{CPU: 1500, Memory: 3 << 29, Disk: 10 << 30}, Instances: 3}
	prefix, pool := netip.MustParsePrefix("fd12:3456:789a::/48"), netip.MustParsePrefix("10.128.0.0/9")
	w1.Lease = &wire.Lease{V: 1, Cluster: "edge", Worker: "w1", Prefix: prefix, Number: 257,
		IPv4: netip.MustParsePrefix("10.128.3.0/24"), Pool: pool}
	w1.Network = &wire.NetworkInfo{Mode: wire.NetworkOverlay, WireGuard: "user", Port: 8476, MTU: 1420,
		Uplink: 19_000_000}
	store.Addrs = []netip.Addr{netip.MustParseAddr("fd12:3456:789a:0:101::7"), netip.MustParseAddr("10.128.3.2")}
	edge.Network = &apiv1.ClusterNetwork{Numbers: 256, Subnets: 16, NeedNumbers: 2, NeedSubnets: 2, Relays: 1}
	w2 := w1
	w2.Lease = &wire.Lease{V: 1, Cluster: "edge", Worker: "w2", Prefix: prefix, Number: 258, Pool: pool}
	w2.Network = &wire.NetworkInfo{Mode: wire.NetworkLoopback, Why: "it does not run as root", Via: "edge/x"}
	w2.Problems = []string{"gateway 127.0.0.1:8480 is taken: stop what listens there"}
	w2.Cgroup = "process: limits: no control groups"
	w1.Devices = []wire.Device{{ID: "camera0", Type: "camera"}, {ID: "gpu0", Type: "gpu", Model: "nvidia-a10"}}
	w1.Capacity.VGPUs, w1.Used.VGPUs = 1000, 500
	w1.Capacity.Bandwidth, w1.Used.Bandwidth = api.Bandwidth{In: 1e8, Out: 2e7}, api.Bandwidth{Out: 5e6}
	w2.Name, w2.Address, w2.Gateway, w2.Status, w2.AgeSeconds, w2.Used, w2.Instances, w2.Labels = "w2", "", "",
		"suspect", 9, api.Resources{}, 0, nil
	app := apiv1.AppView{Name: "guestbook", Number: 66, Revision: 3, Created: ago(30 * time.Hour), Applied: start,
		Message: "1 of 4 instances is not ready", Tally: wire.Counters{Restarts: 6, Changes: 3},
		Services: []apiv1.ServiceView{
			{Name: "front", Wanted: 3, Placed: 3, Running: 3, Ready: 3, Hosts: []string{"guestbook.local"},
				Clusters: []string{"edge", "fog"}},
			{Name: "store", Wanted: 1, Placed: 1, Message: "store.0 exited 5 times in a row",
				Clusters: []string{"edge"}},
		}}
	idle := apiv1.AppView{Name: "hello", Revision: 1, Created: ago(30 * time.Second), Applied: ago(30 * time.Second),
		Holds: true, Tally: wire.Counters{Changes: 1},
		Services: []apiv1.ServiceView{{Name: "web", Wanted: 1, Placed: 1, Running: 1, Ready: 1,
			Clusters: []string{"cloud"}}}}
	f := &resttest.Fake{
		ApplicationData: resttest.ApplicationData{
			Apps: []apiv1.AppView{app, idle},
			Explanations: map[string]apiv1.Explanation{"guestbook.front.0": {Instance: "guestbook.front.0",
				Notes: []string{"decisions of cluster edge are as of 2s ago"}, Decisions: []rpc.Explained{
					{Tier: "root", At: start,
						Decision: place.Decision{V: 1, Kind: "clusters", TookNs: 84_000, Candidates: 3,
							Request: place.Request{Instance: "guestbook.front", Count: 3, Runtime: "process",
								Demand: api.Resources{CPU: 100, Memory: 64 << 20, Disk: 100 << 20}, Spread: "soft",
								Scheduler: "rom", Affinity: api.Affinity{Area: []string{"north"}}},
							Filtered: []place.Filter{{Name: "connected", Removed: 1, Example: "cloud: no report yet"}},
							Ranked: []place.Ranked{{ID: "edge", Score: 12,
								Parts: map[string]float64{"expected": 12, "same": 0}},
								{ID: "fog", Score: 4}},
							Shares: []place.ShareOut{{Cluster: "edge", Count: 2}, {Cluster: "fog", Count: 1}}}},
					{Tier: "cluster/edge", At: start.Add(time.Second),
						Decision: place.Decision{V: 1, Kind: "worker", TookNs: 12_345, Candidates: 2, Chosen: "w1",
							Request: place.Request{Instance: "guestbook.front.0", Count: 1, Runtime: "process",
								Demand: api.Resources{CPU: 100, Memory: 64 << 20, Disk: 100 << 20}, Spread: "soft",
								Scheduler: "rom"},
							Filtered: []place.Filter{{Name: "suspect", Removed: 1, Example: "w2"}},
							Ranked: []place.Ranked{{ID: "w1", Score: 0.61234567,
								Parts: map[string]float64{"rom": 0.61234567, "same": 0}}}}},
				}}},
			ApplyAnswer: apiv1.ApplyResult{Name: "hello", Revision: 1, Change: "created"},
		},
		InstanceData: resttest.InstanceData{
			InstanceList: []apiv1.InstanceView{
				instance("guestbook.front.0", "front", 0, "edge", "w1", start), lost,
				instance("guestbook.front.2", "front", 2, "edge", "w1", start), store,
			},
			LogText: map[string]string{"guestbook.store.0": "ready to accept connections\nloading\nout of luck\n"},
		},
		NodeData: resttest.NodeData{
			ClusterList: []apiv1.ClusterView{cloud, edge, fog},
			WorkerList:  []rpc.WorkerView{w1, w2},
			EntryLists: map[string][]rpc.EntryView{"edge/w1": {
				{App: "guestbook", Service: "front", Port: "http", Addr: "127.0.0.1:21034"},
				{App: "guestbook", Service: "store", Port: "tcp", Addr: "127.0.0.1:23001",
					Problem: "listen tcp 127.0.0.1:23001: bind: address already in use"},
			}},
		},
		EventList: []apiv1.Event{
			{Seq: 7, At: ago(3 * time.Minute), Tier: "root", Subject: "application/guestbook",
				What: "applied, revision 3"},
			{Seq: 9, At: ago(65 * time.Second), Tier: "root", Subject: "cluster/fog", What: "disconnected"},
			{Seq: 10, At: ago(30 * time.Second), Tier: "cluster/edge", Subject: "instance/guestbook.store.0",
				What: "Failed: \x1b[31mexited\x1b[0m 5 times in a row"},
		},
		UserData: resttest.UserData{TokenAnswer: apiv1.TokenReply{Token: "verge-join-abc", Expires: noon.Add(time.Hour)}},
	}
	net := &apiv1.NetworkView{Prefix: prefix, Pool: pool, Services: netip.MustParsePrefix("10.30.0.0/16"),
		Subnets: 32768, Given: 48}
	f.State = apiv1.StatusView{Network: net, Role: "root", Name: "home", Version: "v-test",
		Started: ago(26 * time.Hour), Time: noon,
		Clusters: f.ClusterList, Apps: f.Apps, Tally: wire.Counters{Restarts: 6, Changes: 4},
		Problems: []string{"cluster fog is disconnected for 65s",
			"application guestbook: 1 of 4 instances is not ready"}}
	return f
}
