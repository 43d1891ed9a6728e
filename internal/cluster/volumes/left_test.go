package volumes_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/verge-edge/verge/internal/bus/records"
	"github.com/verge-edge/verge/internal/cluster/clustertest"
	"github.com/verge-edge/verge/internal/cluster/state"
	"github.com/verge-edge/verge/internal/cluster/volumes"
	"github.com/verge-edge/verge/internal/wire"
)

// giveUp gives the volumes of an instance up, as the backend does.
func giveUp(s *clustertest.Sim, id, worker string) {
	s.T.Helper()
	tx := s.Model.Begin()
	tx.Now = s.Now
	next := volumes.GiveUp(tx, *s.Instance(id), worker, "ann", s.Now)
	s.Model.Insts[id] = &next
	s.Store(state.KeyInstance+id, next)
	for key, l := range volumes.LeftTable.Changes(tx.Rows) {
		s.Store(volumes.KeyLeft+key, l)
	}
	records.Merge(volumes.LeftTable.Rows(s.Model.DB), volumes.LeftTable.Changes(tx.Rows))
}

// removeWorker forgets a worker with its orders, as verge remove worker does.
func removeWorker(s *clustertest.Sim, name string) {
	delete(s.Model.Workers, name)
	delete(s.Disk, state.KeyWorker+name)
	delete(s.Workers, name)
	for key := range s.Model.Orders {
		if strings.HasPrefix(key, name+".") {
			delete(s.Model.Orders, key)
			delete(s.Disk, state.KeyOrder+key)
		}
	}
}

// An instance whose volume was given up begins elsewhere, once; its worker that comes
// back ends what it runs of it, and never gets it again before the data is removed.
func TestVolumesThatWereGivenUp(t *testing.T) {
	const id = "app.db.0"
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(3, time.Second)
	home := s.Instance(id).Worker
	other := map[string]string{"w1": "w2", "w2": "w1"}[home]
	s.Workers[home].Linked = false
	s.Ticks(60, time.Minute)
	if i := s.Instance(id); i.Worker != home || i.State != wire.Running {
		t.Fatalf("it is not waited for: %s on %q", i.State, i.Worker)
	}
	giveUp(s, id, home)
	s.Restart()
	s.Ticks(7, time.Second)
	if i := s.Instance(id); i.Worker != other || i.Pinned != other || i.State != wire.Running {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
	// It comes back with what it ran: that ends, and the new one stays.
	s.Workers[home].Linked = true
	s.Ticks(10, time.Second)
	if i := s.Instance(id); i.Worker != other || len(s.Workers[home].Statuses) > 0 || s.Running("db") != 1 ||
		s.Workers[other].Starts != 1 {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
	if why := volumes.IsLeft(s.Model, home, wire.VolumeRef{Namespace: "default", Instance: id,
		Name: "db"}); !strings.Contains(why, "given up by ann") {
		t.Errorf("what is on %s is there because %q", home, why)
	}
	// Nor does it get it when the other one is gone, too, whatever is started again.
	s.Workers[other].Linked = false
	s.Ticks(3, time.Minute)
	giveUp(s, id, other)
	s.Restart()
	s.Ticks(10, time.Minute)
	if i := s.Instance(id); i.Worker != "" || s.Workers[home].Starts != 1 {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
	if why := s.Instance(id).Reason; !strings.Contains(why, "verge volume rm edge/"+home+"/default/"+id+"/db") ||
		!strings.Contains(why, "given up by ann") {
		t.Errorf("it waits because %q", why)
	}
	// What is in the way is removed.
	key := home + "." + id
	delete(volumes.LeftTable.Rows(s.Model.DB), key)
	delete(s.Disk, volumes.KeyLeft+key)
	s.Ticks(5, time.Second)
	if i := s.Instance(id); i.Worker != home || i.State != wire.Running {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
}

// After a move, and after its worker was removed, the former copy is not taken for the
// present one. A worker that joins again before anybody else had the instance goes on
// with what it has.
func TestFormerVolumesDoNotCount(t *testing.T) {
	const id = "app.db.0"
	ref := wire.VolumeRef{Namespace: "default", Instance: id, Name: "db"}
	s := clustertest.NewSim(t, "w1", "w2")
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(3, time.Second)
	from, to := s.MoveVolumes(id)
	s.Ticks(5, time.Second)
	if i := s.Instance(id); i.Worker != to || !strings.Contains(volumes.IsLeft(s.Model, from, ref),
		"moved to worker "+to) ||
		volumes.IsLeft(s.Model, to, ref) != "" {
		t.Fatalf("it is on %s; left: %+v", i.Worker, volumes.LeftTable.Rows(s.Model.DB))
	}
	// The only one that counts is gone with its worker.
	removeWorker(s, to)
	s.Ticks(10, time.Second)
	s.Restart()
	s.Ticks(10, time.Second)
	if i := s.Instance(id); i.Worker != "" || s.Workers[from].Starts != 1 {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
	// It joins again, with its disk: nobody else had the instance meanwhile.
	s.AddWorker(to)
	s.Ticks(10, time.Second)
	if i := s.Instance(id); i.Worker != to || i.State != wire.Running || i.Former != "" {
		t.Fatalf("it is %s on %q: %s\n%s", i.State, i.Worker, i.Reason, s.Dump())
	}
	// Another begins while it is gone: what it has does not count any more.
	removeWorker(s, to)
	s.AddWorker("w3")
	s.Ticks(10, time.Second)
	if i := s.Instance(id); i.Worker != "w3" || volumes.IsLeft(s.Model, to, ref) == "" {
		t.Fatalf("it is on %q; left: %+v", i.Worker, volumes.LeftTable.Rows(s.Model.DB))
	}
	// Also of an application that was deleted and comes again.
	s.Unshare("db")
	s.Ticks(5, time.Second)
	s.AddWorker(to)
	removeWorker(s, "w3")
	s.Ticks(3, time.Second)
	s.Share("db", 1, clustertest.Volume)
	s.Ticks(5, time.Second)
	if i := s.Instance(id); i.Worker != "" || !slices.Contains(volumes.Shunned(s.Model.Begin(), i, nil), to) {
		t.Errorf("it is %s on %q", i.State, i.Worker)
	}
}
