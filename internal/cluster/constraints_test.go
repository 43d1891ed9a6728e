// In virtual time and one goroutine, where no race can be: make unit runs it without the detector.
//go:build !race

package cluster

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/wire"
)

// on counts the instances of a service on each worker.
func (s *sim) on(svc string) map[string]int {
	out := map[string]int{}
	for _, i := range s.m.Insts {
		if i.Service == svc && i.State == wire.Running {
			out[i.Worker]++
		}
	}
	return out
}

// know changes what a worker says about itself.
func (s *sim) know(name string, change func(*wire.WorkerInfo)) {
	w := s.m.Workers[name]
	rec := w.WorkerRecord
	change(&rec.Info)
	w.Learn(rec, s.m.Site.Labels)
	s.store(state.KeyWorker+name, rec)
}

// Each constraint leads to the one worker of three that satisfies it.
func TestConstraintsChooseTheWorker(t *testing.T) {
	for name, tc := range map[string]struct {
		worker func(*wire.WorkerInfo)
		spec   func(*api.Service)
	}{
		"architecture": {func(w *wire.WorkerInfo) { w.Arch = "arm64" }, func(v *api.Service) { v.Architecture = []string{"riscv64", "arm64"} }},
		"labels":       {func(w *wire.WorkerInfo) { w.Labels = ssd }, func(v *api.Service) { v.Affinity.Labels = ssd }},
		"no labels":    {func(w *wire.WorkerInfo) { w.Labels = map[string]string{"shared": "no"} }, func(v *api.Service) { v.AntiAffinity.Labels = map[string]string{"shared": "yes"} }},
		"location": {func(w *wire.WorkerInfo) { w.Location = &api.Point{48.1, 11.5} },
			func(v *api.Service) { v.Location = &api.Location{Latitude: 48.14, Longitude: 11.58, Radius: 20_000} }},
		"polygon": {func(w *wire.WorkerInfo) { w.Location = &api.Point{48.1, 11.5} },
			func(v *api.Service) { v.Affinity.Polygon = []api.Point{{48, 11}, {49, 11}, {48, 12}} }},
		"host user": {func(w *wire.WorkerInfo) { w.Isolation = &wire.Isolation{Users: true, HostUsers: []string{"www-data"}} },
			func(v *api.Service) { v.User = "www-data" }},
		"host path": {func(w *wire.WorkerInfo) { w.HostPaths = []string{"/srv"} }, func(v *api.Service) { v.Volumes = []api.Volume{{Path: "m", Host: "/srv/media"}} }},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "w1", "w2", "w3")
			s.m.Site.Labels = map[string]string{"shared": "yes"}
			for _, w := range []string{"w1", "w2", "w3"} {
				s.know(w, func(*wire.WorkerInfo) {})
			}
			s.know("w2", tc.worker)
			s.share("web", 3, tc.spec)
			s.ticks(3, time.Second)
			if got := s.on("web"); got["w2"] != 3 {
				t.Errorf("%v\n%s", got, s.dump())
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
	for name, order := range map[string][2]string{"who says so comes second": {"db", "web"}, "who says so comes first": {"web", "db"}} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "w1", "w2")
			specs := map[string]func(*api.Service){"web": apart("db"), "db": nil}
			s.share(order[0], 1, specs[order[0]])
			s.ticks(3, time.Second)
			s.share(order[1], 4, specs[order[1]])
			s.ticks(3, time.Second)
			web, db := s.on("web"), s.on("db")
			for _, w := range []string{"w1", "w2"} {
				if web[w] > 0 && db[w] > 0 {
					t.Errorf("both on %s: web %v, db %v", w, web, db)
				}
			}
			if s.running("web")+s.running("db") != 5 {
				t.Errorf("web %v, db %v", web, db)
			}
		})
	}
	s := newSim(t, "w1", "w2")
	s.share("web", 3, apart("web"))
	s.ticks(3, time.Second)
	if got := s.on("web"); got["w1"] != 1 || got["w2"] != 1 {
		t.Errorf("one on each: %v", got)
	}
	if i := s.inst("app.web.2"); i.State != wire.Requested || i.Reason != "2 workers: 2 run a service that is kept apart from it" {
		t.Errorf("the third is %s: %s", i.State, i.Reason)
	}
}

// What a new revision does not allow moves, one at a time; what it allows stays
// as it is, to the very process.
func TestChangedConstraintsMoveWhatDoesNotFit(t *testing.T) {
	for name, change := range map[string]func(*api.Service){
		"labels":       func(v *api.Service) { v.Affinity.Labels = ssd },
		"no labels":    func(v *api.Service) { v.AntiAffinity.Labels = map[string]string{"disk": "hdd"} },
		"location":     func(v *api.Service) { v.Location = &api.Location{Latitude: 48, Longitude: 11, Radius: 1000} },
		"architecture": func(v *api.Service) { v.Architecture = []string{"arm64"} },
	} {
		t.Run(name, func(t *testing.T) {
			s := newSim(t, "w1", "w2", "w3")
			s.know("w1", func(w *wire.WorkerInfo) { w.Labels = map[string]string{"disk": "hdd"} })
			for _, w := range []string{"w2", "w3"} {
				s.know(w, func(w *wire.WorkerInfo) { w.Labels, w.Arch, w.Location = ssd, "arm64", &api.Point{48, 11} })
			}
			s.share("web", 6, nil)
			s.ticks(3, time.Second)
			if got := s.on("web"); got["w1"] != 2 {
				t.Fatalf("%v", got)
			}
			stay := map[string]bool{}
			for _, i := range s.m.Insts {
				stay[i.ID] = i.Worker != "w1"
			}
			s.share("web", 6, change)
			for range 8 {
				s.tick(time.Second)
				if ready, _ := s.endpoints("web"); ready < 5 {
					t.Fatalf("only %d of 6 answer while they move\n%s", ready, s.dump())
				}
			}
			if got := s.on("web"); got["w1"] != 0 || got["w2"] != 3 || got["w3"] != 3 {
				t.Errorf("%v\n%s", got, s.dump())
			}
			for id, stays := range stay {
				i := s.inst(id)
				if i.Revision != 2 || (i.Incarnation == 1) != stays {
					t.Errorf("%s: revision %d, incarnation %d, stays %v", id, i.Revision, i.Incarnation, stays)
				}
				if why := i.History[len(i.History)-2].Why; !stays && !strings.HasPrefix(why, "moving for revision 2: its worker ") {
					t.Errorf("%s: moved because %q", id, why)
				}
			}
			if n := s.fakes["w2"].starts + s.fakes["w3"].starts; n != 6 || len(s.fakes["w1"].has) != 0 {
				t.Errorf("%d starts, %d left", n, len(s.fakes["w1"].has))
			}
		})
	}
}

// A change that nobody can satisfy costs one instance, as a broken program does,
// and says why; taking it back heals.
func TestAConstraintThatNobodySatisfies(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("web", 4, nil)
	s.ticks(3, time.Second)
	s.share("web", 4, func(v *api.Service) { v.Affinity.Labels = ssd })
	s.ticks(10, time.Second)
	if ready, _ := s.endpoints("web"); ready != 3 {
		t.Errorf("%d of 4 answer\n%s", ready, s.dump())
	}
	given := 0
	for _, i := range s.m.Insts {
		if i.State == wire.Requested {
			given++
			if i.Reason != "2 workers: 2 lack label disk=ssd" {
				t.Errorf("given back because %q", i.Reason)
			}
		}
	}
	if given != 1 {
		t.Errorf("%d were given back\n%s", given, s.dump())
	}
	s.share("web", 4, nil)
	s.ticks(3, time.Second)
	if ready, _ := s.endpoints("web"); ready != 4 || s.fakes["w1"].starts+s.fakes["w2"].starts != 5 {
		t.Errorf("%d of 4 answer after it was taken back\n%s", ready, s.dump())
	}
}

// Two services of which one is changed so as to exclude the other: it makes room,
// the other stays.
func TestOnlyWhoExcludesMoves(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.know("w1", func(w *wire.WorkerInfo) { w.Labels = ssd })
	s.share("db", 1, func(v *api.Service) { v.Affinity.Labels = ssd })
	s.ticks(3, time.Second)
	s.share("web", 2, nil)
	s.ticks(3, time.Second)
	s.share("web", 2, func(v *api.Service) { v.AntiAffinity.Service = []string{"db"} })
	s.share("db", 1, func(v *api.Service) { v.Affinity.Labels = ssd })
	s.ticks(5, time.Second)
	if web, db := s.on("web"), s.on("db"); web["w2"] != 2 || db["w1"] != 1 || s.inst("app.db.0").Incarnation != 1 {
		t.Errorf("web %v, db %v", web, db)
	}
}

func TestAVolumePinsItsInstance(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("db", 1, volume)
	s.ticks(3, time.Second)
	i := s.inst("app.db.0")
	home, other := i.Worker, map[string]string{"w1": "w2", "w2": "w1"}[i.Worker]
	if i.Pinned != home {
		t.Fatalf("pinned to %q on %s", i.Pinned, home)
	}
	// Its worker is away for an hour: nobody takes it.
	s.fakes[home].linked = false
	s.ticks(60, time.Minute)
	s.restart()
	s.ticks(3, time.Second)
	if i = s.inst("app.db.0"); i.State != wire.Running || !i.Unreachable || i.Reason != pinnedAway || len(s.fakes[other].has) > 0 {
		t.Fatalf("while its worker is away it is %s\n%s", i.State, s.dump())
	}
	s.fakes[home].linked = true
	s.ticks(3, time.Second)
	if i = s.inst("app.db.0"); i.Incarnation != 1 || i.Unreachable || !i.Ready || s.fakes[home].starts != 1 {
		t.Errorf("after the return: incarnation %d, %d starts\n%s", i.Incarnation, s.fakes[home].starts, s.dump())
	}
	// It fails for good there: it waits and is tried there again.
	s.fakes[home].broken["db"] = "exit"
	s.fakes[home].has = map[string]wire.InstanceStatus{}
	s.ticks(10, time.Second)
	if i = s.inst("app.db.0"); i.State != wire.Failed || len(s.fakes[other].has) > 0 {
		t.Fatalf("after it failed it is %s\n%s", i.State, s.dump())
	}
	s.fakes[home].broken = map[string]string{}
	s.ticks(130, time.Second)
	if i = s.inst("app.db.0"); i.State != wire.Running || i.Worker != home {
		t.Fatalf("a minute later it is %s on %s\n%s", i.State, i.Worker, s.dump())
	}
	// A constraint that its worker does not satisfy does not move it either.
	s.share("db", 1, func(v *api.Service) { volume(v); v.Affinity.Labels = ssd })
	s.ticks(5, time.Second)
	if i = s.inst("app.db.0"); i.Worker != home || i.State != wire.Running || i.Revision != 2 {
		t.Errorf("%s on %s, revision %d", i.State, i.Worker, i.Revision)
	}
	s.share("db", 1, volume)
	// Its worker is removed from the cluster: it begins anew elsewhere.
	delete(s.m.Workers, home)
	delete(s.disk, state.KeyWorker+home)
	delete(s.fakes, home)
	for key := range s.m.Orders {
		if strings.HasPrefix(key, home+".") {
			delete(s.m.Orders, key)
			delete(s.disk, state.KeyOrder+key)
		}
	}
	s.ticks(3, time.Second)
	if i = s.inst("app.db.0"); i.State != wire.Running || i.Worker != other || i.Pinned != other {
		t.Errorf("after the removal it is %s on %s, pinned to %s\n%s", i.State, i.Worker, i.Pinned, s.dump())
	}
}

// An update keeps an instance where its new volume is made; without volumes it is
// free again.
func TestPinsFollowTheDescriptor(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.share("db", 1, nil)
	s.ticks(3, time.Second)
	home := s.inst("app.db.0").Worker
	s.share("db", 1, volume)
	s.ticks(5, time.Second)
	if i := s.inst("app.db.0"); i.Pinned != home || i.Worker != home || i.Incarnation != 2 {
		t.Errorf("pinned to %q on %s, incarnation %d", i.Pinned, i.Worker, i.Incarnation)
	}
	s.share("db", 1, nil)
	s.ticks(5, time.Second)
	if i := s.inst("app.db.0"); i.Pinned != "" || i.Incarnation != 3 {
		t.Errorf("pinned to %q", i.Pinned)
	}
}

func TestTheAggregateDescribesTheWorkers(t *testing.T) {
	s := newSim(t, "w1", "w2")
	s.m.Site = wire.Site{Operator: "ACME", Location: &api.Point{1, 2}, Labels: map[string]string{"site": "shop", "disk": "hdd"}}
	s.know("w1", func(w *wire.WorkerInfo) { w.Labels, w.Location = ssd, &api.Point{48.137, 11.575} })
	s.know("w2", func(w *wire.WorkerInfo) { w.Arch = "arm64" })
	s.tick(time.Second)
	agg := s.m.aggregate(wire.Rev{}, nil)
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
	same := s.m.aggregate(wire.Rev{}, nil)
	if significant(agg, same) {
		t.Error("nothing changed")
	}
	s.know("w2", func(w *wire.WorkerInfo) { w.Labels = ssd })
	if !significant(agg, s.m.aggregate(wire.Rev{}, nil)) {
		t.Error("a label is no news")
	}
	// Its size does not grow with the workers.
	size := func(n int) int {
		s := newSim(t)
		for k := range n {
			name := fmt.Sprintf("w%d", k)
			s.addWorker(name)
			s.know(name, func(w *wire.WorkerInfo) {
				w.Labels, w.Location = map[string]string{"own": name}, &api.Point{float64(k % 90), float64(k % 180)}
			})
		}
		s.tick(time.Second)
		b, err := json.Marshal(s.m.aggregate(wire.Rev{}, nil))
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
	s := newSim(t, "w-secret")
	s.m.Details, s.m.Peer = false, func(string) string { return "opaque" }
	s.share("db", 1, volume)
	s.ticks(3, time.Second)
	if up := strings.ReplaceAll(string(s.disk[state.KeyUp+"app.db.0"]), `"address":"w-secret:8474"`, ""); strings.Contains(up, `"w-secret"`) {
		t.Errorf("the root is told the worker's name: %s", up)
	}
}
