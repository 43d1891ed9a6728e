package root

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/access"
	"github.com/verge-edge/verge/internal/bus"
	"github.com/verge-edge/verge/internal/bus/exchange"
	"github.com/verge-edge/verge/internal/rest"
	"github.com/verge-edge/verge/internal/wire"
)

// cordon takes a cluster out of use, or (nil) into use again.
func (s *sim) cordon(name string, c *wire.Cordon) {
	cl := s.m.clusters[name]
	cl.Cordon = c
	s.store(keyCluster+name, cl.clusterRecord)
}

func TestACordonedClusterIsGivenNothingNew(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.apply("app", 2, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.ticks(3, time.Second)
	s.cordon("edge", &wire.Cordon{At: s.now})
	s.restart()
	s.apply("app", 3, func(v *api.Service) { v.Affinity.Cluster = []string{"edge"} })
	s.apply("other", 4, nil)
	s.ticks(3, time.Second)
	if n := s.running("app"); n != 2 || len(s.fakes["fog"].runs) != 4 {
		t.Fatalf("%d run\n%s", n, s.dump())
	}
	if i := s.m.insts["app.web.2"]; i.State != wire.Requested || !strings.Contains(i.Reason, "1 is cordoned") {
		t.Errorf("%s: %s", i.State, i.Reason)
	}
	s.cordon("edge", nil)
	s.ticks(3, time.Second)
	if n := s.running("app"); n != 3 {
		t.Errorf("%d run after it\n%s", n, s.dump())
	}
}

func TestACordonIsStored(t *testing.T) {
	ctx := context.Background()
	store := bus.NewMemStore()
	b := newTestBackend(t, store)
	if _, err := b.CordonCluster(ctx, "edge", wire.CordonRequest{}); code(err) != "no-such-cluster" {
		t.Error(err)
	}
	if _, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{}); code(err) != "no-such-cluster" {
		t.Error(err)
	}
	rec := clusterRecord{V: wire.Version, Name: "edge"}
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Put(ctx, keyCluster+"edge", data); err != nil {
		t.Fatal(err)
	}
	b.m.clusters["edge"] = newCluster(rec, time.Now())
	if _, err := b.CordonCluster(ctx, "edge", wire.CordonRequest{Reason: "moving house"}); err != nil {
		t.Fatal(err)
	}
	if v := newTestBackend(t, store).clusters(); len(v) != 1 || v[0].Cordon == nil || v[0].Cordon.Why != "moving house" {
		t.Errorf("%+v", v)
	}
	if err := b.UncordonCluster(ctx, "edge"); err != nil {
		t.Fatal(err)
	}
	if v := newTestBackend(t, store).clusters(); v[0].Cordon != nil {
		t.Errorf("%+v", v)
	}
}

// answering is how many instances of an application are ready in clusters that can
// be reached.
func (s *sim) answering(app string) (n int) {
	for _, f := range s.fakes {
		for _, r := range f.runs {
			if f.linked && r.App == app && r.State == wire.Running && r.Ready {
				n++
			}
		}
	}
	return n
}

// whole ticks n times, and fails if fewer than want instances answer, or are in
// the route.
func (s *sim) whole(n, want int) {
	s.t.Helper()
	for range n {
		s.tick(time.Second)
		ready, _ := s.endpoints("app")
		if got := s.answering("app"); got < want || ready < want {
			s.t.Fatalf("%d of %d answer, %d are in the route\n%s", got, want, ready, s.dump())
		}
	}
}

func TestADrainOfAClusterMovesMakeBeforeBreak(t *testing.T) {
	for _, replicas := range []int{1, 5} {
		s := newSim(t, "edge", "fog", "cloud")
		s.fakes["edge"].room = 5
		s.cordon("fog", &wire.Cordon{})
		s.cordon("cloud", &wire.Cordon{})
		s.apply("app", replicas, nil)
		s.ticks(3, time.Second)
		s.cordon("fog", nil)
		s.cordon("cloud", nil)
		s.cordon("edge", &wire.Cordon{Drain: true})
		most := 0
		for n := range 40 {
			s.whole(1, replicas)
			most = max(most, len(s.m.insts))
			if n == 3 {
				s.restart()
				s.tick(time.Second)
			}
		}
		if n := len(s.fakes["edge"].runs); n != 0 || s.running("app") != replicas || len(s.m.insts) != replicas {
			t.Fatalf("%d are left, %d run\n%s", n, s.running("app"), s.dump())
		}
		if most > replicas+2 { // one more that starts, one that ends
			t.Errorf("there were up to %d at a time", most)
		}
		for _, i := range s.m.insts {
			if i.Replaces == "" || i.Cluster == "edge" {
				t.Errorf("%+v", i)
			}
		}
		if v := s.m.drainView("edge", s.now); len(v.Left) != 0 || v.Cordon == nil {
			t.Errorf("%+v", v)
		}
	}
}

// Where nothing else has room, what runs stays, and is not ended by the end of the
// drain either.
func TestADrainOfAClusterWithoutRoomElsewhere(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.fakes["fog"].room = 1
	s.cordon("fog", &wire.Cordon{})
	s.apply("app", 3, nil)
	s.apply("db", 1, func(v *api.Service) { v.Volumes = []api.Volume{{Name: "data", Path: "data"}} })
	s.ticks(3, time.Second)
	s.cordon("fog", nil)
	s.cordon("edge", &wire.Cordon{Drain: true})
	s.whole(30, 3)
	v := s.m.drainView("edge", s.now)
	if len(v.Left) != 3 || len(s.fakes["fog"].runs) != 1 {
		t.Fatalf("%+v\n%s", v, s.dump())
	}
	for _, i := range v.Left {
		want := "1 is cordoned"
		if strings.HasPrefix(i.Instance, "db.") {
			want = "volume"
		}
		if i.State != "stays" || !strings.Contains(i.Why, want) {
			t.Errorf("%+v, want %s", i, want)
		}
	}
	if a := s.m.appView(s.m.apps["app"]); !a.Holds {
		t.Errorf("it has what it promises: %s", a.Message)
	}
	before := len(s.fakes["edge"].runs)
	s.cordon("edge", nil)
	s.whole(10, 3)
	if len(s.fakes["edge"].runs) != before || s.running("app") != 3 || len(s.m.insts) != 4 {
		t.Errorf("after the end of the drain\n%s", s.dump())
	}
	// There is room again.
	s.fakes["fog"].room = 10
	s.cordon("edge", &wire.Cordon{Drain: true})
	s.whole(60, 3)
	if v := s.m.drainView("edge", s.now); len(v.Left) != 1 {
		t.Errorf("%+v\n%s", v, s.dump())
	}
}

// A cluster that is lost while it is drained, and comes back, does not get back
// what was moved.
func TestADrainedClusterThatComesBack(t *testing.T) {
	s := newSim(t, "edge", "fog")
	s.cordon("fog", &wire.Cordon{})
	s.apply("app", 3, nil)
	s.ticks(3, time.Second)
	s.cordon("fog", nil)
	s.fakes["fog"].stuck = true
	s.cordon("edge", &wire.Cordon{Drain: true})
	s.ticks(2, time.Second)
	s.fakes["edge"].linked = false
	s.tick(time.Second)
	if v := s.m.drainView("edge", s.now); len(v.Left) != 3 || v.Left[2].State != "waiting" || !strings.Contains(v.Left[2].Why, "away") {
		t.Errorf("%+v", v)
	}
	s.ticks(90, time.Second)
	if n := len(s.fakes["fog"].runs); n != 3 {
		t.Fatalf("%d run in the other cluster\n%s", n, s.dump())
	}
	s.fakes["edge"].linked = true
	s.ticks(20, time.Second)
	if n := s.running("app"); n != 3 || len(s.fakes["edge"].runs) != 0 {
		t.Errorf("%d run\n%s", n, s.dump())
	}
}

// What is done with a worker is passed on to its cluster, with the name of who asks, where
// that shares its details. Else the answer says how to get a context of it.
func TestCordonsOfWorkersArePassedOn(t *testing.T) {
	ctx := access.With(t.Context(), access.Who{Name: "user/ann"})
	s := newSim(t, "edge", "fog")
	s.m.clusters["edge"].agg = &wire.Aggregate{Details: true}
	s.m.clusters["fog"].agg = &wire.Aggregate{}
	conn := bus.NewMem().Conn("cluster", bus.Permissions{Publish: []string{">"}, Subscribe: []string{">"}})
	defer conn.Close()
	b := backend{&Root{core: &core{m: s.m, link: func(string) (bus.Conn, error) { return conn, nil }}}}
	if _, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{}); code(err) != "cluster-away" || strings.Contains(err.Error(), "subject") {
		t.Errorf("nobody answers: %v", err)
	}
	if err := b.ask(ctx, "edge", wire.Ask{What: "workers"}, new([]wire.WorkerView)); !errors.Is(err, bus.ErrNoResponder) || err.Error() != "cluster edge does not answer" {
		t.Errorf("what people read of a cluster that is away: %v", err)
	}
	asked, reply := "", `{"v":1,"d":{"by":"root/user/ann","why":"a disk"}}`
	stop, err := conn.Subscribe(exchange.ClusterSubjects().Ask, func(_ context.Context, m bus.Msg) {
		asked = string(m.Data)
		if err := m.Respond([]byte(reply)); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	wantAsked := func(want string) {
		t.Helper()
		if asked != want {
			t.Errorf("the cluster was asked %s, want %s", asked, want)
		}
	}
	if got, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{Reason: "a disk", Drain: true}); err != nil || got.By != "root/user/ann" || got.Why != "a disk" {
		t.Errorf("%+v, %v", got, err)
	}
	wantAsked(`{"w":"cordon","n":"w1","c":{"by":"user/ann","reason":"a disk","drain":true}}`)
	if err := b.UncordonWorker(ctx, "edge", "w1"); err != nil {
		t.Error(err)
	}
	wantAsked(`{"w":"uncordon","n":"w1","c":{"by":"user/ann"}}`)
	reply = `{"v":1,"d":{"left":[{"instance":"app.web.0","state":"moving"}],"source":"cluster/edge"}}`
	if v, err := b.WorkerDrain(ctx, "edge", "w1"); err != nil || len(v.Left) != 1 || v.Source != "cluster/edge" {
		t.Errorf("%+v, %v", v, err)
	}
	wantAsked(`{"w":"drain","n":"w1"}`)
	asked = ""
	_, err = b.CordonWorker(ctx, "fog", "w1", wire.CordonRequest{})
	if code(err) != "kept-private" || asked != "" || !strings.Contains(err.Error(), "verge user create NAME --operator fog > FILE") {
		t.Errorf("a cluster that keeps its details: %v, asked %s", err, asked)
	}
	if err := referrals[rest.RemoveWorker.ID].Problem(func(string) string { return "fog" }); code(err) != "elsewhere" || !strings.Contains(err.Error(), "verge user create NAME --operator fog > FILE") {
		t.Errorf("what is not passed on: %v", err)
	}
}
