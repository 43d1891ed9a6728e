package root

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/api"
	"github.com/verge-edge/verge/internal/bus"
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
	if _, err := b.CordonWorker(ctx, "edge", "w1", wire.CordonRequest{}); code(err) != "elsewhere" {
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
