package placement_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/policy/place"
	"github.com/verge-edge/verge/internal/root/placement"
	"github.com/verge-edge/verge/internal/root/roottest"
	"github.com/verge-edge/verge/internal/root/state"
	"github.com/verge-edge/verge/internal/wire"
)

// sited makes a sim of clusters at these places.
func sited(t *testing.T, at map[string]api.Point) *roottest.Sim {
	var names []string
	for name := range at {
		names = append(names, name)
	}
	s := roottest.NewSim(t, names...)
	for name, p := range at {
		s.Clusters[name].Location = &p
	}
	s.Ticks(2, time.Second)
	return s
}

var places = map[string]api.Point{"berlin": {52.52, 13.40}, "munich": {48.14, 11.58}, "asia": {1.35, 103.8}}

// inTime asks for a round trip.
func inTime(to string, most time.Duration) func(*api.Service) {
	return func(v *api.Service) { v.Latency = []api.Latency{{To: to, Max: api.Duration(most)}} }
}

// An agreement with users at a place decides about clusters, and the record says why.
func TestTheRootKeepsAgreementsWithPlaces(t *testing.T) {
	s := sited(t, places)
	s.Apply("app", 4, inTime("52.5,13.4", 20*time.Millisecond))
	s.Ticks(3, time.Second)
	if in := s.RunningIn("app"); in["berlin"] != 2 || in["munich"] != 2 {
		t.Errorf("%v\n%s", in, s.Dump())
	}
	s.Apply("one", 1, inTime("52.5,13.4", 20*time.Millisecond))
	s.Ticks(3, time.Second)
	if in := s.RunningIn("one"); in["berlin"] != 1 {
		t.Errorf("%v\n%s", in, s.Dump())
	}
	s.Apply("none", 1, inTime("-33.9,151.2", 10*time.Millisecond))
	s.Ticks(3, time.Second)
	if i := s.Model.Insts["none.web.0"]; i.Cluster != "" ||
		i.Reason != "3 clusters: 3 have no worker within 10ms of -33.9,151.2" {
		t.Errorf("in %q: %s", i.Cluster, i.Reason)
	}
}

// two services of an application, of which web must be near db.
func applyTwo(s *roottest.Sim, most time.Duration, more func(web, db *api.Service)) {
	s.Apply("app", 1, inTime("db", most))
	web := s.Model.Apps["app"].Spec.Services["web"]
	db := *web
	db.Latency = nil
	s.Model.Apps["app"].Spec.Services["db"] = &db
	if more != nil {
		more(web, &db)
	}
	s.Store(state.KeyApp+"app", s.Model.Apps["app"])
}

// What must be near a service is placed after it, in a cluster that may be near enough.
func TestTheRootPlacesNearAService(t *testing.T) {
	for _, site := range []string{"berlin", "munich", "asia"} {
		s := sited(t, places)
		applyTwo(s, 5*time.Millisecond, func(_, db *api.Service) { db.Affinity.Cluster = []string{site} })
		s.Ticks(3, time.Second)
		if web := s.Model.Insts["app.web.0"]; web.Cluster != site || s.Running("app") != 2 {
			t.Errorf("%s: web is in %q\n%s", site, web.Cluster, s.Dump())
		}
	}
	// Each of the other: somebody begins.
	s := sited(t, places)
	applyTwo(s, 5*time.Millisecond, func(_, db *api.Service) { inTime("web", 5*time.Millisecond)(db) })
	s.Ticks(3, time.Second)
	if web, db := s.Model.Insts["app.web.0"], s.Model.Insts["app.db.0"]; web.Cluster != db.Cluster ||
		s.Running("app") != 2 {
		t.Errorf("web is in %q, db in %q\n%s", web.Cluster, db.Cluster, s.Dump())
	}
}

// What no worker of a cluster keeps goes back with the reason and to the next cluster, and
// is not thrown to and fro.
func TestAnAgreementThatIsNotKeptGoesToTheNextCluster(t *testing.T) {
	s := sited(t, places)
	s.Clusters["berlin"].Remote = true // its workers measured it
	s.Apply("app", 1, inTime("db.example", 5*time.Millisecond))
	s.Clusters["asia"].Remote = true
	s.Ticks(6, time.Second)
	i := s.Model.Insts["app.web.0"]
	if i.Cluster != "munich" || s.Running("app") != 1 {
		t.Fatalf("in %q\n%s", i.Cluster, s.Dump())
	}
	s.Clusters["munich"].Remote = true
	s.Apply("two", 1, inTime("db.example", 5*time.Millisecond))
	offers := 0
	was := ""
	for range 3600 {
		s.Tick(time.Second)
		if i = s.Model.Insts["two.web.0"]; i.Cluster != was && i.Cluster != "" {
			offers++
		}
		was = i.Cluster
	}
	// Each of three is asked after 10, 20, 40 … seconds, and then each 5 minutes.
	if offers > 3*20 || i.State != wire.Requested ||
		!strings.Contains(i.Reason, "is not within 5ms of db.example: 70.0ms away") {
		t.Errorf("%d offers in an hour, %s in %q: %s", offers, i.State, i.Cluster, i.Reason)
	}
	t.Logf("%d offers in an hour", offers)
}

// An instance whose cluster does not keep its agreement moves to another one: the next
// answers before it ends, and it does not come back soon.
func TestAnAgreementThatIsBrokenMovesToAnotherCluster(t *testing.T) {
	s := sited(t, places)
	s.Apply("app", 1, inTime("52.5,13.4", 20*time.Millisecond))
	s.Ticks(3, time.Second)
	s.Clusters["berlin"].SLAViolation = "it is violated"
	s.Clusters["munich"].SLAViolation = "it is violated"
	var went []string
	least := 1
	for range 7200 {
		s.Tick(time.Second)
		ready, _ := s.Endpoints("app")
		least = min(least, ready)
		for name := range s.RunningIn("app") {
			if len(s.RunningIn("app")) == 1 && (len(went) == 0 || went[len(went)-1] != name) {
				went = append(went, name)
			}
		}
		if s.Running("app") > 2 {
			t.Fatalf("%d run\n%s", s.Running("app"), s.Dump())
		}
	}
	// To and fro after 5 minutes, 10, 20, 40, an hour, an hour.
	if least < 1 || len(went) < 2 || len(went) > 9 || went[0] != "berlin" || went[1] != "munich" {
		t.Errorf("%d answered at least, it went to %v\n%s", least, went, s.Dump())
	}
	s.Clusters["berlin"].SLAViolation, s.Clusters["munich"].SLAViolation = "", ""
	s.Ticks(5, time.Second)
	was := s.Model.Begin().Instances("")[0]
	s.Ticks(3600, time.Second)
	if list := s.Model.Begin().Instances(""); len(list) != 1 || list[0].ID != was.ID {
		t.Errorf("it moved though its agreement is kept\n%s", s.Dump())
	}
	// Nobody else may have it: it stays, and is not made twice.
	one := roottest.NewSim(t, "only")
	one.Apply("app", 1, inTime("db.example", time.Millisecond))
	one.Ticks(3, time.Second)
	one.Clusters["only"].SLAViolation = "it is violated"
	for range 600 {
		if one.Tick(time.Second); len(one.Model.Insts) != 1 || one.Running("app") != 1 {
			t.Fatalf("%s", one.Dump())
		}
	}
}

// Where the clusters of a service are is told to the others if something must be near it,
// of services without ports too, and told anew when it has changed much.
func TestTheRootTellsWhereServicesAre(t *testing.T) {
	s := sited(t, places)
	applyTwo(s, 5*time.Millisecond, func(web, db *api.Service) {
		db.Affinity.Cluster, db.Ports = []string{"munich"}, nil
		web.Latency = []api.Latency{{To: "db", Distance: 100_000}}
	})
	s.Ticks(3, time.Second)
	db, web := s.Model.Routes["app.db"], s.Model.Routes["app.web"]
	if db == nil || len(db.Endpoints) != 1 || len(db.Where) != 1 || db.Where["munich"].Disc == nil {
		t.Fatalf("db: %+v\n%s", db, s.Dump())
	}
	if d := db.Where["munich"].Disc; d.Center != (api.Point{48.1, 11.6}) || d.RadiusKm != 15 || d.Workers != 0 {
		t.Errorf("%+v", *d)
	}
	if web == nil || len(web.Endpoints) != 1 || web.Where != nil {
		t.Errorf("web: %+v", web)
	}
	s.Clusters["munich"].Location = &api.Point{48.15, 11.60}
	s.Ticks(3, time.Second)
	if s.Model.Routes["app.db"] != db {
		t.Error("a kilometre is told to everybody")
	}
	s.Clusters["munich"].Location = &api.Point{48.37, 10.90}
	s.Ticks(3, time.Second)
	if d := s.Model.Routes["app.db"].Where["munich"].Disc; d == nil || d.Center != (api.Point{48.4, 10.9}) {
		t.Errorf("moved to Augsburg, told %+v", d)
	}
	// A root that starts again says it on before the cluster was heard.
	s.Model.Clusters["munich"].Aggregate = nil
	s.Tick(0)
	if s.Model.Routes["app.db"].Where["munich"].Disc == nil {
		t.Error("forgotten with the process")
	}
	s.Apply("other", 1, nil)
	delete(s.Model.Apps, "app") // nothing must be near it any more
	s.Tick(time.Second)
	if r := s.Model.Routes["app.db"]; r != nil {
		t.Errorf("still told: %+v", r)
	}
}

// A root that starts again moves nothing sooner than the one before would have, and what
// clusters refused long ago is forgotten.
func TestARestartedRootDoesNotMoveSooner(t *testing.T) {
	s := sited(t, places)
	s.Apply("app", 1, inTime("52.5,13.4", 20*time.Millisecond))
	s.Ticks(3, time.Second)
	s.Clusters["berlin"].SLAViolation = "it is violated"
	s.Ticks(20, time.Second)
	if in := s.RunningIn("app"); in["munich"] != 1 || len(in) != 1 {
		t.Fatalf("%v\n%s", in, s.Dump())
	}
	if len(s.Model.Clusters["berlin"].Refused) != 1 {
		t.Fatalf("%+v", s.Model.Clusters["berlin"].Refused)
	}
	kept := s.Model
	s.Reopen()
	s.Clusters["berlin"].SLAViolation, s.Clusters["munich"].SLAViolation = "", "it is violated"
	moved := 0
	for ; moved < 600 && s.RunningIn("app")["munich"] == 1; moved++ {
		s.Tick(time.Second)
	}
	if moved < 250 || moved > 330 {
		t.Errorf("moved again after %d s", moved)
	}
	placement.PruneRefusals(kept, s.Now.Add(3*time.Hour))
	if n := len(kept.Clusters["berlin"].Refused); n != 0 {
		t.Errorf("%d refusals after three hours", n)
	}
}

// A service is placed where the objects are that it reads, of its own namespace, and the
// record says how many; with room nowhere else it goes where they are not.
func TestPlacedWhereObjectsAre(t *testing.T) {
	s := roottest.NewSim(t, "a", "b", "c")
	cats, dogs := wire.MarkOf("default", "cats"), wire.MarkOf("default", "dogs")
	s.Clusters["a"].Objects = []wire.ObjectMark{wire.MarkOf("other", "cats"), wire.MarkOf("other", "dogs")}
	s.Clusters["b"].Objects = []wire.ObjectMark{dogs}
	s.Clusters["c"].Objects = []wire.ObjectMark{cats, dogs}
	s.Ticks(2, time.Second)
	reads := func(names ...string) func(*api.Service) { return func(v *api.Service) { v.Data = names } }
	s.Apply("app", 4, reads("cats", "dogs"))
	s.Ticks(3, time.Second)
	if in := s.RunningIn("app"); in["c"] != 4 {
		t.Errorf("%v\n%s", in, s.Dump())
	}
	var why place.Record
	if err := json.Unmarshal(s.Disk[state.KeyWhy+"app.web.0"], &why); err != nil {
		t.Fatal(err)
	}
	if r := why.Decision.Ranked; len(r) != 3 || r[0].Parts["objects"] != 2 || r[1].Parts["objects"] != 1 ||
		r[2].Parts["objects"] != 0 {
		t.Errorf("%+v", r)
	}
	s.Apply("one", 4, reads("dogs"))
	s.Ticks(3, time.Second)
	if in := s.RunningIn("one"); in["b"] != 2 || in["c"] != 2 {
		t.Errorf("dogs are in two of the clusters, it is in %v\n%s", in, s.Dump())
	}
	s.Apply("many", 18, reads("cats")) // c has room for 4, and both others for the rest
	s.Ticks(3, time.Second)
	if in := s.RunningIn("many"); in["c"] != 4 || in["a"]+in["b"] != 14 || in["a"] < 6 || in["b"] < 6 {
		t.Errorf("%v\n%s", in, s.Dump())
	}
	s.Apply("none", 1, reads("birds", "https://data.example.org/"))
	s.Ticks(3, time.Second)
	if s.Running("none") != 1 {
		t.Errorf("nobody has it\n%s", s.Dump())
	}
}
