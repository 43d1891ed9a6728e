package placement_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/lifecycle"
	"github.com/verge-edge/verge/internal/cluster/report"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// Each constraint leads to the one worker of three that satisfies it.
func TestConstraintsChooseTheWorker(t *testing.T) {
	for name, tc := range map[string]struct {
		worker func(*wire.WorkerInfo)
		spec   func(*api.Service)
	}{
		"architecture": {func(w *wire.WorkerInfo) { w.Arch = "arm64" },
			func(v *api.Service) { v.Architecture = []string{"riscv64", "arm64"} }},
		"labels": {func(w *wire.WorkerInfo) { w.Labels = clustertest.SSD },
			func(v *api.Service) { v.Affinity.Labels = clustertest.SSD }},
		"no labels": {func(w *wire.WorkerInfo) { w.Labels = map[string]string{"shared": "no"} },
			func(v *api.Service) { v.AntiAffinity.Labels = map[string]string{"shared": "yes"} }},
		"location": {func(w *wire.WorkerInfo) { w.Location = &api.Point{48.1, 11.5} },
			func(v *api.Service) { v.Location = &api.Location{Latitude: 48.14, Longitude: 11.58, Radius: 20_000} }},
		"polygon": {func(w *wire.WorkerInfo) { w.Location = &api.Point{48.1, 11.5} },
			func(v *api.Service) { v.Affinity.Polygon = []api.Point{{48, 11}, {49, 11}, {48, 12}} }},
		"host user": {func(w *wire.WorkerInfo) {
			w.Isolation = &wire.Isolation{Users: true,
				HostUsers: []string{"www-data"}}
		},
			func(v *api.Service) { v.User = "www-data" }},
		"host path": {func(w *wire.WorkerInfo) { w.HostPaths = []string{"/srv"} },
			func(v *api.Service) { v.Volumes = []api.Volume{{Path: "m", Host: "/srv/media"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1", "w2", "w3")
			s.Model.Site.Labels = map[string]string{"shared": "yes"}
			for _, w := range []string{"w1", "w2", "w3"} {
				s.UpdateInfo(w, func(*wire.WorkerInfo) {})
			}
			s.UpdateInfo("w2", tc.worker)
			s.Share("web", 3, tc.spec)
			s.Ticks(3, time.Second)
			if got := s.Placed("web"); got["w2"] != 3 {
				t.Errorf("%v\n%s", got, s.Dump())
			}
		})
	}
}

// Kept apart counts both ways: it does not matter who was there first, nor which
// of the two says so.
func TestServicesAreKeptApart(t *testing.T) {
	apart := func(others ...string) func(*api.Service) {
		return func(v *api.Service) { v.AntiAffinity.Service = others }
	}
	for name, order := range map[string][2]string{"who says so comes second": {"db", "web"},
		"who says so comes first": {"web", "db"}} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1", "w2")
			specs := map[string]func(*api.Service){"web": apart("db"), "db": nil}
			s.Share(order[0], 1, specs[order[0]])
			s.Ticks(3, time.Second)
			s.Share(order[1], 4, specs[order[1]])
			s.Ticks(3, time.Second)
			web, db := s.Placed("web"), s.Placed("db")
			for _, w := range []string{"w1", "w2"} {
				if web[w] > 0 && db[w] > 0 {
					t.Errorf("both on %s: web %v, db %v", w, web, db)
				}
			}
			if s.Running("web")+s.Running("db") != 5 {
				t.Errorf("web %v, db %v", web, db)
			}
		})
	}
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 3, apart("web"))
	s.Ticks(3, time.Second)
	if got := s.Placed("web"); got["w1"] != 1 || got["w2"] != 1 {
		t.Errorf("one on each: %v", got)
	}
	if i := s.Instance("app.web.2"); i.State != wire.Requested ||
		i.Reason != "2 workers: 2 run a service that is kept apart from it" {
		t.Errorf("the third is %s: %s", i.State, i.Reason)
	}
}

// What a new revision does not allow moves, one at a time; what it allows stays
// as it is, to the very process.
func TestChangedConstraintsMoveWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(*api.Service){
		"labels":       func(v *api.Service) { v.Affinity.Labels = clustertest.SSD },
		"no labels":    func(v *api.Service) { v.AntiAffinity.Labels = map[string]string{"disk": "hdd"} },
		"location":     func(v *api.Service) { v.Location = &api.Location{Latitude: 48, Longitude: 11, Radius: 1000} },
		"architecture": func(v *api.Service) { v.Architecture = []string{"arm64"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := clustertest.NewSim(t, "w1", "w2", "w3")
			s.UpdateInfo("w1", func(w *wire.WorkerInfo) { w.Labels = map[string]string{"disk": "hdd"} })
			for _, w := range []string{"w2", "w3"} {
				s.UpdateInfo(w, func(w *wire.WorkerInfo) {
					w.Labels, w.Arch, w.Location = clustertest.SSD, "arm64",
						&api.Point{48, 11}
				})
			}
			s.Share("web", 6, nil)
			s.Ticks(3, time.Second)
			if got := s.Placed("web"); got["w1"] != 2 {
				t.Fatalf("%v", got)
			}
			stay := map[string]bool{}
			for _, i := range s.Model.Insts {
				stay[i.ID] = i.Worker != "w1"
			}
			s.Share("web", 6, change)
			for range 8 {
				s.Tick(time.Second)
				if ready, _ := s.Endpoints("web"); ready < 5 {
					t.Fatalf("only %d of 6 answer while they move\n%s", ready, s.Dump())
				}
			}
			if got := s.Placed("web"); got["w1"] != 0 || got["w2"] != 3 || got["w3"] != 3 {
				t.Errorf("%v\n%s", got, s.Dump())
			}
			for id, stays := range stay {
				i := s.Instance(id)
				if i.Revision != 2 || (i.Incarnation == 1) != stays {
					t.Errorf("%s: revision %d, incarnation %d, stays %v", id, i.Revision, i.Incarnation, stays)
				}
				if why := i.History[len(i.History)-2].Why; !stays &&
					!strings.HasPrefix(why, "moving for revision 2: its worker ") {
					t.Errorf("%s: moved because %q", id, why)
				}
			}
			if n := s.Workers["w2"].Starts + s.Workers["w3"].Starts; n != 6 || len(s.Workers["w1"].Statuses) != 0 {
				t.Errorf("%d starts, %d left", n, len(s.Workers["w1"].Statuses))
			}
		})
	}
}

// A change that nobody can satisfy costs one instance, as a broken program does,
// and says why; taking it back heals.
func TestAConstraintThatNobodySatisfies(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("web", 4, nil)
	s.Ticks(3, time.Second)
	s.Share("web", 4, func(v *api.Service) { v.Affinity.Labels = clustertest.SSD })
	s.Ticks(10, time.Second)
	if ready, _ := s.Endpoints("web"); ready != 3 {
		t.Errorf("%d of 4 answer\n%s", ready, s.Dump())
	}
	given := 0
	for _, i := range s.Model.Insts {
		if i.State == wire.Requested {
			given++
			if i.Reason != "2 workers: 2 lack label disk=ssd" {
				t.Errorf("given back because %q", i.Reason)
			}
		}
	}
	if given != 1 {
		t.Errorf("%d were given back\n%s", given, s.Dump())
	}
	s.Share("web", 4, nil)
	s.Ticks(3, time.Second)
	if ready, _ := s.Endpoints("web"); ready != 4 || s.Workers["w1"].Starts+s.Workers["w2"].Starts != 5 {
		t.Errorf("%d of 4 answer after it was taken back\n%s", ready, s.Dump())
	}
}

// Two services of which one is changed so as to exclude the other: it makes room,
// the other stays.
func TestOnlyWhoExcludesMoves(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.UpdateInfo("w1", func(w *wire.WorkerInfo) { w.Labels = clustertest.SSD })
	s.Share("db", 1, func(v *api.Service) { v.Affinity.Labels = clustertest.SSD })
	s.Ticks(3, time.Second)
	s.Share("web", 2, nil)
	s.Ticks(3, time.Second)
	s.Share("web", 2, func(v *api.Service) { v.AntiAffinity.Service = []string{"db"} })
	s.Share("db", 1, func(v *api.Service) { v.Affinity.Labels = clustertest.SSD })
	s.Ticks(5, time.Second)
	if web, db := s.Placed("web"), s.Placed("db"); web["w2"] != 2 || db["w1"] != 1 ||
		s.Instance("app.db.0").Incarnation != 1 {
		t.Errorf("web %v, db %v", web, db)
	}
}

func TestAVolumePinsItsInstance(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(3, time.Second)
	i := s.Instance("app.db.0")
	home, other := i.Worker, map[string]string{"w1": "w2", "w2": "w1"}[i.Worker]
	if i.Pinned != home {
		t.Fatalf("pinned to %q on %s", i.Pinned, home)
	}
	// Its worker is away for an hour: nobody takes it.
	s.Workers[home].Linked = false
	s.Ticks(60, time.Minute)
	s.Restart()
	s.Ticks(3, time.Second)
	if i = s.Instance("app.db.0"); i.State != wire.Running || !i.Unreachable || i.Reason != lifecycle.PinnedAway ||
		len(s.Workers[other].Statuses) > 0 {
		t.Fatalf("while its worker is away it is %s\n%s", i.State, s.Dump())
	}
	s.Workers[home].Linked = true
	s.Ticks(3, time.Second)
	if i = s.Instance("app.db.0"); i.Incarnation != 1 || i.Unreachable || !i.Ready || s.Workers[home].Starts != 1 {
		t.Errorf("after the return: incarnation %d, %d starts\n%s", i.Incarnation, s.Workers[home].Starts, s.Dump())
	}
	// It fails for good there: it waits and is tried there again.
	s.Workers[home].Broken["db"] = "exit"
	s.Workers[home].Statuses = map[string]wire.InstanceStatus{}
	s.Ticks(10, time.Second)
	if i = s.Instance("app.db.0"); i.State != wire.Failed || len(s.Workers[other].Statuses) > 0 {
		t.Fatalf("after it failed it is %s\n%s", i.State, s.Dump())
	}
	s.Workers[home].Broken = map[string]string{}
	s.Ticks(130, time.Second)
	if i = s.Instance("app.db.0"); i.State != wire.Running || i.Worker != home {
		t.Fatalf("a minute later it is %s on %s\n%s", i.State, i.Worker, s.Dump())
	}
	// A constraint that its worker does not satisfy does not move it either.
	s.Share("db", 1, func(v *api.Service) { clustertest.Volume(v); v.Affinity.Labels = clustertest.SSD })
	s.Ticks(5, time.Second)
	if i = s.Instance("app.db.0"); i.Worker != home || i.State != wire.Running || i.Revision != 2 {
		t.Errorf("%s on %s, revision %d", i.State, i.Worker, i.Revision)
	}
	s.Share("db", 1, clustertest.Volume)
	// Its worker is removed from the cluster: it begins anew elsewhere.
	delete(s.Model.Workers, home)
	delete(s.Disk, state.KeyWorker+home)
	delete(s.Workers, home)
	for key := range s.Model.Orders {
		if strings.HasPrefix(key, home+".") {
			delete(s.Model.Orders, key)
			delete(s.Disk, state.KeyOrder+key)
		}
	}
	s.Ticks(3, time.Second)
	if i = s.Instance("app.db.0"); i.State != wire.Running || i.Worker != other || i.Pinned != other {
		t.Errorf("after the removal it is %s on %s, pinned to %s\n%s", i.State, i.Worker, i.Pinned, s.Dump())
	}
}

// An update keeps an instance where its new volume is made; without volumes it is
// free again.
func TestPinsFollowTheDescriptor(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("db", 1, nil)
	s.Ticks(3, time.Second)
	home := s.Instance("app.db.0").Worker
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(5, time.Second)
	if i := s.Instance("app.db.0"); i.Pinned != home || i.Worker != home || i.Incarnation != 2 {
		t.Errorf("pinned to %q on %s, incarnation %d", i.Pinned, i.Worker, i.Incarnation)
	}
	s.Share("db", 1, nil)
	s.Ticks(5, time.Second)
	if i := s.Instance("app.db.0"); i.Pinned != "" || i.Incarnation != 3 {
		t.Errorf("pinned to %q", i.Pinned)
	}
}

func TestTheAggregateDescribesTheWorkers(t *testing.T) {
	s := clustertest.NewSim(t, "w1", "w2")
	s.Model.Site = wire.Site{Operator: "ACME", Location: &api.Point{1, 2},
		Labels: map[string]string{"site": "shop", "disk": "hdd"}}
	s.UpdateInfo("w1", func(w *wire.WorkerInfo) { w.Labels, w.Location = clustertest.SSD, &api.Point{48.137, 11.575} })
	s.UpdateInfo("w2", func(w *wire.WorkerInfo) { w.Arch = "arm64" })
	s.Tick(time.Second)
	agg := report.Aggregate(s.Model, wire.Rev{}, nil)
	b, err := json.Marshal(agg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`"architectures":{"amd64":1,"arm64":1}`, `"labels":{"disk=hdd":1,"disk=ssd":1,"site=shop":2}`,
		`"disc":{"center":[48.14,11.58],"radius_km":1,"workers":1}`, `"operator":"ACME"`,
	} {
		if !strings.Contains(string(b), want) {
			t.Errorf("%s\nlacks %s", b, want)
		}
	}
	same := report.Aggregate(s.Model, wire.Rev{}, nil)
	if report.Significant(agg, same) {
		t.Error("nothing changed")
	}
	s.UpdateInfo("w2", func(w *wire.WorkerInfo) { w.Labels = clustertest.SSD })
	if !report.Significant(agg, report.Aggregate(s.Model, wire.Rev{}, nil)) {
		t.Error("a label is no news")
	}
	// Its size does not grow with the workers.
	size := func(n int) int {
		s := clustertest.NewSim(t)
		for k := range n {
			name := fmt.Sprintf("w%d", k)
			s.AddWorker(name)
			s.UpdateInfo(name, func(w *wire.WorkerInfo) {
				w.Labels, w.Location = map[string]string{"own": name}, &api.Point{float64(k % 90), float64(k % 180)}
			})
		}
		s.Tick(time.Second)
		b, err := json.Marshal(report.Aggregate(s.Model, wire.Rev{}, nil))
		if err != nil {
			t.Fatal(err)
		}
		return len(b)
	}
	if few, many := size(100), size(1000); many > few+200 {
		t.Errorf("%d bytes of 100 workers, %d of 1000", few, many)
	}
}

func TestAPinStaysInAClosedCluster(t *testing.T) {
	s := clustertest.NewSim(t, "w-secret")
	s.Model.Details, s.Model.Peer = false, func(string) string { return "opaque" }
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(3, time.Second)
	if up := strings.ReplaceAll(string(s.Disk[state.KeyUp+"app.db.0"]), `"address":"w-secret:8474"`,
		""); strings.Contains(up, `"w-secret"`) {
		t.Errorf("the root is told the worker's name: %s", up)
	}
}
